"""Numbers that Python made of named sizes, as scalars that the model computes.

    x * (1 / n)        multiply(x, astype(divide(1.0, astype(n, "float64")), "float32"))

Python's floats are float64 and its integers int64 here; whoever takes the number rounds it once, as
torch does. The sizes themselves are counted (``sizes_as_data``). Where Python raises, dividing by a
size of 0, the result is what the formula gives.
"""

from __future__ import annotations

from functools import reduce
from typing import TYPE_CHECKING, Any

from ...graphir.expr import Atom, constant
from ...support.dtype import DType
from ...support.errors import FrontendError
from .symbols import NoDim

if TYPE_CHECKING:
    from .registry import Context

_INTEGER, _FLOAT, _FLAG = DType("int64"), DType("float64"), DType("bool")
_FOLDS = {"Add": "add", "Mul": "multiply", "Max": "maximum", "Min": "minimum"}
_OF_FLOATS = {
    "IntTrueDiv": "divide", "FloatTrueDiv": "divide", "FloatPow": "power", "Pow": "power",
}  # fmt: skip
_OF_ONE_TYPE = {
    "FloorDiv": "floor_divide", "CleanDiv": "floor_divide", "Mod": "floor_mod",
    "PythonMod": "floor_mod", "PowByNatural": "power",
}  # fmt: skip
_ROUNDED = {
    "FloorToInt": "floor", "CeilToInt": "ceil", "TruncToInt": "trunc", "RoundToInt": "round",
    "TruncToFloat": "trunc",
}  # fmt: skip
_RELATIONS = {
    "Equality": "equal", "Unequality": "not_equal", "StrictLessThan": "less",
    "LessThan": "less_equal", "StrictGreaterThan": "greater", "GreaterThan": "greater_equal",
}  # fmt: skip
_LOGIC = {"And": "logical_and", "Or": "logical_or", "Not": "logical_not"}
_UNARY = "OpaqueUnaryFn_"
_FUNCTIONS = (
    "acos", "asin", "asinh", "atan", "cos", "cosh", "exp", "log", "log2", "sin", "sinh", "sqrt",
    "tan", "tanh",
)  # fmt: skip
"""Elementary functions whose names are those of operators."""


def scalar_of(context: Context, number: Any) -> Atom:
    """A SymInt, SymFloat or SymBool as a scalar of int64, float64 or bool.

    Raises FrontendError where it was made by a function that is none of these here, or of an
    integer that data tell and that is no dim.
    """
    return _Scalars(context).of(number.node.expr)


class _Scalars:
    """The scalars of one number, by the classes of torch's symbolic arithmetic."""

    def __init__(self, context: Context) -> None:
        self._context = context

    def of(self, e: Any) -> Atom:
        if e.is_Relational or e.is_Boolean:
            return self._flag(e)
        if e.is_number:
            return constant(int(e), _INTEGER) if e.is_Integer else constant(float(e), _FLOAT)
        if e.is_Symbol and str(e) in self._context.read:
            return self._context.read[str(e)]
        if e.is_integer:
            try:
                return self._context.counted(self._context.symbols.expression(e))
            except NoDim:
                if e.is_Symbol:
                    raise
        return self._computed(e)

    def _computed(self, e: Any) -> Atom:
        kind, op = type(e).__name__, self._context.op
        if kind == "Piecewise":
            return self._chosen(e)
        parts = [self.of(a) for a in e.args]
        if kind == "ToFloat":
            return self._float(parts[0])
        if kind == "Abs":
            return op("abs", parts[0])
        if kind in _FOLDS:
            return reduce(lambda a, b: op(_FOLDS[kind], a, b), self._of_one_type(parts))
        if kind in _OF_ONE_TYPE:
            return op(_OF_ONE_TYPE[kind], *self._of_one_type(parts))
        if kind in _OF_FLOATS:
            return op(_OF_FLOATS[kind], *map(self._float, parts))
        if kind in _ROUNDED:
            rounded = op(_ROUNDED[kind], self._float(parts[0]))
            return self._context.cast(rounded, _INTEGER) if e.is_integer else rounded
        name = kind.removeprefix(_UNARY)
        if name in _FUNCTIONS:
            return op(name, self._float(parts[0]))
        raise self._unknown(e)

    def _chosen(self, e: Any) -> Atom:
        """The first of some numbers whose condition holds; there is one."""
        (last, _), *others = reversed(e.args)
        found = self.of(last)
        for number, condition in others:
            a, found = self._of_one_type([self.of(number), found])
            found = self._context.op("where", self._flag(condition), a, found)
        return found

    def _flag(self, e: Any) -> Atom:
        kind, op = type(e).__name__, self._context.op
        if kind in ("BooleanTrue", "BooleanFalse"):
            return constant(kind == "BooleanTrue", _FLAG)
        parts = [self.of(a) for a in e.args]
        if kind == "Not":
            return op("logical_not", parts[0])
        if kind in _LOGIC:
            return reduce(lambda a, b: op(_LOGIC[kind], a, b), parts)
        if kind in _RELATIONS:
            return op(_RELATIONS[kind], *self._of_one_type(parts))
        raise self._unknown(e)

    def _float(self, atom: Atom) -> Atom:
        return self._context.cast(atom, _FLOAT)

    def _of_one_type(self, parts: list[Atom]) -> list[Atom]:
        dtypes = {self._context.type(p).dtype for p in parts}
        return parts if len(dtypes) == 1 else list(map(self._float, parts))

    def _unknown(self, e: Any) -> FrontendError:
        return FrontendError(
            f"{self._context.place}: the number {e}, made of named sizes by {type(e).__name__}, is "
            "used as data, which cannot be imported; make the dim static, or pass the number as an "
            "input."
        )


__all__ = ["scalar_of"]
