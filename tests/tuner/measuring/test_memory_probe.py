"""The probe of memory: its arrays are in the levels they are meant for, its figures make sense."""

from __future__ import annotations

import pytest

from burnish.support.host import native_target
from burnish.support.target import CPUS, Target
from burnish.tuner.measuring.memory_probe import _sizes, probe_memory


@pytest.mark.parametrize("cpu", CPUS)
def test_each_array_is_in_its_level(cpu: str) -> None:
    target = Target(f"llvm -mcpu={cpu}")
    first, second, third, far = _sizes(target)
    assert first < target.l1_bytes < second < target.l2_bytes < third <= target.l3_bytes < far


def test_this_machine() -> None:
    target = native_target()
    probe = probe_memory(target)
    assert (probe.cpu, probe.cores) == (target.cpu, target.cores)
    assert 0.01 < probe.clock < 10
    assert sorted(probe.bandwidth, reverse=True) == list(probe.bandwidth)
    assert sorted(probe.shared_bandwidth, reverse=True) == list(probe.shared_bandwidth)
    assert all(0 < rate < 10_000 for rate in (*probe.bandwidth, *probe.shared_bandwidth))
