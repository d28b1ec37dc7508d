"""The builtins of the virtual machine: what a program calls as ``builtin:name``.

Each takes the frame and the evaluated arguments: tensors, storages, tuples, literals. Shapes and
sizes come as shape texts, evaluated over the frame's dims. A builtin that gives nothing is called
with the destination -1.

    match_shape     (parameters...)                   entry check; binds the frame's dims
    check           (condition text, message)         ShapeMismatchError unless it holds
    bind_dim        (name, number, place, expected, sizes)
                                                      gives a named size of the frame its value; an
                                                      error names what may stand behind the number
    alloc_tensor    (shape, dtype) -> tensor          uninitialised, 64-byte aligned
    alloc_storage   (bytes) -> storage
    tensor_at       (storage, offset, shape, dtype) -> tensor that shares the storage
    reshape         (tensor, shape) -> tensor that shares memory
    copy            (source, destination)             elements, of one dtype and shape
    move            (value) -> value
    make_tuple      (values...) -> tuple
    tuple_get       (tuple, index) -> value
    shape_of        (tensor) -> tuple of int
    make_shape      (shape) -> tuple of int
    read_scalar     (tensor) -> Python number or bool
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

from ..support.aligned import aligned_empty
from ..support.dtype import DType
from ..support.errors import (
    RAISES,
    ArgumentError,
    DataCheckError,
    DTypeMismatchError,
    ShapeMismatchError,
    VMError,
    nearest,
)
from .program import Arg, Call, Imm, Reg, VMFunction
from .shape_text import compile_shape, compile_shapes, static_value
from .signature import Signature, format_shape
from .storage import Storage, storage_dtype
from .tensor import Tensor, empty, wrap

LARGEST_SIZE = 1 << 38
"""Of those computed from data; what is larger was never meant, and fits no memory."""

Observer: TypeAlias = Callable[[VMFunction, Call, int], None]
"""Told of each call that ran: the function it stands in, the call, nanoseconds."""


@dataclass(slots=True)
class Frame:
    """One activation of a function: its registers and the values of its dims."""

    function: VMFunction
    signature: Signature
    registers: list[Any]
    dims: list[int]
    observer: Observer | None = None


Builtin: TypeAlias = Callable[..., Any]


def _shape(frame: Frame, texts: tuple[str, ...]) -> tuple[int, ...]:
    return compile_shapes(texts, frame.function.dim_names)(frame.dims)


def match_shape(frame: Frame, *tensors: Tensor) -> None:
    """Check the parameters against the signature, all of them, and bind the dims."""
    bound = frame.signature.bind(tensors)
    frame.dims[: len(bound)] = bound


def check(frame: Frame, condition: str, message: str) -> None:
    """Raise ShapeMismatchError with ``message`` unless the condition on the dims holds."""
    names = frame.function.dim_names
    if not compile_shape(condition, names)(frame.dims):
        values = ", ".join(f"{n} = {v}" for n, v in zip(names, frame.dims, strict=True))
        raise ShapeMismatchError(frame.function.name, f"with {condition}", values, message)


def bind_dim(
    frame: Frame,
    name: str,
    number: float,
    place: str = "",
    expected: str = "",
    sizes: tuple[str, ...] = (),
) -> None:
    """Set a dim that is no parameter's, whose value the program has computed. Where it is no size,
    ShapeMismatchError says so of the ``place``: of the number, or of the ``sizes`` that were to be
    as ``expected``."""
    if number != int(number) or not 0 <= number <= LARGEST_SIZE:
        wanted = f"{name} from 0 up" if number < 0 else f"{name} of at most {LARGEST_SIZE}"
        found = str(number)
        word, _, said = expected.partition(" ")
        if word == RAISES:
            raise DataCheckError(
                f"{place}: for these inputs the model itself raises here{said and f' ({said})'}."
            )
        if expected and number < 0:
            held = " and ".join(map(str, _shape(frame, sizes)))
            wanted, found = expected, held or "one of which that is not so"
        raise ShapeMismatchError(
            place or frame.function.name,
            wanted,
            found,
            "It is computed when the model runs: call it with inputs that give sizes that fit.",
        )
    frame.dims[frame.function.dim_names.index(name)] = int(number)


def alloc_tensor(frame: Frame, shape: tuple[str, ...], dtype: str) -> Tensor:
    return empty(_shape(frame, shape), dtype)


def alloc_storage(frame: Frame, nbytes: str) -> Storage:
    return Storage(compile_shape(nbytes, frame.function.dim_names)(frame.dims))


def tensor_at(
    frame: Frame, storage: Storage, offset: str, shape: tuple[str, ...], dtype: str
) -> Tensor:
    kind = DType(dtype)
    (at,) = _shape(frame, (offset,))
    return wrap(storage.view(at, _shape(frame, shape), kind), kind)


def reshape(frame: Frame, tensor: Tensor, shape: tuple[str, ...]) -> Tensor:
    return tensor.reshape(_shape(frame, shape))


def copy(frame: Frame, source: Tensor, destination: Tensor) -> None:
    if source.dtype is not destination.dtype:
        raise DTypeMismatchError("copy", destination.dtype, source.dtype)
    if source.shape != destination.shape:
        raise ShapeMismatchError(
            "copy", format_shape(destination.shape), format_shape(source.shape)
        )
    destination.data[...] = source.data


def move(frame: Frame, value: Any) -> Any:
    return value


def make_tuple(frame: Frame, *values: Any) -> tuple[Any, ...]:
    return values


def tuple_get(frame: Frame, value: tuple[Any, ...], index: int) -> Any:
    if not isinstance(value, tuple) or not 0 <= index < len(value):
        found = f"a tuple of {len(value)}" if isinstance(value, tuple) else type(value).__name__
        raise VMError(f"tuple_get: index {index} of {found}.")
    return value[index]


def shape_of(frame: Frame, tensor: Tensor) -> tuple[int, ...]:
    return tensor.shape


def make_shape(frame: Frame, shape: tuple[str, ...]) -> tuple[int, ...]:
    return _shape(frame, shape)


def read_scalar(frame: Frame, tensor: Tensor) -> int | float | bool:
    if tensor.size != 1:
        raise ArgumentError(f"A condition is one element; this tensor has shape {tensor.shape}.")
    return tensor.item()


BUILTINS: dict[str, Builtin] = {
    f.__name__: f
    for f in (
        *(
            match_shape,
            check,
            bind_dim,
            alloc_tensor,
            alloc_storage,
            tensor_at,
            reshape,
            copy,
            move,
        ),
        *(make_tuple, tuple_get, shape_of, make_shape, read_scalar),
    )
}


def get_builtin(name: str) -> Builtin:
    """The builtin called ``name``; raises VMError with the nearest name."""
    try:
        return BUILTINS[name]
    except KeyError:
        raise VMError(f"There is no builtin {name!r}.{nearest(name, BUILTINS)}") from None


# -- static shapes ---------------------------------------------------------------------------------
def link_static(name: str, args: Sequence[Arg]) -> Callable[[Frame], Any] | None:
    """An allocation whose sizes are constants, with everything about it settled; else None.

    Gives the same as the builtin of that name, at a fraction of its cost.
    """
    match name, tuple(args):
        case "alloc_storage", (Imm(str(nbytes)),):
            size = static_value(nbytes)
            return None if size is None else lambda frame: Storage(size)
        case "alloc_tensor", (Imm(tuple(texts)), Imm(str(dtype))):
            shape = _static_shape(texts)
            if shape is None:
                return None
            kind = DType(dtype)
            held = storage_dtype(kind)
            return lambda frame: wrap(aligned_empty(shape, held), kind)
        case "tensor_at", (Reg(register), Imm(str(offset)), Imm(tuple(texts)), Imm(str(dtype))):
            return _link_tensor_at(register, static_value(offset), _static_shape(texts), dtype)
        case _:
            return None


def _static_shape(texts: tuple[object, ...]) -> tuple[int, ...] | None:
    sizes = [static_value(str(text)) for text in texts]
    return None if None in sizes else tuple([n or 0 for n in sizes])


def _link_tensor_at(
    register: int, offset: int | None, shape: tuple[int, ...] | None, dtype: str
) -> Callable[[Frame], Any] | None:
    if offset is None or shape is None:
        return None
    kind = DType(dtype)
    held = storage_dtype(kind)
    end = offset + math.prod(shape) * held.itemsize

    def tensor_at_constant(frame: Frame) -> Tensor:
        storage = frame.registers[register]
        if end > storage.nbytes:
            storage.view(offset, shape, kind)  # raises, and says what is wrong
        return wrap(storage.data[offset:end].view(held).reshape(shape), kind)

    return tensor_at_constant
