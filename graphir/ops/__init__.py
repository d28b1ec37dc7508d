"""The operator table: importing this package registers every row."""

from . import (
    attention,
    elementwise,
    index,
    matmul,
    nn,
    reduce,
    scatter,
    shape,
    sort,
    window,
    winograd,
)

__all__ = [
    "attention", "elementwise", "index", "matmul", "nn", "reduce", "scatter", "shape",
    "sort", "window", "winograd",
]  # fmt: skip
