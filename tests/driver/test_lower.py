"""burnish.lower, and burnish.build of stage schedules: what runs natively is what NumPy says."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

import burnish
from burnish import te
from burnish.support.errors import ScheduleError, ScheduleValueError
from burnish.tests.strategies.stages import PROGRAMS, argmax, chain, random_schedule


def doubled(dtype: str = "float32") -> tuple[te.Tensor, te.Tensor, te.Tensor, te.Schedule]:
    m = te.var("m")
    a = te.placeholder((m,), dtype, name="A")
    b = te.compute((m,), lambda i: a[i] * 2, name="B")
    c = te.compute((m,), lambda i: b[i] + 1, name="C")
    return a, b, c, te.create_schedule(c.op)


def test_lower_gives_a_module_or_text() -> None:
    a, b, c, s = doubled()
    mod = burnish.lower(s, [a, b, c])
    assert isinstance(mod, burnish.IRModule)
    assert "def main(A: T.Buffer" in mod.script()
    burnish.assert_structural_equal(burnish.parse(mod.script()), mod)
    assert list(burnish.lower(s, [a, b, c], name="double").functions) == ["double"]
    text = burnish.lower(s, [a, b, c], simple_mode=True)
    assert text.startswith("produce B {\n  for (i, 0, m) {")
    mod.show()


@pytest.mark.parametrize("size", [0, 1, 31, 32, 77])
def test_symbolic_sizes_with_vectorised_tails(size: int) -> None:
    a, b, c, s = doubled()
    outer, inner = s[c].split(c.op.axis[0], factor=32)
    s[b].compute_at(s[c], outer)
    s[c].vectorize(inner)
    s[c].parallel(outer)
    s[b].vectorize(b.op.axis[0])
    x = np.arange(size, dtype="float32")
    y, z = np.full(size, np.nan, "float32"), np.full(size, np.nan, "float32")
    burnish.build(s, [a, b, c], target="llvm")["main"](x, y, z)
    np.testing.assert_array_equal(y, x * 2)
    np.testing.assert_array_equal(z, x * 2 + 1)


@pytest.mark.parametrize("name", PROGRAMS)
def test_random_schedules_run(name: str) -> None:
    ran = 0
    for seed in range(6):
        program = PROGRAMS[name]()
        s, calls = random_schedule(program, 100 + seed)
        rng = np.random.default_rng(seed)
        given = [
            rng.integers(-2, 3, [d.value for d in t.shape]).astype("float32") / 2
            for t in program.inputs
        ]
        found = [np.zeros([d.value for d in t.shape], str(t.dtype)) for t in program.outputs]
        try:
            lib = burnish.build(s, program.args)
        except ScheduleError:
            continue
        lib["main"](*given, *found)
        for out, expected in zip(found, program.reference(*given), strict=True):
            np.testing.assert_allclose(out, expected, rtol=1e-4, err_msg=str(calls))
        ran += 1
    assert ran >= 3


def normalised() -> tuple[list[te.Tensor], te.Schedule]:
    """Rows without their sum, of any size."""
    m, n = te.var("m"), te.var("n")
    a = te.placeholder((m, n), name="A")
    k = te.reduce_axis((0, n), "k")
    b = te.compute((m, n), lambda i, j: a[i, j] * 2.0, name="B")
    r = te.compute((m,), lambda i: te.sum(b[i, k], axis=k), name="R")
    d = te.compute((m, n), lambda i, j: b[i, j] - r[i], name="D")
    return [a, b, r, d], te.create_schedule(d.op)


def rows_by_threads(s: te.Schedule, b: te.Tensor, r: te.Tensor, d: te.Tensor) -> None:
    outer, _ = s[d].split(d.op.axis[0], nparts=3)
    s[d].parallel(outer)
    s[b].compute_inline()


def sums_where_they_are_needed(s: te.Schedule, b: te.Tensor, r: te.Tensor, d: te.Tensor) -> None:
    outer, inner = s[d].split(d.op.axis[0], 4)
    columns, lanes = s[d].split(d.op.axis[1], 8)
    s[d].reorder(outer, columns, inner, lanes)
    s[d].vectorize(lanes)
    s[d].parallel(outer)
    s[r].compute_at(s[d], outer)
    _, part = s[r].split(r.op.reduce_axis[0], 8)
    s[r].reorder(part, r.op.axis[0])


def tiles_of_symbolic_size(s: te.Schedule, b: te.Tensor, r: te.Tensor, d: te.Tensor) -> None:
    xo, xi = s[b].split(b.op.axis[0], nparts=2)
    yo, yi = s[b].split(b.op.axis[1], nparts=3)
    s[b].reorder(yi, xi, yo, xo)
    s[b].parallel(yi)
    s[d].fuse(*d.op.axis)
    rows, ki = s[r].split(r.op.reduce_axis[0], nparts=2)
    s[r].reorder(ki, rows, r.op.axis[0])


@pytest.mark.parametrize(
    "schedule", [rows_by_threads, sums_where_they_are_needed, tiles_of_symbolic_size]
)
def test_schedules_of_symbolic_sizes(schedule: Callable[..., None]) -> None:
    (a, b, r, d), s = normalised()
    schedule(s, b, r, d)
    lib = burnish.build(s, [a, r, d])
    for shape in ((1, 1), (5, 7), (0, 4), (16, 33)):
        x = np.random.default_rng(0).integers(-3, 4, shape).astype("float32")
        total, out = np.full(shape[0], np.nan, "float32"), np.full(shape, np.nan, "float32")
        lib["main"](x, total, out)
        np.testing.assert_array_equal(total, (x * 2).sum(1))
        np.testing.assert_array_equal(out, x * 2 - (x * 2).sum(1, keepdims=True))


def test_argmax_is_the_first_of_equal_values_under_every_schedule() -> None:
    m, n = te.var("m"), te.var("n")
    x = np.random.default_rng(0).integers(0, 4, (9, 50)).astype("float32")
    for how in range(4):
        a = te.placeholder((m, n), name="A")
        k = te.reduce_axis((0, n), "k")
        place, top = te.compute((m,), lambda i: argmax()((k.var, a[i, k]), axis=k), name="T")  # noqa: B023
        s = te.create_schedule(top.op)
        stage = s[top]
        if how >= 1:
            _, inner = stage.split(k, 8)
        if how == 2:
            outer, rows = stage.split(place.op.axis[0], 4)
            stage.reorder(outer, inner, rows)
            stage.vectorize(rows)
        if how == 3:
            s.rfactor(place, inner)
            s[place].parallel(s[place].op.axis[0])
        where, value = np.zeros(9, "int64"), np.zeros(9, "float32")
        burnish.build(s, [a, place, top])["main"](x, where, value)
        np.testing.assert_array_equal(where, x.argmax(1))
        np.testing.assert_array_equal(value, x.max(1))


def test_the_last_output_need_not_be_an_argument() -> None:
    program = chain()
    s = te.create_schedule([t.op for t in (*program.hidden, *program.outputs)])
    lib = burnish.build(s, program.inputs, target="llvm")
    arrays = [np.ones([d.value for d in t.shape], "float32") for t in program.inputs]
    assert lib.time_evaluator("main", number=1)(*arrays).mean > 0


def test_a_built_schedule_matches_its_module() -> None:
    a, _, c, s = doubled("float64")
    x, out, again = np.arange(5.0), np.zeros(5), np.zeros(5)
    burnish.build(s, [a, c])["main"](x, out)
    burnish.build(burnish.lower(s, [a, c]))["main"](x, again)
    np.testing.assert_array_equal(out, x * 2 + 1)
    np.testing.assert_array_equal(out, again)


def test_misuse() -> None:
    a, b, c, s = doubled()
    with pytest.raises(
        ScheduleValueError, match="build: A stage schedule needs its arguments, a list"
    ):
        burnish.build(s)
    with pytest.raises(ScheduleValueError, match=r"lower: .*such as \[A, B, C\]; found Tensor"):
        burnish.lower(s, a)
    with pytest.raises(ScheduleValueError, match="lower: Expected a stage schedule, made by te"):
        burnish.lower(burnish.lower(s, [a, b, c]), [a])
    with pytest.raises(ScheduleValueError, match=r"found PrimFunc\. .*burnish\.build lowers them"):
        burnish.lower(burnish.lower(s, [a, b, c])["main"])
    with pytest.raises(burnish.errors.BurnishError, match="args= goes with a stage schedule"):
        burnish.build(burnish.lower(s, [a, b, c]), [a])
    d = te.compute((4,), lambda i: a[i], name="D")
    with pytest.raises(
        ScheduleValueError, match="The argument 'D' is not computed by this schedule"
    ):
        burnish.lower(s, [a, d])
