"""Runs artifacts; imports with numpy and llvmlite.binding alone. Never compiles."""
