"""The file for perf: each function at its place."""

from __future__ import annotations

import ctypes
import struct
from collections.abc import Callable
from pathlib import Path

import pytest

from burnish.tests.vm.test_elf import INNER
from burnish.vm import perf_map
from burnish.vm.elf import ElfFunction, elf_functions
from burnish.vm.native import load_objects


@pytest.fixture
def path(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    found = tmp_path / "perf.map"
    monkeypatch.setenv("BURNISH_PERF_MAP", "1")
    monkeypatch.setattr(perf_map, "perf_map_path", lambda: found)
    return found


def code(image: bytes, function: ElfFunction) -> bytes:
    """The first bytes of a function in its object."""
    (table,) = struct.unpack_from("<Q", image, 40)
    section = struct.unpack_from("<IIQQQQIIQQ", image, table + function.section * 64)
    return image[section[4] + function.offset :][:3]


def test_functions_are_where_it_says(path: Path, assemble: Callable[[str], bytes]) -> None:
    image = assemble(INNER)
    library = load_objects([image])
    lines = [line.split() for line in path.read_text().splitlines()]
    places = {name: (int(at, 16), int(size, 16)) for at, size, name in lines}
    assert places["outer"][0] == library.address("outer")
    for function in elf_functions(image):
        at, size = places[function.name]
        assert size == function.size
        assert ctypes.string_at(at, 3) == code(image, function)


def test_a_folder_that_cannot_be_written_is_no_harm(
    path: Path, assemble: Callable[[str], bytes]
) -> None:
    path.mkdir()
    assert load_objects([assemble(INNER)]).symbols == ("outer",)


def test_nothing_is_written_unless_it_is_asked_for(
    path: Path, assemble: Callable[[str], bytes], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("BURNISH_PERF_MAP", "0")
    load_objects([assemble(INNER)])
    assert not path.exists()
