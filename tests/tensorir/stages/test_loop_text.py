"""The C-like text of stage schedules."""

from __future__ import annotations

import pytest

from burnish import te
from burnish.tensorir.stages.loop_text import loop_text
from burnish.tensorir.stages.stage_lowering import lower_stages


def text(s: te.Schedule, *args: te.Tensor) -> str:
    return loop_text(lower_stages(s, args))


def doubled() -> tuple[te.Tensor, te.Tensor, te.Schedule]:
    m = te.var("m")
    a = te.placeholder((m,), name="A")
    b = te.compute((m,), lambda i: a[i] * 2, name="B")
    return a, b, te.create_schedule(b.op)


def test_two_dimensions_are_flat() -> None:
    m, n = te.var("m"), te.var("n")
    a, b = te.placeholder((m, n), name="A"), te.placeholder((m, n), name="B")
    c = te.compute((m, n), lambda i, j: a[i, j] * b[i, j], name="C")
    assert (
        text(te.create_schedule([c.op]), a, b, c)
        == """\
produce C {
  for (i, 0, m) {
    for (j, 0, n) {
      C[((i*n) + j)] = (A[((i*n) + j)]*B[((i*n) + j)])
    }
  }
}
"""
    )


def test_a_split_that_does_not_divide_is_guarded() -> None:
    a, b, s = doubled()
    s[b].split(b.op.axis[0], factor=32)
    assert (
        text(s, a, b)
        == """\
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
    )


def test_bound_loops_are_threads() -> None:
    a, b, s = doubled()
    outer, inner = s[b].split(b.op.axis[0], factor=64)
    s[b].bind(outer, te.thread_axis("blockIdx.x"))
    s[b].bind(inner, te.thread_axis("threadIdx.x"))
    assert (
        text(s, a, b)
        == """\
produce B {
  // attr [iter_var(blockIdx.x, , blockIdx.x)] thread_extent = ((m + 63)/64)
  // attr [iter_var(threadIdx.x, , threadIdx.x)] thread_extent = 64
  if (likely((((blockIdx.x*64) + threadIdx.x) < m))) {
    B[((blockIdx.x*64) + threadIdx.x)] = (A[((blockIdx.x*64) + threadIdx.x)]*2.000000f)
  }
}
"""
    )


def test_a_stage_inside_another() -> None:
    n = te.var("n")
    a = te.placeholder((n, 8), name="A")
    k = te.reduce_axis((0, 8), "k")
    b = te.compute((n,), lambda i: te.sum(a[i, k], axis=k), name="B")
    c = te.compute((n,), lambda i: te.exp(b[i]) - 1.5, name="C")
    s = te.create_schedule(c.op)
    outer, inner = s[c].split(c.op.axis[0], factor=4)
    s[b].compute_at(s[c], outer)
    s[b].reorder(b.op.reduce_axis[0], b.op.axis[0])
    s[b].unroll(b.op.reduce_axis[0])
    s[c].parallel(outer)
    s[c].vectorize(inner)
    assert (
        text(s, a, c)
        == """\
// attr [B] storage_scope = "global"
allocate B[float32 * n]
produce C {
  parallel (i.outer, 0, ((n + 3)/4)) {
    produce B {
      for (i.init, 0, 4) {
        if (likely((((i.outer*4) + i.init) < n))) {
          B[((i.outer*4) + i.init)] = 0.000000f
        }
      }
      unrolled (k, 0, 8) {
        for (i, 0, 4) {
          if (likely((((i.outer*4) + i) < n))) {
            B[((i.outer*4) + i)] = (B[((i.outer*4) + i)] + A[(((i.outer*32) + (i*8)) + k)])
          }
        }
      }
    }
    vectorized (i.inner, 0, 4) {
      if (likely((((i.outer*4) + i.inner) < n))) {
        C[((i.outer*4) + i.inner)] = (exp(B[((i.outer*4) + i.inner)]) - 1.500000f)
      }
    }
  }
}
"""
    )


def test_loops_of_one_name_are_told_apart() -> None:
    a = te.placeholder((4, 4), name="A")
    b = te.compute((4, 4), lambda i, j: a[i, j] + 1.0, name="B")
    c = te.compute((4, 4), lambda i, j: b[i, j] + b[j, i], name="C")
    s = te.create_schedule(c.op)
    s[b].compute_at(s[c], c.op.axis[0])
    found = text(s, a, c)
    assert "for (i, 0, 4) {" in found
    assert "for (i_1, 0, 4) {" in found
    assert "B[((i_1*4) + j)] = (A[((i_1*4) + j)] + 1.000000f)" in found


@pytest.mark.parametrize(
    ("body", "expected"),
    [
        (lambda x, i: te.if_then_else(i < 2, x, 1e-7), "if_then_else((i < 2), A[i], 1e-07f)"),
        (lambda x, i: te.select(x > 0.0, -x, x), "select((A[i] > 0.000000f), -A[i], A[i])"),
        (lambda x, i: te.max(x, te.min_value("float32")), "max(A[i], -inf)"),
        (lambda x, i: te.cast(i // 2 + i % 3, "float32"), "float32(((i/2) + (i % 3)))"),
        (
            lambda x, i: te.cast(te.all(i >= 1, i.not_equal(3)), "float32"),
            "float32(((i >= 1) && (i != 3)))",
        ),
        (
            lambda x, i: te.cast(te.logical_not(te.any(i <= 1, i > 2)), "float32"),
            "float32(!((i <= 1) || (i > 2)))",
        ),
    ],
)
def test_expressions(body: object, expected: str) -> None:
    a = te.placeholder((4,), name="A")
    b = te.compute((4,), lambda i: body(a[i], i), name="B")  # type: ignore[operator]
    assert f"B[i] = {expected}\n" in text(te.create_schedule(b.op), a, b)


def test_pragmas_and_lets() -> None:
    a, b, s = doubled()
    s[b].pragma(b.op.axis[0], "auto_unroll_max_step", 8)
    assert "  // attr [i] pragma_auto_unroll_max_step = 8\n  for (i, 0, m) {" in text(s, a, b)
    k = te.reduce_axis((0, 4), "k")
    x = te.placeholder((4,), name="X")
    two = te.comm_reducer(
        lambda p, q: (p[0] + q[0], p[1] * q[1]), lambda t, u: (te.const(0, t), te.const(1, u))
    )
    r = te.compute((), lambda: two((x[k], x[k]), axis=k), name="R")
    found = text(te.create_schedule(r[0].op), x, *r)
    assert "R_v0[0] = 0.000000f\n  R_v1[0] = 1.000000f\n" in found
    assert "    let v_R_v1 = (R_v1[0]*X[k])\n    R_v0[0] = v_R_v0\n" in found
