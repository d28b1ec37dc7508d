"""Functions of torch and ``math`` that make constants of named sizes, written so that they do not.

    x.new_tensor(n)   torch.linspace(0, 1, n)   math.sqrt(n)   F.pad(x, (1, 1), value=n)
    torch.cat([x, y]).chunk(2)

Their arguments are numbers of C++ or of C, for which torch asks a size for its value; torch.export
then says that the code made a constant of it. A module of which it says so is exported once more
with these in their place, and with those of Python itself (``size_builtins.py``). What still asks a
size for its value is told.
"""

from __future__ import annotations

import itertools
import linecache
import math
import sys
from collections.abc import Callable, Mapping, Sequence
from functools import partial, wraps
from pathlib import Path
from types import FrameType
from typing import Any

import torch
from torch import Tensor, nn
from torch.overrides import TorchFunctionMode
from torch.utils import _pytree as pytree

from .decompositions import decomposes
from .named_pools import whole_pool
from .named_products import kron, take_along_dim, tril_indices, triu_indices, vander
from .named_windows import WINDOWS, window
from .unsaid_guards import UnsaidGuardError

_OTHERS = (f"{Path(torch.__file__).parent}/", f"{Path(__file__).parent}/", "<")
_EXPORT = (str(Path(__file__).with_name("export.py")), "_export")
_ASKS = (
    (torch.SymInt, "__int__"), (torch.SymInt, "__index__"), (torch.SymFloat, "__float__"),
    (torch.SymFloat, "__int__"),
)  # fmt: skip
_NAMED = (torch.SymInt, torch.SymFloat, torch.SymBool)
_MATHS: dict[str, Callable[[Any], Any]] = {
    "sqrt": torch.sym_sqrt,
    "log": lambda x: _scalar(x).log().item(),
    "log2": lambda x: _scalar(x).log2().item(),
    "log10": lambda x: _scalar(x).log10().item(),
    "exp": lambda x: _scalar(x).exp().item(),
}
"""Functions of ``math`` of a named size. An exported program has none of them but the square root:
the others are of a tensor of float64, and its value a number again, beside which tensors keep their
dtype."""


class SizeFunctions(TorchFunctionMode):
    """Calls of the functions in the table with numbers made of named sizes are calls of those
    here."""

    def __init__(self) -> None:
        super().__init__()
        self.asked: list[str] = []
        """The lines that asked a named size for its value."""
        self.namespaces: list[dict[str, Any]] = []
        """Those of the files that these lines stand in."""
        self.chunked: list[tuple[Any, int]] = []
        """Sizes of axes, as torch's expressions, and how many parts were made of each: they may
        have less where they are short."""

    def __enter__(self) -> SizeFunctions:
        self._held = {name: getattr(math, name) for name in _MATHS}
        for name, function in self._held.items():
            setattr(math, name, _of_sizes(function, _MATHS[name]))
        for kind, name in _ASKS:
            setattr(kind, name, self._told(kind.__dict__[name]))
        super().__enter__()
        return self

    def __exit__(self, *raised: Any) -> None:
        for kind, name in _ASKS:
            setattr(kind, name, getattr(kind, name).__wrapped__)
        for name, function in self._held.items():
            setattr(math, name, function)
        super().__exit__(*raised)

    def _told(self, function: Callable[[Any], Any]) -> Callable[[Any], Any]:
        """A method that gives the value of a number, and tells where it was asked for it."""

        @wraps(function)
        def told(number: Any) -> Any:
            frame = None if number.node.is_constant() else _frame_of_a_model()
            if frame is not None:
                self._tell(frame)
            return function(number)

        return told

    def _tell(self, frame: FrameType) -> None:
        file, line = frame.f_code.co_filename, frame.f_lineno
        place = f"{file}:{line}: {linecache.getline(file, line).strip()}"
        if place not in self.asked:
            self.asked.append(place)
        if all(frame.f_globals is not names for names in self.namespaces):
            self.namespaces.append(frame.f_globals)

    def __torch_function__(
        self,
        func: Any,
        types: Sequence[Any],
        args: Sequence[Any] = (),
        kwargs: Mapping[str, Any] | None = None,
    ) -> Any:
        given = kwargs or {}
        if func in _OF_TENSORS:
            return _OF_TENSORS[func](*args, **given)
        if func in _TABLE and any(map(is_named, pytree.tree_leaves((args, given)))):
            return _TABLE[func](*args, **given)
        if func in _SPLITS:
            return split(*args, **given)
        if func in _CHUNKS:
            return self._chunk(*args, **given)
        if func in _MAX_POOLS:
            return max_pool1d(*args, **given)
        if func in _POOLS:
            return _POOLS[func](*args, **given)
        if func in _TENSOR_SPLITS:
            return tensor_split(*args, **given)
        return func(*args, **given)

    def _chunk(self, input: Tensor, chunks: int, dim: int = 0) -> Sequence[Tensor]:
        """``torch.chunk``. Short axes have less chunks: of size 1 there is no second half."""
        count = int(chunks)
        if count == 1:  # whose size torch would give as a quotient, of which others are made
            return (torch.ops.aten.alias.default(input),)
        found = _parts(input, count, dim)
        if found is None:
            return torch.chunk(input, chunks, dim)
        size: Any = input.shape[dim]
        if _whole(size % chunks) != 0:
            self.chunked.append((size.node.expr, chunks))
        return found


class SeveralNames(TorchFunctionMode):
    """Tells of chunks of an axis whose size is made of several names: how many there are torch
    takes from the example, and of guards of several names it says nothing."""

    def __torch_function__(
        self,
        func: Any,
        types: Sequence[Any],
        args: Sequence[Any] = (),
        kwargs: Mapping[str, Any] | None = None,
    ) -> Any:
        given = kwargs or {}
        if func in _CHUNKS:
            self._check(*args, **given)
        return func(*args, **given)

    def _check(self, input: Tensor, chunks: int, dim: int = 0) -> None:
        size: Any = input.shape[dim]
        if not is_named(size) or len(size.node.expr.free_symbols) < 2:
            return
        if _whole(size % chunks) != 0:
            raise UnsaidGuardError(
                f"Not all values of {size} in the specified range satisfy the generated guard that "
                f"it has {chunks} chunks"
            )


def _frame_of_a_model() -> FrameType | None:
    """The innermost frame outside of torch and of this front end, of those that call this: none
    where a script is all of the model, which has no frames. Who compiles a model is further out
    than its export."""
    frame: FrameType | None = sys._getframe(2)
    while frame is not None and frame.f_code.co_filename.startswith(_OTHERS):
        if (frame.f_code.co_filename, frame.f_code.co_name) == _EXPORT:
            return None
        frame = frame.f_back
    return frame


def is_named(value: Any) -> bool:
    """Whether a number is made of named sizes."""
    return isinstance(value, _NAMED)


def _of_sizes(function: Callable[..., Any], of_size: Callable[[Any], Any]) -> Callable[..., Any]:
    """A function of ``math`` that takes named sizes too; of a logarithm the base is a second."""

    def called(x: Any, *base: Any) -> Any:
        if not any(map(is_named, (x, *base))):
            return function(x, *base)
        found = of_size(x) if is_named(x) else function(x)
        return found / called(*base) if base else found

    return called


def _scalar(x: Any) -> Tensor:
    return torch.full((), x, dtype=torch.float64)


# -- tensors of numbers --------------------------------------------------------------------------
def tensor(data: Any, *, dtype: torch.dtype | None = None, **options: Any) -> Tensor:
    """``torch.tensor``, of numbers in lists of any depth, tensors of one element among them."""
    leaves = pytree.tree_leaves(data)
    wanted = dtype or _dtype_of(leaves)

    def made(value: Any) -> Tensor:
        if isinstance(value, (list, tuple)):
            return torch.stack([made(v) for v in value])
        if isinstance(value, Tensor):
            return value.to(wanted).reshape(())
        return torch.full((), value, dtype=wanted)

    return made(data)


def _dtype_of(leaves: Sequence[Any]) -> torch.dtype:
    """The dtype that torch gives a tensor of numbers."""
    found = torch.bool
    for leaf in leaves:
        if isinstance(leaf, Tensor):
            own = leaf.dtype
        elif isinstance(leaf, (bool, torch.SymBool)):
            own = torch.bool
        elif isinstance(leaf, (int, torch.SymInt)):
            own = torch.int64
        else:
            own = torch.get_default_dtype()
        found = torch.promote_types(found, own)
    return found


def new_tensor(x: Tensor, data: Any, *, dtype: torch.dtype | None = None, **options: Any) -> Tensor:
    return tensor(data, dtype=dtype or x.dtype)


def as_tensor(data: Any, dtype: torch.dtype | None = None, device: Any = None) -> Tensor:
    return tensor(data, dtype=dtype)


def asarray(obj: Any, *, copy: bool | None = None, **options: Any) -> Tensor:
    """A copy always, since numbers have no memory to share; torch says so where that is asked."""
    return torch.asarray(obj, copy=copy, **options) if copy is False else tensor(obj, **options)


@decomposes(torch.ops.aten.linspace.default)
def linspace(
    start: Any, end: Any, steps: Any, *, dtype: torch.dtype | None = None, **options: Any
) -> Tensor:
    """Steps in float64 from the start, and in the second half back from the end, as torch's."""
    kind = dtype or torch.get_default_dtype()
    places = torch.arange(steps)
    first, last = (tensor(x, dtype=kind).to(torch.float64) for x in (start, end))
    step = (last - first) / torch.full((), torch.sym_max(steps - 1, 1), dtype=torch.float64)
    is_first_half = places < torch.sym_max(steps // 2, 1)
    down = last - (steps - 1 - places) * step
    return torch.where(is_first_half, first + places * step, down).to(kind)


@decomposes(
    torch.ops.aten.linspace.Tensor_Tensor,
    torch.ops.aten.linspace.Tensor_Scalar,
    torch.ops.aten.linspace.Scalar_Tensor,
)
def linspace_of_tensors(
    start: Any, end: Any, steps: Any, *, dtype: torch.dtype | None = None, **options: Any
) -> Tensor:
    """Between tensors of one element, which are made of ``dtype`` first, as numbers are: torch's
    own decomposition steps from fractions where the result is of integers."""
    return linspace(start, end, steps, dtype=dtype)


def logspace(
    start: Any,
    end: Any,
    steps: Any,
    base: float = 10.0,
    *,
    dtype: torch.dtype | None = None,
    **options: Any,
) -> Tensor:
    powers = linspace(start, end, steps, dtype=torch.float64)
    return torch.pow(base, powers).to(dtype or torch.get_default_dtype())


def cdist(x1: Tensor, x2: Tensor, p: float = 2.0, compute_mode: str | None = None) -> Tensor:
    """Not by products, for which torch asks how many rows there are: the distances are one thing
    either way (``decompositions.cdist``)."""
    return torch.cdist(x1, x2, p, "donot_use_mm_for_euclid_dist")


# -- numbers beside tensors ----------------------------------------------------------------------
def pad(x: Tensor, pad: Sequence[Any], mode: str = "constant", value: Any = None) -> Tensor:
    """By zeros, and where those are, the number."""
    if mode != "constant" or not is_named(value):
        return nn.functional.pad(x, pad, mode, value)
    inside = nn.functional.pad(torch.ones_like(x, dtype=torch.bool), pad)
    return torch.where(inside, nn.functional.pad(x, pad), torch.full((), value, dtype=x.dtype))


def attention(query: Tensor, *args: Any, scale: Any = None, **options: Any) -> Tensor:
    """The queries have the scale."""
    if is_named(scale):
        query, scale = query * scale, 1.0
    function: Any = nn.functional.scaled_dot_product_attention
    found: Tensor = function(query, *args, scale=scale, **options)
    return found


# -- images ---------------------------------------------------------------------------------------
def max_pool1d(
    input: Tensor,
    kernel_size: Any,
    stride: Any = None,
    padding: Any = 0,
    dilation: Any = 1,
    ceil_mode: bool = False,
    return_indices: bool = False,
) -> Any:
    """As of an image of one row: torch has the pool of a row make a number of its length."""
    if return_indices or not is_named(input.shape[-1]):
        options: Any = {"ceil_mode": ceil_mode, "return_indices": return_indices}
        return nn.functional.max_pool1d(input, kernel_size, stride, padding, dilation, **options)

    def of_rows(along: Any, across: int) -> tuple[int, int]:
        return across, along[0] if isinstance(along, (tuple, list)) else along

    kernel, steps = of_rows(kernel_size, 1), of_rows(stride or kernel_size, 1)
    pads, gaps = of_rows(padding, 0), of_rows(dilation, 1)
    wide = torch.max_pool2d(input.unsqueeze(-2), kernel, steps, pads, gaps, ceil_mode)
    return wide.squeeze(-2)


def affine_grid(theta: Tensor, size: Sequence[Any], align_corners: bool | None = None) -> Tensor:
    """Where the pixels of images, of two axes or three, lie from -1 to 1, under a map of each."""
    axes = []
    for d, length in enumerate(size[2:]):
        places = torch.arange(length, dtype=theta.dtype) * 2 - (length - 1)
        at = places / (torch.sym_max(length - 1, 1) if align_corners else length)
        shape = [1] * (len(size) - 2)
        shape[d] = -1
        axes.append(at.reshape(shape).expand(*size[2:]))
    base = torch.stack([*reversed(axes), torch.ones_like(axes[0])], -1)
    return (base.flatten(0, -2) @ theta.mT).unflatten(1, tuple(size[2:]))


# -- parts of an axis ----------------------------------------------------------------------------
def split(tensor: Tensor, split_size_or_sections: Any, dim: int = 0) -> Sequence[Tensor]:
    """Parts of a size, of which torch does not see how many there are."""
    size: Any = tensor.shape[dim]
    part: Any = split_size_or_sections
    if isinstance(part, (int, torch.SymInt)) and is_named(size) and _whole(part) != 0:
        count = _whole(size // part)
        if count and _whole(size % part) == 0:
            part = [part] * count
    return torch.split(tensor, part, dim)


def _parts(x: Tensor, count: int, dim: int) -> Sequence[Tensor] | None:
    """So many parts of a named axis, as ``torch.chunk`` makes them of one that is long enough; None
    for any other axis."""
    size: Any = x.shape[dim]
    if not is_named(size):
        return None
    if _whole(size % count) == 0:
        return torch.split(x, [size // count] * count, dim)
    is_alone = len(size.node.expr.free_symbols) == 1
    if count == 2 and is_alone:
        half = size // 2
        return torch.split(x, [size - half, half], dim)
    part = (size + (count - 1)) // count
    last = torch.sym_max(size - part * (count - 1), 0)  # none where there are less parts
    lengths = [*[part] * (count - 1), last]
    if is_alone:
        return _parts_of(x, dim, lengths)
    # Which sizes of several names give less, no bound of one of them says.
    operator: Any = torch.ops.burnish.chunk_span
    return tuple([operator(x, dim % x.ndim, part * i, n, last) for i, n in enumerate(lengths)])


def tensor_split(input: Tensor, indices_or_sections: Any, dim: int = 0) -> Sequence[Tensor]:
    """``torch.tensor_split``: so many parts of any axis, the first of which have one more."""
    size: Any = input.shape[dim]
    count = indices_or_sections
    if not is_named(size) or not isinstance(count, int) or count < 1:
        return torch.tensor_split(input, count, dim)
    return _parts_of(input, dim, [(size + (count - 1 - i)) // count for i in range(count)])


def _parts_of(x: Tensor, dim: int, lengths: Sequence[Any]) -> Sequence[Tensor]:
    """Parts of an axis that follow one another, of these lengths."""
    operator: Any = torch.ops.burnish.span
    begins = itertools.accumulate(lengths[:-1], initial=0)
    return tuple([operator(x, dim % x.ndim, a, n) for a, n in zip(begins, lengths, strict=True)])


def _whole(size: Any) -> int | None:
    """The number that a size is whatever the named ones are; None where it depends on them."""
    if not is_named(size):
        return int(size)
    expr = size.node.shape_env.simplify(size.node.expr)
    return int(expr) if expr.is_Integer else None


_MAX_POOLS = (torch.max_pool1d, nn.functional.max_pool1d)
_SPLITS = (torch.split, Tensor.split)
_CHUNKS = (torch.chunk, Tensor.chunk)
_TENSOR_SPLITS = (torch.tensor_split, Tensor.tensor_split)
_POOLS: dict[Any, Callable[..., Any]] = {
    torch.max_pool2d: partial(whole_pool, "max", 2, torch.max_pool2d),
    torch.max_pool3d: partial(whole_pool, "max", 3, torch.max_pool3d),
    nn.functional.avg_pool1d: partial(whole_pool, "avg", 1, nn.functional.avg_pool1d),
    nn.functional.avg_pool2d: partial(whole_pool, "avg", 2, nn.functional.avg_pool2d),
    nn.functional.avg_pool3d: partial(whole_pool, "avg", 3, nn.functional.avg_pool3d),
}
_OF_TENSORS: dict[Any, Callable[..., Any]] = {
    torch.cdist: cdist,
    torch.kron: kron,
    torch.take_along_dim: take_along_dim,
    torch.vander: vander,
    Tensor.kron: kron,
    Tensor.take_along_dim: take_along_dim,
}
_TABLE: dict[Any, Callable[..., Any]] = {
    torch.tensor: tensor,
    torch.as_tensor: as_tensor,
    torch.asarray: asarray,
    Tensor.new_tensor: new_tensor,
    torch.linspace: linspace,
    torch.logspace: logspace,
    torch.tril_indices: tril_indices,
    torch.triu_indices: triu_indices,
    nn.functional.affine_grid: affine_grid,
    nn.functional.pad: pad,
    nn.functional.scaled_dot_product_attention: attention,
    **{getattr(torch, f"{name}_window"): partial(window, name) for name in WINDOWS},
}
