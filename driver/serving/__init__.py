"""Saved models over HTTP: the protocol, batches, the models served, and the application."""
