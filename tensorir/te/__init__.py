"""Tensor expressions: definitions of tensors, and the PrimFuncs that are made of them."""
