"""Products in tile registers: AMX's instructions for the nests of ``lowering.tile_nests``.

A *region* is a run of statements that consists of marked nests and loops around them, in which the
places of the sums do not move: usually zeros, and the loop over k. Its sums are in tile registers
from its beginning to its end,

    tilezero sums  (or tileload, where the region does not begin with zeros)
    for k0:  tileload X, tileload W as they are first needed;  sums += X * W
    tilestore sums

and what it loads stays in the registers that are left until these are wanted for something else
(the one that was not used for longest), from one product to the next in a row without a loop
between. A nest alone is a region of its own.

The registers' sizes, their configuration, are loaded once at the function's entry where all its
regions agree, else around each region that differs, and released before the function returns.
Intrinsics with numbers of registers are used: LLVM's own allocation of tiles configures and
releases in each function and spills when unrolled (LLVM's issue 112763).
"""

from __future__ import annotations

import struct
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from llvmlite import ir

from ...support.instructions import Tiles
from ...support.node import walk
from ..arith.linear import Linear
from ..expr import Var
from ..lowering.tile_nests import (
    TileNest,
    TileSide,
    holds_only_nests,
    is_marked,
    marked_nests,
    recognise,
)
from ..stmt import For, SeqStmt, Stmt
from .emulated_tiles import TILE_BYTES, emulated
from .every_other import EveryOtherEmitter
from .frames import Key, constant_index
from .llvm_types import I8, PTR, VOID, alloca, memory_type

_PALETTE = 1
_CONFIG_BYTES = 64
_INSTRUCTIONS = {
    ("bfloat16", "bfloat16"): "tdpbf16ps",
    ("float16", "float16"): "tdpfp16ps",
    ("int8", "int8"): "tdpbssd",
    ("int8", "uint8"): "tdpbsud",
    ("uint8", "int8"): "tdpbusd",
    ("uint8", "uint8"): "tdpbuud",
}

Shape = tuple[int, int]
"""The rows of a tile, and the bytes of a row."""


def config_bytes(shapes: Sequence[Shape]) -> bytes:
    """What ``ldtilecfg`` reads, for registers from 0 on."""
    columns = [size for _, size in shapes] + [0] * (8 - len(shapes))
    rows = [count for count, _ in shapes] + [0] * (8 - len(shapes))
    data = struct.pack("<BB14x8H16x8B", _PALETTE, 0, *columns, *rows)
    return data.ljust(_CONFIG_BYTES, b"\0")


@dataclass
class _Pool:
    """Registers of one shape for what is loaded, the one used last at the end."""

    free: list[int]
    held: dict[Key, int] = field(default_factory=dict)

    def find(self, key: Key) -> int | None:
        number = self.held.pop(key, None)
        if number is not None:
            self.held[key] = number
        return number

    def take(self, key: Key) -> int:
        """A register for something new."""
        number = self.free.pop(0) if self.free else self.held.pop(next(iter(self.held)))
        self.held[key] = number
        return number

    def forget(self) -> None:
        self.free = sorted([*self.free, *self.held.values()])
        self.held.clear()


@dataclass
class _Region:
    """The registers of a region: those of its sums by place, and pools for operands by shape."""

    sums: dict[Key, tuple[int, TileSide]]
    zeros: set[Key]
    pools: dict[tuple[str, Shape], _Pool]
    shapes: list[Shape]


class TileEmitter(EveryOtherEmitter):
    """Emits regions; ``tiles`` is what the target has, None where it has none. Who emits statements
    asks ``tile_runs`` and ``tile_region``, hands what stands in an open ``region`` to
    ``in_region``, and says how loops are emitted."""

    tiles: Tiles | None = None
    hoists_config = True
    """Whether nothing between regions changes the configuration."""

    def __init__(self, builder: ir.IRBuilder, *, may_alias: bool = False) -> None:
        super().__init__(builder, may_alias=may_alias)
        self.tile_config: bytes | None = None
        """The configuration that the function has at its entry."""
        self.uses_tiles = False
        self.region: _Region | None = None
        self._tile_memory: ir.Value | None = None
        self._only: dict[int, bool] = {}

    # -- what is in tiles -------------------------------------------------------------------------
    def tile_runs(self, stmts: Sequence[Stmt]) -> list[tuple[int, list[Stmt]]]:
        """The statements, those together that may be one region: the place of the first of each
        run, and the run."""
        runs: list[tuple[int, list[Stmt]]] = []
        joins = False
        for n, s in enumerate(stmts):
            only = self.is_for_tiles(s)
            if only and joins:
                runs[-1][1].append(s)
            else:
                runs.append((n, [s]))
            joins = only
        return runs

    def is_for_tiles(self, s: Stmt) -> bool:
        """Whether a statement consists of nests for the registers that the target has."""
        if self.tiles is None or self.may_alias:
            return False
        known = self._only.get(id(s))
        if known is None:
            known = self._only[id(s)] = isinstance(s, For) and holds_only_nests(s)
        return known

    def tile_region(self, stmts: Sequence[Stmt]) -> bool:
        """Emit statements that consist of nests in tile registers; False, and nothing emitted,
        where they are no region."""
        region = self._plan(stmts)
        if region is None:
            return False
        self._configure(region)
        for key, (number, side) in region.sums.items():
            if key in region.zeros:
                self._tile("zero", number)
            else:
                self._move("load", number, side, region.shapes[number])
        self.region = region
        try:
            for s in stmts:
                self.in_region(s)
        finally:
            self.region = None
        for number, side in region.sums.values():
            self._move("store", number, side, region.shapes[number])
            self.stored(side.buffer)
        self._restore(region)
        return True

    def emit_loop(self, s: For) -> None:
        """A loop of a region."""
        raise AssertionError("whoever emits statements says how")

    def in_region(self, s: Stmt) -> None:
        """Emit a statement of the region that is open."""
        match s:
            case For() if is_marked(s):
                self._nest(s)
            case For():
                self._forget()
                self.emit_loop(s)
                self._forget()
            case SeqStmt(stmts):
                for x in stmts:
                    self.in_region(x)

    def _forget(self) -> None:
        assert self.region is not None
        for pool in self.region.pools.values():
            pool.forget()

    # -- plan -------------------------------------------------------------------------------------
    def _plan(self, stmts: Sequence[Stmt]) -> _Region | None:
        """The registers of a region; None where the statements are none: a nest that is not
        recognised or has no instruction, sums that move, lie over each other or are too many."""
        assert self.tiles is not None
        nests = [recognise(n, self.linear) for s in stmts for n in marked_nests(s)]
        found = [n for n in nests if n is not None]
        products = [n for n in found if n.operands is not None]
        if len(found) < len(nests) or not products:
            return None
        kinds = {n.kinds for n in products}
        known = {(x, w, total) for x, w, total, _ in self.tiles.products}
        inside = {id(v) for s in stmts for v in _loops_around(s)}
        moving = any(id(v) in inside for n in found for v in _variables(n.total.start))
        if len(kinds) != 1 or not kinds <= known or moving:
            return None
        sums: dict[Key, tuple[int, TileSide]] = {}
        shapes: list[Shape] = []
        for n in products:
            key = self._place_of(n.total)
            if key not in sums:
                sums[key] = (len(sums), n.total)
                shapes.append((n.rows, 4 * n.columns))
            elif shapes[sums[key][0]] != (n.rows, 4 * n.columns):
                return None
        zeros = self._zeros(stmts, {key: shapes[number] for key, (number, _) in sums.items()})
        if zeros is None or _overlap([(n.total, n) for n in products]):
            return None
        pools = self._pools(products, len(sums), shapes)
        return None if pools is None else _Region(sums, zeros, pools, shapes)

    def _zeros(self, stmts: Sequence[Stmt], sums: Mapping[Key, Shape]) -> set[Key] | None:
        """The sums that are set to zero before anything is added, all of each; None where zeros
        stand behind a product, in a loop, or are those of something else."""
        zeros: set[Key] = set()
        begun = False
        for s in stmts:
            nests = [recognise(n, self.linear) for n in marked_nests(s)]
            for n in nests:
                if n is None or n.operands is not None:
                    begun = True
                    continue
                key = self._place_of(n.total)
                if begun or not is_marked(s) or sums.get(key) != (n.rows, 4 * n.columns):
                    return None
                zeros.add(key)
        return zeros

    def _pools(
        self, products: Sequence[TileNest], used: int, shapes: list[Shape]
    ) -> dict[tuple[str, Shape], _Pool] | None:
        """Registers for operands: those that the sums leave, dealt out in turn, to each shape at
        most as many as there are tiles of it at once."""
        assert self.tiles is not None
        wanted: dict[tuple[str, Shape], set[Key]] = {}
        for n in products:
            assert n.operands is not None
            for name, side, shape in zip("xw", n.operands, _operand_shapes(n), strict=True):
                wanted.setdefault((name, shape), set()).add(self._place_of(side))
        left = self.tiles.registers - used
        if left < len(wanted):
            return None
        pools = {which: _Pool([]) for which in wanted}
        number = used
        while number < self.tiles.registers:
            open_ = [w for w, pool in pools.items() if len(pool.free) < len(wanted[w])]
            if not open_:
                break
            for which in open_[: self.tiles.registers - number]:
                pools[which].free.append(number)
                shapes.append(which[1])
                number += 1
        return pools

    def _place_of(self, side: TileSide) -> Key:
        return (id(side.buffer), side.pitch, side.start.key)

    # -- instructions -----------------------------------------------------------------------------
    def _nest(self, s: For) -> None:
        region = self.region
        n = recognise(s, self.linear)
        assert region is not None
        assert n is not None
        if n.operands is None:
            return
        number, _ = region.sums[self._place_of(n.total)]
        loaded: list[int] = []
        for name, side, shape in zip("xw", n.operands, _operand_shapes(n), strict=True):
            pool = region.pools[name, shape]
            key = self._place_of(side)
            known = pool.find(key)
            if known is None:
                known = pool.take(key)
                self._move("load", known, side, shape)
            loaded.append(known)
        self._multiply(number, loaded[0], loaded[1], n)

    def _multiply(self, total: int, x: int, w: int, n: TileNest) -> None:
        kinds = n.kinds[:2]
        if not self._is_emulated:
            self._tile(_INSTRUCTIONS[kinds], total, x, w)
            return
        function = emulated(self.builder.module, ".".join(kinds))
        tiles = [self._memory_of(number) for number in (total, x, w)]
        self.builder.call(function, [*tiles, constant_index(n.rows), constant_index(n.groups)])

    def _move(self, what: str, number: int, side: TileSide, shape: Shape) -> None:
        """Load or store a tile."""
        b = self.builder
        place = self.address(side.buffer, side.start, memory_type(side.buffer.dtype))
        pitch = constant_index(side.pitch_bytes)
        if self._is_emulated:
            sizes = [constant_index(v) for v in shape]
            tile = self._memory_of(number)
            b.call(emulated(b.module, what), [tile, place, pitch, *sizes])
            return
        name = {"load": "tileloadd64", "store": "tilestored64"}[what]
        kind = ir.FunctionType(VOID, [I8, PTR, ir.IntType(64)])
        b.call(self._declared(name, kind), [ir.Constant(I8, number), place, pitch])

    def _tile(self, what: str, *numbers: int) -> None:
        """An instruction on registers alone."""
        if self._is_emulated:
            assert what == "zero"
            tile = self._memory_of(numbers[0])
            self.builder.call(emulated(self.builder.module, what), [tile])
            return
        name = "tilezero" if what == "zero" else what
        kind = ir.FunctionType(VOID, [I8] * len(numbers))
        self.builder.call(self._declared(name, kind), [ir.Constant(I8, n) for n in numbers])

    def _declared(self, name: str, kind: ir.FunctionType) -> ir.Function:
        module = self.builder.module
        full = f"llvm.x86.{name}"
        known = module.globals.get(full)
        return known if known is not None else ir.Function(module, kind, full)

    @property
    def _is_emulated(self) -> bool:
        assert self.tiles is not None
        return self.tiles.is_emulated

    def _memory_of(self, number: int) -> ir.Value:
        """The memory of an emulated register."""
        assert self.tiles is not None
        b = self.builder
        if self._tile_memory is None:
            with b.goto_entry_block():
                kind = ir.ArrayType(I8, self.tiles.registers * TILE_BYTES)
                self._tile_memory = alloca(b, kind, "tiles", 64)
        return b.gep(self._tile_memory, [constant_index(number * TILE_BYTES)], source_etype=I8)

    # -- configuration ----------------------------------------------------------------------------
    def _configure(self, region: _Region) -> None:
        self.uses_tiles = True
        wanted = config_bytes(region.shapes)
        if self._is_emulated or wanted == self.tile_config:
            return
        if self.tile_config is None and self.hoists_config:
            self.tile_config = wanted
            with self.builder.goto_entry_block():
                self._load_config(wanted)
            return
        self._load_config(wanted)

    def _restore(self, region: _Region) -> None:
        if self._is_emulated or self.tile_config is None:
            return
        if config_bytes(region.shapes) != self.tile_config:
            self._load_config(self.tile_config)

    def _load_config(self, config: bytes) -> None:
        module = self.builder.module
        name = f"tile_config_{config.hex()}"
        held = module.globals.get(name)
        if held is None:
            data = ir.Constant(ir.ArrayType(I8, len(config)), bytearray(config))
            held = ir.GlobalVariable(module, data.type, name)
            held.initializer, held.linkage, held.global_constant = data, "internal", True
            held.align = _CONFIG_BYTES
        function = self._declared("ldtilecfg", ir.FunctionType(VOID, [PTR]))
        self.builder.call(function, [self.builder.bitcast(held, PTR)])

    def release_tiles(self) -> None:
        """Release the registers before each return of the function."""
        if not self.uses_tiles or self._is_emulated:
            return
        function = self._declared("tilerelease", ir.FunctionType(VOID, []))
        for block in self.builder.function.blocks:
            if block.terminator is not None and block.terminator.opname.startswith("ret"):
                at = ir.IRBuilder(block)
                at.position_before(block.terminator)
                at.call(function, [])


def _operand_shapes(n: TileNest) -> tuple[Shape, Shape]:
    return (n.rows, 4 * n.groups), (n.groups, 4 * n.columns)


def _loops_around(s: Stmt) -> list[Var]:
    """The variables of the loops around the nests of a statement."""
    match s:
        case For() if not is_marked(s):
            return [s.var, *_loops_around(s.body)]
        case SeqStmt(stmts):
            return [v for x in stmts for v in _loops_around(x)]
        case _:
            return []


def _variables(form: Linear) -> list[Var]:
    return [n for atom in form.terms for n in walk(atom) if isinstance(n, Var)]


def _overlap(sums: Sequence[tuple[TileSide, TileNest]]) -> bool:
    """Whether different tiles of sums may have elements in common: those in one buffer must lie at
    constant distances, in rows of one pitch, and apart."""
    by_buffer: dict[int, dict[Key, tuple[TileSide, TileNest]]] = {}
    for side, n in sums:
        by_buffer.setdefault(id(side.buffer), {})[side.start.key, side.pitch] = (side, n)
    for tiles in by_buffer.values():
        first = next(iter(tiles.values()))[0]
        seen: set[int] = set()
        for side, n in tiles.values():
            distance = side.start - first.start
            if distance.terms or side.pitch != first.pitch:
                return True
            mine = {
                distance.const + i * side.pitch + j for i in range(n.rows) for j in range(n.columns)
            }
            if mine & seen:
                return True
            seen |= mine
    return False
