"""Stages: what calls record, and what they refuse at once."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from burnish import te
from burnish.support.errors import DependenceError, ScheduleError, ScheduleValueError
from burnish.tests.strategies.stages import chain


def product() -> tuple[te.Schedule, te.Tensor, te.Tensor]:
    """``C`` is a matrix product, ``D`` its exponentials."""
    program = chain()
    c, d = program.hidden
    return te.create_schedule([t.op for t in (*program.hidden, *program.outputs)]), c, d


def names(stage: te.Stage) -> list[str]:
    return [a.name for a in stage.leaf_axes]


def test_loops_follow_the_calls() -> None:
    s, c, _ = product()
    stage = s[c]
    m, p = c.op.axis
    (k,) = c.op.reduce_axis
    assert names(stage) == ["m", "p", "rk"]
    ko, ki = stage.split(k, 4)
    assert (ko.name, ki.name, ki.kind) == ("rk.outer", "rk.inner", "reduce")
    mo, _ = stage.split(m, nparts=2)
    assert names(stage) == ["m.outer", "m.inner", "p", "rk.outer", "rk.inner"]
    stage.reorder(ko, p, mo)
    assert names(stage) == ["rk.outer", "m.inner", "p", "m.outer", "rk.inner"]
    fused = stage.fuse(p, mo)
    assert names(stage) == ["rk.outer", "m.inner", "p.m.outer.fused", "rk.inner"]
    assert stage.fuse(fused) is fused


def test_tile_is_two_splits_and_a_reorder() -> None:
    s, c, _ = product()
    xo, yo, xi, yi = s[c].tile(*c.op.axis, x_factor=3, y_factor=2)
    assert [a.name for a in (xo, yo, xi, yi)] == ["m.outer", "p.outer", "m.inner", "p.inner"]
    assert names(s[c]) == ["m.outer", "p.outer", "m.inner", "p.inner", "rk"]


def test_compute_root_takes_back_where_a_stage_is_computed() -> None:
    s, c, d = product()
    s[c].compute_at(s[d], d.op.axis[0])
    assert s[c].records.attach is not None
    s[c].compute_root()
    assert s[c].records.attach is None
    assert s[c].records.first_call == ""


def test_thread_axes() -> None:
    assert te.thread_axis("threadIdx.x").extent is None
    assert te.thread_axis((0, 64), "blockIdx.x").extent == 64
    assert te.thread_axis(8, "vthread").extent == 8
    with pytest.raises(ScheduleValueError, match="Expected a thread axis, one of blockIdx"):
        te.thread_axis("threadIdx.w")
    with pytest.raises(
        ScheduleValueError, match=r"Expected a domain \(0, extent\); found \(1, 2\)"
    ):
        te.thread_axis((1, 2), "threadIdx.x")


Misuse = Callable[[te.Schedule, te.Tensor, te.Tensor], object]
M: Callable[[te.Tensor], te.IterVar] = lambda t: t.op.axis[0]  # noqa: E731


def split_twice(s: te.Schedule, c: te.Tensor, d: te.Tensor) -> None:
    s[c].split(M(c), 2)
    s[c].split(M(c), 2)


def use_fused(s: te.Schedule, c: te.Tensor, d: te.Tensor) -> None:
    s[d].fuse(*d.op.axis)
    s[d].vectorize(M(d))


def kind_twice(s: te.Schedule, c: te.Tensor, d: te.Tensor) -> None:
    s[d].parallel(M(d))
    s[d].unroll(M(d))


def split_after_kind(s: te.Schedule, c: te.Tensor, d: te.Tensor) -> None:
    s[d].parallel(M(d))
    s[d].split(M(d), 2)


def split_after_pragma(s: te.Schedule, c: te.Tensor, d: te.Tensor) -> None:
    s[d].pragma(M(d), "note", 3)
    s[d].split(M(d), 2)


def split_inlined(s: te.Schedule, c: te.Tensor, d: te.Tensor) -> None:
    s[d].compute_inline()
    s[d].split(M(d), 2)


def inline_scheduled(s: te.Schedule, c: te.Tensor, d: te.Tensor) -> None:
    s[d].split(M(d), 2)
    s[d].compute_inline()


def other_schedule(s: te.Schedule, c: te.Tensor, d: te.Tensor) -> None:
    other = te.create_schedule(d.op)
    s[c].compute_at(other[d], M(d))


@pytest.mark.parametrize(
    ("misuse", "kind", "message"),
    [
        (
            lambda s, c, d: s[c].split(M(d), 2),
            ScheduleValueError,
            "s[C].split(m, factor=2): The axis 'm' is of stage 'D', not of 'C'. The axes of 'C' "
            "are 'm', 'p', 'rk'.",
        ),
        (
            lambda s, c, d: s[c].reorder(M(c), d.op.axis[1]),
            ScheduleValueError,
            "s[C].reorder(m, p): The axis 'p' is of stage 'D', not of 'C'.",
        ),
        (
            lambda s, c, d: s[c].split(te.reduce_axis((0, 2), "z"), 2),
            ScheduleValueError,
            "The axis 'z' is of no stage of this schedule, not of 'C'.",
        ),
        (
            lambda s, c, d: s[c].split("m", 2),
            ScheduleValueError,
            "Expected an axis such as C.op.axis[0]; found str.",
        ),
        (
            split_twice,
            ScheduleValueError,
            "s[C].split(m, factor=2): The axis 'm' of stage 'C' is gone: it was split into "
            "'m.outer' and 'm.inner'. The axes of 'C' are 'm.outer', 'm.inner', 'p', 'rk'.",
        ),
        (use_fused, ScheduleValueError, "is gone: it was fused into 'm.p.fused'."),
        (
            lambda s, c, d: s[c].split(M(c)),
            ScheduleValueError,
            "Expected factor= or nparts=, one of them; got neither.",
        ),
        (
            lambda s, c, d: s[c].split(M(c), 2, nparts=2),
            ScheduleValueError,
            "Expected factor= or nparts=, one of them; got both.",
        ),
        (
            lambda s, c, d: s[c].split(M(c), 0),
            ScheduleValueError,
            "Expected a size of at least 1; found 0.",
        ),
        (
            lambda s, c, d: s[c].split(M(c), 2.5),
            ScheduleValueError,
            "Expected an integer or an expression; found float.",
        ),
        (
            lambda s, c, d: s[c].tile(M(c), M(c), 2, 2),
            ScheduleValueError,
            "s[C].tile(m, m, 2, 2): Expected two different axes; found one twice.",
        ),
        (
            lambda s, c, d: s[c].fuse(c.op.axis[1], M(c)),
            ScheduleValueError,
            "fuse takes axes that directly follow each other, outermost first; the order of 'C' is "
            "'m', 'p', 'rk'.",
        ),
        (
            lambda s, c, d: s[c].fuse(c.op.axis[1], c.op.reduce_axis[0]),
            ScheduleValueError,
            "A spatial and a reduce axis cannot be one",
        ),
        (
            lambda s, c, d: s[c].fuse(),
            ScheduleValueError,
            "Expected at least one axis; found none.",
        ),
        (
            lambda s, c, d: s[c].reorder(M(c), M(c)),
            ScheduleValueError,
            "The axis 'm' is named twice.",
        ),
        (
            kind_twice,
            ScheduleValueError,
            "s[D].unroll(m): The axis 'm' has its kind already, by s[D].parallel(m)",
        ),
        (split_after_kind, ScheduleValueError, "change the loops first, then their kinds."),
        (split_after_pragma, ScheduleValueError, "has a pragma, by s[D].pragma(m, 'note')"),
        (
            lambda s, c, d: s[d].bind(M(d), "threadIdx.x"),
            ScheduleValueError,
            'Expected thread_axis("threadIdx.x") or the like; found str.',
        ),
        (
            lambda s, c, d: s[d].compute_at(s[c], M(c)),
            DependenceError,
            "s[D].compute_at(s[C], m): 'C' does not read 'D', so nothing of it is needed there; "
            "'D' is read by 'F'.",
        ),
        (
            lambda s, c, d: s[d].compute_at(s[d], M(d)),
            DependenceError,
            "'D' does not read 'D'",
        ),
        (
            lambda s, c, d: s[c].compute_at(d, M(d)),
            ScheduleValueError,
            "Expected a stage such as s[C]; found Tensor.",
        ),
        (
            lambda s, c, d: s[c].compute_at(s[d], M(c)),
            ScheduleValueError,
            "The axis 'm' is of stage 'C', not of 'D'.",
        ),
        (other_schedule, ScheduleValueError, "'D' is a stage of another schedule."),
        (
            lambda s, c, d: s[c].compute_inline(),
            ScheduleError,
            "s[C].compute_inline(): The stage 'C' is a reduction over 'rk', whose value is not one "
            "expression; use compute_at",
        ),
        (split_inlined, ScheduleValueError, "The stage 'D' is inlined; it has no loops to change."),
        (
            inline_scheduled,
            ScheduleError,
            "The stage 'D' was scheduled already, by s[D].split(m, factor=2)",
        ),
        (
            lambda s, c, d: s[c].set_scope("cache"),
            ScheduleValueError,
            "Expected a storage scope, one of global, local",
        ),
        (
            lambda s, c, d: s[c].pragma(M(c), ""),
            ScheduleValueError,
            "Expected the name of a pragma, a string.",
        ),
    ],
)
def test_misuse_is_refused_at_the_call(
    misuse: Misuse, kind: type[ScheduleError], message: str
) -> None:
    with pytest.raises(kind) as caught:
        misuse(*product())
    assert message in str(caught.value)


def test_a_definition_of_several_tensors_cannot_be_inlined() -> None:
    a = te.placeholder((4,), name="A")
    b = te.compute((4,), lambda i: (a[i] + 1.0, a[i] * 2.0), name="B")
    c = te.compute((4,), lambda i: b[0][i] + b[1][i], name="C")
    s = te.create_schedule(c.op)
    with pytest.raises(
        ScheduleError, match="The stage 'B' has 2 outputs; only a definition of one"
    ):
        s[b[1]].compute_inline()
