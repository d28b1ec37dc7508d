"""Entry checks: arity, dtypes and shapes of arguments, before any work is done.

A signature's symbolic dims are bound at the first parameter that has them as a bare dimension, and
checked at every later one; dimensions that are arithmetic (``m * 2``) are checked once all are
bound. A dim that stands only in arithmetic is solved for, which needs it to be linear there.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from ..support.errors import ArityError, DTypeMismatchError, ShapeMismatchError, VMError
from .program import Param, TensorSpec
from .shape_text import compile_shape, names_in, static_value
from .tensor import Tensor


class Signature:
    """What the parameters of ``owner`` must be; ``dims`` are the names to bind, in slot order.

    Raises VMError where the arguments' shapes do not give the value of a dim.
    """

    __slots__ = ("_derived", "_direct", "_solved", "dims", "owner", "params")

    def __init__(self, owner: str, params: Sequence[Param], dims: Sequence[str]) -> None:
        self.owner, self.params, self.dims = owner, tuple(params), tuple(dims)
        slots = {name: i for i, name in enumerate(self.dims)}
        # For each parameter: (axis, fixed size, dim slot), the slot being -1 for a fixed size.
        self._direct: list[list[tuple[int, int, int]]] = []
        self._derived: list[tuple[int, int, str]] = []
        bound: set[int] = set()
        for index, param in enumerate(self.params):
            rows: list[tuple[int, int, int]] = []
            for axis, text in enumerate(param.spec.shape):
                if not names_in(text):
                    rows.append((axis, static_value(text) or 0, -1))
                elif text in slots:
                    rows.append((axis, 0, slots[text]))
                    bound.add(slots[text])
                else:
                    self._derived.append((index, axis, text))
            self._direct.append(rows)
        self._solved = self._find_solutions(slots, bound)
        missing = [name for name, slot in slots.items() if slot not in bound]
        if missing:
            raise VMError(
                f"{owner}: the shapes of the parameters do not give the dimension "
                f"{', '.join(missing)}, so its value cannot be read from the arguments."
            )

    def _find_solutions(
        self, slots: dict[str, int], bound: set[int]
    ) -> list[tuple[int, int, str, int]]:
        """Rows (parameter, axis, text, dim slot) that give the dims which no bare dimension
        gives."""
        found: list[tuple[int, int, str, int]] = []
        for index, axis, text in self._derived:
            unknown = [slots[n] for n in names_in(text) if slots.get(n, -1) not in bound]
            if len(unknown) == 1:
                found.append((index, axis, text, unknown[0]))
                bound.add(unknown[0])
        return found

    def _solve(self, text: str, slot: int, size: int, dims: list[int]) -> None:
        """Set a dim so that ``text`` is ``size``, taking it to be linear; ``bind`` checks that."""
        value = compile_shape(text, self.dims)
        dims[slot] = 0
        base = value(dims)
        dims[slot] = 1
        slope = value(dims) - base
        if slope == 0:
            raise VMError(
                f"{self.owner}: the dimension {self.dims[slot]} stands in {text!r} alone, which is "
                "not linear in it, so its value cannot be read from the arguments."
            )
        dims[slot] = max(0, (size - base) // slope)

    def check_arity(self, count: int) -> None:
        """Raise ArityError unless ``count`` arguments were given."""
        if count != len(self.params):
            names = ", ".join([f"{p.name}: {format_spec(p.spec)}" for p in self.params])
            plural = "s" if len(self.params) != 1 else ""
            raise ArityError(
                f"{self.owner} takes {len(self.params)} argument{plural} ({names}); got {count}."
            )

    def bind(self, tensors: Sequence[Tensor]) -> list[int]:
        """Check every tensor and return the dims' values.

        Raises ArityError, DTypeMismatchError or ShapeMismatchError naming the argument.
        """
        self.check_arity(len(tensors))
        dims = [-1] * len(self.dims)
        for param, tensor, rows in zip(self.params, tensors, self._direct, strict=True):
            if tensor.dtype != param.spec.dtype:
                raise DTypeMismatchError(param.name, param.spec.dtype, str(tensor.dtype))
            shape = tensor.shape
            if len(shape) != len(param.spec.shape) or not _fits(shape, rows, dims):
                raise self._mismatch(param, shape, dims)
        for index, axis, text, slot in self._solved:
            self._solve(text, slot, tensors[index].shape[axis], dims)
        for index, axis, text in self._derived:
            if tensors[index].shape[axis] != compile_shape(text, self.dims)(dims):
                raise self._mismatch(self.params[index], tensors[index].shape, dims)
        return dims

    def _mismatch(
        self, param: Param, shape: tuple[int, ...], dims: list[int]
    ) -> ShapeMismatchError:
        used = named_dims([param])
        known = [
            f"{name} = {value}"
            for name, value in zip(self.dims, dims, strict=True)
            if name in used and value >= 0
        ]
        where = f" with {', '.join(known)}" if known else ""
        return ShapeMismatchError(
            f"{self.owner}, argument {param.name!r}",
            format_shape(param.spec.shape) + where,
            format_shape(shape),
        )


def named_dims(params: Iterable[Param]) -> tuple[str, ...]:
    """The names in the shapes of parameters, in order of first appearance."""
    texts = [text for p in params for text in p.spec.shape]
    return tuple(dict.fromkeys([name for text in texts for name in names_in(text)]))


def _fits(shape: tuple[int, ...], rows: Sequence[tuple[int, int, int]], dims: list[int]) -> bool:
    """Whether the sizes are as fixed or as bound; binds the dims that are not yet."""
    for axis, fixed, slot in rows:
        size = shape[axis]
        if slot >= 0 and dims[slot] < 0:
            dims[slot] = size
        elif size != (fixed if slot < 0 else dims[slot]):
            return False
    return True


def format_shape(shape: Sequence[object]) -> str:
    """A shape as Python writes a tuple: ``(m, 784)``, ``(3,)``, ``()``."""
    return f"({', '.join(map(str, shape))}{',' if len(shape) == 1 else ''})"


def format_spec(spec: TensorSpec) -> str:
    """A tensor's type as ``float32(m, 784)``."""
    return f"{spec.dtype}{format_shape(spec.shape)}"
