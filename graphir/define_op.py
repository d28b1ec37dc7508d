"""define_op: an operator of one's own, from a function on te Tensors.

    @define_op
    def ewise_fma(x, y, z):
        return te.compute(x.shape, lambda *i: x(*i) * y(*i) + z(*i))

    call_op("ewise_fma", a, b, c)            # in text: R.ewise_fma(a, b, c)

The definition is all there is to say: the type of a result is that of the tensor it gives, and the
kernel is what ``create_prim_func`` makes of it, which is fused, scheduled, folded where its
operands are constants and printed like any other. Positional parameters are operands, keyword-only
ones attributes.
"""

from __future__ import annotations

import inspect
import keyword
from collections.abc import Callable
from typing import Any, TypeVar, overload

from ..support.errors import BurnishError, ComputeError, DTypeError
from ..tensorir.function import PrimFunc
from ..tensorir.te.compute import Tensor, create_prim_func
from ..tensorir.verify.bounds import verify_bounds
from .expr import Call
from .op import REQUIRED, Op, all_ops, attr, replace_op
from .ops.operands import fail, inputs, tensors
from .type import TensorType, TupleType, Type

F = TypeVar("F", bound=Callable[..., Any])
_OWN: set[str] = set()
"""Names that users defined, and may define again: a cell of a notebook is run more than once."""


@overload
def define_op(definition: F, /) -> F: ...
@overload
def define_op(*, name: str) -> Callable[[F], F]: ...
def define_op(definition: F | None = None, /, *, name: str = "") -> F | Callable[[F], F]:
    """Register an operator, and give its definition back; also as a decorator with a ``name``.

    ``definition`` takes a te Tensor for each operand (of the shape and dtype that a call has, with
    symbolic dims) and its attributes as keywords; it gives a te Tensor, or a tuple of them. What it
    raises for operands that do not fit becomes a TypeInferenceError of the call.

    Raises BurnishError for a name that is taken by an operator of burnish or is no Python name, and
    for parameters that are none of these.
    """
    if definition is None:
        return lambda found: _defined(found, name)
    return _defined(definition, name)


def _defined(definition: F, name: str) -> F:
    if not inspect.isfunction(definition):
        raise BurnishError(
            "define_op takes a function on te Tensors; found " + type(definition).__name__ + "."
        )
    title = name or definition.__name__
    if not title.isidentifier() or keyword.iskeyword(title):
        raise BurnishError(f"define_op: {title!r} is no name; write @define_op(name='my_op').")
    if title in all_ops() and title not in _OWN:
        raise BurnishError(
            f"define_op: burnish has an operator {title!r}; give yours another name."
        )
    operands, attributes, optional = _parameters(definition, title)
    replace_op(
        Op(
            title,
            operands,
            lambda call: _type(call, definition),
            lambda call: _kernel(call, definition),
            attributes,
            optional,
            doc=inspect.getdoc(definition) or "",
        )
    )
    _OWN.add(title)
    return definition


def _parameters(
    definition: Callable[..., Any], title: str
) -> tuple[tuple[str, ...], dict[str, Any], int]:
    """The operands, the attributes with their defaults, and how many operands may be absent."""
    operands: list[str] = []
    attributes: dict[str, Any] = {}
    optional = 0
    for p in inspect.signature(definition).parameters.values():
        if p.kind is p.KEYWORD_ONLY:
            attributes[p.name] = REQUIRED if p.default is p.empty else p.default
        elif p.kind in (p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD) and p.default in (
            None,
            p.empty,
        ):
            operands.append(p.name)
            optional += p.default is None
        else:
            raise BurnishError(
                f"define_op: {title}: {p} is neither an operand (x, or x=None where it may be "
                "absent) nor an attribute, which stands behind a *: def f(x, *, axis=0)."
            )
    if not operands:
        raise BurnishError(f"define_op: {title} has no operand; an operator takes tensors.")
    return tuple(operands), attributes, optional


def _results(call: Call, definition: Callable[..., Any]) -> tuple[list[Tensor], list[Tensor], bool]:
    """The operands of a call as te Tensors, what the definition makes of them, and whether that is
    a tuple."""
    tensors(call)
    given = inputs(call)
    keywords = {key: attr(call, key) for key in all_ops()[call.op].attrs}
    try:
        made = definition(*given, **keywords)
    except (ComputeError, DTypeError) as error:
        raise fail(call, error.message) from error
    several = isinstance(made, (tuple, list))
    results = list(made) if several else [made]
    for t in results:
        if not isinstance(t, Tensor) or t.op is None:
            raise fail(call, "its definition gave no te.compute", "a te Tensor, or a tuple of them")
    return given, results, several


def _type(call: Call, definition: Callable[..., Any]) -> Type:
    _, results, several = _results(call, definition)
    kinds = tuple([TensorType(t.shape, t.dtype) for t in results])
    return TupleType(kinds) if several else kinds[0]


def _kernel(call: Call, definition: Callable[..., Any]) -> PrimFunc:
    given, results, _ = _results(call, definition)
    # A definition may read more than operands of these shapes have.
    return verify_bounds(create_prim_func([*given, *results]).with_attr("global_symbol", call.op))
