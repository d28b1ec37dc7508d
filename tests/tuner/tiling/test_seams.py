"""Seams: pieces that are plain copies, with the numbers of the whole."""

from __future__ import annotations

import numpy as np
import pytest

from burnish.tensorir import operators as op
from burnish.tensorir.expr import BufferLoad, Expr, Select, const, maximum
from burnish.tensorir.te.compute import Tensor, compute, create_prim_func, placeholder
from burnish.tensorir.text.printer import print_func
from burnish.tests.native import lower
from burnish.tests.tuner.rules.checking import SKYLAKE, Workload, check_rule, scheduled
from burnish.tuner.tiling.seams import pieces_of
from burnish.tuner.workload import blocks_in_order

MODES = {"reflect": "reflect", "replicate": "edge", "circular": "wrap"}


def roll(x: Tensor, shift: int, axis: int) -> Tensor:
    size = int(str(x.shape[axis]))
    begin = [0] * x.ndim
    front, back = list(x.shape), list(x.shape)
    front[axis], back[axis] = shift, size - shift  # type: ignore[call-overload]
    ends = [n if d == axis else 0 for d, n in enumerate([size - shift] * x.ndim)]
    ones = [1] * x.ndim
    parts = [op.strided_slice(x, ends, ones, front), op.strided_slice(x, begin, ones, back)]
    return op.concat(parts, axis)


def pieces(element, *shape: int, axis: int = -1, turns: bool = True) -> list[int]:  # type: ignore[no-untyped-def]
    """The pieces of an axis of ``element(x, *indices)``, where x has the shape (1000,)."""
    x = placeholder((1000,), name="x")
    func = create_prim_func([x, compute(shape, lambda *i: element(x, *i), "y")])
    (block,) = blocks_in_order(func)
    return pieces_of(block, axis % len(shape), turns=turns)


def at(x: Tensor, index: Expr) -> Expr:
    return BufferLoad(x, (index,))


def test_pieces() -> None:
    assert pieces(lambda x, i: at(x, i), 60) == [60]
    assert pieces(lambda x, i: at(x, 59 - i), 60) == [60]
    assert pieces(lambda x, i: at(x, (i + 57) % 60), 60) == [3, 57]
    assert pieces(lambda x, i: at(x, maximum(i - 3, 0)), 60) == [3, 57]
    assert pieces(lambda x, i: at(x, i // 30), 60) == [30, 30]
    assert pieces(lambda x, i: at(x, i % 2), 60) == [60]  # too many
    assert pieces(lambda x, i, j: at(x, (j + 3) % 60 + i), 5, 60, axis=0) == [5]


def test_what_conditions_alone_cut() -> None:
    def joined(x: Tensor, i: Expr) -> Expr:
        return at(x, (i + 3) % 60) + Select(i < 20, const(1, "float32"), const(2, "float32"))

    assert pieces(joined, 60) == [20, 37, 3]
    assert pieces(joined, 60, turns=False) == [20, 40]


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("shape", [(3, 4, 40), (2, 33), (7, 8), (2, 2)])
@pytest.mark.parametrize("widths", [(1, 1), (0, 1), (1, 0)])
def test_borders(mode: str, shape: tuple[int, ...], widths: tuple[int, int]) -> None:
    flat = (0, 0) * (len(shape) - 2) + widths * 2
    pairs = list(zip(flat[::2], flat[1::2], strict=True))
    workload = Workload(
        lambda a: op.pad_edges(a, flat, mode),
        lambda a: np.pad(a, pairs, MODES[mode]),  # type: ignore[call-overload]
        shape,
    )
    check_rule(workload, "elementwise")


@pytest.mark.parametrize("dtype", ["float32", "float64", "int8", "int64"])
@pytest.mark.parametrize(("shift", "axis"), [(1, -1), (37, 1), (2, 0)])
def test_rolls(dtype: str, shift: int, axis: int) -> None:
    workload = Workload(
        lambda a: roll(a, shift, axis % 2),
        lambda a: np.roll(a, shift, axis),
        (19, 101),
        dtype=dtype,
    )
    check_rule(workload, "elementwise")


@pytest.mark.parametrize("axis", [0, 1, 2])
@pytest.mark.parametrize("size", [1, 5, 64])
def test_joins(axis: int, size: int) -> None:
    shapes = [tuple([n if d == axis else 17 for d in range(3)]) for n in (size, 33, 2)]
    workload = Workload(lambda *t: op.concat(t, axis), lambda *t: np.concatenate(t, axis), *shapes)
    check_rule(workload, "elementwise")


def test_joins_of_symbolic_rows() -> None:
    workload = Workload(
        lambda a, b: op.concat([a, b], 1),
        lambda a, b: np.concatenate([a, b], 1),
        ("m", 20),
        ("m", 35),
    )
    check_rule(workload, "elementwise", m=(0, 1, 5))


def test_pieces_are_plain_copies() -> None:
    def text(workload: Workload) -> str:
        return print_func(lower(scheduled(workload.func, target=SKYLAKE)[1], SKYLAKE).func)

    join = text(Workload(lambda a, b: op.concat([a, b], 1), np.stack, (8, 32), (8, 48)))
    mirror = text(Workload(lambda a: op.pad_edges(a, (0, 0, 1, 1), "reflect"), np.pad, (8, 64)))
    for lowered in (join, mirror):
        assert "predicate" not in lowered
        assert "if_then_else" not in lowered
        assert "T.abs" not in lowered


def test_a_join_of_whole_rows_is_copied_in_one_loop_each() -> None:
    func = Workload(lambda a, b: op.concat([a, b], 0), np.concatenate, (8, 20), (40, 20)).func
    lowered = lower(scheduled(func, target=SKYLAKE)[1], SKYLAKE).func
    text = print_func(lowered)
    assert text.count("for ") == 2
    assert "predicate" not in text


@pytest.mark.parametrize("axis", [0, 1])
@pytest.mark.parametrize("dtype", ["float32", "int8"])
def test_of_too_many_pieces_those_of_rows_are_asked_for(axis: int, dtype: str) -> None:
    """Of two padded images, one after the other or beside it: elements of a row ask nothing."""
    widths = (2, 3, 1, 4)

    def pads(a: np.ndarray) -> np.ndarray:
        return np.pad(a, (widths[:2], widths[2:]))

    workload = Workload(
        lambda a, b: op.concat([op.pad(a, widths), op.pad(b, widths)], axis),
        lambda a, b: np.concatenate([pads(a), pads(b)], axis),
        (64, 128), (64, 128), dtype=dtype,
    )  # fmt: skip
    check_rule(workload, "elementwise")
    text = print_func(lower(scheduled(workload.func, target=SKYLAKE)[1], SKYLAKE).func)
    assert "predicate" not in text
