"""What every PrimFunc must keep, and what it is told where it does not."""
