"""FuseOpsByPattern: what a pattern matches becomes a call, of the environment or of a PrimFunc."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import burnish
from burnish import te
from burnish.graphir.module import IRModule
from burnish.graphir.passes.dead_code_elimination import DeadCodeElimination
from burnish.graphir.passes.fuse_ops_by_pattern import FuseOpsByPattern, FusionPattern
from burnish.graphir.patterns.matching import Matched
from burnish.graphir.patterns.pattern import PatternError, is_op, wildcard
from burnish.graphir.text.parser import parse_module
from burnish.graphir.verify import verify_module
from burnish.support.errors import PassError
from burnish.tensorir.function import PrimFunc

MODULE = parse_module("""
@I.ir_module
class Module:
    @R.function
    def main(x: R.Tensor((4, 8)), w: R.Tensor((6, 8)), b: R.Tensor((6,)), u: R.Tensor((3, 6))):
        with R.dataflow():
            a = R.linear(x, w, b)
            c = R.relu(a)
            d = R.linear(c, u)
            e = R.relu(d)
            R.output(e)
        return e
""")


def prim_func(rows: int, width: int, *, more: int = 0) -> PrimFunc:
    x = te.placeholder((rows, width), name="x")
    others = [te.placeholder((1,), name=f"z{i}") for i in range(more)]
    y = te.compute((rows, width), lambda i, j: te.maximum(x[i, j], 0.0), name="y")
    return te.create_prim_func([*others, x, y]).with_attr("global_symbol", "my_relu")


def rewritten(*patterns: Any) -> IRModule:
    return verify_module(DeadCodeElimination()(FuseOpsByPattern(patterns)(MODULE)))


def test_a_function_of_the_environment_is_called() -> None:
    x, w, b = wildcard(), wildcard(), wildcard()

    def linear_relu(x: Any, w: Any, b: Any, out: Any) -> None:
        np.maximum(x.numpy() @ w.numpy().T + b.numpy(), 0, out=out.numpy())

    burnish.register_func("test.linear_relu", linear_relu, override=True)
    made = rewritten(("test.linear_relu", is_op("relu")(is_op("linear")(x, w, b))))
    text = made.script()
    assert 'c = R.call_dps_packed("test.linear_relu", (x, w, b)' in text
    assert "d = R.linear(c, u)" in text
    rng = np.random.default_rng(0)
    inputs = [rng.standard_normal(s).astype(np.float32) for s in ((4, 8), (6, 8), (6,), (3, 6))]
    found, expected = [
        burnish.VirtualMachine(burnish.build(m))["main"](*inputs).numpy() for m in (made, MODULE)
    ]
    np.testing.assert_allclose(found, expected, rtol=1e-5, atol=1e-6)


def test_the_order_of_operands_and_a_check() -> None:
    x, w = wildcard(), wildcard()
    pattern = is_op("relu")(is_op("linear")(x, w))
    assert '"env.f", (u, c)' in rewritten(("env.f", pattern, [w, x])).script()
    refused = FusionPattern("env.f", pattern, check=lambda m: m.type(x).ndim == 3)  # type: ignore[union-attr]
    assert "env.f" not in rewritten(refused).script()
    # An operand that may be absent is left out where it is; one that is asked for has to be there.
    bias = wildcard()
    either = is_op("relu")(is_op("linear")(x, w) | is_op("linear")(x, w, bias))
    text = rewritten(("env.f", either)).script()
    assert '"env.f", (x, w, b)' in text
    assert '"env.f", (c, u)' in text
    assert rewritten(("env.f", either, [x, w, bias])).script().count("env.f") == 1


def test_a_prim_func_is_called_and_added_once() -> None:
    x = wildcard()
    func = prim_func(4, 6)
    made = rewritten((func, is_op("relu")(x).has_shape((4, 6))))
    assert "c = R.call_dps(cls.my_relu, (a,)" in made.script()
    assert list(made.prim_funcs) == ["my_relu"]

    def for_match(matched: Matched) -> PrimFunc:
        rows, width = [d.value for d in matched.type(x).shape]  # type: ignore[union-attr]
        return prim_func(rows, width)

    made = rewritten((for_match, is_op("relu")(x)))
    assert list(made.prim_funcs) == ["my_relu", "my_relu_1"]
    assert "R.relu" not in made.script()


def test_what_others_read_is_not_handed_over() -> None:
    shared = parse_module(
        """
    @I.ir_module
    class Module:
        @R.function
        def main(x: R.Tensor((4, 8))):
            with R.dataflow():
                a = R.sigmoid(x)
                b = R.relu(a)
                c = R.add(a, b)
                R.output(c)
            return c
    """.replace("\n    ", "\n")
    )
    pattern = is_op("relu")(is_op("sigmoid")(wildcard()))
    assert FuseOpsByPattern([("env.f", pattern)])(shared)["main"] is shared["main"]
    s = is_op("sigmoid")
    text = FuseOpsByPattern([("env.f", is_op("relu")(s), [s])])(shared).script()
    assert '"env.f", (a,)' in text


@pytest.mark.parametrize(
    ("make", "said"),
    [
        (lambda: prim_func(5, 6), "my_relu does not fit a match"),
        (lambda: prim_func(4, 6, more=1), "it has 3 buffers"),
    ],
)
def test_a_prim_func_that_does_not_fit(make: Any, said: str) -> None:
    with pytest.raises(PassError) as error:
        FuseOpsByPattern([(make(), is_op("relu")(wildcard()))])(MODULE)
    assert said in str(error.value)


def test_errors_of_entries() -> None:
    for entry, said in (
        ("env.f", "takes FusionPatterns, or tuples"),
        (("env.f", "relu"), "expected a pattern"),
        ((3, wildcard()), "the callee is the name"),
        (("f", is_op("relu")(wildcard()), [wildcard()]), "which is no part of the pattern"),
        (("f", wildcard(), None, "c"), "the check is a function of a match; found 'c'"),
    ):
        with pytest.raises(PatternError, match=said):
            FuseOpsByPattern([entry])  # type: ignore[list-item]
    with pytest.raises(PassError, match="it gives a PrimFunc"):
        FuseOpsByPattern([(lambda m: None, is_op("relu"))])(MODULE)


def test_its_text_names_what_it_calls() -> None:
    made = FuseOpsByPattern([("env.f", wildcard()), (prim_func(4, 6), wildcard())])
    assert str(made) == "fuse-ops-by-pattern{env.f,my_relu}"
