"""FuseOps: which kernels become one. Decides groups; fuse-prim-funcs makes the functions.

The question is where the paths that leave a kernel meet again. In the diamond

        linear                exp and tanh both read linear's result, and add reads both. Fused
       /      \\               with exp alone, linear would still have to write its result for
     exp      tanh            tanh. The first kernel that *every* path from linear passes is
       \\      /               add, its immediate post-dominator: all four become one kernel,
          add                 or none do.

So the pass walks up the post-dominator tree: a kernel is joined with its immediate post-dominator
and with everything on the paths between (by their groups), if the union may be a group. What may be
one is asked of the whole union each time, so that the order of joins cannot break a law:

* one result leaves the group: that of its last kernel;
* no path leaves the group and comes back (it would have to run before and after);
* at most one heavy kernel: after an ``out_fusable`` one stands only elementwise and broadcast work
  of its own shape, and before it nothing of the group; a ``reduction`` is the last kernel;
* with all light kernels inlined into it, no kernel exceeds ``max_cost`` operations: in a ladder of
  diamonds the inlined expression doubles at every step;
* what turns rows stays apart from what looked them up in a table, from pads and concatenations
  before it, and from those that cut its rows or read them in windows: alone each is vectors,
  together single elements;
* what an injective kernel reads many times over, as windows that overlap or rows that an index
  repeats, is written once where it takes a quotient or an elementary function to compute;
* scheduled and opaque functions stay alone.

Kernels with heavy work go first, so that they get their epilogues before light chains form.
The shape of the algorithm is the dominator-tree fusion known from graph compilers; the whole-group
check in place of per-path pattern rules is what keeps it short.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass

from ...support.passes import Pass
from ...support.structural import structural_equal, structural_hash
from ...tensorir.expr import Expr
from ...tensorir.expr import Var as DimVar
from ...tensorir.function import PrimFunc
from ...tensorir.visitor import free_vars
from ..analysis import DataflowGraph, dataflow_graph, dps_calls, sequences, solve_shape_vars
from ..dim import DimError, OwnDims, shape_equal, static_shape, substitute_dim
from ..expr import (
    Atom,
    Binding,
    BindingBlock,
    CallDPS,
    CallFunction,
    Constant,
    Function,
    GlobalVar,
    SeqExpr,
    Var,
)
from ..module import IRModule
from ..mutator import ExprMutator
from ..op import type_of
from ..type import TensorType, dims_of, map_dims
from .annotate_pattern import (
    computes,
    cuts_rows,
    has_seams,
    looks_up_rows,
    reads_windows,
    turns_rows,
)
from .legalize import LEGALIZED

PRIMITIVE = "primitive"
"""Attribute of the sub-functions made here, each of which fuse-prim-funcs turns into one
PrimFunc."""
LIGHT = ("elementwise", "broadcast", "injective")
NAME_LIMIT = 60
TIMES = 3
"""Elements of a kernel, in those of what it reads, from which on each is read again and again."""


@dataclass(frozen=True)
class FuseOps(Pass):
    """Group ``call_dps`` bindings of dataflow blocks into functions with the attribute
    ``primitive``.

    *requires*: annotate-pattern. *ensures*: each call of a ``primitive`` function stands for one
    kernel; the values are unchanged.

        lv = R.call_dps(cls.linear, (x, w), ...)
        y = R.call_dps(cls.relu, (lv,), ...)
    becomes
        y = cls.fused_linear_relu(x, w)    # a function with {"primitive": True} holds the two
    """

    max_depth: int = 256
    """The most kernels in one group."""
    max_cost: int = 128
    """The most operations of the last kernel after inlining."""

    def run(self, module: IRModule) -> IRModule:
        return _Fuser(module, self).transform()


class _Fuser(ExprMutator):
    def __init__(self, module: IRModule, options: FuseOps) -> None:
        super().__init__(module)
        self.options = options
        self.made: dict[str, list[tuple[Function, GlobalVar]]] = {}
        self.groups: dict[int, list[list[int]]] = {}
        self.graphs: dict[int, DataflowGraph] = {}

    def visit_function(self, func: Function) -> Function:
        if func.attr(PRIMITIVE):
            return func
        blocks = [b for s in sequences(func.body) for b in s.blocks if b.is_dataflow]
        for block in blocks:
            graph = dataflow_graph(block, func)
            self.graphs[id(block)] = graph
            self.groups[id(block)] = plan_groups(graph, self.module, self.options)
        return super().visit_function(func)

    def visit_block(self, block: BindingBlock) -> None:
        groups = self.groups.get(id(block), [])
        if not groups:
            super().visit_block(block)
            return
        last = {members[-1]: members for members in groups}
        hidden = {i for members in groups for i in members[:-1]}
        with self.builder.dataflow(is_dataflow=block.is_dataflow):
            for index, binding in enumerate(block.bindings):
                if index in last:
                    self.emit_group([block.bindings[i] for i in last[index]])
                elif index not in hidden:
                    self.visit_binding(binding)

    def emit_group(self, members: Sequence[Binding]) -> None:
        """Bind the last member's variable to a call of the group's function."""
        func, args = self.group_function(members)
        var = self.shared(func, members)
        call = CallFunction(var, self.visit_atoms(args), members[-1].var.type)
        self.builder.emit_binding(Binding(members[-1].var, call).with_span(members[-1].span))

    def shared(self, func: Function, members: Sequence[Binding]) -> GlobalVar:
        same = self.made.setdefault(structural_hash(func), [])
        for known, var in same:
            if structural_equal(known, func):
                return var
        same.append((func, self.builder.add_func(func, self.group_name(members))))
        return same[-1][1]

    def group_name(self, members: Sequence[Binding]) -> str:
        """``fused_`` and the operators, at most NAME_LIMIT characters, numbered where it is
        taken."""
        words = [_operator(self.module, b) for b in members]
        hint = ("fused_" + "_".join(words))[:NAME_LIMIT].rstrip("_")
        unique = self.builder.unique_function_name(hint)
        excess = len(unique) - NAME_LIMIT
        return (
            unique if excess <= 0 else self.builder.unique_function_name(hint[:-excess].rstrip("_"))
        )

    def group_function(self, members: Sequence[Binding]) -> tuple[Function, tuple[Atom, ...]]:
        """The sub-function over parameters and symbolic dims of its own, and the arguments it
        takes."""
        args = {id(atom): atom for atom in _entering(members)}
        func = self._build(members, args, OwnDims())
        if not self._fits(func):
            # Dims of the group stand in a relation that one Var a dim would lose: keep their form.
            types = [*map(type_of, args.values()), *[b.var.type for b in members]]
            renamed: dict[DimVar, Expr] = {
                v: DimVar(v.name) for v in free_vars([d for t in types for d in dims_of(t)])
            }
            func = self._build(members, args, lambda dim: substitute_dim(dim, renamed))
        return func, tuple(args.values())

    def _fits(self, func: Function) -> bool:
        """Whether every call in the group fits its kernel over the group's dims, and those can be
        read off its parameters."""
        given = _symbols([*func.params, func.body.result])
        for call in dps_calls(func):
            if not given.issuperset(free_vars(dims_of(call.out_type))):
                return False
            callee = self.module[call.func]
            assert isinstance(callee, PrimFunc)
            try:
                solve_shape_vars(callee, [type_of(a) for a in call.args], call.out_type)
            except DimError:
                return False
        return True

    def _build(
        self, members: Sequence[Binding], args: dict[int, Atom], own: Callable[[Expr], Expr]
    ) -> Function:
        mapping: dict[int, Var] = {}
        for key, atom in args.items():
            name = atom.name if isinstance(atom, Var) else f"param_{len(mapping)}"
            mapping[key] = Var(name, map_dims(type_of(atom), own))
        params = tuple(mapping.values())
        bindings: list[Binding] = []
        for binding in members:
            call = binding.value
            assert isinstance(call, CallDPS)
            operands = tuple([mapping[id(a)] for a in call.args])
            new = CallDPS(call.func, operands, map_dims(call.out_type, own))
            mapping[id(binding.var)] = Var(binding.var.name, new.out_type)
            bindings.append(Binding(mapping[id(binding.var)], new))
        result = bindings[-1].var
        body = SeqExpr((BindingBlock(tuple(bindings), True),), result)
        return Function(params, body, result.type, ((PRIMITIVE, True),), "fused")


def _entering(members: Sequence[Binding]) -> list[Atom]:
    """What the members read that none of them is, each once, in order."""
    inner = {b.var for b in members}
    found: dict[int, Atom] = {}
    for binding in members:
        assert isinstance(binding.value, CallDPS)
        for atom in binding.value.args:
            if not (isinstance(atom, Var) and atom in inner):
                found.setdefault(id(atom), atom)
    return list(found.values())


def _symbols(atoms: Sequence[Atom]) -> frozenset[DimVar]:
    """The symbolic dims that stand in the shapes of some values."""
    return frozenset(free_vars([d for a in atoms for d in dims_of(type_of(a))]))


def _operator(module: IRModule, binding: Binding) -> str:
    assert isinstance(binding.value, CallDPS)
    func = module[binding.value.func]
    return str(func.attr(LEGALIZED) or binding.value.func.name)


# -- planning ----------------------------------------------------------------------------------
def plan_groups(graph: DataflowGraph, module: IRModule, options: FuseOps) -> list[list[int]]:
    """The groups of two and more bindings of a block, each as indices in order."""
    return _Planner(graph, module, options).plan()


class _Planner:
    """Groups are sets of bindings as bit masks; ``group[i]`` is the mask of the group of binding
    ``i``."""

    def __init__(self, graph: DataflowGraph, module: IRModule, options: FuseOps) -> None:
        self.graph, self.options = graph, options
        self.patterns = [_pattern(b, module) for b in graph.bindings]
        self.own = [_own_cost(b, module) for b in graph.bindings]
        self.symbols = [_symbols([b.var]) for b in graph.bindings]
        self.lookups = _mask(_is_kernel_that(looks_up_rows, b, module) for b in graph.bindings)
        self.turns = _mask(_is_kernel_that(turns_rows, b, module) for b in graph.bindings)
        self.seams = _mask(_is_kernel_that(has_seams, b, module) for b in graph.bindings)
        self.windows = _mask(_is_kernel_that(reads_windows, b, module) for b in graph.bindings)
        self.dear = _mask(_is_kernel_that(computes, b, module) for b in graph.bindings)
        self.cuts = _mask(_is_kernel_that(cuts_rows, b, module) for b in graph.bindings)
        count = len(graph.bindings)
        self.group = [1 << i for i in range(count)]
        self.after = [0] * count  # the bindings reachable from i, i included
        self.before = [0] * count
        for i in reversed(range(count)):
            self.after[i] = 1 << i
            for c in graph.consumers[i]:
                self.after[i] |= self.after[c]
        for i in range(count):
            self.before[i] = 1 << i
            for p in graph.producers[i]:
                self.before[i] |= self.before[p]

    def plan(self) -> list[list[int]]:
        above = self.graph.post_dominators()
        heavy = [i for i, p in enumerate(self.patterns) if p == "out_fusable"]
        light = [i for i, p in enumerate(self.patterns) if p in LIGHT]
        for start in (*heavy, *light):
            self._climb(start, above)
        masks = dict.fromkeys(m for m in self.group if m & (m - 1))
        return [list(_bits(m)) for m in masks]

    def _climb(self, start: int, above: Sequence[int | None]) -> None:
        """Join the group of ``start`` with its post-dominators, one after the other, while that may
        be."""
        node = above[start]
        while node is not None and self.patterns[node] is not None:
            between = self.after[start] & self.before[node]
            union = 0
            for i in _bits(between):
                union |= self.group[i]
            if not self._may_be_group(union):
                return
            for i in _bits(union):
                self.group[i] = union
            node = above[node]

    def _may_be_group(self, union: int) -> bool:
        members = list(_bits(union))
        if len(members) > self.options.max_depth or any(self.patterns[i] is None for i in members):
            return False
        return (
            self._one_result(union, members)
            and self._is_convex(union, members)
            and self._one_heavy(union, members)
            and self._rows_are_kept(union, members)
            and self._is_computed_once(union, members)
            and self._dims_are_given(members)
            and self._inlined_cost(members) <= self.options.max_cost
        )

    def _one_result(self, union: int, members: Sequence[int]) -> bool:
        """Only the last member is read from outside."""
        return all(
            not self.graph.escapes[i] and all(union >> c & 1 for c in self.graph.consumers[i])
            for i in members[:-1]
        )

    def _is_convex(self, union: int, members: Sequence[int]) -> bool:
        after = before = 0
        for i in members:
            after |= self.after[i]
            before |= self.before[i]
        return not (after & before & ~union)

    def _rows_are_kept(self, union: int, members: Sequence[int]) -> bool:
        """No member turns rows that another looks up or puts together before, or reads in windows
        or cuts afterwards."""
        return not any(
            union
            & (
                self.before[i] & (self.lookups | self.seams)
                | self.after[i] & (self.cuts | self.windows)
            )
            & ~(1 << i)
            for i in members
            if self.turns >> i & 1
        )

    def _is_computed_once(self, union: int, members: Sequence[int]) -> bool:
        """No member reads again and again what others of some cost compute."""
        return not any(
            self.patterns[i] == "injective"
            and self._is_read_again(p, i)
            and self.before[p] & union & self.dear
            for i in members
            for p in self.graph.producers[i]
            if union >> p & 1
        )

    def _is_read_again(self, producer: int, reader: int) -> bool:
        sizes = [static_shape(self._shape(i)) for i in (producer, reader)]
        read, made = [math.prod(s) if s is not None else 0 for s in sizes]
        return read > 0 and made >= TIMES * read

    def _dims_are_given(self, members: Sequence[int]) -> bool:
        """A kernel reads its dims off its parameters: each symbol stands in what enters or
        leaves the group."""
        inside = frozenset[DimVar]().union(*[self.symbols[i] for i in members])
        if not inside:
            return True
        bindings = [self.graph.bindings[i] for i in members]
        return inside <= _symbols([*_entering(bindings), bindings[-1].var])

    def _one_heavy(self, union: int, members: Sequence[int]) -> bool:
        heavy = [i for i in members if self.patterns[i] not in LIGHT]
        if not heavy:
            return True
        if len(heavy) > 1:
            return False
        (anchor,) = heavy
        if self.patterns[anchor] == "reduction":
            return anchor == members[-1]
        if self.before[anchor] & union != 1 << anchor:
            return False
        shape = self._shape(anchor)
        return all(
            self.patterns[i] in ("elementwise", "broadcast")
            and (not self.after[anchor] >> i & 1 or shape_equal(self._shape(i), shape))
            for i in members
            if i != anchor
        )

    def _shape(self, index: int) -> tuple[Expr, ...]:
        kind = self.graph.bindings[index].var.type
        assert isinstance(kind, TensorType)
        return kind.shape

    def _inlined_cost(self, members: Sequence[int]) -> int:
        """The operations of the last member's expression with every light producer inlined into
        it. Those of a ``concat`` are the sizes that it adds up to find where each part begins."""
        inside = set(members)
        cost: dict[int, int] = {}
        for i in members:
            value = self.graph.bindings[i].value
            assert isinstance(value, CallDPS)
            total = self.own[i]
            for atom in value.args:
                producer = next(
                    (p for p in self.graph.producers[i] if self.graph.bindings[p].var is atom), None
                )
                if producer in inside and producer is not None and self.patterns[producer] in LIGHT:
                    total += cost[producer]
            cost[i] = total
        return max(cost.values())


def _pattern(binding: Binding, module: IRModule) -> str | None:
    """The pattern of a binding that may be a member of a group, else None."""
    call = binding.value
    if not isinstance(call, CallDPS) or not isinstance(call.out_type, TensorType):
        return None
    func = module[call.func]
    if not isinstance(func, PrimFunc) or func.attr("is_scheduled"):
        return None
    if not all(
        isinstance(a, (Var, Constant)) and isinstance(type_of(a), TensorType) for a in call.args
    ):
        return None
    pattern = func.attr("op_pattern")
    return None if pattern in (None, "opaque") else str(pattern)


def _own_cost(binding: Binding, module: IRModule) -> int:
    call = binding.value
    if not isinstance(call, CallDPS) or _operator(module, binding) != "concat":
        return 1
    named = sum(bool(_symbols([a])) for a in call.args)
    return max(1, named * (named - 1) // 2)


def _is_kernel_that(asked: Callable[[PrimFunc], bool], binding: Binding, module: IRModule) -> bool:
    call = binding.value
    func = module[call.func] if isinstance(call, CallDPS) else None
    return isinstance(func, PrimFunc) and asked(func)


def _mask(flags: Iterable[bool]) -> int:
    return sum(1 << i for i, flag in enumerate(flags) if flag)


def _bits(mask: int) -> Iterator[int]:
    while mask:
        low = mask & -mask
        yield low.bit_length() - 1
        mask ^= low
