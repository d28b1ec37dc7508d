"""What a CPU's instructions can do: one description, which rules and codegen ask.

``target.instructions`` is made from the CPU's name, its features and its vectors, and says

* where an instruction's operands may be: in memory, in memory and spread to all lanes;
* the vector registers there are at each width, and whether there are registers for masks;
* what a core does in a cycle with vectors of the full width (``Ports``), and how soon sums go on;
* sums of products of two or four narrow elements in one instruction (``DotProduct``);
* registers that are tiles, and the products of tiles (``Tiles``).

A rule asks for what it means, ``instructions.broadcast_from_memory``, and not for a CPU or for a
number that goes with it. What a CPU has is told by LLVM's names of features: those that its name
implies (the table here), and those that the target adds or takes away.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from typing import TypeVar

_Row = TypeVar("_Row")

FEW_REGISTERS = 16
"""The vector registers of x86 without AVX-512."""

EMULATED_TILES = "emulated-tiles"
"""A feature of targets that LLVM does not know: tiles are there, as functions on memory."""

_V2 = ("sse4.2", "ssse3", "popcnt")
_V3 = (*_V2, "avx2", "fma", "bmi", "bmi2", "f16c", "lzcnt", "movbe")
_V4 = (*_V3, "avx512f", "avx512bw", "avx512cd", "avx512dq", "avx512vl")
_ICELAKE = (*_V4, "avx512vnni", "avx512vbmi", "avx512vbmi2", "avx512ifma", "gfni", "vaes")
_SAPPHIRE = (*_ICELAKE, "avx512bf16", "avx512fp16", "avxvnni", "amx-tile", "amx-int8", "amx-bf16")
_ALDER = (*_V3, "avxvnni", "gfni", "vaes")
_DOTPROD = ("fullfp16", "dotprod")
_I8MM = (*_DOTPROD, "bf16", "i8mm")
CPU_FEATURES: dict[str, tuple[str, ...]] = {
    "x86-64": (),
    "x86-64-v2": _V2,
    "x86-64-v3": _V3,
    "x86-64-v4": _V4,
    "haswell": _V3,
    "skylake-avx512": _V4,
    "cascadelake": (*_V4, "avx512vnni"),
    "cooperlake": (*_V4, "avx512vnni", "avx512bf16"),
    "icelake": _ICELAKE,
    "tigerlake": _ICELAKE,
    "rocketlake": _ICELAKE,
    "sapphirerapids": _SAPPHIRE,
    "emeraldrapids": _SAPPHIRE,
    "graniterapids": (*_SAPPHIRE, "amx-fp16"),
    "alderlake": _ALDER,
    "raptorlake": _ALDER,
    "meteorlake": _ALDER,
    "arrowlake": _ALDER,
    "lunarlake": (*_ALDER, "avxvnniint8"),
    "sierraforest": (*_ALDER, "avxvnniint8"),
    "znver3": (*_V3, "vaes", "vpclmulqdq"),
    "znver4": (*_ICELAKE, "avx512bf16"),
    "znver5": (*_ICELAKE, "avx512bf16", "avxvnni"),
    "neoverse-": _DOTPROD,
    "neoverse-n2": _I8MM,
    "neoverse-v": _I8MM,
    "apple-m1": _DOTPROD,
    "apple-m": _I8MM,
    "cortex-a76": _DOTPROD,
    "cortex-a78": _DOTPROD,
    "cortex-x": _DOTPROD,
    "ampere1": _I8MM,
}
"""The features of CPUs that compiled code may use and older ones may lack, by LLVM's names. A name
that is not here is that of the longest one that it begins with."""


@dataclass(frozen=True, slots=True)
class Ports:
    """What a core begins in a cycle, of the vectors that the target has: multiply-adds; these and
    what widens or moves lanes beside them (``arithmetic``); loads, stores, and instructions of any
    kind; a sum goes on ``latency`` cycles after a multiply-add. ``pairs`` are dot products of two
    bfloat16 by ``vdpbf16ps``: half a multiply-add's work a cycle on Intel's servers (measured),
    twice it on Zen."""

    fmas: float = 2.0
    arithmetic: float = 3.0
    loads: float = 2.0
    stores: float = 1.0
    issue: int = 4
    latency: int = 4
    pairs: float = 0.5

    @property
    def sums(self) -> float:
        """Sums in flight with which multiply-adds wait for none."""
        return self.fmas * self.latency


_SERVER = Ports(arithmetic=2.0, issue=6)
_PORTS = {
    "x86-64-v4": Ports(arithmetic=2.0),
    "haswell": Ports(latency=5),
    "skylake-avx512": Ports(arithmetic=2.0),
    "cascadelake": Ports(arithmetic=2.0),
    "cooperlake": Ports(arithmetic=2.0),
    "icelake": Ports(arithmetic=2.0, issue=5),
    "tigerlake": Ports(arithmetic=2.0, issue=5),
    "rocketlake": Ports(arithmetic=2.0, issue=5),
    "sapphirerapids": _SERVER,
    "emeraldrapids": _SERVER,
    "graniterapids": _SERVER,
    "znver3": Ports(issue=6),
    "znver4": Ports(fmas=1.0, arithmetic=1.5, loads=1.0, stores=0.5, issue=6, pairs=1.0),
    "znver5": Ports(issue=8, pairs=2.0),
    "generic": Ports(arithmetic=2.0),
    "neoverse-n1": Ports(arithmetic=2.0),
    "neoverse-v": Ports(fmas=4.0, arithmetic=4.0, loads=3.0, stores=2.0, issue=8),
    "apple-m": Ports(fmas=4.0, arithmetic=4.0, loads=3.0, stores=2.0, issue=8),
}
"""By LLVM's names, as above. Those of most cores are the same."""


@dataclass(frozen=True, slots=True)
class DotProduct:
    """An instruction that adds to each of ``lanes`` sums the products of ``elements`` pairs, whose
    elements stand side by side; ``pmaddwd`` takes an addition besides. Operands of two ``rows``
    give the sums of each row of the one with each of the other."""

    name: str
    operands: tuple[str, str]
    result: str
    elements: int
    lanes: int
    a_cycle: float
    rows: int = 1


@dataclass(frozen=True, slots=True)
class Tiles:
    """``registers`` tiles of at most ``rows`` rows of ``row_bytes`` bytes. A product adds to a tile
    of sums a tile of rows times one of columns, whose elements stand by twos or fours as in
    ``DotProduct``, in ``cycles`` cycles."""

    registers: int
    rows: int
    row_bytes: int
    cycles: int
    products: tuple[tuple[str, str, str, int], ...]
    """The types of the operands and of the sums, and the elements that stand together."""
    is_emulated: bool = False
    """Whether code generation writes out what the instructions do (the feature
    ``emulated-tiles``, which no CPU has)."""

    def multiplies(self, first: str, second: str, total: str) -> bool:
        """Whether there is a product of operands and sums of these types."""
        return any(p[:3] == (first, second, total) for p in self.products)


@dataclass(frozen=True, slots=True)
class Instructions:
    """See the module. ``vectors`` are pairs of a width in bits and the number of registers, the
    widest first; ``reads_memory`` says that an operand of arithmetic may be in memory, ``masks``
    that lanes are chosen by registers of their own, also those of loads and stores at addresses of
    each lane, ``half`` that vectors of float16 are converted."""

    vectors: tuple[tuple[int, int], ...]
    reads_memory: bool
    broadcast_from_memory: bool
    masks: bool
    fma: bool
    half: bool
    ports: Ports
    dots: tuple[DotProduct, ...]
    tiles: Tiles | None

    @property
    def registers(self) -> int:
        """Those of the widest vectors."""
        return self.vectors[0][1]

    def holds(self, vectors: int) -> bool:
        """Whether so many of the widest vectors are in registers at once."""
        return vectors <= self.registers

    def dot_product(self, first: str, second: str) -> DotProduct | None:
        """The instruction for operands of these types, None where there is none."""
        return next((d for d in self.dots if d.operands == (first, second)), None)

    @property
    def multiplies_bytes(self) -> bool:
        """Whether there are products of bytes, in dot products or tiles."""
        tiles = self.tiles is not None and self.tiles.multiplies("uint8", "int8", "int32")
        return tiles or self.dot_product("uint8", "int8") is not None

    @property
    def widens_bytes(self) -> bool:
        """Whether bytes are multiplied as integers of 16 bits, which they must become first."""
        return not self.multiplies_bytes and self.dot_product("int16", "int16") is not None

    @property
    def has_fast_pairs(self) -> bool:
        """Whether dot products of pairs of bfloat16 are more products a cycle than multiply-adds of
        float32."""
        pairs = self.dot_product("bfloat16", "bfloat16")
        return pairs is not None and pairs.elements * pairs.a_cycle > self.ports.fmas

    def fastest(self, first: str, second: str) -> tuple[str, float]:
        """What multiplies operands of these narrow types fastest, and how many times the rate of
        float32's multiply-adds; "" and 0 where there is nothing for them. Bytes of any signs are
        multiplied as those of the one pair of signs that an instruction has."""
        if {first, second} <= {"int8", "uint8"}:
            first, second = "uint8", "int8"
        dot, found = self.dot_product(first, second), ("", 0.0)
        if dot is not None:
            found = (dot.name, dot.elements * dot.a_cycle / self.ports.fmas)
        tiles = self.tiles
        for *types, together in tiles.products if tiles is not None else ():
            if tiles is None or types[:2] != [first, second]:
                continue
            wide = tiles.rows * tiles.row_bytes // 4 * tiles.row_bytes // 4 * together
            lanes = self.vectors[0][0] // 32
            times = wide / tiles.cycles / (self.ports.fmas * lanes)
            found = max(found, ("AMX", times), key=lambda f: f[1])
        return found


def implied_features(cpu: str) -> tuple[str, ...]:
    """The features that come with a CPU's name."""
    return _of_name(CPU_FEATURES, cpu, ())


@cache
def instructions_of(
    cpu: str, listed: tuple[str, ...], bits: int, registers: int, *, x86: bool, arm: bool
) -> Instructions:
    """Those of a CPU with the features ``listed`` as LLVM has them, ``"+avx2"`` or ``"-fma"``, and
    so many registers of so many bits."""
    removed = {f[1:] for f in listed if f[:1] == "-"}
    features = ({*implied_features(cpu)} | {f[1:] for f in listed if f[:1] == "+"}) - removed
    masks = x86 and "avx512f" not in removed and ("avx512f" in features or bits >= 512)
    narrow = registers if not masks or "avx512vl" in features else min(registers, FEW_REGISTERS)
    widths = [w for w in (bits // 2, bits // 4) if w >= 128]
    ports = _of_name(_PORTS, cpu, Ports())
    return Instructions(
        vectors=((bits, registers), *[(w, narrow) for w in widths]),
        reads_memory=x86,
        broadcast_from_memory=masks,
        masks=masks,
        fma="fma" not in removed and (not x86 or bits > 128 or "fma" in features),
        half=not x86 or bits > 128 or "f16c" in features,
        ports=ports,
        dots=_dots(features, bits, ports, x86=x86, arm=arm),
        tiles=_tiles(features),
    )


def _of_name(table: Mapping[str, _Row], cpu: str, default: _Row) -> _Row:
    """The row of the longest name that ``cpu`` begins with."""
    return table.get(max((n for n in table if cpu.startswith(n)), key=len, default=""), default)


_Dot = tuple[str, str, str, str, str, int]
_BYTES: tuple[_Dot, ...] = (
    ("avx512vnni", "vpdpbusd", "uint8", "int8", "int32", 4),
    ("avx512vnni", "vpdpwssd", "int16", "int16", "int32", 2),
    ("avx512bf16", "vdpbf16ps", "bfloat16", "bfloat16", "float32", 2),
)
_SHORT: tuple[_Dot, ...] = (
    ("avxvnni", "vpdpbusd", "uint8", "int8", "int32", 4),
    ("avxvnni", "vpdpwssd", "int16", "int16", "int32", 2),
    ("avxvnniint8", "vpdpbssd", "int8", "int8", "int32", 4),
    ("avxvnniint8", "vpdpbuud", "uint8", "uint8", "int32", 4),
)
_NEON: tuple[_Dot, ...] = (
    ("dotprod", "sdot", "int8", "int8", "int32", 4),
    ("dotprod", "udot", "uint8", "uint8", "int32", 4),
    ("i8mm", "usdot", "uint8", "int8", "int32", 4),
    ("bf16", "bfdot", "bfloat16", "bfloat16", "float32", 2),
)
_TWO_ROWS: tuple[_Dot, ...] = (
    ("i8mm", "smmla", "int8", "int8", "int32", 8),
    ("i8mm", "ummla", "uint8", "uint8", "int32", 8),
    ("i8mm", "usmmla", "uint8", "int8", "int32", 8),
    ("bf16", "bfmmla", "bfloat16", "bfloat16", "float32", 4),
)


def _dots(
    features: set[str], bits: int, ports: Ports, *, x86: bool, arm: bool
) -> tuple[DotProduct, ...]:
    """The instructions; of those for the same types the one that takes the widest vectors is the
    first."""
    found = []
    if x86:
        pairs: _Dot = ("sse2", "pmaddwd", "int16", "int16", "int32", 2)
        families = [(_BYTES, bits, 1), (_SHORT, min(bits, 256), 1), ((pairs,), bits, 1)]
        features = features | {"sse2"}
    else:
        families = [(_NEON, bits, 1), (_TWO_ROWS, bits, 2)] if arm else []
    for table, width, rows in families:
        for feature, name, first, second, result, elements in table:
            if feature in features:
                lanes = width // 32
                rate = ports.pairs if name == "vdpbf16ps" else ports.fmas
                found.append(DotProduct(name, (first, second), result, elements, lanes, rate, rows))
    return tuple({d.name: d for d in reversed(found)}.values())[::-1]


def _tiles(features: set[str]) -> Tiles | None:
    """AMX."""
    is_emulated = EMULATED_TILES in features
    if is_emulated:
        features = {"amx-tile", "amx-int8", "amx-bf16", "amx-fp16"}
    if "amx-tile" not in features:
        return None
    signs = ("int8", "uint8")
    bytes_ = [(a, b, "int32", 4) for a in signs for b in signs if "amx-int8" in features]
    halves = [
        (kind, kind, "float32", 2)
        for feature, kind in (("amx-bf16", "bfloat16"), ("amx-fp16", "float16"))
        if feature in features
    ]
    return Tiles(8, 16, 64, 16, (*bytes_, *halves), is_emulated)
