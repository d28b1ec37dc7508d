"""What instructions can do, by CPU and by features."""

from __future__ import annotations

import pytest

from burnish.support.instructions import CPU_FEATURES, Instructions, implied_features
from burnish.support.target import Target


def known(text: str) -> Instructions:
    return Target(f"llvm -mcpu={text}").instructions


def test_operands_and_registers() -> None:
    sse2, avx2, avx512, neon = map(known, ("x86-64", "haswell", "znver4", "generic"))
    assert [k.reads_memory for k in (sse2, avx2, avx512, neon)] == [True, True, True, False]
    assert [k.broadcast_from_memory for k in (sse2, avx2, avx512, neon)] == [False] * 2 + [
        True,
        False,
    ]
    assert [k.holds(17) for k in (sse2, avx2, avx512, neon)] == [False] * 2 + [True] * 2
    assert avx2.holds(16)
    assert not avx512.holds(33)
    assert [k.half for k in (sse2, avx2, avx512, neon)] == [False, True, True, True]
    assert avx512.vectors == ((512, 32), (256, 32), (128, 32))
    assert avx2.vectors == ((256, 16), (128, 16))
    assert neon.vectors == ((128, 32),)
    # Without AVX-512VL narrow vectors are those of AVX2.
    assert known("skylake-avx512 -mattr=-avx512vl").vectors == ((512, 32), (256, 16), (128, 16))
    assert not known("znver4 -mattr=-avx512f").masks


def test_sums_in_flight_are_what_ports_and_latency_ask_for() -> None:
    assert [known(c).ports.sums for c in ("znver3", "haswell", "znver4")] == [8, 10, 4]


def test_features_are_those_of_the_name_and_those_that_are_given() -> None:
    assert known("x86-64").fma is False
    assert known("x86-64 -mattr=+fma").fma is True
    assert known("haswell -mattr=-fma").fma is False
    assert implied_features("icelake-client") == CPU_FEATURES["icelake"]
    assert implied_features("neoverse-v2") == CPU_FEATURES["neoverse-v"]
    assert implied_features("unheard-of") == ()


@pytest.mark.parametrize(
    ("text", "operands", "name", "elements", "lanes"),
    [
        ("cascadelake", ("uint8", "int8"), "vpdpbusd", 4, 16),
        ("sapphirerapids", ("bfloat16", "bfloat16"), "vdpbf16ps", 2, 16),
        ("haswell", ("int16", "int16"), "pmaddwd", 2, 8),
        ("haswell -mattr=+avxvnni", ("uint8", "int8"), "vpdpbusd", 4, 8),
        ("znver5 -mattr=-avx512vnni", ("uint8", "int8"), "vpdpbusd", 4, 8),
        ("neoverse-n1", ("int8", "int8"), "sdot", 4, 4),
        ("generic -mattr=+bf16", ("bfloat16", "bfloat16"), "bfdot", 2, 4),
        ("cascadelake", ("int16", "int16"), "vpdpwssd", 2, 16),
        ("neoverse-n1 -mattr=+i8mm", ("uint8", "int8"), "usdot", 4, 4),
        ("haswell", ("uint8", "int8"), None, 0, 0),
        ("neoverse-n1", ("uint8", "int8"), None, 0, 0),
        ("generic", ("int16", "int16"), None, 0, 0),
    ],
)
def test_dot_products(
    text: str, operands: tuple[str, str], name: str | None, elements: int, lanes: int
) -> None:
    found = known(text).dot_product(*operands)
    if name is None:
        assert found is None
        return
    assert found is not None
    assert (found.name, found.elements, found.lanes) == (name, elements, lanes)
    assert found.result == ("float32" if "float" in operands[0] else "int32")


@pytest.mark.parametrize(
    ("text", "multiplies", "widens"),
    [
        ("znver4", True, False),
        ("sapphirerapids", True, False),
        ("haswell", False, True),
        ("skylake-avx512", False, True),
        ("x86-64", False, True),
        ("haswell -mattr=+emulated-tiles", True, False),
        ("generic", False, False),
        ("generic -mattr=+i8mm", True, False),
    ],
)
def test_products_of_bytes(text: str, multiplies: bool, widens: bool) -> None:
    assert known(text).multiplies_bytes is multiplies
    assert known(text).widens_bytes is widens


def test_products_of_two_rows() -> None:
    found = {d.name: d for d in known("generic -mattr=+bf16,+i8mm").dots if d.rows == 2}
    assert {name: (d.elements, d.lanes) for name, d in found.items()} == {
        "smmla": (8, 4),
        "ummla": (8, 4),
        "usmmla": (8, 4),
        "bfmmla": (4, 4),
    }
    names = [d.name for d in known("znver5").dots]
    assert len(names) == len(set(names))


def test_tiles() -> None:
    assert known("icelake-server").tiles is None
    assert known("sapphirerapids -mattr=-amx-tile").tiles is None
    tiles = known("sapphirerapids").tiles
    assert tiles is not None
    assert (tiles.registers, tiles.rows, tiles.row_bytes) == (8, 16, 64)
    assert {(*p[:2], p[3]) for p in tiles.products} >= {
        ("int8", "uint8", 4),
        ("bfloat16", "bfloat16", 2),
    }


@pytest.mark.parametrize(
    ("cpu", "dtype", "expected"),
    [
        ("znver4", "bfloat16", ("vdpbf16ps", 2.0)),
        ("znver4", "int8", ("vpdpbusd", 4.0)),
        ("znver4", "float16", ("", 0.0)),
        ("haswell", "bfloat16", ("", 0.0)),
        ("sapphirerapids", "bfloat16", ("AMX", 16.0)),
        ("sapphirerapids", "uint8", ("AMX", 32.0)),
        ("sapphirerapids -mattr=-amx-tile", "bfloat16", ("vdpbf16ps", 0.5)),
    ],
)
def test_what_multiplies_a_narrow_type_fastest(
    cpu: str, dtype: str, expected: tuple[str, float]
) -> None:
    assert known(cpu).fastest(dtype, dtype) == expected


def test_emulated_tiles_have_all_products() -> None:
    tiles = known("haswell -mattr=+emulated-tiles").tiles
    assert tiles is not None
    assert tiles.is_emulated
    assert tiles.multiplies("bfloat16", "bfloat16", "float32")
    assert tiles.multiplies("float16", "float16", "float32")
    assert tiles.multiplies("uint8", "int8", "int32")
    assert not tiles.multiplies("float32", "float32", "float32")
