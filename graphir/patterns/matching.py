"""Matching: which values of a function a pattern stands for.

The search goes from a value to what it is computed of. It is a generator of matches, each a table
from patterns to values, so that an alternative or an order of operands that leads nowhere is taken
back. A variable that is bound to another one, or to a constant, is what it is bound to.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, assert_never

import numpy as np

from ..analysis import bindings, uses
from ..dim import dim_equal
from ..expr import (
    Atom,
    Call,
    CallDPS,
    CallDPSPacked,
    CallFunction,
    Constant,
    Function,
    GlobalVar,
    If,
    ShapeExpr,
    Tuple,
    TupleGetItem,
    Value,
    Var,
)
from ..module import IRModule
from ..op import attr, type_of
from ..text.literal import readable
from ..type import TensorType, Type, types_equal
from ..weights import Weights
from .pattern import (
    Both,
    CallDPSPattern,
    CallPattern,
    ConstantPattern,
    Constrained,
    Dominated,
    Either,
    Not,
    Operands,
    Pattern,
    PatternError,
    ShapePattern,
    TupleGetItemPattern,
    TuplePattern,
    UsedOnce,
    VarPattern,
    Where,
    Wildcard,
    WithAttrs,
    WithDType,
    WithShape,
    WithType,
)

COMMUTATIVE = frozenset(
    ["add", "multiply", "maximum", "minimum", "equal", "not_equal", "logical_and", "logical_or",
     "logical_xor", "bitwise_and", "bitwise_or", "bitwise_xor", "hypot", "gcd"]
)  # fmt: skip
"""Operators whose two operands a pattern may have in the other order."""

ATOMS = (Var, Constant, ShapeExpr, GlobalVar, Tuple)


@dataclass(frozen=True)
class Subject:
    """What a pattern is compared with: an operation, the atom that it is known by (None for the
    value of a binding that is being rewritten), and the variable that is read."""

    value: Value
    atom: Atom | None = None
    var: Var | None = None

    @property
    def type(self) -> Type:
        """That of the atom or the operation."""
        return type_of(self.value if self.atom is None else self.atom)


Found = Mapping[Pattern, Subject]


@dataclass
class Scene:
    """What is known around a value: what variables are bound to, how often each is read, and the
    values of constants."""

    value_of: Callable[[Var], Value | None]
    reads: Callable[[Var], int]
    params: frozenset[Var]
    weights: Weights | None = None

    @classmethod
    def of(cls, func: Function, weights: Weights | None = None) -> Scene:
        """A whole function."""
        values = {b.var: b.value for b in bindings(func)}
        counts = uses(func)
        reads = lambda v: counts.get(v, 0)  # noqa: E731
        return cls(values.get, reads, frozenset(func.params), weights)

    def subject(self, atom: Atom) -> Subject:
        """An operand; of a variable what it is bound to."""
        seen, var = atom, atom if isinstance(atom, Var) else None
        value: Value = atom
        while isinstance(seen, Var):
            bound = self.value_of(seen)
            if bound is None:
                break
            value = bound
            if not isinstance(bound, ATOMS):
                break
            seen = bound
        return Subject(value, seen, var)

    def number(self, constant: Constant) -> float | None:
        """The one number that a constant holds everywhere; None where it holds several."""
        if constant.bits is not None:
            array = constant.values()
        elif self.weights is not None and constant.name in self.weights:
            array = self.weights.array(constant)
        else:
            raise PatternError(
                f"is_const of a number has to read the constant {constant.name!r}, whose values "
                "the module has: match in an IRModule, not in a Function alone."
            )
        flat = readable(array, constant.type.dtype).reshape(-1)
        return float(flat[0]) if flat.size and bool((flat == flat[0]).all()) else None


@dataclass(frozen=True)
class Matched(Mapping[Pattern, Value]):
    """A match: ``matched[x]`` is what the pattern ``x`` stands for, an atom to use as an operand.
    Of the value that a rewriting is about to replace it is the operation itself."""

    found: Found = field(repr=False)
    scene: Scene = field(repr=False)

    def __getitem__(self, pattern: Pattern) -> Value:
        subject = self._subject(pattern)
        return subject.value if subject.atom is None else subject.atom

    def value(self, pattern: Pattern) -> Value:
        """The operation that a pattern stands for, with its attributes; a parameter or constant is
        itself."""
        return self._subject(pattern).value

    def type(self, pattern: Pattern) -> Type:
        """The type of what a pattern stands for."""
        return self._subject(pattern).type

    def number(self, pattern: Pattern) -> float | None:
        """The number that a constant holds everywhere; None for other values."""
        value = self._subject(pattern).value
        return self.scene.number(value) if isinstance(value, Constant) else None

    def _subject(self, pattern: Pattern) -> Subject:
        try:
            return self.found[pattern]
        except KeyError:
            raise PatternError(
                f"{pattern!r} stands for nothing in this match: it belongs to an alternative that "
                "was not taken, or to another pattern. Ask with `in` first."
            ) from None

    def __contains__(self, pattern: object) -> bool:
        return pattern in self.found

    def __iter__(self) -> Iterator[Pattern]:
        return iter(self.found)

    def __len__(self) -> int:
        return len(self.found)


# -- asking --------------------------------------------------------------------------------------
def match(
    pattern: Pattern, value: Value, within: Function | IRModule, *, weights: Weights | None = None
) -> Matched | None:
    """The first match of a pattern at a value (a variable, or an operation on variables) of a
    function; ``within`` is the function, or its module. None where there is none."""
    func, table = _function(within, value)
    scene = Scene.of(func, weights or table)
    subject = scene.subject(value) if isinstance(value, ATOMS) else Subject(value)
    found = next(search(pattern, subject, scene, {}), None)
    return None if found is None else Matched(found, scene)


def find(pattern: Pattern, within: Function | IRModule) -> list[Matched]:
    """The matches of a pattern in a function (or all graph functions of a module): the first of
    each value that is bound, in order."""
    functions: list[tuple[Function, Weights | None]]
    if isinstance(within, IRModule):
        functions = [(f, within.weights) for f in within.graph_functions.values()]
    else:
        functions = [(within, None)]
    results = []
    for func, weights in functions:
        scene = Scene.of(func, weights)
        for binding in bindings(func):
            if isinstance(binding.value, (Var, Constant)):
                continue  # another name of a value
            found = next(search(pattern, scene.subject(binding.var), scene, {}), None)
            if found is not None:
                results.append(Matched(found, scene))
    return results


def _function(within: Function | IRModule, value: Value) -> tuple[Function, Weights | None]:
    if isinstance(within, Function):
        return within, None
    for func in within.graph_functions.values():
        if any(b.var is value or b.value is value for b in bindings(func)) or value in func.params:
            return func, within.weights
    raise PatternError(
        "match: the value is none of this module's; pass a variable of one of its graph functions."
    )


# -- the search ----------------------------------------------------------------------------------
def search(pattern: Pattern, subject: Subject, scene: Scene, found: Found) -> Iterator[Found]:
    """The matches of a pattern with a value that agree with what was found before."""
    known = found.get(pattern)
    if known is not None:
        if same(known, subject):
            yield found
        return
    for made in _matches(pattern, subject, scene, found):
        yield {**made, pattern: subject}


def same(a: Subject, b: Subject) -> bool:
    """Whether two values are one: one variable, or constants of one content."""
    x, y = a.value if a.atom is None else a.atom, b.value if b.atom is None else b.atom
    if isinstance(x, Constant) and isinstance(y, Constant):
        if x.name or y.name:
            return x.name == y.name
        return types_equal(x.type, y.type) and x.bits == y.bits
    return x is y


def _matches(p: Pattern, s: Subject, scene: Scene, found: Found) -> Iterator[Found]:  # noqa: C901 - one case a class
    match p:
        case Wildcard():
            yield found
        case ConstantPattern():
            if isinstance(s.value, Constant) and (
                p.value is None or scene.number(s.value) == p.value
            ):
                yield found
        case VarPattern():
            if _is_variable(p, s, scene):
                yield found
        case ShapePattern():
            if isinstance(s.value, ShapeExpr) and (
                p.shape is None or _fits(p.shape, s.value.values)
            ):
                yield found
        case CallPattern():
            if isinstance(s.value, Call) and s.value.op == p.op.name:
                yield from _operands(p.args, s.value.args, p.op.name in COMMUTATIVE, scene, found)
        case CallDPSPattern():
            args = _called(p, s.value)
            if args is not None:
                yield from _operands(p.args, args, False, scene, found)
        case TuplePattern():
            if isinstance(s.value, Tuple):
                yield from _operands(p.fields, s.value.fields, False, scene, found)
        case TupleGetItemPattern():
            item = s.value
            if isinstance(item, TupleGetItem) and p.index in (None, item.index):
                yield from search(p.whole, scene.subject(item.value), scene, found)
        case Either():
            for choice in p.choices:
                yield from search(choice, s, scene, found)
        case Both():
            for first in search(p.a, s, scene, found):
                yield from search(p.b, s, scene, first)
        case Not():
            if next(search(p.a, s, scene, found), None) is None:
                yield found
        case Dominated():
            yield from _dominated(p, s, scene, found)
        case Constrained():
            if _holds(p, s, scene):
                yield from search(p.pattern, s, scene, found)
        case _:
            raise PatternError(f"{type(p).__name__} is no pattern that can be matched.")


def _operands(
    patterns: Operands | Sequence[Pattern] | None,
    atoms: tuple[Atom, ...],
    commutes: bool,
    scene: Scene,
    found: Found,
) -> Iterator[Found]:
    if patterns is None:
        yield found
        return
    wanted = [p for p in patterns if isinstance(p, Pattern)]
    is_open = len(wanted) < len(patterns)
    if len(wanted) > len(atoms) or (len(wanted) < len(atoms) and not is_open):
        return
    yield from _in_order(wanted, atoms, scene, found)
    if commutes and len(wanted) == len(atoms) == 2:
        yield from _in_order(wanted, atoms[::-1], scene, found)


def _in_order(
    patterns: Sequence[Pattern], atoms: Sequence[Atom], scene: Scene, found: Found
) -> Iterator[Found]:
    if not patterns:
        yield found
        return
    for made in search(patterns[0], scene.subject(atoms[0]), scene, found):
        yield from _in_order(patterns[1:], atoms[1:], scene, made)


def _is_variable(p: VarPattern, s: Subject, scene: Scene) -> bool:
    var = s.atom if isinstance(s.atom, Var) else s.var
    if var is None or (p.is_parameter and var not in scene.params):
        return False
    return not p.name or p.name == var.name or (s.var is not None and p.name == s.var.name)


def _called(p: CallDPSPattern, value: Value) -> tuple[Atom, ...] | None:
    """The operands of a call of the kind and name that a pattern asks for."""
    match value:
        case CallDPS() if p.kind == "call_dps" and p.name in ("", value.func.name):
            return value.args
        case CallFunction() if p.kind == "call_function" and p.name in ("", value.func.name):
            return value.args
        case CallDPSPacked() if p.kind == "call_dps_packed" and p.name in ("", value.name):
            return value.args
    return None


def _holds(p: Constrained, s: Subject, scene: Scene) -> bool:
    match p:
        case WithDType():
            kind = s.type
            return isinstance(kind, TensorType) and kind.dtype is p.dtype
        case WithShape():
            kind = s.type
            return isinstance(kind, TensorType) and _fits(p.shape, kind.shape)
        case WithType():
            return types_equal(s.type, p.type)
        case WithAttrs():
            return isinstance(s.value, Call) and _has_attributes(s.value, p.attrs)
        case UsedOnce():
            return s.var is not None and scene.reads(s.var) == 1
        case Where():
            return bool(p.condition(s.value))
    return False


def _fits(pattern: Sequence[Any], shape: Sequence[Any]) -> bool:
    return len(pattern) == len(shape) and all(
        p is None or dim_equal(p, d) for p, d in zip(pattern, shape, strict=True)
    )


def _has_attributes(call: Call, wanted: Sequence[tuple[str, Any]]) -> bool:
    return all(_has_attribute(call, key, value) for key, value in wanted)


def _has_attribute(call: Call, key: str, value: Any) -> bool:
    try:
        found = attr(call, key)
    except KeyError:
        return False
    if isinstance(value, (list, tuple)) and isinstance(found, (list, tuple)):
        return tuple(value) == tuple(found)
    return (type(found) is type(value) and bool(found == value)) or (
        isinstance(value, (int, float))
        and isinstance(found, (int, float, np.number))
        and isinstance(value, bool) is isinstance(found, bool)
        and bool(found == value)
    )


def operands(value: Value) -> tuple[Atom, ...]:
    """The atoms that an operation reads; those of an If are its condition alone."""
    match value:
        case Call() | CallDPS() | CallDPSPacked() | CallFunction():
            return value.args
        case TupleGetItem():
            return (value.value,)
        case Tuple():
            return value.fields
        case If():
            return (value.condition,)
        case Var() | Constant() | ShapeExpr() | GlobalVar():
            return ()
    assert_never(value)


def _dominated(p: Dominated, s: Subject, scene: Scene, found: Found) -> Iterator[Found]:
    """Above the value, each ancestor in turn as the one that all come from."""
    for end in search(p.end, s, scene, found):
        for candidate in _ancestors(p.path, s, scene, end):
            for made in search(p.parent, candidate, scene, end):
                if _all_from(p.path, s, candidate, scene, made):
                    yield made


def _ancestors(path: Pattern, s: Subject, scene: Scene, found: Found) -> list[Subject]:
    """What a value is computed of, through operations that ``path`` matches, the nearest first."""
    reached: list[Subject] = []
    waiting = [s]
    while waiting:
        top = waiting.pop(0)
        for atom in operands(top.value):
            above = scene.subject(atom)
            if isinstance(above.value, (Constant, ShapeExpr)) or any(
                same(above, r) for r in reached
            ):
                continue
            reached.append(above)
            if next(search(path, above, scene, found), None) is not None:
                waiting.append(above)
    return reached


def _all_from(path: Pattern, s: Subject, parent: Subject, scene: Scene, found: Found) -> bool:
    """Whether every operand comes from ``parent`` by the path, or is a constant."""
    for atom in operands(s.value):
        above = scene.subject(atom)
        if isinstance(above.value, (Constant, ShapeExpr)) or same(above, parent):
            continue
        if next(search(path, above, scene, found), None) is None:
            return False
        if not operands(above.value) or not _all_from(path, above, parent, scene, found):
            return False
    return True
