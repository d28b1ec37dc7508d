"""The table of environment flags."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest

from burnish.support.config import (
    FLAGS,
    cache_dir,
    describe_flags,
    flag,
    unknown_flags,
)
from burnish.support.errors import ConfigError, InternalError


@pytest.fixture(autouse=True)
def _no_flags(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in FLAGS:
        monkeypatch.delenv(name, raising=False)


def test_defaults() -> None:
    assert {name: flag(name) for name in FLAGS} == {
        "BURNISH_DUMP": None,
        "BURNISH_DEBUG_NODES": False,
        "BURNISH_PRINT_AFTER": (),
        "BURNISH_VERIFY": "each",
        "BURNISH_RAISE_DEFECTS": False,
        "BURNISH_TILES": True,
        "BURNISH_SEED": None,
        "BURNISH_NUM_THREADS": None,
        "OMP_NUM_THREADS": None,
        "BURNISH_BUILD_JOBS": None,
        "BURNISH_DATA": None,
        "BURNISH_CACHE_DIR": None,
        "BURNISH_CACHE": True,
        "BURNISH_CACHE_SIZE": 512,
        "BURNISH_PERF_MAP": False,
        "XDG_CACHE_HOME": Path("~/.cache"),
    }


def test_where_files_are_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    assert cache_dir() == Path("~/.cache/burnish").expanduser()
    monkeypatch.setenv("XDG_CACHE_HOME", "/somewhere")
    assert cache_dir() == Path("/somewhere/burnish")
    monkeypatch.setenv("BURNISH_CACHE_DIR", "/else")
    assert cache_dir() == Path("/else")


@pytest.mark.parametrize(
    ("name", "text", "value"),
    [
        ("BURNISH_DUMP", "out", Path("out")),
        ("BURNISH_DUMP", " ", None),
        ("BURNISH_DEBUG_NODES", "ON", True),
        ("BURNISH_DEBUG_NODES", "0", False),
        ("BURNISH_PRINT_AFTER", "fuse-ops, all,", ("fuse-ops", "all")),
        ("BURNISH_VERIFY", "none", "none"),
        ("BURNISH_SEED", "-3", -3),
        ("BURNISH_NUM_THREADS", "4", 4),
        ("OMP_NUM_THREADS", "2,1", 2),
        ("BURNISH_DATA", "~/x", Path("~/x").expanduser()),
    ],
)
def test_values(name: str, text: str, value: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(name, text)
    assert flag(name) == value


@pytest.mark.parametrize(
    ("name", "text", "message"),
    [
        ("BURNISH_NUM_THREADS", "0", "a whole number of at least 1, found '0'"),
        ("BURNISH_NUM_THREADS", "two", "a whole number of at least 1, found 'two'"),
        ("OMP_NUM_THREADS", "", None),
        ("BURNISH_SEED", "1.5", "a whole number, found '1.5'"),
        ("BURNISH_VERIFY", "all", "none or each, found 'all'"),
        ("BURNISH_DEBUG_NODES", "maybe", "0 or 1, found 'maybe'"),
    ],
)
def test_a_value_that_a_flag_cannot_have_is_an_error(
    name: str, text: str, message: str | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(name, text)
    if message is None:
        assert flag(name) is None
        return
    with pytest.raises(ConfigError) as caught:
        flag(name)
    assert str(caught.value).startswith(f"{name} expects {message}.")


def test_an_unknown_name_is_a_defect() -> None:
    with pytest.raises(InternalError, match=r"BURNISH_DUMB is not .* Did you mean 'BURNISH_DUMP'"):
        flag("BURNISH_DUMB")


def test_misspelt_variables_are_reported(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("BURNISH_SEEDS", "1")
    assert unknown_flags() == [
        "BURNISH_SEEDS is not a flag of burnish. Did you mean 'BURNISH_SEED'?"
    ]


def test_the_table_has_a_row_for_each_flag() -> None:
    rows = describe_flags().splitlines()
    assert len(rows) == len(FLAGS) + 2
    assert "| `BURNISH_VERIFY` | `each` |" in describe_flags()
    assert "| `BURNISH_DEBUG_NODES` | `0` |" in describe_flags()


def test_a_user_without_a_home_has_a_folder_of_his_own(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(self: Path) -> Path:
        raise RuntimeError("Could not determine home directory.")

    monkeypatch.setattr(Path, "expanduser", fail)
    assert cache_dir().name == f"burnish-{os.getuid()}"
