"""CollapseKeptAxes: where memory runs along several kept axes of a reduction, they are one.

A sum over the first axis of (33, 32, 32, 8) has columns of 8192 neighbours, and as it stands
vectors of 8 of them. A kernel in which every block goes through such axes together, in memory
order, is written over one axis instead; what it is called with are views, which are free. It is the
whole kernel that changes, after fusion, so that nothing it does is pulled apart.

Which axes these are is what is left when contradictions are struck out: of the pairs of
neighbouring axes of a block, those that some access does not go through together; of the pairs of
neighbouring dimensions of a buffer, those that some access does not index by such axes."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from math import prod

from ...support.node import replace, walk
from ...support.passes import Pass
from ...tensorir.buffer import Buffer, Range
from ...tensorir.expr import INDEX, AccessPtr, BufferLoad, Expr, IntImm, Var, is_const
from ...tensorir.function import PrimFunc
from ...tensorir.schedule.rewriting.inlining import with_inferred_regions
from ...tensorir.stmt import Block, BlockRealize, BufferStore, For, IterVar, SeqStmt, Stmt, seq
from ...tensorir.visitor import Mutator
from ..expr import Binding, CallDPS, Function, Value
from ..module import IRModule
from ..mutator import ExprMutator
from ..op import reshaped, tensor_type_of
from ..type import TensorType
from .legalize import LEGALIZED

Access = BufferLoad | BufferStore
Pair = tuple[int, int]
"""A block (its position) and one of its axes, or a buffer (its identity) and a dimension: this and
the next one."""


@dataclass(frozen=True)
class CollapseKeptAxes(Pass):
    """Make the kept axes that memory runs along one axis, in kernels that reduce.

    Kernels of products stay as they are, as do those that a user wrote.

    *requires*: fuse-prim-funcs. *ensures*: the values are the same.

        y = R.call_dps(cls.sum, (x,), out_type=R.Tensor((32, 8)))     # x: (33, 32, 8)
    becomes
        v = R.reshape(x, R.shape([33, 256]))
        a = R.call_dps(cls.sum, (v,), out_type=R.Tensor((256,)))
        y = R.reshape(a, R.shape([32, 8]))
    """

    def run(self, module: IRModule) -> IRModule:
        called = {
            binding.value.func.name: binding.value.out_type
            for func in module.graph_functions.values()
            for binding in walk(func)
            if isinstance(binding, Binding) and isinstance(binding.value, CallDPS)
        }
        made: dict[str, _Collapsed] = {}
        for name, func in module.prim_funcs.items():
            if isinstance(called.get(name), TensorType) and func.attr(LEGALIZED):
                collapsed = _Collapser(func).run()
                if collapsed is not None:
                    made[name] = collapsed
        if not made:
            return module
        result = _CallReplacer(module, made).transform()
        result.functions = {
            n: made[n].func if n in made else f for n, f in result.functions.items()
        }
        return result


class _CallReplacer(ExprMutator):
    def __init__(self, module: IRModule, made: Mapping[str, _Collapsed]) -> None:
        super().__init__(module)
        self.made = made

    def visit_function(self, func: Function) -> Function:
        calls = {b.value.func.name for b in walk(func) if _is_call(b)}  # type: ignore[attr-defined]
        return super().visit_function(func) if calls & set(self.made) else func

    def visit_CallDPS(self, call: CallDPS) -> Value:  # noqa: N802
        new = super().visit_CallDPS(call)
        assert isinstance(new, CallDPS)
        made = self.made.get(new.func.name)
        if made is None:
            return new
        *operands, result = made.groups
        args = []
        for arg, groups in zip(new.args, operands, strict=True):
            shape = tensor_type_of(arg).shape
            whole = len(groups) == len(shape)
            args.append(arg if whole else self.emit(reshaped(arg, _merged(shape, groups)), "view"))
        kind = new.out_type
        assert isinstance(kind, TensorType)
        if len(result) == kind.ndim:
            return replace(new, args=tuple(args))
        flat = replace(kind, shape=_merged(kind.shape, result))
        called = self.emit(CallDPS(new.func, tuple(args), flat).with_span(call.span), "flat")
        return reshaped(called, kind.shape)


def _is_call(n: object) -> bool:
    return isinstance(n, Binding) and isinstance(n.value, CallDPS)


# -- one kernel ------------------------------------------------------------------------------------
Groups = tuple[tuple[int, ...], ...]
"""The dimensions of a buffer, those that are one together."""


@dataclass(frozen=True)
class _Collapsed:
    """A kernel over fewer axes, and how the dimensions of its parameters are grouped."""

    func: PrimFunc
    groups: tuple[Groups, ...]


@dataclass(frozen=True)
class _Nest:
    """A block under a loop for each of its axes."""

    loops: tuple[For, ...]
    realize: BlockRealize
    accesses: tuple[Access, ...] = field(default=())

    @property
    def block(self) -> Block:
        return self.realize.block

    def axis(self, index: Expr) -> int | None:
        """The position of the axis that an index is."""
        return next((i for i, v in enumerate(self.block.iter_vars) if v.var is index), None)

    def extent(self, axis: int) -> int | None:
        return _constant(self.block.iter_vars[axis].dom.extent)


class _Collapser:
    """Finds the axes of one kernel that are one, and writes it over these."""

    def __init__(self, func: PrimFunc) -> None:
        self.func = func
        self.nests = list(_nests(func.root.body) or ())
        self.axes: set[Pair] = set()
        self.dims: set[Pair] = set()

    def run(self) -> _Collapsed | None:
        if not self._is_plain() or any(_is_product(n) for n in self.nests):
            return None
        self._find()
        if not any(self._is_kept_run(at, nest) for at, nest in enumerate(self.nests)):
            return None
        buffers = {b: self._merged_buffer(b) for b in self._buffers()}
        bodies = [self._rewritten(at, nest, buffers) for at, nest in enumerate(self.nests)]
        root = replace(
            self.func.root,
            body=seq(*bodies),
            alloc_buffers=tuple([buffers[b] for b in self.func.root.alloc_buffers]),
        )
        assert isinstance(self.func.body, BlockRealize)
        func = replace(
            self.func,
            params=tuple([buffers[b] for b in self.func.buffers]),
            body=replace(self.func.body, block=root),
        )
        return _Collapsed(func, tuple([self._groups(b) for b in self.func.buffers]))

    def _is_plain(self) -> bool:
        """Whether all is blocks under loops of their own, over buffers without layouts that
        someone may choose."""
        if not self.nests or self.func.attr("layout_free") or self.func.root.match_buffers:
            return False
        if tuple(self.func.params) != tuple(self.func.buffers):
            return False
        blocks = [n.block for n in self.nests]
        return not any(
            b.alloc_buffers or b.match_buffers or any(isinstance(n, AccessPtr) for n in walk(b))
            for b in blocks
        ) and not any(b.strides or b.scope != "global" for b in self._buffers())

    def _buffers(self) -> list[Buffer]:
        return [*self.func.buffers, *self.func.root.alloc_buffers]

    def _find(self) -> None:
        """Strike out pairs until none contradicts another."""
        for at, nest in enumerate(self.nests):
            axes, free = nest.block.iter_vars, _used_beside_accesses(nest.block)
            self.axes |= {
                (at, i)
                for i, (a, b) in enumerate(pairwise(axes))
                if a.kind == b.kind
                and not {a.var, b.var} & free
                and None not in (nest.extent(i), nest.extent(i + 1))
            }
        self.dims = {(id(b), d) for b in self._buffers() for d in range(b.ndim - 1)}
        before = -1
        while before != (before := len(self.axes) + len(self.dims)):
            for at, nest in enumerate(self.nests):
                for access in nest.accesses:
                    self._strike_out(at, nest, access)

    def _strike_out(self, at: int, nest: _Nest, access: Access) -> None:
        places = [nest.axis(i) for i in access.indices]
        together = set()
        for d, (i, j) in enumerate(pairwise(places)):
            key = (id(access.buffer), d)
            sizes = [_constant(s) for s in access.buffer.shape[d : d + 2]]
            fits = i is not None and j == i + 1 and sizes == [nest.extent(i), nest.extent(j)]
            if fits and i is not None and (at, i) in self.axes and key in self.dims:
                together.add(i)
            else:
                self.dims.discard(key)
        for i in [i for i in places if i is not None]:
            once = places.count(i) == 1
            if not once or i not in together:
                self.axes.discard((at, i))
            if not once or i - 1 not in together:
                self.axes.discard((at, i - 1))

    def _is_kept_run(self, at: int, nest: _Nest) -> bool:
        """Whether memory runs along axes of a reduction that are one, and kept."""
        axes = nest.block.iter_vars
        if all(v.kind == "spatial" for v in axes):
            return False
        ends = [nest.axis(i) for n in nest.accesses for i in n.indices[-1:] if _reads(nest, n)]
        return any(
            i is not None and (at, i - 1) in self.axes and axes[i].kind == "spatial" for i in ends
        )

    # -- what is written ---------------------------------------------------------------------------
    def _groups(self, buffer: Buffer) -> Groups:
        return _runs(buffer.ndim, {d for b, d in self.dims if b == id(buffer)})

    def _merged_buffer(self, buffer: Buffer) -> Buffer:
        return replace(buffer, shape=_merged(buffer.shape, self._groups(buffer)))

    def _rewritten(self, at: int, nest: _Nest, buffers: Mapping[Buffer, Buffer]) -> Stmt:
        axes, loops, values = [], [], []
        variables: dict[Var, Var] = {}
        for run in _runs(len(nest.loops), {i for n, i in self.axes if n == at}):
            first, loop = nest.block.iter_vars[run[0]], nest.loops[run[0]]
            extent = _merged([v.dom.extent for v in nest.block.iter_vars], (run,))[0]
            axis, value = (Var(v.var.name, v.var.dtype) for v in (first, loop))
            variables |= {nest.block.iter_vars[i].var: axis for i in run}
            axes.append(IterVar(axis, Range(IntImm(0, INDEX), extent), first.kind))
            loops.append(replace(loop, var=value, extent=extent))
            values.append(value)
        rewrite = _Rewrite(variables, {b: (c, self._groups(b)) for b, c in buffers.items()})
        block = replace(
            nest.block,
            iter_vars=tuple(axes),
            body=rewrite.visit(nest.block.body),
            init=None if nest.block.init is None else rewrite.visit(nest.block.init),
        )
        made: Stmt = replace(
            nest.realize, iter_values=tuple(values), block=with_inferred_regions(block)
        )
        for loop in reversed(loops):
            made = replace(loop, body=made)
        return made


class _Rewrite(Mutator):
    """Replaces axes and buffers; of dimensions that are one, the first index is kept."""

    def __init__(
        self, variables: Mapping[Var, Var], buffers: Mapping[Buffer, tuple[Buffer, Groups]]
    ) -> None:
        self.variables, self.buffers = variables, buffers

    def visit_Var(self, n: Var) -> Expr:  # noqa: N802
        return self.variables.get(n, n)

    def visit_BufferLoad(self, n: BufferLoad) -> Expr:  # noqa: N802
        buffer, indices = self._access(n)
        return replace(n, buffer=buffer, indices=indices)

    def visit_BufferStore(self, n: BufferStore) -> Stmt:  # noqa: N802
        buffer, indices = self._access(n)
        return replace(n, buffer=buffer, indices=indices, value=self.visit(n.value))

    def _access(self, n: Access) -> tuple[Buffer, tuple[Expr, ...]]:
        buffer, groups = self.buffers[n.buffer]
        return buffer, tuple([self.visit(n.indices[group[0]]) for group in groups])


class _Beside(Mutator):
    """Blots out the axes that are indices."""

    def visit_BufferLoad(self, n: BufferLoad) -> Expr:  # noqa: N802
        return replace(n, indices=self._indices(n))

    def visit_BufferStore(self, n: BufferStore) -> Stmt:  # noqa: N802
        return replace(n, indices=self._indices(n), value=self.visit(n.value))

    def _indices(self, n: Access) -> tuple[Expr, ...]:
        zero = IntImm(0, INDEX)
        return tuple([zero if isinstance(i, Var) else self.visit(i) for i in n.indices])


def _used_beside_accesses(block: Block) -> set[object]:
    """The variables that a block uses other than as an index."""
    parts = [p for p in (block.init, block.body) if p is not None]
    return {n for p in parts for n in walk(_Beside().visit(p), (Buffer,)) if isinstance(n, Var)}


def _nests(s: Stmt) -> list[_Nest] | None:
    """The blocks under a root, in order; None where something else stands there."""
    found = []
    for item in s.stmts if isinstance(s, SeqStmt) else (s,):
        loops: list[For] = []
        while isinstance(item, For):
            loops.append(item)
            item = item.body
        if not isinstance(item, BlockRealize) or not is_const(item.predicate, 1):
            return None
        if any(f.kind != "serial" or not is_const(f.min, 0) for f in loops):
            return None
        if [f.var for f in loops] != list(item.iter_values):
            return None
        found.append(_Nest(tuple(loops), item, tuple(_accesses(item.block))))
    return found


def _accesses(block: Block) -> Iterator[Access]:
    parts = [p for p in (block.init, block.body) if p is not None]
    return (n for p in parts for n in walk(p, (Buffer,)) if isinstance(n, BufferLoad | BufferStore))


def _reads(nest: _Nest, access: Access) -> bool:
    """Whether an access reads what is reduced."""
    reduced = {v.var for v in nest.block.iter_vars if v.kind == "reduce"}
    return isinstance(access, BufferLoad) and any(
        n in reduced for i in access.indices for n in walk(i)
    )


def _is_product(nest: _Nest) -> bool:
    """Whether several buffers are read along what is reduced."""
    return len({id(n.buffer) for n in nest.accesses if _reads(nest, n)}) > 1


def _runs(count: int, pairs: set[int]) -> Groups:
    """The numbers below ``count``, each of ``pairs`` with the next one."""
    runs: list[list[int]] = []
    for n in range(count):
        if n - 1 in pairs:
            runs[-1].append(n)
        else:
            runs.append([n])
    return tuple([tuple(run) for run in runs])


def _merged(shape: Sequence[Expr], groups: Groups) -> tuple[Expr, ...]:
    return tuple([_size_of([shape[d] for d in group]) for group in groups])


def _size_of(sizes: Sequence[Expr]) -> Expr:
    if len(sizes) == 1:
        return sizes[0]
    return IntImm(prod([n.value for n in sizes if isinstance(n, IntImm)]), INDEX)


def _constant(n: Expr) -> int | None:
    return n.value if isinstance(n, IntImm) else None
