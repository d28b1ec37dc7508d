"""What memory can do: the figures of a level, and those that are kept on disk."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from burnish.support.errors import ConfigError
from burnish.support.memory import Memory, Probe, load_probe, probe_file, save_probe
from burnish.support.target import CPUS, Target

PROBE = Probe("znver4", 2, 3.7, (60.0, 30.0, 15.0, 5.0), (30.0, 10.0))


@pytest.fixture(autouse=True)
def folder(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    monkeypatch.setenv("BURNISH_CACHE_DIR", str(tmp_path / "kept"))
    return tmp_path / "kept"


def test_bytes_come_from_the_level_that_holds_them() -> None:
    memory = Memory((100, 1000, 10_000), (64.0, 32.0, 16.0, 4.0), (30.0, 8.0))
    rates = [memory.bytes_a_cycle(n) for n in (1, 100, 101, 1000, 1001, 10_000, 10_001, 10**9)]
    assert rates == [64, 64, 32, 32, 16, 16, 4, 4]


@pytest.mark.parametrize("cpu", CPUS)
def test_farther_levels_are_no_faster(cpu: str) -> None:
    memory = Target(f"llvm -mcpu={cpu}").memory
    assert sorted(memory.one_core, reverse=True) == list(memory.one_core)
    assert memory.all_cores[0] >= memory.all_cores[1]
    assert all(a >= o for a, o in zip(memory.all_cores, memory.one_core[2:], strict=True))


def test_what_is_kept_is_found(folder: Path) -> None:
    assert load_probe("znver4", 2) is None
    path = save_probe(PROBE)
    assert path == probe_file("znver4", 2)
    assert [p.name for p in folder.iterdir()] == ["memory-znver4-2.json"]
    assert load_probe("znver4", 2) == PROBE
    assert load_probe("znver4", 4) is None
    assert load_probe("znver3", 2) is None


@pytest.mark.parametrize(
    "change",
    [
        {"version": 0},
        {"cpu": "znver3"},
        {"cores": 4},
        {"bandwidth": [1.0, 2.0, 3.0]},
        {"bandwidth": "fast"},
        {"shared_bandwidth": [0.0, 1.0]},
        {"bandwidth": [1.0, 2.0, 3.0, float("nan")]},
        {"clock": "slow"},
        {"clock": None},
        {"more": 1},
    ],
)
def test_a_file_that_is_no_such_probe_is_left_alone(change: dict[str, object]) -> None:
    path = save_probe(PROBE)
    kept = json.loads(path.read_text()) | change
    path.write_text(json.dumps(kept))
    with pytest.warns(UserWarning, match=r"is no probe of znver4 with 2 cores: .*info --probe"):
        assert load_probe("znver4", 2) is None
    assert json.loads(path.read_text()).keys() == kept.keys()


def test_a_folder_that_cannot_be_is_an_error(folder: Path) -> None:
    folder.write_text("a file")
    with pytest.raises(ConfigError, match=r"cannot be written: .* Set BURNISH_CACHE_DIR"):
        save_probe(PROBE)


@pytest.mark.parametrize("text", ["", "{", "[]", "1", "{}", "\x00"])
def test_a_file_that_is_no_json_is_left_alone(text: str) -> None:
    path = save_probe(PROBE)
    path.write_text(text)
    with pytest.warns(UserWarning, match="the table's figures are used"):
        assert load_probe("znver4", 2) is None
