"""RepeatCasts: what is widened for several kernels is widened in each, and values stay."""

from __future__ import annotations

import numpy as np
import pytest

from burnish.graphir.analysis import dps_calls
from burnish.graphir.module import IRModule
from burnish.graphir.passes.annotate_pattern import AnnotatePattern
from burnish.graphir.passes.canonicalize import Canonicalize
from burnish.graphir.passes.dead_code_elimination import DeadCodeElimination
from burnish.graphir.passes.fuse_ops import FuseOps
from burnish.graphir.passes.fuse_prim_funcs import FusePrimFuncs
from burnish.graphir.passes.legalize import LegalizeOps
from burnish.graphir.passes.repeat_casts import RepeatCasts
from burnish.graphir.text.parser import parse_module
from burnish.graphir.verify import verify_module
from burnish.tests.graphir.reference import run

RMS_NORM = (
    'h = R.astype(x, dtype="float32")',
    "s = R.rsqrt(R.mean(R.multiply(h, h), axis=[-1], keepdims=True))",
    'y = R.astype(R.multiply(h, s), dtype="float16")',
)


def prepared(*lines: str, dtype: str = "float16") -> IRModule:
    body = "".join(f"        {line}\n" for line in lines)
    text = (
        f'@R.function\ndef main(x: R.Tensor((4, 32), dtype="{dtype}")):\n    with R.dataflow():\n'
        f"{body}        R.output(y)\n    return y\n"
    )
    module: IRModule = AnnotatePattern()(LegalizeOps()(Canonicalize()(parse_module(text))))
    return module


def calls(module: IRModule) -> list[str]:
    return [call.func.name for call in dps_calls(module["main"])]  # type: ignore[arg-type]


def test_each_kernel_widens_what_it_reads() -> None:
    before = prepared(*RMS_NORM)
    after = verify_module(DeadCodeElimination()(RepeatCasts()(before)))
    assert calls(before).count("astype") == 1
    assert calls(after).count("astype") == 2
    fused = verify_module(DeadCodeElimination()(FusePrimFuncs()(FuseOps()(after))))
    found = calls(fused)
    assert "astype" not in found
    assert len(found) == 2
    x = np.random.default_rng(0).standard_normal((4, 32)).astype("float16")
    np.testing.assert_allclose(run(fused, "main", x), run(before, "main", x), atol=1e-3)


@pytest.mark.parametrize(
    ("lines", "dtype"),
    [
        (RMS_NORM, "float64"),
        (('h = R.astype(x, dtype="float32")', "y = R.linear(h, h)"), "float16"),
    ],
)
def test_other_conversions_and_products_stay(lines: tuple[str, ...], dtype: str) -> None:
    before = prepared(*lines, dtype=dtype)
    assert calls(DeadCodeElimination()(RepeatCasts()(before))) == calls(before)
