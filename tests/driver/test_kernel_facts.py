"""What is known of kernels before they run."""

from __future__ import annotations

from burnish.driver.compile import CompiledModel
from burnish.driver.kernel_facts import KernelFacts, kernel_facts


def test_work_and_rules_of_the_mlp(static: CompiledModel, dynamic: CompiledModel) -> None:
    by_name = {f.name: f for f in kernel_facts(static.executable).values()}
    first = by_name["fused_linear_relu"]
    # Multiply-adds, bias and relu; the image, the weights, the bias and the result.
    assert first.flop == 2 * 784 * 128 + 2 * 128
    assert first.moved == 4 * (784 + 784 * 128 + 128 + 128)
    assert (first.rule, first.bits) == ("matmul", 32)
    assert set(by_name) == set(static.report.kernels)
    named = {f.name: f for f in kernel_facts(dynamic.executable).values()}
    assert named["linear_1"] == KernelFacts("linear_1", "matmul", None, None, 32)
