"""tensorize: a tile's loops are replaced by a tensor intrinsic that computes the same.

    for i, j, k_0: with block C_o: init ...; for j_1 (16), k_1 (1): block C
 -> for i, j, k_0: with block C_o: init ...; match_buffer A, B, C to the tile; the implementation

The block (made by ``blockize`` where a loop is given) is compared with the description
(``match_tensor``). Its axes, regions and init stay: only the body becomes the implementation, over
buffers that are views of the tile's operands.
"""

from __future__ import annotations

from collections.abc import Mapping

from ....support.errors import DependenceError, LayoutError, TensorizeError
from ....support.node import replace, walk
from ...analysis.affine import Bounds, loop_bounds
from ...analysis.block_kinds import domain_bounds
from ...analysis.paths import Path, find_block, fresh_name, realize_of, rebuild, with_body
from ...analysis.preconditions import fail
from ...arith import Analyzer, region_covers, region_intersects
from ...buffer import Buffer, BufferRegion, Range
from ...expr import Expr, IntImm, Var
from ...function import PrimFunc
from ...stmt import Allocate, Block, BlockRealize, For, LetStmt, MatchBuffer, Stmt
from ...text.printer import print_func
from ...visitor import (
    Mutator,
    accessed_buffers,
    free_vars,
    own_pointers,
    replace_buffers,
    substitute,
)
from ..match_tensor import Operand, TensorMatch
from ..primitive import ATTR, BLOCK_OR_LOOP, BLOCKS, primitive
from ..state import BlockLike, ScheduleState
from ..tensor_intrin import TensorIntrin, required_intrin
from ..trace.handles import LoopRV
from .blockize import blockize


class Tensorize(ScheduleState):
    @primitive(BLOCKS, block_or_loop=BLOCK_OR_LOOP, tensor_intrin=ATTR, preserve_unit_iters=ATTR)
    def tensorize(
        self,
        block_or_loop: BlockLike | LoopRV,
        tensor_intrin: str,
        preserve_unit_iters: bool = True,
    ) -> None:
        """Replace a tile of a computation by a tensor intrinsic that computes the same.

        A loop is blockized first (see blockize); a block must be one that blockize made. The body
        is compared with the description registered under ``tensor_intrin``, up to names, loops of
        one iteration, the order of axes, and the order of operands of ``+ * min max``; the
        operands are found by their accesses and become views (match_buffer) that the
        implementation works on. TensorIntrin.register registers intrinsics; ``fma_f32_16x`` (a row
        of 16 floats += a scalar * another row), ``fill_f32_16x`` and ``dot_u8i8i32_16x4`` (16 sums
        of four products of uint8 and int8 each), also with 4 and 8 lanes, are there from the
        start.

        Requires:

        - a registered name (ScheduleValueError), and for a loop all that blockize requires;
        - a body that is what the intrinsic describes, without predicate (TensorizeError, with the
          first difference);
        - operands that lie in what the block declares to read and write, with the strides that the
          implementation asks for (LayoutError);
        - a written operand that shares no element with another one (DependenceError).

        Before::

            @T.prim_func
            def main(
                A: T.Buffer((4, 8), "float32"),
                B: T.Buffer((8, 32), "float32"),
                C: T.Buffer((4, 32), "float32"),
            ):
                for i, j_0, k, j_1 in T.grid(4, 2, 8, 16):
                    with T.block("C"):
                        vi = T.axis.spatial(4, i)
                        vj = T.axis.spatial(32, j_0 * 16 + j_1)
                        vk = T.axis.reduce(8, k)
                        C[vi, vj] = C[vi, vj] + A[vi, vk] * B[vk, vj]

        Schedule::

            i, j_0, k, j_1 = sch.get_loops("C")
            sch.tensorize(j_1, "fma_f32_16x")

        After::

            @T.prim_func
            def main(
                A: T.Buffer((4, 8), "float32"),
                B: T.Buffer((8, 32), "float32"),
                C: T.Buffer((4, 32), "float32"),
            ):
                for i, j_0, k in T.grid(4, 2, 8):
                    with T.block("C_o"):
                        vi_o, vj_o, vk_o = T.axis.remap("SSR", [i, j_0, k])
                        T.reads(
                            C[vi_o, vj_o * 16:vj_o * 16 + 16],
                            A[vi_o, vk_o],
                            B[vk_o, vj_o * 16:vj_o * 16 + 16],
                        )
                        T.writes(C[vi_o, vj_o * 16:vj_o * 16 + 16])
                        A_1 = T.match_buffer(A[vi_o, vk_o], (1,))
                        B_1 = T.match_buffer(B[vk_o, vj_o * 16:vj_o * 16 + 16], (16,))
                        C_1 = T.match_buffer(C[vi_o, vj_o * 16:vj_o * 16 + 16], (16,))
                        for j in T.vectorized(16):
                            with T.block("fma"):
                                vj = T.axis.spatial(16, j)
                                C_1[vj] = T.fma(A_1[0], B_1[vj], C_1[vj])
        """
        intrin = required_intrin(tensor_intrin)
        owner, place = self._target(block_or_loop)
        func = tensorize(
            self._functions[owner], place, intrin, preserve_unit_iters=preserve_unit_iters
        )
        self._commit(owner, func)


def tensorize(
    func: PrimFunc, target: Var | str, intrin: TensorIntrin, *, preserve_unit_iters: bool = True
) -> PrimFunc:
    """Replace the body of a block, or the subtree of a loop, by the implementation of ``intrin``.

    Raises TensorizeError with the first difference where the body is not what the intrinsic
    describes.
    """
    changed, name = func, target
    if isinstance(target, Var):
        made = blockize(
            func, target, preserve_unit_iters=preserve_unit_iters, primitive="tensorize"
        )
        changed, name = made.func, made.outer
    assert isinstance(name, str)
    path = find_block(changed, name, "tensorize")
    realize = realize_of(path)
    block = realize.block
    bounds = _bounds_at(path)
    match = TensorMatch(bounds)
    desc = intrin.desc.root
    if not match.run(block.body, desc.body):
        found = (
            f"The body of {name!r} is not what {intrin.name!r} describes. First difference: "
            f"{match.difference}. The description:\n{print_func(intrin.desc)}\nThe program:"
        )
        raise fail(TensorizeError, "tensorize", changed, [block], found)
    regions = [
        _region(changed, realize, b, match.operands.get(b), bounds) for b in intrin.desc.buffers
    ]
    _require_inside(changed, block, intrin, regions, bounds)
    body, buffers, allocated = _fresh(changed, intrin.impl)
    views = tuple(
        [
            MatchBuffer(replace(b, scope=r.buffer.scope), r)
            for b, r in zip(buffers, regions, strict=True)
        ]
    )
    body = replace_buffers(body, dict(zip(buffers, [v.buffer for v in views], strict=True)))
    new_block = replace(block, body=body, alloc_buffers=allocated, match_buffers=views)
    return with_body(changed, rebuild(path, replace(realize, block=new_block)))


def _bounds_at(path: Path) -> Bounds:
    """What is known inside a block: its axes, and what is around it."""
    bounds = Bounds()
    for s in path:
        if isinstance(s, For):
            bounds |= loop_bounds([s])
        elif isinstance(s, Block):
            bounds |= domain_bounds(s)
    return bounds | domain_bounds(realize_of(path).block)


def _region(
    func: PrimFunc, realize: BlockRealize, desc: Buffer, operand: Operand | None, bounds: Bounds
) -> BufferRegion:
    """The box of a buffer that an operand is."""
    block = realize.block
    if operand is None:
        found = f"The description does not use its parameter {desc.name!r}, so nothing fits it."
        raise fail(TensorizeError, "tensorize", func, [block], found)
    extents: list[Expr] = [IntImm(1)] * len(operand.starts)
    for d, size in zip(operand.dims, desc.shape, strict=True):
        extents[d] = size
    region = [Range(s, e) for s, e in zip(operand.starts, extents, strict=True)]
    return BufferRegion(operand.buffer, tuple(region))


def _require_inside(
    func: PrimFunc, block: Block, intrin: TensorIntrin, regions: list[BufferRegion], bounds: Bounds
) -> None:
    """The implementation may touch all of its operands: they must lie in what the block declares,
    and inside of their buffers."""
    loads, stores = accessed_buffers(intrin.impl.body)
    for desc, b, region in zip(intrin.desc.buffers, intrin.impl.buffers, regions, strict=True):
        declared = [*block.writes] if b in stores else [*block.reads, *block.writes]
        inside = all(
            bounds.proves_le(IntImm(0), r.min) and bounds.proves_le(r.min + r.extent, size)
            for r, size in zip(region.region, region.buffer.shape, strict=True)
        )
        if b not in loads and b not in stores:
            continue
        if not inside or not any(region_covers(d, region, bounds.prover) for d in declared):
            found = (
                f"The operand {desc.name!r} of {intrin.name!r} would reach beyond what the block "
                f"{block.name!r} declares to touch of {region.buffer.name!r}."
            )
            raise fail(LayoutError, "tensorize", func, [block], found)
        _require_strides(func, block, intrin, b, region)
    _require_apart(func, block, intrin, regions, stores, bounds)


def _require_apart(
    func: PrimFunc,
    block: Block,
    intrin: TensorIntrin,
    regions: list[BufferRegion],
    stores: list[Buffer],
    bounds: Bounds,
) -> None:
    """What is written may be no other operand: an implementation may write before it reads."""
    buffers = intrin.impl.buffers
    for i, (b, region) in enumerate(zip(buffers, regions, strict=True)):
        for j, other in enumerate(regions):
            if i != j and b in stores and region_intersects(region, other, bounds.prover):
                found = (
                    f"The operands {b.name!r} and {buffers[j].name!r} of {intrin.name!r} would "
                    f"both lie in {region.buffer.name!r}, and one of them is written."
                )
                raise fail(DependenceError, "tensorize", func, [block], found)


def _require_strides(
    func: PrimFunc, block: Block, intrin: TensorIntrin, b: Buffer, region: BufferRegion
) -> None:
    """Strides that an implementation fixes must be those of the operand: those that it states, and
    those of a compact layout where it calls a function of C that has been told no others."""
    called = any(n.buffer is b for n in own_pointers(intrin.impl.root.body))
    if not b.strides and not called:
        return
    own = region.buffer
    strides = list(own.strides)
    if not strides:
        step: Expr = IntImm(1)
        for size in reversed(own.shape):
            strides.insert(0, step)
            step = step * size
    dims = [d for d, r in enumerate(region.region) if not _is_one(r.extent)]
    kept = dims if len(dims) == b.ndim else list(range(own.ndim - b.ndim, own.ndim))
    analyzer = Analyzer()
    for d, wanted, size in zip(kept, b.all_strides, b.shape, strict=True):
        if _is_one(size):
            continue
        if isinstance(wanted, IntImm) and not analyzer.can_prove_equal(wanted, strides[d]):
            found = (
                f"{intrin.name!r} needs a stride of {wanted.value} in {b.name!r}; "
                f"{own.name!r} has another there. An implementation that takes any says "
                "strides=[...] of variables, and uses these."
            )
            raise fail(LayoutError, "tensorize", func, [block], found)


def _is_one(e: Expr) -> bool:
    return isinstance(e, IntImm) and e.value == 1


def _fresh(func: PrimFunc, impl: PrimFunc) -> tuple[Stmt, tuple[Buffer, ...], tuple[Buffer, ...]]:
    """The implementation's body with binders and block names of its own, the buffers that stand
    for its parameters, and those it allocates."""
    root = impl.root
    names = {n.block.name for n in walk(func.body) if isinstance(n, BlockRealize)}
    change: dict[Var, Expr] = {}
    made: dict[Buffer, Buffer] = {}
    for n in walk(root.body):
        match n:
            case For(var=var) | LetStmt(var=var):
                change[var] = Var(var.name, var.dtype)
            case Block():
                change.update({it.var: Var(it.var.name) for it in n.iter_vars})
                for b in n.alloc_buffers:
                    made[b] = _copy(b)
                for m in n.match_buffers:
                    made[m.buffer] = _copy(m.buffer)
            case Allocate(buffer=buffer):
                made[buffer] = _copy(buffer)
            case _:
                pass
    for b in root.alloc_buffers:
        made[b] = _copy(b)
    views: list[Buffer] = []
    for p in impl.buffers:
        layout = (*p.strides, p.elem_offset)
        change.update({v: Var(v.name) for v in free_vars(layout) if v not in change})
        views.append(_copy(p, change))
        made[p] = views[-1]
    body = _Rename(names).visit(replace_buffers(substitute(root.body, change), made))
    return body, tuple(views), tuple([made[b] for b in root.alloc_buffers])


def _copy(b: Buffer, change: Mapping[Var, Expr] | None = None) -> Buffer:
    """Another buffer like ``b``, with variables of its layout replaced."""
    strides = tuple([substitute(s, change or {}) for s in b.strides])
    offset = substitute(b.elem_offset, change or {})
    return Buffer(b.name, b.shape, b.dtype, b.scope, strides, offset, b.alignment)


class _Rename(Mutator):
    """Gives blocks names that are not taken yet."""

    def __init__(self, taken: set[str]) -> None:
        self.taken = taken

    def visit_Block(self, n: Block) -> Block:  # noqa: N802
        name = fresh_name(self.taken, n.name)
        self.taken.add(name)
        made: Block = self.generic_visit(n)
        return made if name == n.name else replace(made, name=name)
