"""Passes written by hand: what they match, what they leave, and that the numbers stay."""

from __future__ import annotations

import re
from types import ModuleType

import numpy as np
import pytest

import burnish
from burnish import graph, transform


def test_it_runs(program: ModuleType, capsys: pytest.CaptureFixture[str]) -> None:
    program.main()
    text = capsys.readouterr().out
    names = [line for line in text.splitlines() if line.startswith("# after ")]
    assert names == [
        "# after fuse-matmul-add",
        "# after lower-to-tensor-ir",
        "# after fuse-prim-funcs,dead-code-elimination",
    ]
    assert float(re.findall(r"Largest error: (\S+)", text)[0]) < 1e-5
    assert "main, fused_matmul_add, fused_matmul_add_1, relu" in text


def test_only_an_addition_to_a_product_is_moved(program: ModuleType) -> None:
    bb = burnish.BlockBuilder()
    x = graph.Var("x", graph.tensor_type((4, 4)))
    with bb.function("main", [x]):
        with bb.dataflow():
            product = bb.emit(graph.op("matmul", x, x))
            moved = bb.emit(graph.op("add", product, x))
            other = bb.emit(graph.op("add", x, product))
            out = bb.emit_output(graph.op("multiply", moved, other))
        bb.emit_func_output(out)
    mod = bb.get()
    fused = graph.verify_module(program.fuse_matmul_add(mod))
    assert list(fused.graph_functions) == ["main", "fused_matmul_add"]
    main, group = fused.script().split("def fused_matmul_add(")
    assert main.count("R.add(") == 1
    assert group.count("R.add(") == 1
    # The product has another reader, so it stays where it was too.
    assert main.count("R.matmul(") == 1
    given = np.random.default_rng(0).random((4, 4), dtype="float32")
    np.testing.assert_allclose(program.run(fused, given), (given @ given + given) ** 2, rtol=1e-5)


def test_every_stage_computes_the_same(program: ModuleType) -> None:
    params = program.random_params(seed=4)
    x = np.random.default_rng(5).standard_normal((1, 784)).astype("float32")
    mod = program.create_model(params)
    expected = program.run(mod, x)
    hidden = np.maximum(x @ params["w0"].T + params["b0"], 0)
    np.testing.assert_allclose(
        expected, hidden @ params["w1"].T + params["b1"], rtol=1e-4, atol=1e-5
    )
    for pass_ in (program.fuse_matmul_add, program.LowerPass(program.OP_MAP)):
        mod = graph.verify_module(pass_(mod))
        np.testing.assert_allclose(program.run(mod, x), expected, rtol=1e-4, atol=1e-5)
    mod = graph.verify_module(transform.FusePrimFuncs()(mod))
    np.testing.assert_allclose(program.run(mod, x), expected, rtol=1e-4, atol=1e-5)


def test_a_context_of_a_low_level_leaves_the_fusion_out(program: ModuleType) -> None:
    passes = transform.Sequential([program.fuse_matmul_add, program.LowerPass(program.OP_MAP)])
    with transform.PassContext(opt_level=0):
        mod = passes(program.create_model(program.random_params()))
    assert list(mod.graph_functions) == ["main"]
    assert list(mod.prim_funcs) == ["matmul", "add", "relu", "matmul_1", "add_1"]
