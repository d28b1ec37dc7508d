"""Whether this machine can run a program, asked of invented machines."""

from __future__ import annotations

import pytest

from burnish import errors
from burnish.driver.runnable import check_runnable
from burnish.support.host import native_target
from burnish.support.instructions import CPU_FEATURES, implied_features
from burnish.support.target import CPUS, Target


def machine(cpu: str) -> Target:
    """A host that has just what its CPU needs."""
    return Target(f"llvm -mcpu={cpu}", features=tuple([f"+{f}" for f in implied_features(cpu)]))


def test_this_machine_runs_its_own_code() -> None:
    check_runnable(native_target())


@pytest.mark.parametrize(
    ("target", "host"),
    [
        ("haswell", "skylake-avx512"),
        ("x86-64", "haswell"),
        ("x86-64-v3", "znver3"),
        ("cascadelake", "icelake-server"),
        ("icelake-server", "znver5"),
        ("znver4", "znver5"),
    ],
)
def test_a_newer_cpu_runs_older_code_but_not_the_reverse(target: str, host: str) -> None:
    check_runnable(Target(f"llvm -mcpu={target}"), machine(host))
    with pytest.raises(errors.TargetError, match=f"compiled for {host}.*lacks"):
        check_runnable(Target(f"llvm -mcpu={host}"), machine(target))


def test_the_missing_features_are_named() -> None:
    with pytest.raises(errors.TargetError, match=r"lacks avx512f, .*target='native'"):
        check_runnable(Target("llvm -mcpu=x86-64-v4"), machine("haswell"))
    with pytest.raises(errors.TargetError, match="lacks amx-tile"):
        check_runnable(Target("llvm -mcpu=haswell -mattr=+amx-tile"), machine("haswell"))


def test_another_architecture() -> None:
    with pytest.raises(errors.TargetError, match="compiled for aarch64-unknown-linux-gnu"):
        check_runnable(Target("llvm -mcpu=generic"), machine("haswell"))


def test_every_x86_cpu_is_in_the_table() -> None:
    named = {n for n, row in CPUS.items() if row.triple.startswith("x86")}
    assert all(any(name.startswith(known) for known in CPU_FEATURES) for name in named)
