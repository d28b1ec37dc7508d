"""``Draw``: blocks, loops, buffers and numbers of a schedule as it stands, drawn at random."""

from __future__ import annotations

import math
import random
from collections.abc import Callable

from burnish.tensorir.analysis.paths import walk_paths
from burnish.tensorir.arith import IndexMap
from burnish.tensorir.expr import Expr, Var
from burnish.tensorir.schedule import Schedule
from burnish.tensorir.schedule.trace.handles import BlockHandle, LoopHandle
from burnish.tensorir.stmt import Block, BlockRealize


class NoCandidateError(Exception):
    """The program has nothing that the primitive could be tried on."""


class Draw:
    """Draws arguments from a schedule as it stands."""

    def __init__(self, sch: Schedule, rng: random.Random) -> None:
        self.sch, self.rng = sch, rng

    def chance(self, p: float) -> bool:
        return self.rng.random() < p

    # -- blocks ------------------------------------------------------------------------------------
    def realizes(self) -> list[BlockRealize]:
        """All blocks but the root, and but those that inits hold: no handle gets there."""
        paths = walk_paths(self.sch.func.body)
        return [p[-1] for p in paths if isinstance(p[-1], BlockRealize)][1:]

    def some_block(self, wanted: Callable[[Block], bool] = lambda _: True) -> BlockHandle:
        """A block that satisfies a condition; now and then, any block."""
        names = [r.block.name for r in self.realizes() if wanted(r.block)]
        if not names and self.chance(0.9):
            raise NoCandidateError
        if not names or self.chance(0.05):
            names = [r.block.name for r in self.realizes()]
        return self.sch.get_block(self.rng.choice(names))

    def block(self) -> BlockHandle:
        return self.some_block()

    def reduction(self) -> BlockHandle:
        """A block with reduce axes and an init."""
        return self.some_block(lambda b: b.init is not None)

    def writes_of(self, block: BlockHandle) -> int:
        return len(self.sch.get(block).writes)

    def reads_of(self, block: BlockHandle) -> int:
        return len(self.sch.get(block).reads)

    def index(self, count: int) -> int:
        """An index below ``count``; now and then one too far."""
        if count == 0:
            raise NoCandidateError
        return count if self.chance(0.02) else self.rng.randrange(count)

    def buffer(self, block: BlockHandle) -> tuple[tuple[str, int], int]:
        """A buffer that a block reads or writes, as transform_layout takes it, and its rank."""
        b = self.sch.get(block)
        sides = [("write", i, r) for i, r in enumerate(b.writes)]
        sides += [("read", i, r) for i, r in enumerate(b.reads)]
        inner = [s for s in sides if s[2].buffer not in self.sch.func.buffers]
        if inner and self.chance(0.8):
            sides = inner
        if not sides:
            raise NoCandidateError
        side, index, region = self.rng.choice(sides)
        return (side, index), region.buffer.ndim

    # -- loops -------------------------------------------------------------------------------------
    def loops_of(self, block: BlockHandle) -> list[LoopHandle]:
        loops = self.sch.get_loops(block)
        if not loops:
            raise NoCandidateError
        return loops

    def loops(self) -> list[LoopHandle]:
        return self.loops_of(self.block())

    def loop(self) -> LoopHandle:
        return self.rng.choice(self.loops())

    def extent(self, loop: LoopHandle) -> int | None:
        extent = self.sch.get(loop).extent
        return getattr(extent, "value", None)

    # -- values ------------------------------------------------------------------------------------
    def scope(self) -> str:
        return self.rng.choice(["global"] * 7 + ["local"] * 6 + ["register"] * 2 + ["global.A_reg"])

    def factor(self) -> int | Expr:
        """A factor: a number, a sampled value, or an expression of one."""
        if self.chance(0.7):
            return self.rng.randrange(1, 6)
        value = self.sch.sample_categorical([1, 2, 3, 4, 8], [0.1, 0.3, 0.2, 0.2, 0.2])
        return self.rng.choice([value, value, value * 2, value + 1])

    def index_map(self, count: int) -> IndexMap:
        """A map of ``count`` indices: the same, permuted, or one of them tiled."""
        if not count:
            return IndexMap((), ())
        kind = self.rng.choice(["same", "permuted", "tiled", "tiled", "tiled and permuted"])
        factor, at = self.rng.choice([2, 3, 4]), self.rng.randrange(count)
        inputs = tuple([Var(f"i{k}") for k in range(count)])
        outputs: list[Expr] = list(inputs)
        if "tiled" in kind:
            outputs[at : at + 1] = [inputs[at] // factor, inputs[at] % factor]
        if "permuted" in kind:
            self.rng.shuffle(outputs)
        return IndexMap(inputs, tuple(outputs))

    def shuffled_map(self, block: BlockHandle, where: tuple[str, int]) -> IndexMap:
        """A map that puts the elements of one dimension of a buffer in another order, each at a
        place of its own, as no analysis finds: ``(i * k + c) % n`` with ``k`` prime to ``n``."""
        side, index = where
        b = self.sch.get(block)
        regions = b.writes if side == "write" else b.reads
        sizes = [getattr(d, "value", 0) for d in regions[index].buffer.shape]
        long = [d for d, n in enumerate(sizes) if n > 2]
        if not long:
            raise NoCandidateError
        at = self.rng.choice(long)
        n = sizes[at]
        step = self.rng.choice([k for k in range(2, 2 * n) if math.gcd(k, n) == 1])
        inputs = tuple([Var(f"i{k}") for k in range(len(sizes))])
        outputs: list[Expr] = list(inputs)
        outputs[at] = (inputs[at] * step + self.rng.randrange(n)) % n
        if self.chance(0.3):
            self.rng.shuffle(outputs)
        return IndexMap(inputs, tuple(outputs))
