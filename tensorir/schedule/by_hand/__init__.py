"""Primitives for schedules written by hand: no rule of the tuner calls them."""
