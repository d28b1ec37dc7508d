"""The program of tensor expressions runs, its numbers are right, and it shows the loops it says."""

from __future__ import annotations

from types import ModuleType

import numpy as np
import pytest

SPLIT = """\
-- split by a factor
produce B {
  for (i.outer, 0, ((m + 31)/32)) {
    for (i.inner, 0, 32) {
      if (likely((((i.outer*32) + i.inner) < m))) {
        B[((i.outer*32) + i.inner)] = (A[((i.outer*32) + i.inner)]*2.000000f)
      }
    }
  }
}
"""
AT = """\
-- compute_at: B where C reads it
produce C {
  for (i, 0, m) {
    produce B {
      B[i] = (A[i] + 1.000000f)
    }
    C[i] = (B[i]*2.000000f)
  }
}
"""
INLINE = """\
-- compute_inline: B is never stored
produce C {
  for (i, 0, m) {
    C[i] = ((A[i] + 1.000000f)*2.000000f)
  }
}
"""
KEYS = (
    "C[((i*n) + j)] = (A[((i*n) + j)]*B[((i*n) + j)])",
    "for (i.inner, 0, ((m + 31)/32)) {",
    "for (j.outer, 0, ((n + 4)/5)) {",
    "for (i.inner.j.inner.fused, 0, 50) {",
    "// attr [iter_var(threadIdx.x, , threadIdx.x)] thread_extent = 64",
    "parallel (i, 0, m) {",
    "for m_inner_init, p_inner_init in T.grid(16, 8):",
    "for rk_outer, m_inner, rk_inner, p_inner in T.grid(6, 16, 8, 8):",
    'v_m, v_p, v_rk = T.axis.remap("SSR", [m, p, rk])',
)


def test_it_runs(program: ModuleType, capsys: pytest.CaptureFixture[str]) -> None:
    program.main()
    text = capsys.readouterr().out
    for part in (SPLIT, AT, INLINE, *KEYS):
        assert part in text
    assert text.count("Time cost of ") == 4
    order = text[text.index("-- reorder") : text.index("-- bind")]
    loops = [line.split("(")[1].split(",")[0] for line in order.splitlines() if "for (" in line]
    assert loops == ["i.inner", "j.outer", "i.outer", "j.inner"]


def test_its_checks_can_fail(program: ModuleType) -> None:
    a, b, c = program.two_stages()
    s = program.te.create_schedule(c.op)
    x = np.ones(3, "float32")
    with pytest.raises(AssertionError):
        program.run(s, [a, b, c], [x], [x + 1, x + 1])
