"""Rewriting by patterns: one value at a time, or several values of a block at once.

``rewrite_call`` goes through a function in order; where the pattern matches a binding's value, what
the rewriter gives takes its place. ``rewrite_bindings`` looks for the graph of patterns of a
PatternContext in each dataflow block, and puts new values in the place of several variables; the
block is sorted anew then, so that a new value may read what came later. What nothing reads any more
is left to dead-code-elimination.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeVar

from ...support.node import replace, walk
from ...tensorir.visitor import free_vars
from ..analysis import bindings, binds_dim, sequences, uses, variables
from ..expr import (
    Binding,
    BindingBlock,
    Call,
    CallDPS,
    CallDPSPacked,
    CallFunction,
    Constant,
    Function,
    If,
    SeqExpr,
    ShapeExpr,
    Tuple,
    TupleGetItem,
    Value,
    Var,
)
from ..module import IRModule
from ..mutator import ATOMS, ExprMutator
from ..op import type_of
from ..text.printer import format_type
from ..type import dims_of, types_equal
from .context import PatternContext
from .matching import Matched, Scene, Subject, search
from .pattern import Pattern, PatternError, head_ops

Rewriter = Callable[[Value, Matched], Value]
"""From the value and the match to the new value; the value itself says: leave it."""
BindingsRewriter = Callable[[Matched, Mapping[Var, Value]], Mapping[Var, Value]]
"""From the match and what the block's variables are bound to, to new values of some of them."""
_Where = TypeVar("_Where", Function, IRModule)


# -- one value at a time ---------------------------------------------------------------------------
def rewrite_call(pattern: Pattern, rewriter: Rewriter, where: _Where) -> _Where:
    """Replace each value that a pattern matches by what ``rewriter(value, matched)`` gives: another
    operation, perhaps with operations among its operands, or an atom; ``value`` itself leaves it.

    Values come in order, each once: what a rewriter gave is seen as an operand of later ones, and
    is not rewritten again. ``where`` is a function or a module, of which the new one is returned.
    Raises PatternError for what is no value or of another type than the one it replaces.
    """
    return _rewritten(where, lambda module: CallRewriter(module, [(pattern, rewriter)]))


class CallRewriter(ExprMutator):
    """Tries patterns at each binding, the first that matches and is taken."""

    def __init__(self, module: IRModule, rules: Sequence[tuple[Pattern, Rewriter]]) -> None:
        super().__init__(module)
        self.rules = rules
        self.heads = [head_ops(pattern) for pattern, _ in rules]
        self.reads: dict[Var, int] = {}
        self.params: frozenset[Var] = frozenset()
        self.bound: Var | None = None

    def visit_function(self, func: Function) -> Function:
        self.reads, self.params = dict(uses(func)), frozenset(func.params)
        return super().visit_function(func)

    def visit_binding(self, binding: Binding) -> None:
        self.bound = binding.var
        super().visit_binding(binding)
        new = self.replaced.get(binding.var)
        if isinstance(new, Var):
            self.reads.setdefault(new, self.reads.get(binding.var, 0))

    def visit_value(self, value: Value) -> Value:
        bound = self.bound
        new = super().visit_value(value)
        is_name = isinstance(new, (Var, Constant, ShapeExpr, If))
        return new if bound is None or is_name else self.rewritten(bound, new)

    def rewritten(self, bound: Var, value: Value) -> Value:
        """The value of a binding, rewritten by the first rule that takes it."""
        op = value.op if isinstance(value, Call) else ""
        fitting = [
            rule
            for rule, head in zip(self.rules, self.heads, strict=True)
            if head is None or op in head
        ]
        if not fitting:
            return value
        scene = Scene(
            lambda v: self.lookup_binding(v),
            lambda v: self.reads.get(v, 0),
            self.params,
            self.builder.weights,
        )
        for pattern, rewriter in fitting:
            for found in search(pattern, Subject(value, None, bound), scene, {}):
                made = rewriter(value, Matched(found, scene))
                if made is not value:
                    return self.checked(pattern, bound, value, made)
                break
        return value

    def checked(self, pattern: Pattern, bound: Var, old: Value, new: Value) -> Value:
        """The new value in A-normal form, if it may stand in the place of the old one."""
        new = self.builder.normalize(_is_value(new, pattern))
        wanted, kind = type_of(old), type_of(new)
        if not types_equal(wanted, kind):
            raise _other_type(pattern, bound, wanted, kind)
        return new.with_span(old.span) if new.span is None and not isinstance(new, ATOMS) else new


def rewrite_calls(rules: Sequence[tuple[Pattern, Rewriter]], where: _Where) -> _Where:
    """``rewrite_call`` with several pairs of pattern and rewriter in one go; of a value the first
    that matches, and whose rewriter gives another value, counts."""
    return _rewritten(where, lambda module: CallRewriter(module, rules))


# -- several values at once ------------------------------------------------------------------------
def rewrite_bindings(context: PatternContext, rewriter: BindingsRewriter, where: _Where) -> _Where:
    """Replace values of variables where a graph of patterns matches inside of a dataflow block.

    ``rewriter(matched, bindings)`` gives new values for some of the block's variables: operations
    with operations among their operands, one object being one value wherever it stands, or atoms;
    an empty dict leaves the match alone. The search begins anew after each rewriting, but no value
    that a rewriter gave is a root again, so that it ends. ``where`` is a function or a module.

    Raises PatternError for what is no value, of another type, of variables of another block, and
    for a value that would need itself.
    """
    if not isinstance(context, PatternContext):
        raise PatternError(
            f"rewrite_bindings takes a PatternContext; found {context!r}. Of one value, "
            "rewrite_call takes a pattern."
        )
    return _rewritten(where, lambda module: _BindingsRewriter(module, context, rewriter))


class _BindingsRewriter(ExprMutator):
    def __init__(
        self, module: IRModule, context: PatternContext, rewriter: BindingsRewriter
    ) -> None:
        super().__init__(module)
        self.context, self.rewriter = context, rewriter

    def visit_function(self, func: Function) -> Function:
        self.builder.reserve_names(
            [*[p.name for p in func.params], *[b.var.name for b in bindings(func)]]
        )
        done: set[Var] = set()
        declined: set[tuple[int, ...]] = set()
        while (changed := self.changed_once(func, done, declined)) is not func:
            func = changed
        return func

    def changed_once(
        self, func: Function, done: set[Var], declined: set[tuple[int, ...]]
    ) -> Function:
        """The function after the first rewriting that is left; itself where none is."""
        scene = Scene.of(func, self.builder.weights)
        for seq in sequences(func.body):
            for block in seq.blocks:
                if not block.is_dataflow:
                    continue
                for matched in self.context.matches_in(block, scene):
                    roots = [matched.found[r].atom for r in self.context.roots]
                    key = tuple([id(r) for r in roots])
                    if key in declined or done.intersection([r for r in roots if _is_var(r)]):
                        continue
                    values = {b.var: b.value for b in block.bindings}
                    made = self.rewriter(matched, values)
                    if not made:
                        declined.add(key)
                        continue
                    return _with_block(func, block, self.rebuilt(func, block, made, done))
        return func

    def rebuilt(
        self, func: Function, block: BindingBlock, made: Mapping[Var, Value], done: set[Var]
    ) -> BindingBlock:
        """The block with new values in their places, sorted."""
        bound = {b.var: b for b in block.bindings}
        extra: list[Binding] = []
        flat: dict[int, tuple[Value, Var]] = {}
        new: dict[Var, Binding] = {}
        for var, value in made.items():
            if var not in bound:
                raise PatternError(
                    f"rewrite_bindings: {getattr(var, 'name', var)!r} is bound in no dataflow "
                    "block of the match; a rewriter gives values for the block's own variables."
                )
            value = self._flattened(_is_value(value), flat, extra)
            wanted, kind = var.type, type_of(value)
            if not types_equal(wanted, kind):
                raise _other_type(None, var, wanted, kind)
            new[var] = replace(bound[var], value=value)
            done.add(var)
        done.update([b.var for b in extra])
        listed = [*extra, *[new.get(b.var, b) for b in block.bindings]]
        # What is new stands in front of the first that reads it.
        return BindingBlock(tuple(_sorted(listed, len(extra), func)), is_dataflow=True)

    def _flattened(
        self, value: Value, flat: dict[int, tuple[Value, Var]], extra: list[Binding]
    ) -> Value:
        """The value on atoms; operations inside of it are bound to variables of their own, each
        object once."""

        def atom(inner: Any) -> Any:
            if isinstance(inner, Constant):
                return self.builder.weights.adopt(inner)
            if isinstance(inner, Tuple):
                return Tuple(tuple([atom(f) for f in inner.fields]))
            if isinstance(inner, ATOMS):
                return inner
            if id(inner) not in flat:
                made = self._flattened(_is_value(inner), flat, extra)
                var = Var(self.builder.unique("lv"), type_of(made))
                flat[id(inner)] = (inner, var)
                extra.append(Binding(var, made))
            return flat[id(inner)][1]

        match value:
            case Call() | CallDPS() | CallDPSPacked() | CallFunction():
                return replace(value, args=tuple([atom(a) for a in value.args]))
            case TupleGetItem():
                return replace(value, value=atom(value.value))
            case If():
                return value
        made: Value = atom(value)
        return made


def _sorted(listed: Sequence[Binding], new: int, func: Function) -> list[Binding]:
    """Bindings in an order in which each stands behind what it reads (the sizes that it is of
    too); the given order where that allows it, the first ``new`` in front of their readers.
    Raises PatternError for a circle."""
    bound = {b.var: b for b in listed}
    sizes = {
        dim: b
        for b in listed
        if binds_dim(b.value) and isinstance(b.value, Call)
        for a in b.value.args[1:2]
        if isinstance(a, ShapeExpr)
        for dim in free_vars(a.values)
    }

    def needs(binding: Binding) -> list[Binding]:
        read = [bound[v] for v in variables(binding.value) if v in bound]
        read += [sizes[d] for d in (_dims(binding) if sizes else ()) if d in sizes]
        return [b for b in read if b is not binding or binding.var in set(variables(b.value))]

    result: dict[Var, Binding] = {}
    open_: dict[Var, None] = {}
    for first in listed[new:]:
        stack = [] if first.var in result else [(first, iter(needs(first)))]
        open_ = dict.fromkeys([b.var for b, _ in stack])
        while stack:
            binding, left = stack[-1]
            above = next((b for b in left if b.var not in result), None)
            if above is None:
                result[binding.var] = binding
                open_.pop(binding.var)
                stack.pop()
                continue
            if above.var in open_:
                circle = " of ".join([*[v.name for v in open_], above.var.name])
                raise PatternError(
                    f"rewrite_bindings: {above.var.name!r} would be computed of itself ({circle}): "
                    "new values of a match may not read what is computed of those they replace."
                )
            open_[above.var] = None
            stack.append((above, iter(needs(above))))
    return list(result.values())


def _dims(binding: Binding) -> list[Any]:
    shapes = [n for n in walk(binding.value) if isinstance(n, ShapeExpr)]
    return free_vars([*dims_of(binding.var.type), *[d for s in shapes for d in s.values]])


def _with_block(func: Function, old: BindingBlock, new: BindingBlock) -> Function:
    """The function with one block in the place of another, wherever it stands."""

    def seq(s: SeqExpr) -> SeqExpr:
        return replace(s, blocks=tuple([new if b is old else block(b) for b in s.blocks]))

    def block(b: BindingBlock) -> BindingBlock:
        if not any(isinstance(x.value, If) for x in b.bindings):
            return b
        return replace(b, bindings=tuple([binding(x) for x in b.bindings]))

    def binding(b: Binding) -> Binding:
        if not isinstance(b.value, If):
            return b
        branches = {
            "true_branch": seq(b.value.true_branch),
            "false_branch": seq(b.value.false_branch),
        }
        return replace(b, value=replace(b.value, **branches))

    return replace(func, body=seq(func.body))


# -- what both share -------------------------------------------------------------------------------
def _rewritten(where: _Where, rewriter: Callable[[IRModule], ExprMutator]) -> _Where:
    if isinstance(where, IRModule):
        return rewriter(where.copy()).transform()
    if not isinstance(where, Function):
        raise PatternError(
            f"expected a graph function or an IRModule to rewrite; found {type(where).__name__}."
        )
    mutator = rewriter(IRModule())
    func = mutator.visit_function(where)
    known = {n.name for n in walk(where) if isinstance(n, Constant)}
    made = [
        n.name for n in walk(func) if isinstance(n, Constant) and n.name and n.name not in known
    ]
    functions = [n for n in mutator.builder.get() if n != where.name]
    if made or functions:
        what = f"the constant {made[0]!r}" if made else f"the function {functions[0]!r}"
        raise PatternError(
            f"the rewriter made {what}, which belongs to a module: rewrite the IRModule, not a "
            "Function alone."
        )
    return func


def _is_value(found: object, pattern: Pattern | None = None) -> Any:
    if isinstance(found, (*ATOMS, Call, CallDPS, CallDPSPacked, CallFunction, TupleGetItem, If)):
        return found
    where = "" if pattern is None else f" of {pattern!r}"
    raise PatternError(
        f"the rewriter{where} gave {'nothing' if found is None else repr(found)}; it gives the new "
        "value (graph.op(...), an operand of the match), or the value it was given, to leave it."
    )


def _other_type(pattern: Pattern | None, var: Var, wanted: Any, found: Any) -> PatternError:
    where = "" if pattern is None else f" of {pattern!r}"
    return PatternError(
        f"the rewriter{where} gave a value of type {format_type(found)} for {var.name!r}, which is "
        f"a {format_type(wanted)}: others read it as that."
    )


def _is_var(atom: object) -> bool:
    return isinstance(atom, Var)
