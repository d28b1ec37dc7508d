"""PrimFuncs as Python text: printed, and read back."""
