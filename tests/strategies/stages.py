"""Programs of tensor expressions, and random stage schedules of them."""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from burnish import te
from burnish.support.errors import ScheduleError
from burnish.tensorir.stages.stage import Stage, StageAxis

Reference = Callable[..., Sequence[np.ndarray]]


@dataclass
class Program:
    """Tensors in the order of the call, inputs first, and what NumPy says the outputs are."""

    inputs: list[te.Tensor]
    hidden: list[te.Tensor]
    outputs: list[te.Tensor]
    reference: Reference

    @property
    def args(self) -> list[te.Tensor]:
        return [*self.inputs, *self.outputs]


def chain() -> Program:
    """``F = exp(A @ B) @ E``."""
    m, k, p, n = 6, 5, 4, 7
    a, b = te.placeholder((m, k), name="A"), te.placeholder((k, p), name="B")
    e = te.placeholder((p, n), name="E")
    rk, rl = te.reduce_axis((0, k), name="rk"), te.reduce_axis((0, p), name="rl")
    c = te.compute((m, p), lambda m, p: te.sum(a[m, rk] * b[rk, p], axis=[rk]), name="C")
    d = te.compute((m, p), lambda m, p: te.exp(c[m, p]), name="D")
    f = te.compute((m, n), lambda m, n: te.sum(d[m, rl] * e[rl, n], axis=[rl]), name="F")
    return Program([a, b, e], [c, d], [f], lambda a, b, e: [np.exp(a @ b) @ e])


def stencil() -> Program:
    """Sums of three neighbours of a scaled vector, and their doubles."""
    n = 14
    a = te.placeholder((n + 2,), name="A")
    b = te.compute((n + 2,), lambda i: a[i] * 2.0, name="B")
    c = te.compute((n,), lambda i: b[i] + b[i + 1] + b[i + 2], name="C")
    d = te.compute((n,), lambda i: c[i] * 2.0, name="D")

    def reference(a: np.ndarray) -> list[np.ndarray]:
        return [4 * (a[:-2] + a[1:-1] + a[2:])]

    return Program([a], [b, c], [d], reference)


def rows() -> Program:
    """The maximum of each row and its place, and the rows without it; two outputs of one op."""
    m, n = 5, 6
    a = te.placeholder((m, n), name="A")
    k = te.reduce_axis((0, n), name="k")
    place, top = te.compute((m,), lambda i: argmax()((k.var, a[i, k]), axis=k), name="T")
    less = te.compute((m, n), lambda i, j: a[i, j] - top[i], name="L")

    def reference(a: np.ndarray) -> list[np.ndarray]:
        return [a.argmax(1), a.max(1), a - a.max(1, keepdims=True)]

    return Program([a], [], [place, top, less], reference)


def argmax() -> te.CommReducer:
    """The first place of the maximum, whatever the order: the lesser place wins a tie."""

    def combine(x: tuple[te.Expr, te.Expr], y: tuple[te.Expr, te.Expr]) -> tuple[te.Expr, te.Expr]:
        first = te.any(x[1] > y[1], te.all(x[1].equal(y[1]), x[0] < y[0]))
        return te.select(first, x[0], y[0]), te.maximum(x[1], y[1])

    def identity(t0: str, t1: str) -> tuple[te.Expr, te.Expr]:
        return te.max_value(t0), te.min_value(t1)

    return te.comm_reducer(combine, identity, name="argmax")


PROGRAMS: dict[str, Callable[[], Program]] = {"chain": chain, "stencil": stencil, "rows": rows}


def random_schedule(program: Program, seed: int) -> tuple[te.Schedule, list[str]]:
    """A random schedule of a program, and the calls on it that were accepted.

    Each stage is split, reordered, fused; its producers are moved or inlined; kinds are given. The
    order of the stages is random too.
    """
    rng = random.Random(seed)
    s = te.create_schedule([t.op for t in program.outputs])
    calls: list[str] = []

    def attempt(call: Callable[[], object], text: str) -> None:
        try:
            call()
        except ScheduleError:
            return
        calls.append(text)

    for stage in rng.sample(s.stages, len(s.stages)):
        for _ in range(rng.randrange(4)):
            _loops(rng, stage, attempt)
    for stage in rng.sample(s.stages, len(s.stages)):
        _place(rng, s, stage, attempt)
        _kind(rng, stage, attempt)
    return s, calls


Attempt = Callable[[Callable[[], object], str], None]


def _loops(rng: random.Random, stage: Stage, attempt: Attempt) -> None:
    axes: list[StageAxis] = stage.leaf_axes
    axis = rng.choice(axes)
    match rng.randrange(4):
        case 0:
            factor = rng.randint(1, 5)
            attempt(lambda: stage.split(axis, factor), f"split {axis} {factor}")
        case 1:
            nparts = rng.randint(1, 4)
            attempt(lambda: stage.split(axis, nparts=nparts), f"split {axis} nparts {nparts}")
        case 2:
            order = rng.sample(axes, len(axes))
            attempt(lambda: stage.reorder(*order), f"reorder {order}")
        case _:
            at = rng.randrange(len(axes))
            attempt(lambda: stage.fuse(*axes[at : at + 2]), f"fuse {axes[at : at + 2]}")


def _place(rng: random.Random, s: te.Schedule, stage: Stage, attempt: Attempt) -> None:
    consumers = s.consumers(stage)
    if not consumers or rng.random() < 0.4:
        return
    if rng.random() < 0.3:
        attempt(stage.compute_inline, f"inline {stage}")
        return
    parent = rng.choice(consumers)
    axis = rng.choice(parent.leaf_axes)
    attempt(lambda: stage.compute_at(parent, axis), f"{stage} at {parent} {axis}")


def _kind(rng: random.Random, stage: Stage, attempt: Attempt) -> None:
    spatial = [a for a in stage.leaf_axes if a.kind == "spatial"]
    if not spatial:
        return
    match rng.randrange(4):
        case 0:
            attempt(lambda: stage.vectorize(spatial[-1]), f"vectorize {spatial[-1]}")
        case 1:
            attempt(lambda: stage.parallel(spatial[0]), f"parallel {spatial[0]}")
        case 2:
            attempt(lambda: stage.unroll(stage.leaf_axes[-1]), f"unroll {stage.leaf_axes[-1]}")
        case _:
            pass
