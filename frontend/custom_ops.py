"""Operators of users' own, in both front ends: what a converter gives, and the table it stands in.

A converter is a function of graph values, which knows nothing of nodes: it gets an atom for each
tensor, Python values for all else, and gives a value (``graph.op(...)``), or several. The name of a
graph operator in its place stands for a call of that, and ``environment`` for one of a function of
the environment.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from ..graphir.builder import BlockBuilder, call_op
from ..graphir.expr import Atom, CallDPSPacked, Constant, ShapeExpr, TupleGetItem, Value, Var
from ..graphir.op import all_ops
from ..graphir.type import TensorType, TupleType
from ..support.errors import BurnishError, FrontendError, nearest
from .registry import ConverterRegistry

Converter = Callable[..., Any] | str
_OWN: dict[str, set[str]] = {}
"""The operators that users registered, by front end: these they may register again."""


def add_converter(
    registry: ConverterRegistry, name: str, convert: Callable[..., Any], *, override: bool
) -> None:
    """Put a user's converter into a front end's table. Raises BurnishError where the operator has
    one of burnish's own, unless ``override``."""
    own = _OWN.setdefault(registry.frontend, set())
    if registry.get(name) is not None and name not in own and not override:
        raise BurnishError(
            f"{registry.frontend} operator {name!r} has a converter of burnish; override=True "
            "replaces it."
        )
    own.add(name)
    registry.replace(name, convert)


def check_converter(what: str, convert: Converter | None, environment: str | None) -> None:
    """Raise BurnishError unless one of both is given, a function or a graph operator's name."""
    if (convert is None) is (environment is None):
        raise BurnishError(
            f"{what} takes a converter, or environment= with the name of an environment function."
        )
    if convert is not None and not isinstance(convert, str) and not callable(convert):
        raise BurnishError(
            f"{what}: a converter is a function that gives a graph value, or the name of a graph "
            f"operator; found {convert!r}."
        )
    if isinstance(convert, str) and convert not in all_ops():
        raise BurnishError(
            f"{what}: there is no graph operator {convert!r}; define it first, by "
            f"burnish.graph.define_op.{nearest(convert, all_ops())}"
        )


def call_converter(
    convert: Converter | None,
    environment: str | None,
    args: Sequence[Any],
    options: Mapping[str, Any],
    result: Callable[[], TensorType | TupleType],
    where: str,
) -> list[Value]:
    """The values that a converter gives for operands and options. ``result`` is the type that the
    foreign model states. Raises FrontendError for what is no value, and for options that an
    operator or an environment function cannot take."""
    if convert is None:
        assert environment is not None
        left = [a for a in args if not isinstance(a, (Var, Constant))] + list(options.values())
        if any(a is not None for a in left):
            raise FrontendError(
                f"{where}: an environment function gets tensors alone, and the operator has "
                f"{left!r} besides; register a converter, which may choose a function by them."
            )
        tensors = tuple([a for a in args if isinstance(a, (Var, Constant))])
        made: Any = CallDPSPacked(environment, tensors, result())
    elif isinstance(convert, str):
        tensors = tuple([a for a in args if isinstance(a, (Var, Constant))])
        known = all_ops()[convert].attrs
        made = call_op(convert, *tensors, **{k: v for k, v in options.items() if k in known})
    else:
        made = convert(*args, **options)
    values = list(made) if isinstance(made, (list, tuple)) else [made]
    for value in values:
        if not hasattr(value, "span"):
            raise FrontendError(
                f"{where}: its converter gave {value!r}; it gives a graph value, as "
                "burnish.graph.op(...) makes one, or a tuple of them."
            )
    return values


def emitted(builder: BlockBuilder, values: Sequence[Value]) -> list[Atom]:
    """Atoms of the values; of one that is a tuple, its fields."""
    atoms: list[Atom] = [
        v if isinstance(v, (Var, Constant, ShapeExpr)) else builder.emit(v) for v in values
    ]
    if len(atoms) == 1 and isinstance(atoms[0], Var) and isinstance(atoms[0].type, TupleType):
        whole = atoms[0]
        return [builder.emit(TupleGetItem(whole, i)) for i in range(len(atoms[0].type.fields))]
    return atoms
