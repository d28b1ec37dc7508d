"""Value numbers: the same number for variables that are the same operations of the same values.

a = sum(m);  b = sum(m)         a and b have one number, whatever they are called
"""

from __future__ import annotations

from collections.abc import Callable, Hashable

from .expr import Atom, Call, Constant, ShapeExpr, Tuple, TupleGetItem, Value, Var


class ValueNumbers:
    """Numbers the values of one function. ``lookup`` gives what a variable is bound to, None for a
    parameter. Operators are numbered by what they compute; every other call is one of its own."""

    def __init__(self, lookup: Callable[[Atom], Value | None]) -> None:
        self._lookup = lookup
        self._of_var: dict[Var, int] = {}
        self._of_key: dict[Hashable, int] = {}

    def of(self, atom: Atom) -> int:
        """The number of a value."""
        waiting = [atom]
        while waiting:  # chains are as long as models are deep
            var = waiting[-1]
            if not isinstance(var, Var) or var in self._of_var:
                waiting.pop()
                continue
            value = self._lookup(var)
            missing = [v for v in _variables(value) if v not in self._of_var]
            if missing:
                waiting += missing
                continue
            waiting.pop()
            self._of_var[var] = self._number(self._key(var, value))
        return self._number(self._key_of_atom(atom))

    def fresh(self) -> int:
        """A number that no value has."""
        return self._number(("fresh", len(self._of_key)))

    def _number(self, key: Hashable) -> int:
        if isinstance(key, int):
            return key
        return self._of_key.setdefault(key, len(self._of_key))

    def _key(self, var: Var, value: Value | None) -> Hashable:
        match value:
            case Call(op, args, attrs):
                return (op, tuple([self._key_of_atom(a) for a in args]), repr(attrs))
            case TupleGetItem(whole, index):
                return ("field", self._key_of_atom(whole), index)
            case Var() | Constant() | Tuple():
                return self._key_of_atom(value)
            case _:
                return ("itself", id(var))

    def _key_of_atom(self, atom: Atom) -> Hashable:
        match atom:
            case Var():
                return self._of_var[atom]
            case Constant(name, kind, bits):
                return ("constant", name, bits, str(kind.dtype), repr(kind.shape))
            case Tuple(fields):
                return ("tuple", tuple([self._key_of_atom(f) for f in fields]))
            case ShapeExpr(values):
                return ("shape", tuple([v if isinstance(v, Var) else repr(v) for v in values]))
            case _:
                return ("itself", id(atom))


def _variables(value: Value | None) -> list[Var]:
    """The variables that a value's number depends on."""
    match value:
        case Var():
            return [value]
        case Call(_, args):
            return [v for a in args for v in _variables(a)]
        case TupleGetItem(whole):
            return _variables(whole)
        case Tuple(fields):
            return [v for f in fields for v in _variables(f)]
        case _:
            return []
