"""Random schedules: a table from each primitive to a function that draws arguments for it.

The arguments are mostly sensible and sometimes not. What a primitive refuses with a ScheduleError
is counted and left out; anything else that it raises is a defect, and ``Crash`` holds the call. A
primitive joins by a row of ``PRIMITIVES``; a test finds those that have none.
"""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, TypeAlias

from burnish.support.errors import ScheduleError
from burnish.support.node import walk
from burnish.tensorir.expr import Call
from burnish.tensorir.function import PrimFunc
from burnish.tensorir.schedule.tensor_intrin import TensorIntrin
from burnish.tensorir.schedule.trace.handles import BlockHandle
from burnish.tensorir.schedule.trace.trace import Instruction, Trace
from burnish.tensorir.stmt import Block, SeqStmt
from burnish.tests.strategies.corpus import CORPUS, PROGRAMS
from burnish.tests.strategies.draw import Draw, NoCandidateError
from burnish.tests.strategies.own_schedule import OwnSchedule

__all__ = ["CORPUS", "PRIMITIVES", "PROGRAMS", "Crash", "Draw", "RandomSchedule", "random_schedule"]

Arguments: TypeAlias = "tuple[Any, ...] | dict[str, Any]"
"""Positional or named."""


class Crash(Exception):
    """A primitive raised something that is no ScheduleError, or changed what it refused."""

    def __init__(self, trace: Trace, kind: str, error: BaseException) -> None:
        super().__init__(f"{kind} raised {type(error).__name__}: {error}")
        self.trace, self.kind, self.error = trace, kind, error


# -- loops -----------------------------------------------------------------------------------------
def _split(d: Draw) -> Arguments:
    loop = d.loop()
    match d.rng.randrange(5):
        case 0 | 1:
            n = d.rng.choice([2, 2, 3])
            if d.chance(0.3):
                at = d.rng.randrange(n)
                return loop, d.sch.sample_partitioned_tile(loop, n, at, d.rng.choice([1, 2, 4]))
            return loop, d.sch.sample_perfect_tile(loop, n, d.rng.choice([4, 16]))
        case 2:
            factors = [d.factor() for _ in range(d.rng.choice([1, 1, 2]))]
            keep = d.chance(0.8)
            return {"loop": loop, "factors": [None, *factors], "preserve_unit_iters": keep}
        case 3:
            return loop, [d.factor(), None]
        case _:
            extent = d.extent(loop)
            if extent is None:
                return loop, [None, d.factor()]
            inner = d.rng.randrange(1, max(extent, 1) + 2)
            return loop, [-(-extent // inner), inner]


def _loop_partition(d: Draw) -> Arguments:
    loop = d.loop()
    factors: list[Any] = [d.factor()] if d.chance(0.2) else [d.factor(), None]
    if d.chance(0.2):
        factors.insert(0, d.rng.randrange(1, 3))
    if d.chance(0.2):
        d.rng.shuffle(factors)
    return loop, factors


def _fuse(d: Draw) -> Arguments:
    loops = d.loops()
    start = d.rng.randrange(len(loops))
    return tuple(loops[start : start + d.rng.randrange(2, 4)])


def _merge(d: Draw) -> Arguments:
    """Loops of the same extent over two blocks, mostly."""
    first = d.loop()
    extent = d.extent(first)
    for _ in range(6):
        second = d.loop()
        if second.var is not first.var and d.extent(second) == extent:
            break
    else:
        raise NoCandidateError
    return first, second


def _fission(d: Draw) -> Arguments:
    """A loop with several statements below it, mostly."""
    for _ in range(6):
        loop = d.loop()
        if isinstance(d.sch.get(loop).body, SeqStmt):
            break
    return (loop,)


def _reorder(d: Draw) -> Arguments:
    loops = d.loops()
    return tuple(d.rng.sample(loops, d.rng.randrange(min(2, len(loops)), len(loops) + 1)))


def _bind(d: Draw) -> Arguments:
    """A loop, or a part of the loop over a copy in shared memory that a block of threads shares."""
    if d.chance(0.6):
        return d.loop(), d.rng.choice(["threadIdx.x", "blockIdx.x", "threadIdx.y"])
    block, threads = d.block(), d.factor()
    loop = d.rng.choice(d.loops_of(block))
    outer, inner = d.sch.split(loop, [None, threads])
    if d.chance(0.5):
        d.sch.bind(outer, "blockIdx.x")
    d.sch.bind(inner, "threadIdx.x")
    copy = d.sch.cache_read(block, d.index(d.reads_of(block)), "shared")
    at = d.loops_of(block)
    below = at[[x.var for x in at].index(inner.var) :]
    d.sch.compute_at(copy, d.rng.choice(below))
    own = [x for x in d.sch.get_loops(copy) if x.var not in {y.var for y in at}]
    if not own:
        raise NoCandidateError
    return d.sch.split(d.sch.fuse(*own) if len(own) > 1 else own[0], [None, threads])[-1], (
        "threadIdx.x"
    )


def _vectorize(d: Draw) -> Arguments:
    return (d.loops()[-1] if d.chance(0.9) else d.loop(),)


def _annotate(d: Draw) -> Arguments:
    if d.chance(0.3):
        key = d.rng.choice(["prefetch_distance", "prefetch_next", "prefetch_region"])
        return d.loop(), key, d.rng.choice([1, 3])
    target = d.loop() if d.chance(0.7) else d.block()
    key = d.rng.choice(["pragma_auto_unroll_max_step", "note"])
    values: list[Any] = [4, 64, "text", [1, 2], d.factor(), {"steps": [d.factor(), {"on": 1}]}]
    value = d.block() if d.chance(0.2) else d.rng.choice(values)
    return (target, key, value) if key == "note" else (target, key, d.rng.choice([4, 64]))


def _unannotate(d: Draw) -> Arguments:
    """An annotation that is there, mostly."""
    target = d.loop() if d.chance(0.7) else d.block()
    found = d.sch.get(target).annotations
    keys = [key for key, _ in found]
    if not keys and d.chance(0.5):
        d.sch.annotate(target, "note", 1)
        keys = ["note"]
    if not keys and d.chance(0.9):
        raise NoCandidateError
    return target, d.rng.choice(keys or ["nothing"])


def _add_unit_loop(d: Draw) -> Arguments:
    return (d.loop() if d.chance(0.5) else d.block(),)


# -- places ----------------------------------------------------------------------------------------
def _is_read(d: Draw, block: Block) -> bool:
    written = {id(r.buffer) for r in block.writes}
    return any(id(x.buffer) in written for r in d.realizes() for x in r.block.reads)


def _is_updated(d: Draw, block: Block) -> bool:
    """Whether a block reads what several blocks write."""
    writers = Counter(id(r.buffer) for x in d.realizes() for r in x.block.writes)
    return any(writers[id(r.buffer)] > 1 for r in block.reads)


def _compute_at(d: Draw) -> Arguments:
    block = d.some_block(lambda b: _is_read(d, b))
    if d.chance(0.2):
        return block, d.sch.sample_compute_location(block)
    consumers = d.sch.get_consumers(block)
    at = d.loops_of(d.rng.choice(consumers)) if consumers and d.chance(0.9) else d.loops()
    keep = {"preserve_unit_loops": True} if d.chance(0.3) else {}
    place = {"index": d.rng.choice([-2, -1, 0, 1])} if d.chance(0.15) else {}
    return {"block": block, "loop": d.rng.choice(at), **keep, **place}


def _relaid_copy(d: Draw, block: BlockHandle) -> BlockHandle:
    """A copy of what a block writes, whose buffer or axes have another layout, padded or not."""
    copy = d.sch.cache_write(block, 0, d.rng.choice(["global", "local"]))
    count = len(d.sch.get(copy).iter_vars)
    if d.chance(0.5) or not count:
        rank = d.sch.get(copy).reads[0].buffer.ndim
        pad = d.rng.choice([None, 0.0])
        d.sch.transform_layout(copy, ("read", 0), d.index_map(rank), pad)
    else:
        d.sch.transform_block_layout(copy, d.index_map(count))
    return copy


def _reverse_compute_at(d: Draw) -> Arguments:
    """A consumer, or a copy in another layout, mostly under a loop of its producer."""
    block = _relaid_copy(d, d.block()) if d.chance(0.2) else d.block()
    producers = d.sch.get_producers(block)
    if not producers and d.chance(0.9):
        raise NoCandidateError
    at = d.loops_of(d.rng.choice(producers)) if producers and d.chance(0.9) else d.loops()
    return {"block": block, "loop": d.rng.choice(at), "preserve_unit_loops": d.chance(0.3)}


def _compute_inline(d: Draw) -> Arguments:
    unread = d.chance(0.2)
    return (d.some_block(lambda b: b.init is None and (unread or _is_read(d, b))),)


def _reverse_compute_inline(d: Draw) -> Arguments:
    """A consumer, or the copy of a sum's results, laid out anew now and then."""
    if d.chance(0.25):
        copy = d.sch.cache_write(d.reduction(), 0, "global")
        if d.chance(0.3):
            d.sch.transform_block_layout(copy, d.index_map(len(d.sch.get(copy).iter_vars)))
        return (copy,)
    block = d.some_block(lambda b: b.init is None)
    if not d.sch.get_producers(block) and d.chance(0.9):
        raise NoCandidateError
    return (block,)


# -- reductions ------------------------------------------------------------------------------------
def _decompose_reduction(d: Draw) -> Arguments:
    block = d.reduction()
    return block, d.rng.choice(d.loops_of(block))


def _rfactor(d: Draw) -> Arguments:
    """A loop that a reduce axis is bound to, mostly."""
    block = d.reduction()
    loops = d.loops_of(block)
    name = d.sch.block_name(block)
    (realize,) = [r for r in d.realizes() if r.block.name == name]
    bound = {
        n
        for axis, value in zip(realize.block.iter_vars, realize.iter_values, strict=True)
        for n in walk(value)
        if axis.kind == "reduce"
    }
    own = [loop for loop in loops if loop.var in bound] or loops
    return d.rng.choice(own), d.rng.choice([0, 0, 1, -1, 2])


def _fuse_reduction_epilogue(d: Draw) -> Arguments:
    """A reduction, and mostly a block that reads its result."""
    block = d.some_block(lambda b: b.init is not None and _is_read(d, b))
    consumers = d.sch.get_consumers(block)
    if not consumers and d.chance(0.9):
        raise NoCandidateError
    return block, d.rng.choice(consumers) if consumers else d.block()


# -- blocks ----------------------------------------------------------------------------------------
def _pad_einsum(d: Draw) -> Arguments:
    """A block, or a sum, mostly with copies of its operands and of its results."""
    block = d.reduction() if d.chance(0.5) else d.block()
    if d.chance(0.5):
        for index in range(len(d.sch.get(block).reads)):
            d.sch.cache_read(block, index, "global")
        d.sch.cache_write(block, 0, "global")
    count = len(d.sch.get(block).iter_vars)
    return block, [d.rng.choice([1, 1, 4, 5]) for _ in range(count)]


def _reorder_block_iter_var(d: Draw) -> Arguments:
    block = d.block()
    order = list(range(len(d.sch.get(block).iter_vars)))
    d.rng.shuffle(order)
    return block, order[:-1] if d.chance(0.03) else order


def _transform_block_layout(d: Draw) -> Arguments:
    block = d.block()
    count = len(d.sch.get(block).iter_vars)
    if count == 0:
        raise NoCandidateError
    return block, d.index_map(count)


def _blockize(d: Draw) -> Arguments:
    """A loop, or a block with a neighbour."""
    keep = d.chance(0.7)
    if d.chance(0.8):
        return d.loop(), keep
    names = [r.block.name for r in d.realizes()]
    start = d.rng.randrange(len(names))
    return [d.sch.get_block(n) for n in names[start : start + d.rng.choice([1, 2])]], keep


def _tensorize(d: Draw) -> Arguments:
    """A loop of as many iterations as the intrinsic has lanes, mostly split off just before."""
    name = d.rng.choice(TensorIntrin.names())
    lanes = int(name.rpartition("x")[0].rpartition("_")[2])
    block = d.some_block(lambda b: b.init is not None or b.name.endswith(("_init", "_update")))
    loops = d.loops_of(block)
    if d.sch.get(block).init is not None and d.chance(0.9):
        init = d.sch.decompose_reduction(block, loops[0])
        if name.startswith("fill"):
            block = init
        loops = d.loops_of(block)
    fitting = [loop for loop in loops if d.extent(loop) == lanes]
    if not fitting:
        wide = [loop for loop in loops if (d.extent(loop) or 0) % lanes == 0 and d.extent(loop)]
        if not wide:
            raise NoCandidateError
        fitting = d.sch.split(d.rng.choice(wide), [None, lanes])[1:]
    chosen = d.rng.choice(fitting)
    if d.chance(0.8):
        present = d.loops_of(block)
        d.sch.reorder(*[loop for loop in present if loop.var is not chosen.var], chosen)
    return chosen, name


def _decompose_padding(d: Draw) -> Arguments:
    """A block that stores a conditional, mostly."""
    block = d.some_block(
        lambda b: any(isinstance(n, Call) and n.op == "if_then_else" for n in walk(b.body))
    )
    return block, d.rng.choice(d.loops_of(block))


# -- buffers ---------------------------------------------------------------------------------------
def _cache_read(d: Draw) -> Arguments:
    """A block, and now and then one that stands between two writers of what it reads."""
    block = d.some_block(lambda b: _is_updated(d, b)) if d.chance(0.2) else d.block()
    given = {"consumer_blocks": [d.block()]} if d.chance(0.2) else {}
    index = d.index(d.reads_of(block))
    return {"block": block, "read_buffer_index": index, "storage_scope": d.scope(), **given}


def _cache_write(d: Draw) -> Arguments:
    block = d.block()
    given = {"consumer_blocks": [d.block()]} if d.chance(0.2) else {}
    index = d.index(d.writes_of(block))
    return {"block": block, "write_buffer_index": index, "storage_scope": d.scope(), **given}


def _cache_inplace(d: Draw) -> Arguments:
    block = d.block()
    loop = d.rng.choice([None, *d.loops_of(block)])
    return block, d.index(d.writes_of(block)), d.scope(), loop


def _reindex_cache_read(d: Draw) -> Arguments:
    block = d.block()
    count = len(d.sch.get(block).iter_vars)
    if count == 0:
        raise NoCandidateError
    return block, d.index(d.reads_of(block)), "global", d.index_map(count)


def _reindex_cache_write(d: Draw) -> Arguments:
    block = d.block()
    count = len(d.sch.get(block).iter_vars)
    if count == 0:
        raise NoCandidateError
    return block, d.index(d.writes_of(block)), d.scope(), d.index_map(count)


def _reindex(d: Draw) -> Arguments:
    block = d.block()
    return block, d.buffer(block)[0]


def _cache_index(d: Draw) -> Arguments:
    return d.block(), d.rng.choice(["global", "local"]), d.rng.choice([0, 0, 1, 2])


def _storage_align(d: Draw) -> Arguments:
    block = d.block()
    at = d.index(d.writes_of(block))
    return block, at, d.rng.choice([-1, 0, 0, 1]), d.rng.choice([4, 8]), d.rng.choice([0, 1, 2])


def _rolling_buffer(d: Draw) -> Arguments:
    """A producer under a loop of its consumer, mostly moved there just before."""
    block = d.some_block(lambda b: _is_read(d, b))
    consumers = d.sch.get_consumers(block)
    if consumers and d.chance(0.8):
        loops = d.loops_of(d.rng.choice(consumers))
        d.sch.compute_at(block, loops[min(d.rng.randrange(3), len(loops) - 1)])
    return block, d.index(d.writes_of(block))


def _lift_allocation(d: Draw) -> Arguments:
    block = d.some_block(lambda b: _is_read(d, b))
    return block, d.index(d.writes_of(block)), d.rng.choice([None, *d.loops_of(block)])


def _stage_memory(d: Draw) -> Arguments:
    block = d.some_block(lambda b: _is_read(d, b))
    consumers = d.sch.get_consumers(block)
    at = d.loops_of(d.rng.choice(consumers)) if consumers else d.loops()
    k = d.rng.randrange(len(at))
    return block, at[k], d.rng.choice([None, *at[: k + 1]])


def _pack(d: Draw) -> Arguments:
    block = d.block()
    reads = d.sch.get(block).reads
    index = d.index(len(reads))
    rank = reads[min(index, len(reads) - 1)].buffer.ndim
    at = d.rng.choice([None, *d.loops_of(block)])
    return block, index, at, d.index_map(rank), "global", d.rng.choice([None, 0.0])


def _transform_layout(d: Draw) -> Arguments:
    block = d.block()
    where, rank = d.buffer(block)
    if d.chance(0.25):
        return block, where, d.shuffled_map(block, where), None, True
    pad = d.rng.choice([None, None, 0.0, lambda *i: i[-1] % 3 - 1 if i else 2])
    return block, where, d.index_map(rank), pad, d.chance(0.1)


def _set_scope(d: Draw) -> Arguments:
    """A block that writes an intermediate, mostly."""
    block = d.some_block(
        lambda b: d.chance(0.1) or any(w.buffer not in d.sch.func.buffers for w in b.writes)
    )
    return block, d.index(d.writes_of(block)), d.scope()


def _set_dtype(d: Draw) -> Arguments:
    """A block that writes an intermediate, mostly."""
    block, index, _ = _set_scope(d)
    return block, index, d.rng.choice(["float64", "float64", "float32", "int64"])


def _unsafe_set_dtype(d: Draw) -> Arguments:
    """To a dtype that has what small integers give; others would be rounded."""
    block, index, _ = _set_scope(d)
    return block, index, d.rng.choice(["float64", "float64", "bool"])


@dataclass(frozen=True, slots=True)
class Row:
    """How often a primitive is tried, and with what."""

    weight: int
    draw: Callable[[Draw], Arguments]


PRIMITIVES: dict[str, Row] = {
    "split": Row(8, _split),
    "loop_partition": Row(2, _loop_partition),
    "fuse": Row(4, _fuse),
    "merge": Row(2, _merge),
    "fission": Row(2, _fission),
    "reorder": Row(6, _reorder),
    "add_unit_loop": Row(1, _add_unit_loop),
    "parallel": Row(2, lambda d: (d.loop(),)),
    "vectorize": Row(4, _vectorize),
    "unroll": Row(2, lambda d: (d.loop(),)),
    "bind": Row(2, _bind),
    "annotate": Row(1, _annotate),
    "unannotate": Row(1, _unannotate),
    "compute_at": Row(6, _compute_at),
    "reverse_compute_at": Row(5, _reverse_compute_at),
    "compute_inline": Row(2, _compute_inline),
    "reverse_compute_inline": Row(2, _reverse_compute_inline),
    "decompose_reduction": Row(4, _decompose_reduction),
    "rfactor": Row(4, _rfactor),
    "fuse_reduction_epilogue": Row(2, _fuse_reduction_epilogue),
    "pad_einsum": Row(2, _pad_einsum),
    "reorder_block_iter_var": Row(1, _reorder_block_iter_var),
    "transform_block_layout": Row(2, _transform_block_layout),
    "blockize": Row(2, _blockize),
    "tensorize": Row(2, _tensorize),
    "decompose_padding": Row(2, _decompose_padding),
    "cache_read": Row(4, _cache_read),
    "cache_write": Row(4, _cache_write),
    "cache_inplace": Row(2, _cache_inplace),
    "reindex_cache_read": Row(2, _reindex_cache_read),
    "reindex_cache_write": Row(2, _reindex_cache_write),
    "reindex": Row(2, _reindex),
    "cache_index": Row(1, _cache_index),
    "pack": Row(2, _pack),
    "transform_layout": Row(3, _transform_layout),
    "storage_align": Row(1, _storage_align),
    "rolling_buffer": Row(2, _rolling_buffer),
    "lift_allocation": Row(1, _lift_allocation),
    "stage_memory": Row(2, _stage_memory),
    "set_scope": Row(2, _set_scope),
    "set_dtype": Row(1, _set_dtype),
    "unsafe_set_dtype": Row(1, _unsafe_set_dtype),
}
"""The samplers and queries are drawn on the way, as arguments of these."""


class RandomSchedule:
    """Random primitives on one schedule; ``applied`` and ``refused`` count them, the latter by
    primitive and kind of error."""

    def __init__(
        self, func: PrimFunc, seed: int | str, primitives: Sequence[str] | None = None
    ) -> None:
        self.rng = random.Random(seed)
        self.sch = OwnSchedule(func, seed=self.rng.getrandbits(31))
        self.draw = Draw(self.sch, self.rng)
        self.applied: Counter[str] = Counter()
        self.refused: Counter[tuple[str, str]] = Counter()
        self.names = list(primitives or PRIMITIVES)
        self.weights = [PRIMITIVES[name].weight for name in self.names]

    def run(self, steps: int) -> OwnSchedule:
        """Try ``steps`` primitives; raises Crash."""
        for _ in range(steps):
            (name,) = self.rng.choices(self.names, self.weights)
            try:
                arguments = PRIMITIVES[name].draw(self.draw)
            except NoCandidateError:
                continue
            except ScheduleError as error:
                self.refused[f"arguments of {name}", type(error).__name__] += 1
                continue
            except Exception as error:
                raise Crash(self.sch.trace, f"arguments of {name}", error) from error
            self.call(name, arguments)
        return self.sch

    def call(self, name: str, arguments: Arguments) -> None:
        """Call a primitive and count what happens."""
        before, length = self.sch.func, len(self.sch.trace)
        named = arguments if isinstance(arguments, dict) else {}
        positional = () if isinstance(arguments, dict) else arguments
        try:
            getattr(self.sch, name)(*positional, **named)
        except ScheduleError as error:
            self.refused[name, type(error).__name__] += 1
            if self.sch.func is not before or len(self.sch.trace) != length:
                changed = AssertionError("a primitive that refused changed the schedule")
                raise self._crash(name, positional, named, changed) from error
        except Exception as error:
            raise self._crash(name, positional, named, error) from error
        else:
            self.applied[name] += 1

    def _crash(
        self, name: str, positional: Sequence[Any], named: Mapping[str, Any], error: BaseException
    ) -> Crash:
        """What happened, with the call as the trace's last instruction."""
        inputs = (*[("", v) for v in positional], *named.items())
        trace = self.sch.trace
        call = Instruction(name, inputs)
        return Crash(replace(trace, instructions=(*trace.instructions, call)), name, error)


def random_schedule(func: PrimFunc, seed: int | str, steps: int = 12) -> OwnSchedule:
    """A schedule of ``func`` after some random primitives."""
    return RandomSchedule(func, seed).run(steps)
