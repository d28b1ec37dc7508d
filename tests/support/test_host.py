"""What the machine says of itself."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from burnish.support import host
from burnish.support.target import Target


def test_native_target_is_resolved_and_round_trips() -> None:
    target = host.native_target()
    assert target.is_resolved
    assert target.cores == len(os.sched_getaffinity(0))
    assert target.l1_bytes < target.l2_bytes <= target.l3_bytes
    assert Target(str(target)) == target
    assert host.native_target() is target


def test_wide_vectors_are_asked_for_where_they_exist() -> None:
    target = host.native_target()
    if "+avx512f" in target.features:
        assert (target.vector_bits, target.vector_registers) == (512, 32)
        assert "-prefer-256-bit" in target.features
    else:
        assert "-prefer-256-bit" not in target.features


def test_resolve_fills_in_the_machine_and_keeps_a_named_cpu() -> None:
    assert host.resolve(Target("native -threads=3")).threads == 3
    assert host.resolve(Target("native")).cpu == host.native_target().cpu
    haswell = host.resolve(Target("llvm -mcpu=haswell"))
    assert (haswell.cpu, haswell.vector_bits, haswell.cores) == ("haswell", 256, host.cores())


def test_vector_registers_by_features() -> None:
    assert host._vectors("x86_64-unknown-linux-gnu", {"avx2"}) == (256, 16)
    assert host._vectors("x86_64-unknown-linux-gnu", set()) == (128, 16)
    assert host._vectors("aarch64-unknown-linux-gnu", {"neon"}) == (128, 32)
    assert host._bytes("48K") == 49152


def test_what_llvm_said_is_kept_for_the_next_process(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("BURNISH_CACHE", "1")
    monkeypatch.setenv("BURNISH_CACHE_DIR", str(tmp_path))
    path = host._kept_in()
    if path is None:
        pytest.skip("the system does not say which processor this is")
    assert path.parent == tmp_path
    assert host._kept_in() == path
    asked = host._asked()
    assert host._processor() == asked
    assert host._kept(path) == asked
    monkeypatch.setattr(host, "_asked", lambda: ("other", "triple", {"feature"}))
    assert host._processor() == asked
    text = path.read_text()
    for damaged in (text.replace("+", "-", 1)[:-3], text[:40], "", "\xff", "[]\n"):
        path.write_text(damaged)
        assert host._kept(path) is None
    assert host._processor()[0] == "other"
    assert host._processor()[0] == "other"
    monkeypatch.setenv("BURNISH_CACHE", "0")
    assert host._kept_in() is None


def test_a_processor_that_says_nothing_is_asked_for_each_time(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("BURNISH_CACHE", "1")
    monkeypatch.setattr(host, "_PROCESSORS", tmp_path / "nothing")
    assert host._kept_in() is None
    monkeypatch.setattr(host, "_PROCESSORS", tmp_path / "one")
    (tmp_path / "one").write_text("processor\t: 0\nmodel\t: 17")
    first = host._kept_in()
    (tmp_path / "one").write_text("processor\t: 1\nmodel\t: 17")
    assert host._kept_in() == first
    (tmp_path / "one").write_text("processor\t: 1\nmodel\t: 18")
    assert host._kept_in() != first
