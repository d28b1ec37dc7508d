"""The attention rule: the numbers of torch in float64 for any shape, the same bits for any number
of threads, and no spills in the inner loops."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pytest
import torch
from torch.nn import functional as F

from burnish.support.target import Target
from burnish.tensorir import operators as op
from burnish.tensorir.arith import Analyzer
from burnish.tensorir.expr import Var
from burnish.tensorir.function import PrimFunc
from burnish.tensorir.lowering import lower_func
from burnish.tensorir.te.compute import create_prim_func, placeholder
from burnish.tensorir.text.printer import print_func
from burnish.tests.native import call_native
from burnish.tests.tuner.rules.checking import (
    HASWELL,
    SKYLAKE,
    assembly_of,
    scheduled,
)
from burnish.tuner.rules.attention import match_attention
from burnish.tuner.tiling.tile_model import TALLEST_TILE
from burnish.tuner.workload import blocks_in_order


@dataclass(frozen=True)
class Case:
    """Sizes of an attention: ``n`` queries of ``heads`` heads, ``m`` keys of ``shared`` heads, of
    sizes ``d`` and ``e``; the mask's shape and dtype."""

    n: int | str
    m: int
    d: int
    e: int = 0
    heads: int = 2
    shared: int = 0
    batch: int = 1
    mask: tuple[int, ...] | None = None
    mask_dtype: str = "bool"
    causal: bool = False
    dtype: str = "float32"

    def shapes(self, n: int | str) -> list[tuple[int | str, ...]]:
        shared = self.shared or self.heads
        keys = (self.batch, shared, self.m)
        return [(self.batch, self.heads, n, self.d), (*keys, self.d), (*keys, self.e or self.d)]

    def func(self) -> PrimFunc:
        n = Var("n")
        inputs = [
            placeholder(tuple([n if isinstance(x, str) else x for x in s]), self.dtype, name=name)
            for s, name in zip(self.shapes(self.n), "qkv", strict=True)
        ]
        if self.mask is not None:
            dtype = self.dtype if self.mask_dtype == "float" else self.mask_dtype
            inputs.append(placeholder(self.mask, dtype, name="mask"))
        return create_prim_func([*inputs, op.attention(*inputs, causal=self.causal)])

    def check(self, func: PrimFunc, *, threads: int = 1, n: int = 0) -> np.ndarray:
        n = int(self.n) if isinstance(self.n, int) else n
        rng = np.random.default_rng(0)
        inputs = [rng.standard_normal(s).astype(self.dtype) for s in self.shapes(n)]
        wide = [torch.from_numpy(x.astype("float64")) for x in inputs]
        mask = None
        if self.mask is not None:
            drawn = rng.random(self.mask) < 0.6
            if self.mask_dtype == "float":
                drawn = np.where(drawn, rng.standard_normal(self.mask), -np.inf)
            mask = torch.from_numpy(drawn)
            inputs.append(drawn if drawn.dtype == bool else drawn.astype(self.dtype))
        expected = F.scaled_dot_product_attention(
            *wide, mask, is_causal=self.causal, enable_gqa=True
        ).numpy()
        found = np.full(expected.shape, -77, self.dtype)
        dims = (n,) if isinstance(self.n, str) else ()
        call_native(func, *inputs, found, dims=dims, threads=threads)
        tolerance = {"float16": 2e-3, "float64": 1e-13}.get(self.dtype, 3e-6)
        np.testing.assert_allclose(found, expected, atol=tolerance)
        return found


CASES = [
    Case(1, 1, 1),
    Case(1, 40, 16),
    Case(2, 3, 5),
    Case(7, 33, 17),
    Case(17, 7, 3, 31),
    Case(31, 31, 64),
    Case(33, 64, 40, 24, batch=2),
    Case(29, 100, 8, 100),
    Case(20, 37, 16, heads=6, shared=2),
    Case(20, 37, 16, heads=3, shared=1, causal=True),
    Case(20, 37, 16, mask=(20, 37)),
    Case(20, 37, 16, mask=(2, 1, 1, 37), batch=2),
    Case(20, 37, 16, mask=(2, 20, 1), mask_dtype="float"),
    Case(37, 20, 16, causal=True),
    Case(19, 48, 16, causal=True, mask=(19, 48), mask_dtype="float"),
]


@pytest.mark.parametrize("case", CASES, ids=str)
def test_shapes(case: Case) -> None:
    rule, func = scheduled(case.func())
    assert rule == "attention"
    case.check(func)


@pytest.mark.parametrize("seed", range(3))
def test_any_decisions(seed: int) -> None:
    case = Case(29, 45, 12, 20, mask=(29, 45))
    rule, func = scheduled(case.func(), sampled=True, seed=seed)
    assert rule == "attention"
    case.check(func)


@pytest.mark.parametrize("depth", [3, 15, 33, 47])
def test_queries_that_do_not_fill_vectors_are_widened(depth: int) -> None:
    case = Case(37, 40, depth, dtype="float16")
    rule, func = scheduled(case.func())
    assert rule == "attention"
    case.check(func)


@pytest.mark.parametrize("dtype", ["float16", "float64"])
def test_other_dtypes(dtype: str) -> None:
    case = Case(21, 40, 16, 8, dtype=dtype, mask=(21, 40), mask_dtype="float")
    rule, func = scheduled(case.func())
    assert rule == "attention"
    case.check(func)


def test_a_symbolic_number_of_queries() -> None:
    case = Case("n", 37, 16)
    rule, func = scheduled(case.func())
    assert rule == "attention"
    for n in (0, 1, 13, 40):
        case.check(func, n=n)


def test_threads_do_not_change_a_bit() -> None:
    for case in (Case(70, 64, 32, heads=5), Case(300, 64, 32, heads=1)):
        _, func = scheduled(case.func())
        assert "T.parallel" in print_func(func)
        assert (case.check(func, threads=1) == case.check(func, threads=2)).all()


def test_sums_over_many_keys_are_taken_in_blocks() -> None:
    case = Case(12, 3000, 256, heads=1)
    _, func = scheduled(case.func())
    assert print_func(func).count('"sum_block": 192') == 2
    inputs = [np.random.default_rng(0).random((1, 1, n, 256), np.float32) for n in (12, 3000, 3000)]
    found = np.empty((1, 1, 12, 256), np.float32)
    call_native(func, *inputs, found)
    exact = F.scaled_dot_product_attention(*[torch.from_numpy(x).double() for x in inputs]).numpy()
    assert np.abs(found - exact).max() <= 5e-7 * np.abs(exact).max()


def test_there_are_never_more_scores_than_those_of_a_tile() -> None:
    keys = 512
    _, func = scheduled(Case(2048, keys, 16, heads=8).func(), target=SKYLAKE)
    lowered = lower_func(func, SKYLAKE)
    packed = keys * 16 * 4
    tile = 2 * TALLEST_TILE * keys * 4  # before and after the exponential, of both parts
    space = Analyzer()
    assert space.bounds(lowered.shared_bytes).max == 0
    most = space.bounds(lowered.thread_bytes).max
    assert most is not None
    assert packed < most <= packed + 2 * tile


@pytest.mark.parametrize(("target", "register"), [(SKYLAKE, "zmm"), (HASWELL, "ymm")])
def test_the_inner_loops(target: Target, register: str) -> None:
    _, func = scheduled(Case(128, 128, 64, heads=4).func(), target=target.with_options(threads=1))
    assembly = assembly_of(func, target)
    assert "callq" not in assembly
    least = 16 if register == "zmm" else 32
    loops = [x for x in loop_bodies(assembly) if sum("vfmadd" in line for line in x) >= least]
    assert len(loops) >= 2  # scores and values
    for body in loops:
        multiplied = [x for x in body if "vfmadd" in x and "231" in x and register in x]
        assert not any("Spill" in x or "Reload" in x for x in body)
        # Loads of whole registers are fewer than a quarter of the products.
        assert sum("vmov" in x for x in body) <= len(multiplied) / 4


def loop_bodies(assembly: str) -> list[list[str]]:
    """The lines of the innermost loops, from each label to a jump back to it."""
    lines = [x.strip() for x in assembly.splitlines()]
    labels = {x.split(":")[0]: i for i, x in enumerate(lines) if x.startswith(".L") and ":" in x}
    bodies = []
    for i, x in enumerate(lines):
        word = x.split()[-1] if x.startswith("j") else ""
        if word in labels and labels[word] < i:
            body = lines[labels[word] : i]
            if not any(y.startswith(".L") for y in body[1:]):
                bodies.append(body)
    return bodies


def test_match_gives_the_blocks_by_role() -> None:
    found = match_attention(Case(4, 5, 6, mask=(4, 5)).func())
    assert found is not None
    assert (found.scores, found.masked) == ("attention_scores", "attention_masked")
    assert found.rows == (
        "attention_max", "attention_shift", "attention_exp", "attention_sum", "attention_weight",
    )  # fmt: skip
    assert (found.values, found.result) == ("attention_values", "attention")


def test_two_products_alone_are_no_attention() -> None:
    a, b, c = (placeholder((1, 2, 3, 3), name=x) for x in "abc")
    assert match_attention(create_prim_func([a, b, c, op.matmul(op.matmul(a, b), c)])) is None


def test_moves_around_it_are_inlined() -> None:
    """Operands out of one linear layer, and the result with the heads side by side."""
    x = placeholder((2, 9, 3, 4, 16), name="x")
    q, k, v = (
        op.reshape(
            op.strided_slice(
                op.permute_dims(x, (2, 0, 3, 1, 4)), (n, 0, 0, 0, 0), (1,) * 5, (1, 2, 4, 9, 16)
            ),
            (2, 4, 9, 16),
        )
        for n in range(3)
    )
    func = create_prim_func([x, op.permute_dims(op.attention(q, k, v), (0, 2, 1, 3))])
    rule, made = scheduled(func)
    assert rule == "attention"
    names = [b.name for b in blocks_in_order(made) if "attention" not in b.name]
    assert names == ["reshape_1_global"]  # the keys in panels
    value = np.random.default_rng(0).standard_normal((2, 9, 3, 4, 16)).astype("float32")
    found = np.zeros((2, 9, 4, 16), "float32")
    call_native(made, value, found)
    parts = torch.from_numpy(value.astype("float64")).permute(2, 0, 3, 1, 4).unbind(0)
    expected = F.scaled_dot_product_attention(*parts).transpose(1, 2)
    np.testing.assert_allclose(found, expected, atol=3e-6)
