"""Reductions of what does not lie in memory as one row after another: parts of tensors, every
second element, turned axes, and rows of which only a call knows how many there are."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from burnish.support.node import walk
from burnish.tensorir import operators as op
from burnish.tensorir.expr import BufferLoad
from burnish.tensorir.function import PrimFunc
from burnish.tensorir.stmt import BlockRealize, For
from burnish.tensorir.te.compute import Tensor
from burnish.tests.steps import steps_in_vectors, steps_of
from burnish.tests.tuner.rules.checking import (
    SKYLAKE,
    Workload,
    assembly_of,
    check_rule,
    scheduled,
)


def part(x: Tensor, *shape: int) -> Tensor:
    """All but the first row, and but the first three columns."""
    begin = [1, *[0] * (len(shape) - 2), 3]
    return op.strided_slice(x, begin, [1] * len(shape), shape)


def every_second(x: Tensor) -> Tensor:
    return op.strided_slice(x, [0, 0], [1, 2], (70, 150))


@pytest.mark.parametrize(
    ("build", "reference", "shape"),
    [
        (lambda x: op.sum(part(x, 4, 1027)), lambda x: x[1:, 3:].sum(), (5, 1030)),
        (lambda x: op.sum(part(x, 3, 56, 56), (1, 2)), lambda x: x[1:, :, 3:].sum((1, 2)),
         (4, 56, 59)),
        (lambda x: op.sum(op.permute_dims(x)), lambda x: x.sum(), (33, 31, 16)),
        (lambda x: op.sum(every_second(x), 1), lambda x: x[:, ::2].sum(1), (70, 300)),
        (lambda x: op.sum(every_second(x), 0), lambda x: x[:, ::2].sum(0), (70, 300)),
        (lambda x: op.sum(part(x, 69, 300), 0), lambda x: x[1:, 3:].sum(0), (70, 303)),
        (lambda x: op.sum(op.add(x, x), (0, 2)), lambda x: 2 * x.sum((0, 2)), (6, 5, 301)),
    ],
)  # fmt: skip
def test_in_vectors_along_memory(
    build: Callable[[Tensor], Tensor], reference: Callable[..., Any], shape: tuple[int, ...]
) -> None:
    workload = Workload(build, reference, shape)
    _, func = scheduled(workload.func, target=SKYLAKE)
    assert steps_of(func, SKYLAKE) < 3 * steps_in_vectors(workload.func, SKYLAKE)
    assert gathers_from_rows(func) == 0
    check_rule(workload, "reduction", tolerance=1e-4)


def gathers_from_rows(func: PrimFunc) -> int:
    """Loads whose lanes lie in different rows alone."""
    vectors = {n.var for n in walk(func.body) if isinstance(n, For) and n.kind == "vectorized"}
    found = 0
    for realize in (n for n in walk(func.body) if isinstance(n, BlockRealize)):
        pairs = zip(realize.block.iter_vars, realize.iter_values, strict=True)
        lanes = {iv.var for iv, value in pairs if any(n in vectors for n in walk(value))}
        loads = [n for n in walk(realize.block.body) if isinstance(n, BufferLoad) and n.indices]
        for x in loads:
            *outer, last = [any(n in lanes for n in walk(i)) for i in x.indices]
            found += any(outer) and not last
    return found


@pytest.mark.parametrize("columns", [512, 37])
def test_all_of_symbolically_many_rows(columns: int) -> None:
    workload = Workload(op.sum, np.sum, ("m", columns))
    _, func = scheduled(workload.func, target=SKYLAKE)
    kinds = [n.kind for n in walk(func.body) if isinstance(n, For)]
    assert "vectorized" in kinds
    check_rule(workload, "reduction", m=(0, 1, 7, 33), tolerance=1e-4)


def turned_softmax(axis: int) -> Workload:
    def reference(x: np.ndarray) -> np.ndarray:
        e = np.exp(x.T - x.T.max(axis, keepdims=True))
        return e / e.sum(axis, keepdims=True)

    return Workload(lambda x: op.softmax(op.permute_dims(x), axis), reference, ("m", 64))


@pytest.mark.parametrize("axis", [0, 1])
def test_what_turns_rows_is_a_transpose_between_reductions(axis: int) -> None:
    workload = turned_softmax(axis)
    check_rule(workload, "reduction", m=(1, 7, 33, 100))
    _, func = scheduled(workload.func, target=SKYLAKE)
    text = assembly_of(func, SKYLAKE)
    assert "gather" not in text
    assert "scatter" not in text


@pytest.mark.parametrize(
    ("build", "reference"),
    [
        (lambda x: op.sum(x, 1), lambda x: x.sum(1)),
        (lambda x: op.max(x, 1), lambda x: x.max(1, initial=-np.inf)),
        (lambda x: op.log_softmax(x, 1),
         lambda x: x - np.log(np.exp(x).sum(1, keepdims=True, initial=1e-30))),
    ],
)  # fmt: skip
def test_rows_of_symbolic_length_are_summed_in_vectors(
    build: Callable[[Tensor], Tensor], reference: Callable[..., Any]
) -> None:
    workload = Workload(build, reference, (40, "m"))
    check_rule(workload, "reduction", m=(0, 1, 7, 33, 100), tolerance=1e-4)
    _, func = scheduled(workload.func, target=SKYLAKE)
    loops = [n for n in walk(func.body) if isinstance(n, For) and n.kind == "serial"]
    # No loop goes through a row element by element.
    assert not [loop for loop in loops if loop.extent in func.shape_vars]
