"""FoldMoves: attention reads its operands where they were computed, and writes its result where it
is wanted.

Queries, keys and values come out of a linear layer, or of three, through reshapes, permutations and
slices; the result goes through a permutation into the next layer. Each of these would be a copy in
memory. Here they become index arithmetic: a block in front of the kernel that reads element
``[b, h, i, c]`` of an operand at its place in the layer's result, and one behind it that writes the
permuted result. Schedules inline both. Reshapes, which fusion cannot look through, are part of the
arithmetic; where it is not simple (an operand whose last dim is not contiguous), a copy stays."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from dataclasses import dataclass

from ...support.passes import Pass
from ...support.structural import structural_equal, structural_hash
from ...tensorir.arith import Analyzer
from ...tensorir.expr import BufferLoad, Expr, IntImm, Var, floordiv, floormod, sub
from ...tensorir.function import PrimFunc
from ...tensorir.stmt import Block, BlockRealize, BufferStore
from ...tensorir.te.compute import compute, create_prim_func, placeholder
from ...tensorir.visitor import substitute
from ..analysis import uses
from ..dim import static_shape
from ..expr import Atom, Binding, BindingBlock, Call, CallDPS, Function, GlobalVar, SeqExpr, Value
from ..expr import Var as GraphVar
from ..module import IRModule
from ..mutator import ExprMutator
from ..op import type_of
from ..type import TensorType
from .annotate_pattern import classify_block, leaf_blocks
from .fuse_ops import PRIMITIVE
from .fuse_prim_funcs import fuse_group
from .legalize import LEGALIZED

PRODUCTS = 2
"""Products of an attention: scores and values."""


@dataclass(frozen=True)
class FoldMoves(Pass):
    """Fold what only moves elements, in front of and behind an attention kernel, into the kernel.

    *requires*: legalize. *ensures*: no permutation or slice between an attention kernel and the
    kernels around it, where shapes are static and operands contiguous along their last dim.

        lv = R.reshape(x, R.shape([1, 128, 12, 32]))
        q = R.call_dps(cls.permute_dims, (lv,), ...)
        y = R.call_dps(cls.attention, (q, k, v), ...)
    becomes
        y = R.call_dps(cls.fused_move_attention, (x, k, v), ...)
    """

    def run(self, module: IRModule) -> IRModule:
        return _Folder(module).transform()


@dataclass(frozen=True)
class _Place:
    """Where the elements of a tensor lie: at ``axes`` it is ``base`` at ``indices``."""

    base: GraphVar
    axes: tuple[Var, ...]
    indices: tuple[Expr, ...]


class _Folder(ExprMutator):
    def __init__(self, module: IRModule) -> None:
        super().__init__(module)
        self.made: dict[str, list[tuple[PrimFunc, GlobalVar]]] = {}
        self.known: dict[Hashable, GlobalVar] = {}
        """Kernels by what they were made from: models repeat their layers."""
        self.added: dict[str, PrimFunc] = {}
        self.uses: dict[GraphVar, int] = {}
        self.results: dict[GraphVar, CallDPS] = {}
        """Results of attention kernels that one binding reads."""

    def visit_function(self, func: Function) -> Function:
        self.uses, self.results = uses(func), {}
        return super().visit_function(func)

    def visit_binding(self, binding: Binding) -> None:
        value = self.visit_value(binding.value)
        self.rebind(binding, value)
        new = self.replaced.get(binding.var, binding.var)
        if (
            isinstance(value, CallDPS)
            and isinstance(new, GraphVar)
            and self.uses.get(binding.var) == 1
            and is_attention(self.kernel(value))
        ):
            self.results[new] = value

    def visit_CallDPS(self, call: CallDPS) -> Value:  # noqa: N802
        new = super().visit_CallDPS(call)
        assert isinstance(new, CallDPS)
        func = self.kernel(new)
        if func is None:
            return new
        if is_attention(func):
            return self.with_places(new, func)
        (arg, *others) = new.args or (None,)
        before = self.results.get(arg) if isinstance(arg, GraphVar) else None
        if before is None or others or _permutation(func) is None:
            return new
        attention = self.kernel(before)
        assert attention is not None
        return self.fused(before.args, [], (before, attention), (new, func)).with_span(new.span)

    def kernel(self, call: CallDPS) -> PrimFunc | None:
        """The kernel that is called, if legalisation made it and nobody scheduled it."""
        func = self.added.get(call.func.name) or self.module[call.func]
        made = isinstance(func, PrimFunc) and func.attr(LEGALIZED) and not func.attr("is_scheduled")
        return func if made and isinstance(func, PrimFunc) else None

    def with_places(self, call: CallDPS, func: PrimFunc) -> CallDPS:
        """The call with the operands read at their places."""
        places = [self.place(arg) for arg in call.args]
        if all(place is None for place in places):
            return call
        bases = [
            arg if place is None else place.base
            for arg, place in zip(call.args, places, strict=True)
        ]
        return self.fused(bases, places, (call, func)).with_span(call.span)

    def place(self, arg: Atom) -> _Place | None:
        """Where an operand that moves have made comes from; None where that is no gain."""
        if not isinstance(arg, GraphVar):
            return None
        shape = _static(arg)
        if shape is None:
            return None
        axes = tuple([Var(f"i{d}") for d in range(len(shape))])
        analyzer = Analyzer()
        for axis, extent in zip(axes, shape, strict=True):
            analyzer.bind(axis, extent)
        place = _Place(arg, axes, axes)
        moved = False
        while (step := self.step(place)) is not None:
            moved = moved or isinstance(self.lookup_binding(place.base), CallDPS)
            indices = tuple([analyzer.simplify(i) for i in step.indices])
            place = _Place(step.base, axes, indices)
        return place if moved and _is_contiguous(place, analyzer) else None

    def step(self, place: _Place) -> _Place | None:
        """One move further back."""
        value = self.lookup_binding(place.base)
        shape = _static(place.base)
        if shape is None or not isinstance(value, Call | CallDPS) or not value.args:
            return None
        base = value.args[0]
        if not isinstance(base, GraphVar) or (source := _static(base)) is None:
            return None
        if isinstance(value, Call):
            if value.op != "reshape":
                return None
            return _Place(base, place.axes, _reshaped(place.indices, shape, source))
        func = self.kernel(value)
        move = None if func is None or len(value.args) != 1 else _move(func)
        if move is None:
            return None
        at = dict(zip(move.axes, place.indices, strict=True))
        return _Place(base, place.axes, tuple([substitute(i, at) for i in move.load.indices]))

    def fused(
        self,
        args: Sequence[Atom],
        places: Sequence[_Place | None],
        *kernels: tuple[CallDPS, PrimFunc],
    ) -> CallDPS:
        """A call of one kernel that reads operands at their places and then runs the kernels, each
        on the result of the one before."""
        module = IRModule({f"kernel_{n}": func for n, (_, func) in enumerate(kernels)})
        distinct = {id(arg): arg for arg in args}
        params = {
            key: GraphVar(f"arg_{n}", type_of(a)) for n, (key, a) in enumerate(distinct.items())
        }
        bindings: list[Binding] = []
        operands: list[Atom] = [params[id(arg)] for arg in args]
        first, _ = kernels[0]
        for n, place in enumerate(places):
            if place is None:
                continue
            moved = first.args[n]
            assert isinstance(moved, GraphVar)
            assert isinstance(moved.type, TensorType)
            name = f"move_{n}"
            module[name] = _move_func(place, moved.type)
            bound = GraphVar(f"moved_{n}", moved.type)
            bindings.append(Binding(bound, CallDPS(GlobalVar(name), (operands[n],), moved.type)))
            operands[n] = bound
        for n, (call, _) in enumerate(kernels):
            inner = CallDPS(GlobalVar(f"kernel_{n}"), tuple(operands), call.out_type)
            result = GraphVar(f"result_{n}", call.out_type)
            bindings.append(Binding(result, inner))
            operands = [result]
        body = SeqExpr((BindingBlock(tuple(bindings), True),), result)
        group = Function(tuple(params.values()), body, result.type, ((PRIMITIVE, True),), "fused")
        last, _ = kernels[-1]
        moves = [structural_hash(f) for n, f in module.prim_funcs.items() if n.startswith("move_")]
        key = (structural_hash(group), *moves, *[id(func) for _, func in kernels])
        var = self.known.get(key)
        if var is None:
            words = [str(func.attr(LEGALIZED)) for _, func in kernels]
            var = self.shared(fuse_group(group, module, "fused"), "_".join(words))
            self.known[key] = var
        return CallDPS(var, tuple(distinct.values()), last.out_type)

    def shared(self, func: PrimFunc, name: str) -> GlobalVar:
        """The function in the module equal to ``func``, added at first."""
        func = func.with_attr(LEGALIZED, name)
        same = self.made.setdefault(structural_hash(func), [])
        for known, var in same:
            if structural_equal(known, func):
                return var
        var = self.builder.add_func(func, name)
        self.added[var.name] = func
        same.append((func, var))
        return var


def is_attention(func: PrimFunc | None) -> bool:
    """Whether a kernel has two products, and something between them that is none."""
    if func is None or not isinstance(func.body, BlockRealize):
        return False
    blocks = leaf_blocks(func.body.block.body) or []
    kinds = [classify_block(b) for b in blocks]
    return kinds.count("out_fusable") == PRODUCTS and kinds.count("reduction") > 0


# -- moves -----------------------------------------------------------------------------------------
@dataclass(frozen=True)
class _Move:
    """A kernel whose element at ``axes`` is one element of its operand."""

    axes: tuple[Var, ...]
    load: BufferLoad


def _move(func: PrimFunc) -> _Move | None:
    if not isinstance(func.body, BlockRealize):
        return None
    blocks = leaf_blocks(func.body.block.body)
    if not blocks or len(blocks) != 1:
        return None
    (block,) = blocks
    store = block.body
    if not isinstance(store, BufferStore) or not isinstance(store.value, BufferLoad):
        return None
    axes = tuple([v.var for v in block.iter_vars])
    if len(store.indices) != len(axes) or not _same(store.indices, axes) or not _is_plain(block):
        return None
    return _Move(axes, store.value)


def _is_plain(block: Block) -> bool:
    return block.init is None and all(v.kind == "spatial" for v in block.iter_vars)


def _same(a: Sequence[Expr], b: Sequence[Expr]) -> bool:
    return all(x is y for x, y in zip(a, b, strict=True))


def _permutation(func: PrimFunc) -> _Move | None:
    """A move that reads every element once, at its own axes in another order."""
    move = _move(func)
    if move is None or len(move.load.indices) != len(move.axes):
        return None
    return move if {id(i) for i in move.load.indices} == {id(a) for a in move.axes} else None


def _move_func(place: _Place, kind: TensorType) -> PrimFunc:
    assert isinstance(place.base.type, TensorType)
    base = placeholder(place.base.type.shape, place.base.type.dtype, "x")

    def element(*at: Var) -> Expr:
        axes = dict(zip(place.axes, at, strict=True))
        return BufferLoad(base, tuple([substitute(i, axes) for i in place.indices]))

    moved = compute(kind.shape, element, "move")
    return create_prim_func([base, moved]).with_attr(LEGALIZED, "move")


def _static(var: GraphVar) -> tuple[int, ...] | None:
    return static_shape(var.type.shape) if isinstance(var.type, TensorType) else None


def _reshaped(
    indices: Sequence[Expr], shape: Sequence[int], source: Sequence[int]
) -> tuple[Expr, ...]:
    """The indices into ``source`` of the element at ``indices`` of its reshape to ``shape``."""
    place: Expr = IntImm(0)
    for index, extent in zip(indices, shape, strict=True):
        place = place * extent + index
    found: list[Expr] = []
    for n, extent in enumerate(reversed(source)):
        last = n == len(source) - 1
        found.append(place if last else floormod(place, IntImm(extent)))
        place = place if last else floordiv(place, IntImm(extent))
    return tuple(reversed(found))


def _is_contiguous(place: _Place, analyzer: Analyzer) -> bool:
    """Whether a step along the last axis is a step along the last dim of the base."""
    last = place.axes[-1]
    extent = analyzer.bounds(last).max
    if not place.indices or extent is None or extent == 0:
        return False
    for n, index in enumerate(place.indices):
        start = substitute(index, {last: IntImm(0)})
        wanted = start + last if n == len(place.indices) - 1 else start
        if not analyzer.can_prove(sub(index, wanted).equal(IntImm(0))):
            return False
    return True
