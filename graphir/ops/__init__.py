"""The operator table: importing this package registers every row."""

from . import elementwise, matmul, nn, reduce, shape

__all__ = ["elementwise", "matmul", "nn", "reduce", "shape"]
