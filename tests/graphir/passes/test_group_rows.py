"""GroupRows: many rows of few elements are reduced by groups that fill vectors."""

from __future__ import annotations

import numpy as np
import pytest

from burnish.graphir.expr import Call
from burnish.graphir.module import IRModule
from burnish.graphir.passes.dead_code_elimination import DeadCodeElimination
from burnish.graphir.passes.group_rows import GroupRows
from burnish.graphir.text.parser import parse_module
from burnish.graphir.verify import verify_module
from burnish.tests.graphir.reference import run


def module_of(shape: str, *lines: str, dtype: str = "float32") -> IRModule:
    body = "".join(f"        {line}\n" for line in lines)
    return parse_module(
        f'@R.function\ndef main(x: R.Tensor({shape}, dtype="{dtype}")):\n    with R.dataflow():\n'
        f"{body}        R.output(y)\n    return y\n"
    )


def calls(module: IRModule) -> list[Call]:
    blocks = module["main"].body.blocks  # type: ignore[union-attr]
    return [b.value for block in blocks for b in block.bindings if isinstance(b.value, Call)]


def reductions(module: IRModule) -> list[int]:
    """How many elements each reduction makes one of."""
    found = [c for c in calls(module) if c.op in ("sum", "mean", "max", "min")]
    return [c.args[0].type.shape[-2].value for c in found]  # type: ignore[union-attr]


def _check_alike(grouped: IRModule, module: IRModule, x: np.ndarray) -> None:
    found, wanted = run(grouped, "main", x), run(module, "main", x)
    np.testing.assert_allclose(found, wanted, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("op", ["sum", "mean", "max", "min"])
@pytest.mark.parametrize(
    ("shape", "axis", "groups"),
    [
        ((1600, 3), 0, [100, 16]),
        ((512, 2), -2, [64, 8]),
        ((2, 640, 6), 1, [80, 8]),
        ((1024, 4), 0, [256, 4]),
        ((1601, 3), 0, [1601]),  # rows that make no groups
        ((1600, 8), 0, [1600]),  # vectors of its own
        ((1600, 1), 0, [1600]),
        ((1008, 3), 0, [1008]),  # few groups
    ],
)
@pytest.mark.parametrize("keepdims", [False, True])
def test_groups(
    op: str, shape: tuple[int, ...], axis: int, groups: list[int], keepdims: bool
) -> None:
    module = module_of(str(shape), f"y = R.{op}(x, axis={axis}, keepdims={keepdims})")
    grouped = verify_module(GroupRows()(module))
    assert reductions(grouped) == groups
    x = np.random.default_rng(0).uniform(-1, 1, shape).astype("float32")
    _check_alike(grouped, module, x)


@pytest.mark.parametrize(
    "lines",
    [
        ["a = R.relu(x)", "b = R.multiply(a, 2.0)", "y = R.sum(b, axis=0)"],
        ["a = R.relu(x)", "b = R.multiply(R.exp(x), a)", "y = R.sum(b, axis=0)"],
    ],
)
def test_what_is_computed_to_be_reduced_goes_along(lines: list[str]) -> None:
    module = module_of("(1600, 3)", *lines)
    grouped = verify_module(GroupRows()(module))
    assert reductions(grouped) == [100, 16]
    made = [c.op for c in calls(DeadCodeElimination()(grouped)) if c.op != "reshape"]
    assert sorted(made) == sorted([*[c.op for c in calls(module)], "sum"])
    x = np.random.default_rng(0).uniform(-1, 1, (1600, 3)).astype("float32")
    _check_alike(grouped, module, x)


@pytest.mark.parametrize(
    ("shape", "lines", "dtype"),
    [
        ("(1600, 3)", ["y = R.sum(x, axis=1)"], "float32"),
        ("(1600, 3)", ["y = R.sum(x)"], "float32"),
        ("(1600, 3)", ["y = R.sum(x, axis=0)"], "bfloat16"),  # halves would be rounded twice
        ("(1600, 3)", ["y = R.prod(x, axis=0)"], "float32"),
        ('("n", 3)', ["y = R.sum(x, axis=0)"], "float32"),
        # The rows of something else: as groups they would be computed and kept first.
        ("(1600, 3)", ["y = R.sum(R.subtract(x, R.max(x, axis=1, keepdims=True)), axis=0)"],
         "float32"),
        # Read again as it is.
        ("(1600, 3)", ["a = R.exp(x)", "s = R.sum(a, axis=0)", "y = R.divide(a, s)"], "float32"),
    ],
)  # fmt: skip
def test_what_stays(shape: str, lines: list[str], dtype: str) -> None:
    module = module_of(shape, *lines, dtype=dtype)
    before = [c.op for c in calls(module)]
    after = [c.op for c in calls(GroupRows()(module))]
    if "exp" in before:
        assert after.count("exp") == 1
    else:
        assert after == before


def test_maxima_of_halves_are_exact() -> None:
    module = module_of("(1600, 3)", "y = R.max(x, axis=0)", dtype="bfloat16")
    assert reductions(GroupRows()(module)) == [100, 16]
