"""The named lists, and the model this house is built around: the Fashion-MNIST MLP in two
kernels."""

from __future__ import annotations

import numpy as np
import pytest

from burnish.graphir.expr import Call, CallDPS
from burnish.graphir.module import IRModule
from burnish.graphir.passes.bind_params import BindParams
from burnish.graphir.passes.pipeline import PASSES, pipeline, stages
from burnish.graphir.text.parser import parse_module
from burnish.graphir.verify import verify_module
from burnish.support.errors import ConfigError
from burnish.support.passes import Pipeline, VerifyEach, parse_pipeline
from burnish.tests.graphir.reference import run

MLP = """
@R.function
def main(x: R.Tensor(({batch}, 1, 28, 28)), w0: R.Tensor((128, 784)), b0: R.Tensor((128,)),
         w1: R.Tensor((10, 128)), b1: R.Tensor((10,))):
    with R.dataflow():
        lv = R.flatten(x, start_dim=1)
        lv1 = R.linear(lv, w0, b0)
        lv2 = R.relu(lv1)
        lv3 = R.linear(lv2, w1, b1)
        R.output(lv3)
    return lv3
"""
SHAPES = {"w0": (128, 784), "b0": (128,), "w1": (10, 128), "b1": (10,)}


def mlp(batch: str) -> IRModule:
    rng = np.random.default_rng(0)
    params = {name: rng.uniform(-0.1, 0.1, s).astype("float32") for name, s in SHAPES.items()}
    return BindParams("main", params)(parse_module(MLP.format(batch=batch)))


@pytest.mark.parametrize("batch", ["1", '"m"'], ids=["static", "symbolic"])
def test_the_mlp_becomes_two_kernels(golden, batch: str) -> None:  # type: ignore[no-untyped-def]
    imported = mlp(batch)
    module = Pipeline(pipeline().passes, (VerifyEach(verify_module),))(imported)
    assert len(module.prim_funcs) == 2
    values = [b.value for k in module.graph_functions["main"].body.blocks for b in k.bindings]
    assert [type(v) for v in values] == [Call, CallDPS, CallDPS]
    golden(module.script())
    assert all(f.attr("layout_free") == [1, 2] for f in module.prim_funcs.values())


def test_the_mlp_in_two_kernels_computes_the_mlp() -> None:
    # Small layers, because the reference runs one element at a time.
    text = MLP.format(batch='"m"').replace("28, 28", "2, 3").replace("784", "6").replace("128", "5")
    module = parse_module(text)
    rng = np.random.default_rng(0)
    inputs = [
        rng.uniform(-1, 1, [getattr(d, "value", 3) for d in p.type.shape]).astype("float32")  # type: ignore[union-attr]
        for p in module.graph_functions["main"].params
    ]
    fused = pipeline()(module)
    assert len(fused.prim_funcs) == 2
    np.testing.assert_allclose(run(fused, "main", *inputs), run(module, "main", *inputs), rtol=1e-5)


def test_debug_keeps_one_kernel_an_operator() -> None:
    assert len(pipeline("debug")(mlp("1")).prim_funcs) == 3


def test_stages_are_numbered_and_fold_when_they_can() -> None:
    assert list(stages()) == ["10-canonical", "20-legalized", "30-fused"]
    with_folding = stages(evaluate=lambda func, inputs: [])["10-canonical"]
    assert "fold-constant" in str(with_folding)
    assert "fold-constant" not in str(pipeline())
    assert "fold-constant" in str(pipeline("debug", evaluate=lambda func, inputs: []))


def test_an_unknown_list_suggests_the_nearest() -> None:
    with pytest.raises(ConfigError, match="no pipeline 'defualt'; there are default, debug"):
        pipeline("defualt")


def test_every_pass_of_a_list_has_a_name_and_a_text() -> None:
    assert len({p.name for p in PASSES}) == len(PASSES)
    text = (
        "canonicalize,legalize-ops,annotate-pattern{legalized-only=true},"
        "fuse-ops{max-depth=8},fuse-prim-funcs"
    )
    assert str(parse_pipeline(text, PASSES)) == text
    for name in ("default", "debug"):
        assert str(parse_pipeline(str(pipeline(name)), PASSES)) == str(pipeline(name))


def test_every_pass_says_what_it_requires_and_ensures() -> None:
    for kind in PASSES:
        doc = kind.__doc__ or ""
        assert "*requires*" in doc, kind
        assert "*ensures*" in doc, kind
