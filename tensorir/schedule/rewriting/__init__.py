"""Rewrites that several primitives are made of."""
