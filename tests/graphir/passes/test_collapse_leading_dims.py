"""CollapseLeadingDims: linear layers become matrix products, with their epilogues."""

from __future__ import annotations

import numpy as np
import pytest

from burnish.graphir.module import IRModule
from burnish.graphir.passes.collapse_leading_dims import CollapseLeadingDims
from burnish.graphir.passes.pipeline import pipeline
from burnish.graphir.text.parser import parse_module
from burnish.graphir.verify import verify_module
from burnish.tests.graphir.reference import run

PARAMS = 'x: R.Tensor(({b}, "t", 4)), w: R.Tensor((4, 4)), c: R.Tensor((4,)), p: R.Tensor((2, 4))'


def module_of(*lines: str, batch: str = '"b"') -> IRModule:
    body = "".join(f"        {line}\n" for line in lines)
    params = PARAMS.format(b=batch)
    return parse_module(
        f"@R.function\ndef main({params}):\n    with R.dataflow():\n{body}"
        "        R.output(y)\n    return y\n"
    )


def kernels(module: IRModule) -> set[str]:
    return {str(f.attr("legalized")) for f in module.prim_funcs.values()}


CASES = [
    (["y = R.linear(x, w, c)"], {"linear"}),
    (["y = R.relu(R.linear(x, w))"], {"linear_relu"}),
    (["y = R.add(R.gelu(R.linear(x, w)), x)"], {"linear_gelu_add"}),
    (["y = R.add(x, R.linear(R.relu(R.linear(x, w)), w, c))"], {"linear_relu", "linear_add"}),
    (["y = R.multiply(R.linear(x, w), 2.0)"], {"linear_multiply"}),
    (["y = R.add(R.linear(x, w), c)"], {"linear_add"}),
    (["y = R.layer_norm(R.add(R.linear(x, w), x), c, c)"], {"linear_add", "layer_norm"}),
    (["y = R.softmax(R.linear(x, w))"], {"linear", "softmax"}),
    (["y = R.softmax(R.linear(x, w), axis=1)"], {"linear", "softmax"}),
    (["y = R.add(R.linear(x, w), p)"], {"linear", "add"}),
    (["y = R.permute_dims(R.linear(x, w))"], {"linear", "permute_dims"}),
    (["y = R.sum(R.linear(x, w), axis=1)"], {"linear", "sum"}),
]


@pytest.mark.parametrize("batch", ["3", '"b"'])
@pytest.mark.parametrize(("lines", "expected"), CASES)
def test_products_keep_their_epilogues_and_values(
    lines: list[str], expected: set[str], batch: str
) -> None:
    text = module_of(*lines, batch=batch) if ", p)" not in lines[0] else _static(lines[0], batch)
    rng = np.random.default_rng(0)
    shapes = ((3, 2, 4), (4, 4), (4,), (2, 4))
    inputs = [rng.uniform(-1, 1, s).astype("float32") for s in shapes]
    module = verify_module(pipeline()(text))
    assert kernels(module) == expected
    wanted = run(text, "main", *inputs)
    found = run(module, "main", *inputs)
    assert found.shape == wanted.shape
    np.testing.assert_allclose(found, wanted, rtol=1e-4, atol=1e-5)


def _static(line: str, batch: str) -> IRModule:
    """With as many tokens as the operand has rows: the two broadcast only if that is known."""
    return parse_module(
        f"@R.function\ndef main({PARAMS.format(b=batch).replace(chr(34) + 't' + chr(34), '2')}):\n"
        f"    with R.dataflow():\n        {line}\n        R.output(y)\n    return y\n"
    )


def test_layers_of_integers_become_matrix_products() -> None:
    module = parse_module(
        '@R.function\ndef main(x: R.Tensor((3, "t", 4)), w: R.Tensor((5, 1, 1), "uint32"), '
        "s: R.Tensor((5, 1)), c: R.Tensor((5,))):\n    with R.dataflow():\n"
        "        y = R.relu(R.add(R.scaled_linear(x, w, s), c))\n"
        "        R.output(y)\n    return y\n"
    )
    made = verify_module(pipeline()(module))
    assert kernels(made) == {"scaled_linear_add_relu"}
    rng = np.random.default_rng(0)
    x, scale, c = (rng.uniform(-1, 1, s).astype("float32") for s in ((3, 2, 4), (5, 1), (5,)))
    w = rng.integers(0, 1 << 32, (5, 1, 1)).astype("uint32")
    wanted = run(module, "main", x, w, scale, c)
    np.testing.assert_allclose(run(made, "main", x, w, scale, c), wanted, rtol=1e-4, atol=1e-3)


def test_matrices_are_left_alone() -> None:
    module = parse_module(
        "@R.function\ndef main(x: R.Tensor((2, 4)), w: R.Tensor((4, 4))):\n"
        "    y = R.linear(x, w)\n    return R.relu(y)\n"
    )
    assert CollapseLeadingDims()(module)["main"] is module["main"]


def test_the_text(golden) -> None:  # type: ignore[no-untyped-def]
    golden(verify_module(CollapseLeadingDims()(module_of("y = R.relu(R.linear(x, w))"))).script())
