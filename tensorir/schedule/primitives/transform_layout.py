"""transform_layout: renaming the elements of a buffer by an index map, in every access to it.

Where the map needs padding, the block that writes the buffer is rewritten to run over the new
layout and to fill what lies outside with ``pad_value``; this needs a complete block that writes
each element at its own axes, as copies do. A parameter's layout is the caller's: it may change
where the function's attribute ``layout_free`` lists it, and the map is then recorded in
``layout_maps``; and where the function is a program that somebody schedules for himself, who calls
it with arrays of the new layout.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, TypeAlias

from ....support.errors import LayoutError, ScheduleValueError, TraceError
from ....support.node import replace, walk
from ...analysis.affine import Bounds
from ...analysis.block_kinds import is_complete, single_store
from ...analysis.buffers import buffer_at
from ...analysis.loop_checks import own_nest
from ...analysis.nested_blocks import writers_of
from ...analysis.paths import (
    Path,
    find_block,
    realize_of,
    rebuild,
    scope_of,
    scope_path,
    with_body,
)
from ...analysis.preconditions import fail
from ...analysis.region_cover import axis_of_index
from ...analysis.whole_runs import is_unconditional, runs_over
from ...arith import Analyzer, IndexMap, point_region
from ...buffer import Buffer, BufferRegion, Range
from ...expr import (
    BOOL,
    BufferLoad,
    Call,
    Expr,
    FloatImm,
    FloorMod,
    IntImm,
    Var,
    add,
    all_of,
    cast,
    const,
    is_const,
)
from ...function import PrimFunc
from ...stmt import Block, BufferStore, For, IterVar, MatchBuffer, Stmt
from ...text.printer import print_expr
from ...visitor import Mutator, replace_buffers, substitute
from ..primitive import ATTR, BLOCK, OPTIONAL, STORAGE, primitive
from ..rewriting.index_maps import as_index_map
from ..rewriting.nests import nest_over_axes
from ..state import BlockLike, ScheduleState
from ..trace.values import index_map_text

PadValue: TypeAlias = "float | int | IndexMap | None"
"""What padding holds: a number, or an index map from the new indices to one value."""


class TransformLayout(ScheduleState):
    @primitive(
        STORAGE,
        block=BLOCK,
        buffer=ATTR,
        index_map=ATTR,
        pad_value=ATTR,
        assume_injective_transform=OPTIONAL,
        signature=OPTIONAL,
    )
    def transform_layout(
        self,
        block: BlockLike,
        buffer: tuple[str, int] | str,
        index_map: IndexMap | Callable[..., Any],
        pad_value: PadValue | Callable[..., Any] = None,
        assume_injective_transform: bool = False,
        signature: str | None = None,
    ) -> None:
        """Rewrite a buffer's shape and every access to it by an index map.

        ``buffer`` is ``("read", i)``, ``("write", i)`` or the buffer's name; ``index_map`` takes
        the buffer's indices to the new ones. Where the map leaves elements of the new shape unused
        they hold ``pad_value``, a number or a function of the new indices such as
        ``lambda *i: i[0] + 1``, and the block that writes the buffer runs over the new shape.

        That of a parameter changes the signature of a program of one's own: callers pass arrays of
        the new layout, and elements that the map leaves unused are not read. The trace says so in
        ``signature``, which is never given. Where a graph function calls the program, or a tuner
        schedules it, its parameters stay; except that one whose position is in the attribute
        ``layout_free`` is laid out anew by the compiler, which records the map in ``layout_maps``.

        ``assume_injective_transform`` takes the caller's word that no two elements share a place,
        where that is not found; without padding.

        Requires:

        - a buffer that the block reads or writes, by position or name, and a pad value that is a
          number or integer arithmetic over the new indices (ScheduleValueError, LayoutError);
        - a map of as many indices as the buffer has, a bijection of its shape unless there is a pad
          value or the word that it is one; a buffer without strides that no match_buffer matches; a
          parameter of a program of one's own, with sizes that callers can still tell, or one that
          is free and an input (LayoutError);
        - for padding one writer, a complete block that stores at its own axes, and writes the whole
          buffer, or could where it is no parameter, all that it would read being there
          (LayoutError).

        Before::

            @T.prim_func
            def main(A: T.Buffer((8, 6), "float32"), C: T.Buffer((8, 6), "float32")):
                B = T.alloc_buffer((8, 6))
                for i, j in T.grid(8, 6):
                    with T.block("B"):
                        vi, vj = T.axis.remap("SS", [i, j])
                        B[vi, vj] = A[vi, vj] + T.float32(1)
                for i, j in T.grid(8, 6):
                    with T.block("C"):
                        vi, vj = T.axis.remap("SS", [i, j])
                        C[vi, vj] = B[vi, vj] * T.float32(2)

        Schedule::

            sch.transform_layout("B", ("write", 0), lambda i, j: (j // 2, i, j % 2))

        After::

            @T.prim_func
            def main(A: T.Buffer((8, 6), "float32"), C: T.Buffer((8, 6), "float32")):
                B = T.alloc_buffer((3, 8, 2))
                for i, j in T.grid(8, 6):
                    with T.block("B"):
                        vi, vj = T.axis.remap("SS", [i, j])
                        B[vj // 2, vi, vj % 2] = A[vi, vj] + T.float32(1)
                for i, j in T.grid(8, 6):
                    with T.block("C"):
                        vi, vj = T.axis.remap("SS", [i, j])
                        C[vi, vj] = B[vj // 2, vi, vj % 2] * T.float32(2)
        """
        owner, name = self._block(block)
        func = self._functions[owner]
        accessor = realize_of(find_block(func, name, "transform_layout")).block
        m = as_index_map(index_map, find_buffer(func, accessor, buffer).ndim)
        pad = as_pad_value(pad_value, len(m.outputs))
        self._note(index_map=m, pad_value=pad)
        own = self._index_map(pad) if isinstance(pad, IndexMap) else pad
        is_parameter = find_buffer(func, accessor, buffer) in func.params
        kept = self._keeps_signature(owner) if is_parameter else ""
        changed = transform_layout(
            func,
            name,
            buffer,
            self._index_map(m),
            own,
            assume_injective=assume_injective_transform,
            keeps_signature=kept,
        )
        said = [
            f"{a.name}: ({_text(a)}) -> ({_text(b)})"
            for a, b in zip(func.buffers, changed.buffers, strict=True)
            if a is not b
        ]
        assumed = assume_injective_transform or None
        self._note(signature=", ".join(said) or None, assume_injective_transform=assumed)
        self._commit(owner, changed)


def as_pad_value(value: Any, ndim: int) -> PadValue:
    """A pad value as a number, or as a map of ``ndim`` indices to one value; raises
    ScheduleValueError."""
    if callable(value) and not isinstance(value, IndexMap):
        value = IndexMap.from_function(value, ndim)
    if isinstance(value, IndexMap) and len(value.outputs) == 1:
        if len(value.inputs) != ndim:
            found = f"the new layout has {ndim} indices, the pad value takes {len(value.inputs)}"
            raise LayoutError("transform_layout", found)
        if not isinstance(value.outputs[0], (IntImm, FloatImm)):
            _require_recordable(value)
            return value
        value = value.outputs[0]
    if isinstance(value, (IntImm, FloatImm)):
        value = value.value
    if value is None or (isinstance(value, (float, int)) and not isinstance(value, bool)):
        return value
    if hasattr(value, "__float__") and not isinstance(value, (Expr, IndexMap)):
        return float(value)
    raise ScheduleValueError(
        "transform_layout",
        "Expected a number as pad_value, or a function from the new indices to one value, such as "
        f"lambda *i: i[0] + 1; found something of type {type(value).__name__}.",
    )


def _require_recordable(m: IndexMap) -> None:
    """Traces hold integer arithmetic over indices, samples and sizes."""
    try:
        index_map_text(m)
    except TraceError as error:
        raise ScheduleValueError(
            "transform_layout",
            "Expected integer arithmetic over the new indices as pad_value (+, -, *, //, %, min, "
            f"max); found {print_expr(m.outputs[0])}.",
        ) from error


def find_buffer(
    func: PrimFunc, block: Block, buffer: tuple[str, int] | list[object] | str
) -> Buffer:
    """``("read", i)``, ``("write", i)`` or a name; raises ScheduleValueError."""
    if isinstance(buffer, str):
        return buffer_at(func, block, "read", buffer, "transform_layout")
    pair = isinstance(buffer, (tuple, list)) and len(buffer) == 2
    side, index = buffer if pair else (None, None)
    if side not in ("read", "write") or not isinstance(index, int):
        raise LayoutError(
            "transform_layout",
            f"Expected ('read', i), ('write', i) or a buffer's name; found {buffer!r}.",
        )
    return buffer_at(func, block, str(side), index, "transform_layout")


def transform_layout(
    func: PrimFunc,
    block_name: str,
    buffer: tuple[str, int] | str,
    index_map: IndexMap | Callable[..., object],
    pad_value: PadValue = None,
    *,
    assume_injective: bool = False,
    keeps_signature: str = "whose layout belongs to the caller",
) -> PrimFunc:
    """Rewrite the shape and every access of a buffer by an index map; ``keeps_signature`` says why
    parameters that are not free stay as they are, where they do."""
    block = realize_of(find_block(func, block_name, "transform_layout")).block
    old = find_buffer(func, block, buffer)
    m = as_index_map(index_map, old.ndim)
    if old.strides:
        raise _refuse(
            func, block, f"{old.name!r} has strides; only compact buffers change their layout."
        )
    try:
        shape, inverse, inside = _new_layout(m, old, pad_value, assume_injective=assume_injective)
    except LayoutError as error:
        raise _refuse(func, block, f"{old.name!r}: {error.found}") from error
    padded = not is_const(inside, 1)
    if padded and pad_value is None:
        raise _refuse(
            func,
            block,
            f"The map is no bijection of the shape of {old.name!r}: it leaves elements "
            "unused. Give pad_value.",
        )
    new = replace(old, shape=tuple(shape))
    changed = func
    index = next((i for i, p in enumerate(func.params) if p is old), None)
    if index is not None and index in list(func.attr("layout_free") or ()):
        changed = _transform_free(changed, block, index, new, m, pad_value if padded else None)
    elif index is not None:
        if keeps_signature:
            found = f"{old.name!r} is parameter {index}, {keeps_signature}."
            raise _refuse(func, block, found)
        if padded and old in func.written:
            changed = _pad_writer(changed, block, old, new, inverse, inside, pad_value)
        changed = _with_parameter(changed, block, old, new)
    elif padded:
        changed = _pad_writer(changed, block, old, new, inverse, inside, pad_value)
    return replace(changed, body=_Relayout(old, new, m).visit(changed.body))


def pad_buffer(
    func: PrimFunc, block: Block, buffer: Buffer, shape: Sequence[Expr], pad_value: float = 0
) -> PrimFunc:
    """Let an intermediate that ``block`` reads or writes have a larger shape, whose new elements
    the only block that writes it fills; raises LayoutError where it cannot."""
    new = replace(buffer, shape=tuple(shape))
    places = tuple([Var(f"v{d}") for d in range(buffer.ndim)])
    own = IndexMap(places, places)
    inside = [
        v < size
        for v, size, grown in zip(places, buffer.shape, shape, strict=True)
        if grown is not size
    ]
    changed = _pad_writer(func, block, buffer, new, own, all_of(inside), pad_value)
    # Indices stay as they are: an axis of extent 1 may be about to grow, and is not 0 then.
    return replace(changed, body=replace_buffers(changed.body, {buffer: new}))


def whole_digits(m: IndexMap, shape: tuple[Expr, ...]) -> tuple[Expr, ...]:
    """``shape`` with each axis that the map takes ``% c`` of grown to at least c, so that a layout
    with padding has whole digits: 10 columns in panels of 16 give one panel of 16."""
    grown = list(shape)
    for o in m.outputs:
        if isinstance(o, FloorMod) and isinstance(o.b, IntImm) and o.a in m.inputs:
            axis = m.inputs.index(o.a)
            size = grown[axis]
            if isinstance(size, IntImm) and size.value < o.b.value:
                grown[axis] = o.b
    return shape if all(a is b for a, b in zip(grown, shape, strict=True)) else tuple(grown)


def _refuse(func: PrimFunc, block: Block, found: str) -> LayoutError:
    error = fail(LayoutError, "transform_layout", func, [block], found)
    assert isinstance(error, LayoutError)
    return error


def _new_layout(
    m: IndexMap, old: Buffer, pad_value: PadValue, *, assume_injective: bool
) -> tuple[tuple[Expr, ...], IndexMap, Expr]:
    """The new shape, the map back, and where in the new shape elements are; raises LayoutError."""
    full = old.shape if pad_value is None else whole_digits(m, old.shape)
    shape = m.map_shape(full)
    try:
        inverse, inside = m.padded_inverse(full)
    except LayoutError:
        if not assume_injective or pad_value is not None:
            raise
        return shape, m, IntImm(1, BOOL)
    if full is not old.shape:
        limits = [
            o < size
            for o, size, own in zip(inverse.outputs, old.shape, full, strict=True)
            if own is not size
        ]
        inside = all_of([inside, *limits])
    return shape, inverse, inside


def _text(b: Buffer) -> str:
    return ", ".join(map(print_expr, b.shape))


def _with_parameter(func: PrimFunc, block: Block, old: Buffer, new: Buffer) -> PrimFunc:
    """The function with another parameter in the place of ``old``, whose callers can tell all
    sizes."""
    params = tuple([new if p is old else p for p in func.params])
    plain = {d for p in params if isinstance(p, Buffer) for d in p.shape if isinstance(d, Var)}
    lost = [v.name for v in func.shape_vars if v not in plain]
    if lost:
        found = (
            f"The size {lost[0]!r} would stand alone in the shape of no parameter, and no call "
            f"could tell it: {old.name!r} would be ({_text(new)})."
        )
        raise _refuse(func, block, found)
    return replace(func, params=params)


def _transform_free(
    func: PrimFunc, block: Block, index: int, new: Buffer, m: IndexMap, pad_value: PadValue
) -> PrimFunc:
    """A parameter that the compiler lays out anew."""
    old = func.params[index]
    assert isinstance(old, Buffer)
    if old in func.written:
        raise _refuse(func, block, f"{old.name!r} is an output of the function.")
    if isinstance(pad_value, IndexMap):
        found = f"{old.name!r} is packed by the caller, who pads it with a number alone."
        raise _refuse(func, block, found)

    params = tuple([new if p is old else p for p in func.params])
    maps = [*(func.attr("layout_maps") or ()), [index, index_map_text(m), pad_value]]
    return replace(func, params=params).with_attr("layout_maps", maps)


class _Relayout(Mutator):
    """Accesses of one buffer become accesses of another at mapped indices."""

    def __init__(self, old: Buffer, new: Buffer, m: IndexMap) -> None:
        self.old, self.new, self.m = old, new, m
        self.analyzer = Analyzer()

    def visit_Buffer(self, n: Buffer) -> Buffer:  # noqa: N802
        return self.new if n is self.old else n

    def visit_Block(self, n: Block) -> Block:  # noqa: N802
        outer = self.analyzer
        self.analyzer = Analyzer()
        for it in n.iter_vars:
            self.analyzer.bind(it.var, it.dom)
        result: Block = self.generic_visit(n)
        self.analyzer = outer
        return result

    def visit_MatchBuffer(self, n: MatchBuffer) -> MatchBuffer:  # noqa: N802
        if n.source.buffer is self.old:
            raise LayoutError(
                "transform_layout", f"{self.old.name!r} is matched by {n.buffer.name!r}."
            )
        if n.buffer is self.old:
            raise LayoutError(
                "transform_layout",
                f"{self.old.name!r} is a view of {n.source.buffer.name!r} by match_buffer; change "
                "the layout of that buffer.",
            )
        result: MatchBuffer = self.generic_visit(n)
        return result

    def visit_BufferLoad(self, n: BufferLoad) -> Expr:  # noqa: N802
        load: BufferLoad = self.generic_visit(n) if n.buffer is not self.old else n
        if n.buffer is not self.old:
            return load
        indices = tuple([self.visit(i) for i in n.indices])
        return BufferLoad(self.new, self.m.map_indices(indices, self.analyzer), n.predicate)

    def visit_BufferStore(self, n: BufferStore) -> Stmt:  # noqa: N802
        if n.buffer is not self.old:
            result: Stmt = self.generic_visit(n)
            return result
        indices = tuple([self.visit(i) for i in n.indices])
        return BufferStore(
            self.new,
            self.visit(n.value),
            self.m.map_indices(indices, self.analyzer),
            n.predicate,
        )

    def visit_BufferRegion(self, n: BufferRegion) -> BufferRegion:  # noqa: N802
        if n.buffer is not self.old:  # its bounds may load from the old buffer
            same: BufferRegion = self.generic_visit(n)
            return same
        if all(is_const(r.extent, 1) for r in n.region):
            points = [self.visit(r.min) for r in n.region]
            mapped = self.m.map_indices(points, self.analyzer)
            return point_region(self.new, mapped)
        return BufferRegion(self.new, tuple([Range(IntImm(0), dim) for dim in self.new.shape]))


def _pad_writer(
    func: PrimFunc,
    block: Block,
    buffer: Buffer,
    new: Buffer,
    inverse: IndexMap,
    inside: Expr,
    pad_value: PadValue,
) -> PrimFunc:
    """Let the only writer of the buffer run over the new layout and write ``pad_value`` outside."""
    path = _writer_path(func, block, buffer)
    realize = realize_of(path)
    writer = realize.block
    store = single_store(writer)
    axes = _axes_written(writer, store, buffer) if store is not None else []
    every = {it.var for it in writer.iter_vars}
    if (
        store is None
        or not is_complete(writer)
        or None in axes
        or set(axes) != every
        or len(axes) != len(every)
    ):
        raise _refuse(
            func,
            writer,
            f"{writer.name!r} does not write each element of {buffer.name!r} at its own axes, so "
            "it cannot write the padding. Copy with cache_read or cache_write first.",
        )
    _require_whole_runs(func, path, buffer, axes, store)
    top = own_nest(path)
    if any(isinstance(x, For) for x in top[len(scope_path(path)) : -1]):
        found = (
            f"{writer.name!r} shares loops with other blocks; to write the padding it must run "
            f"over all of {buffer.name!r} once. Copy with cache_read first and change the layout "
            "of the copy."
        )
        raise _refuse(func, writer, found)
    names = {v: Var(f"v{d}") for d, v in enumerate(inverse.inputs)}
    sizes = [Range(IntImm(0), dim) for dim in new.shape]
    change = {
        a: substitute(o, names) for a, o in zip(axes, inverse.outputs, strict=True) if a is not None
    }
    value = substitute(store.value, change)
    dtype = buffer.dtype
    point = tuple([names[v] for v in inverse.inputs])
    if isinstance(pad_value, IndexMap):
        beyond = cast(pad_value.map_indices(point)[0], dtype)
    else:
        assert pad_value is not None
        beyond = const(pad_value, dtype)
    guarded = Call("if_then_else", (substitute(inside, names), value, beyond), dtype)
    new_block = Block(
        writer.name,
        tuple(
            [IterVar(names[v], r, "spatial") for v, r in zip(inverse.inputs, sizes, strict=True)]
        ),
        tuple([substitute(r, change) for r in writer.reads]),
        (point_region(new, point),),
        BufferStore(new, guarded, point),
        annotations=writer.annotations,
    )
    return with_body(func, rebuild(top, nest_over_axes(new_block)))


def _axes_written(writer: Block, store: BufferStore, buffer: Buffer) -> list[Var | None]:
    """The block's axis at each axis of the buffer. Where the buffer has size 1 and the index is 0,
    that is any of the block's that runs once and stands at no other."""
    axes = [axis_of_index(writer, i) for i in store.indices]
    once = [it.var for it in writer.iter_vars if is_const(it.dom.extent, 1) and it.var not in axes]
    for place, (axis, size) in enumerate(zip(axes, buffer.shape, strict=True)):
        if axis is None and once and is_const(size, 1) and is_const(store.indices[place], 0):
            axes[place] = once.pop(0)
    return axes


def _require_whole_runs(
    func: PrimFunc, path: Path, buffer: Buffer, axes: Sequence[Var | None], store: BufferStore
) -> None:
    """The writer runs for every element of the buffer, or could: what it reads for the others is
    there, and nobody sees them."""
    realize = realize_of(path)
    writer = realize.block
    if is_unconditional(path) and runs_over(path, axes, buffer):
        return
    if any(p is buffer for p in func.params):
        found = (
            f"{writer.name!r} writes only a part of {buffer.name!r}, which the caller sees; with "
            "the padding it would write all of it. Let it run for every element."
        )
        raise _refuse(func, writer, found)
    sizes = zip(axes, buffer.shape, strict=True)
    bounds = Bounds({a: Range(IntImm(0), dim) for a, dim in sizes if a is not None})
    for load in walk(store.value):
        if isinstance(load, BufferLoad) and not all(
            bounds.proves_le(IntImm(0), index) and bounds.proves_le(add(index, 1), size)
            for index, size in zip(load.indices, load.buffer.shape, strict=True)
        ):
            found = (
                f"{writer.name!r} writes only a part of {buffer.name!r}; writing all of it, with "
                f"the padding, would read {load.buffer.name!r} out of bounds. Let it run for "
                "every element, or copy with cache_read first and change the layout of the copy."
            )
            raise _refuse(func, writer, found)


def _writer_path(func: PrimFunc, block: Block, buffer: Buffer) -> Path:
    scope = scope_of(find_block(func, block.name, "transform_layout"))
    if buffer not in scope.alloc_buffers and buffer not in func.params:
        found = (
            f"{buffer.name!r} is allocated around the block that {block.name!r} stands in: other "
            "iterations write other parts of it. Copy with cache_write first."
        )
        raise _refuse(func, block, found)
    writers = writers_of(scope, buffer)
    if len(writers) != 1:
        raise _refuse(
            func, block, f"{buffer.name!r} has {len(writers)} writers; padding needs exactly one."
        )
    return find_block(func, writers[0].block.name, "transform_layout")
