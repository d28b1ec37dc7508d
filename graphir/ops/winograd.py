"""The row of Winograd's convolution, which ``select-winograd`` puts in the place of ``conv``.

``x`` is (batch, height, width, in), ``u`` (a, a, out, in), a = tile + 2: kernels of 3 x 3,
transformed for tiles of tile x tile outputs. Strides are 1; ``padding`` is (before, after) of
height and width, of ``pad_value``. Sizes are static, but for the batch's. Of int16, which hold
bytes, the result is int32.
"""

from __future__ import annotations

from ...support.dtype import DType
from ...tensorir.expr import IntImm
from ...tensorir.function import PrimFunc
from ...tensorir.operators.winograd import INTEGER_TILE, KERNEL, SIZES
from ..dim import static_shape
from ..expr import Call
from ..op import REQUIRED, Op, attr, register
from ..type import TensorType, Type
from .operands import by_operator, fail, same_dtype, tensors
from .window import ints


def _winograd_conv(call: Call) -> Type:
    kinds = tensors(call)
    dtype = same_dtype(call, kinds)
    if dtype not in ("float32", "int16"):
        raise fail(call, f"the operands are of {kinds[0].dtype}", "float32, or int16 of bytes")
    tile = attr(call, "tile")
    if dtype == "int16" and (tile != INTEGER_TILE or len(kinds) == 3):
        found = f"tile={tile!r}{' and a bias' if len(kinds) == 3 else ''} of int16"
        raise fail(call, found, f"tile={INTEGER_TILE}, and no bias")
    if tile not in SIZES:
        raise fail(call, f"tile={tile!r}", f"one of {', '.join(map(str, SIZES))}")
    x, u = static_shape(kinds[0].shape[1:]), static_shape(kinds[1].shape)
    size = tile + KERNEL - 1
    if x is None or u is None or len(x) != 3 or len(u) != 4:
        raise fail(call, "the sizes are not static, or not four", "x (n, h, w, c), u (a, a, o, c)")
    height, width, channels = x
    if u[:2] != (size, size) or u[3] != channels:
        raise fail(call, "the weight does not fit", f"a weight ({size}, {size}, out, {channels})")
    if len(kinds) == 3 and static_shape(kinds[2].shape) != (u[2],):
        raise fail(call, "the bias does not fit", f"bias ({u[2]},)")
    top, bottom, left, right = ints(call, "padding", 4, 0)
    rows, columns = height + top + bottom - KERNEL + 1, width + left + right - KERNEL + 1
    if rows < 1 or columns < 1:
        raise fail(call, f"a window does not fit: {rows} x {columns} outputs", "a larger image")
    shape = (kinds[0].shape[0], *[IntImm(d) for d in (rows, columns, u[2])])
    return TensorType(shape, DType("int32") if dtype == "int16" else dtype)


_plain = by_operator()


def _legalize(call: Call) -> PrimFunc:
    """What follows the products only takes their sums apart: to its neighbours this is a
    convolution, though its blocks do not show it."""
    return _plain(call).with_attr("op_pattern", "out_fusable")


register(
    Op(
        "winograd_conv",
        ("x", "u", "bias"),
        _winograd_conv,
        _legalize,
        {"padding": REQUIRED, "tile": REQUIRED, "pad_value": 0.0},
        optional=1,
    )
)
