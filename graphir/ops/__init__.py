"""The operator table: importing this package registers every row."""

from . import (
    attention,
    bind_size,
    check_equal,
    elementwise,
    index,
    matmul,
    nn,
    recurrent,
    reduce,
    scatter,
    shape,
    sort,
    suppression,
    window,
    winograd,
)

__all__ = [
    "attention", "bind_size", "check_equal", "elementwise", "index", "matmul", "nn", "recurrent",
    "reduce", "scatter", "shape", "sort", "suppression", "window", "winograd",
]  # fmt: skip
