"""Attention written out for narrow products: values near the operator's, masked rows included."""

from __future__ import annotations

import numpy as np
import pytest

from burnish import VirtualMachine, build
from burnish.graphir.expr import Call
from burnish.graphir.module import IRModule
from burnish.graphir.passes.narrow_attention import why_whole_attention
from burnish.graphir.passes.to_mixed_precision import ToMixedPrecision
from burnish.graphir.text.parser import parse_module
from burnish.graphir.text.printer import print_module
from burnish.graphir.verify import verify_module
from burnish.support.node import walk

SHAPES = ((2, 3, 9, 16), (2, 3, 11, 16), (2, 3, 11, 8))
MASKS = {
    "none": None,
    "bool": "bool",
    "float": "float32",
}


def module(
    shapes: tuple[tuple[object, ...], ...] = SHAPES,
    mask: str | None = None,
    more: str = "",
    places: tuple[int, ...] = (2, 1, 9, 11),
) -> IRModule:
    q, k, v = (
        "(" + ", ".join([f'"{d}"' if isinstance(d, str) else str(d) for d in s]) + ")"
        for s in shapes
    )
    params = [f'{n}: R.Tensor({s}, "float32")' for n, s in (("q", q), ("k", k), ("v", v))]
    operands = "q, k, v"
    if mask is not None:
        params.append(f'm: R.Tensor({places}, "{mask}")')
        operands += ", m"
    return parse_module(f"""
@I.ir_module
class Module:
    @R.function
    def main({", ".join(params)}):
        with R.dataflow():
            y = R.attention({operands}{more})
            R.output(y)
        return y
""")


@pytest.mark.parametrize("name", MASKS)
@pytest.mark.parametrize("more", ["", ", scale=0.5", ", scale=1.0, zero_masked_rows=False"])
def test_values_are_near_those_of_the_operator(name: str, more: str) -> None:
    before = module(mask=MASKS[name], more=more)
    after = verify_module(ToMixedPrecision()(before))
    text = print_module(after)
    assert "R.attention(" not in text
    assert text.count('out_dtype="float32"') == 2
    rng = np.random.default_rng(0)
    inputs = [rng.standard_normal(s).astype("float32") for s in SHAPES]
    if name == "bool":
        mask = rng.random((2, 1, 9, 11)) < 0.7
        mask[0, 0, 4] = False  # a row in which no key takes part
        inputs.append(mask)
    elif name == "float":
        inputs.append(rng.standard_normal((2, 1, 9, 11)).astype("float32"))
    found, expected = (
        np.asarray(VirtualMachine(build(m))["main"](*inputs)) for m in (after, before)
    )
    assert np.array_equal(np.isnan(found), np.isnan(expected))
    assert np.nanmax(np.abs(found - expected)) < 2e-2 * np.nanmax(np.abs(expected))


@pytest.mark.parametrize(
    ("made", "why"),
    [
        (module(more=", causal=True"), "causal"),
        (module(((2, 4, 9, 16), (2, 2, 11, 16), (2, 2, 11, 8))), "share keys"),
        (module((("b", 3, 9, 16), ("b", 3, 11, 16), ("b", 3, 11, 8))), "named"),
        (module(((2, 3, 4, 16), *SHAPES[1:])), "fewer than 5 queries"),
        (module(((2, 3, 9, 15), (2, 3, 11, 15), (2, 3, 11, 8))), "odd size"),
        (module(((1, 8, 900, 16), (1, 8, 900, 16), (1, 8, 900, 8))), "MiB"),
    ],
)
def test_what_stays_whole(made: IRModule, why: str) -> None:
    assert print_module(ToMixedPrecision()(made)) == print_module(made)
    (call,) = [
        n
        for f in made.graph_functions.values()
        for n in walk(f)
        if isinstance(n, Call) and n.op == "attention"
    ]
    assert why in why_whole_attention(call)


def test_layers_with_names_alone_leave_attention() -> None:
    made = module()
    assert print_module(ToMixedPrecision(chosen=bool)(made)) == print_module(made)


def test_the_bound_of_the_documents_where_scores_are_exact() -> None:
    """Powers and values that lie as far as can be from a bfloat16; every score is its mask."""
    worst = np.float32(1 + 2.0**-8 - 2.0**-15)
    shapes = ((1, 1, 9, 16), (1, 1, 64, 16), (1, 1, 64, 8))
    after = ToMixedPrecision()(module(shapes, mask="float32", places=(1, 1, 9, 64)))
    mask = np.full((1, 1, 9, 64), np.log(0.5 * (1 + 2.0**-8 - 2.0**-14)), "float32")
    mask[..., 0] = 0
    q, k = np.zeros(shapes[0], "float32"), np.zeros(shapes[1], "float32")
    v = np.full(shapes[2], worst)
    error = np.abs(np.asarray(VirtualMachine(build(after))["main"](q, k, v, mask)) - worst) / worst
    assert (error > 2.0**-8).all()
    assert (error <= 2.0**-7 + 2.0**-16).all()
