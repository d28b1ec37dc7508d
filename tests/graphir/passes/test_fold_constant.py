"""FoldConstant: with the reference interpreter as the injected evaluator."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pytest

from burnish.graphir.expr import Constant, Function
from burnish.graphir.module import IRModule
from burnish.graphir.passes.bind_params import BindParams
from burnish.graphir.passes.dead_code_elimination import DeadCodeElimination
from burnish.graphir.passes.fold_constant import FoldConstant
from burnish.graphir.passes.legalize import LegalizeOps
from burnish.graphir.text.parser import parse_module
from burnish.graphir.verify import verify_module
from burnish.support.errors import InternalError
from burnish.support.structural import assert_structural_equal
from burnish.tensorir.expr import IntImm
from burnish.tensorir.function import PrimFunc
from burnish.tests.graphir.prim_func_reference import run_prim_func


def evaluate(func: PrimFunc, inputs: Sequence[np.ndarray]) -> list[np.ndarray]:
    outs = [
        np.zeros([d.value for d in b.shape if isinstance(d, IntImm)], b.dtype.to_numpy())
        for b in func.buffers[len(inputs) :]
    ]
    run_prim_func(func, inputs, outs)
    return outs


def module_of(*lines: str) -> IRModule:
    body = "".join(f"        {line}\n" for line in lines)
    return parse_module(
        f'@R.function\ndef main(x: R.Tensor(("m", 2))):\n    with R.dataflow():\n'
        f"{body}        R.output(y)\n    return y\n"
    )


def folded(module: IRModule, **options: int) -> IRModule:
    return DeadCodeElimination()(verify_module(FoldConstant(evaluate, **options)(module)))


EXPECTED = module_of("y = R.add(x, R.const([7.0, 9.0]))")


def test_operators_of_constants_are_computed() -> None:
    module = module_of(
        "a = R.add(R.const([1.0, 2.0]), R.const([2.0, 2.0]))",
        "b = R.multiply(a, R.const(2.0))",
        "c = R.reshape(b, R.shape([1, 2]))",
        "d = R.add(R.reshape(c, R.shape([2])), R.const([1.0, 1.0]))",
        "y = R.add(x, d)",
    )
    assert_structural_equal(folded(module), EXPECTED)


def test_kernels_called_with_constants_are_run() -> None:
    module = LegalizeOps()(
        module_of("a = R.add(R.const([3.0, 4.0]), R.const([4.0, 5.0]))", "y = R.add(x, a)")
    )
    result = folded(module)
    assert "[7.0, 9.0]" in result.script()
    assert len(module.prim_funcs) == 2
    assert len(result.prim_funcs) == 1


def test_large_results_of_small_constants_are_not() -> None:
    module = module_of(
        "a = R.broadcast_to(R.const([1.0, 2.0]), R.shape([8, 2]))", "y = R.add(x, R.sum(a, axis=0))"
    )
    assert "broadcast_to" in folded(module, max_bytes=16).script()
    assert "broadcast_to" not in folded(module, max_bytes=64).script()


def test_a_sum_of_a_cast_that_is_too_large_is_folded() -> None:
    module = module_of(
        f'a = R.astype(R.const({list(range(-8, 8))}, "int8"), dtype="float32")',
        "y = R.add(x, R.sum(a, axis=0))",
    )
    made = folded(module, max_bytes=16)
    assert "R.sum" not in made.script()
    assert 'R.add(x, R.const(-8.0, "float32"))' in made.script()


def test_what_depends_on_inputs_or_dims_stays() -> None:
    module = module_of(
        "a = R.exp(x)",
        'b = R.broadcast_to(R.const([1.0, 2.0]), R.shape(["m", 2]))',
        "y = R.add(a, b)",
    )
    assert folded(module)["main"] is module["main"]


def test_a_wrong_answer_of_the_evaluator_is_a_defect() -> None:
    module = module_of("y = R.add(x, R.exp(R.const([1.0, 2.0])))")
    with pytest.raises(InternalError, match=r"evaluate\(exp\) gave \(3,\)"):
        FoldConstant(lambda func, inputs: [np.zeros(3, "float32")])(module)


MOVES = [
    "R.permute_dims(a, axes=[2, 0, 1])",
    "R.permute_dims(a)",
    "R.broadcast_to(a, R.shape([2, 2, 3, 4]))",
    "R.concat(a, a, axis=-2)",
    "R.strided_slice(a, axes=[-1, 1], begin=[3, -2], end=[None, 9], strides=[-2, 1])",
    "R.strided_slice(a, axes=[2], begin=[1], end=[-1])",
    "R.strided_slice(a, axes=[1], begin=[3], end=[3])",
    "R.take(a, R.const([[2, 0], [1, 1]], dtype='int64'), axis=1)",
    "R.gather_elements(a, R.const([[[2, 0]], [[1, 1]]], dtype='int64'), axis=1)",
    "R.gather_elements(a, R.const([[[3, 0, 3]]], dtype='int32'), axis=-1)",
    "R.where(R.const([True, False, True, False]), a, R.const(-0.0))",
]


def refuse(func: PrimFunc, inputs: Sequence[np.ndarray]) -> list[np.ndarray]:
    raise AssertionError(f"{func.name} is a kernel")


@pytest.mark.parametrize("line", MOVES)
def test_what_only_moves_is_folded_without_a_kernel_to_the_same_bits(line: str) -> None:
    values = np.random.default_rng(0).normal(size=(2, 3, 4)).astype(np.float32)
    values.flat[:3] = np.array([np.nan, -0.0, np.inf], np.float32)
    module = parse_module(
        f"@R.function\ndef main(a: R.Tensor((2, 3, 4))):\n    with R.dataflow():\n"
        f"        y = {line}\n"
        "        R.output(y)\n    return y\n"
    )
    bound = BindParams("main", {"a": values})(module)
    moved = FoldConstant(refuse)(bound)
    by_kernel = FoldConstant(evaluate)(LegalizeOps()(bound))
    kinds = [result_of(m).type for m in (moved, by_kernel)]
    assert_structural_equal(*kinds)
    found, expected = [m.weights.array(result_of(m)) for m in (moved, by_kernel)]
    assert found.dtype == expected.dtype
    assert found.shape == expected.shape
    assert found.tobytes() == expected.tobytes()


def result_of(module: IRModule) -> Constant:
    function = module["main"]
    assert isinstance(function, Function)
    result = function.body.result
    assert isinstance(result, Constant)
    return result


def test_indices_out_of_range_are_left_to_the_kernel() -> None:
    asked = []

    def clamped(func: PrimFunc, inputs: Sequence[np.ndarray]) -> list[np.ndarray]:
        asked.append(func.name)
        return evaluate(func, [inputs[0], np.clip(inputs[1], 0, 1)])

    folded_module = FoldConstant(clamped)(
        module_of(
            "a = R.take(R.const([1.0, 2.0]), R.const([0, 5], dtype='int64'), axis=0)",
            "y = R.add(x, a)",
        )
    )
    assert asked == ["take"]
    assert_structural_equal(
        DeadCodeElimination()(folded_module), module_of("y = R.add(x, R.const([1.0, 2.0]))")
    )
