"""RecognizeAttention: attention written out of parts becomes the operator, and values stay."""

from __future__ import annotations

import numpy as np
import pytest

from burnish.graphir.analysis import bindings
from burnish.graphir.expr import Call
from burnish.graphir.module import IRModule
from burnish.graphir.op import attr
from burnish.graphir.passes.canonicalize import Canonicalize
from burnish.graphir.passes.dead_code_elimination import DeadCodeElimination
from burnish.graphir.passes.recognize_attention import RecognizeAttention
from burnish.graphir.text.parser import parse_module
from burnish.graphir.verify import verify_module
from burnish.tests.graphir.reference import run

TRI = np.tri(4, dtype=bool)
RNG = np.random.default_rng(0)
PARAMS = {
    "q": 'R.Tensor((2, 3, 4, 8), "float32")',
    "k": 'R.Tensor((2, 3, 4, 8), "float32")',
    "v": 'R.Tensor((2, 3, 4, 5), "float32")',
    "m": 'R.Tensor((2, 1, 4, 4), "bool")',
    "a": 'R.Tensor((4, 4), "float32")',
}
SCORES = "s = R.matmul(q, k, transpose_b=True)"
END = ("p = R.softmax(s1, axis=-1)", "y = R.matmul(p, v)")
ENV = {
    "TRI": TRI,
    "ADDED": np.where(TRI, np.float32(0), np.float32(-np.inf)),
    "LOW": np.array(-np.inf, "float32"),
    "MIN": np.array(np.finfo("float32").min),
}


def build(
    *lines: str, params: dict[str, str] = PARAMS, env: dict[str, np.ndarray] = ENV
) -> IRModule:
    listed = ", ".join(f"{name}: {kind}" for name, kind in params.items())
    body = "".join(f"        {line}\n" for line in lines)
    text = (
        f"@R.function\ndef main({listed}):\n    with R.dataflow():\n"
        f"{body}        R.output(y)\n    return y\n"
    )
    return verify_module(Canonicalize()(parse_module(text, env=env)))


def recognized(module: IRModule) -> list[Call]:
    """The calls of the module after the pass, which gives the values of before."""
    inputs = []
    for param in module["main"].params:  # type: ignore[union-attr]
        shape = [d.value for d in param.type.shape]  # type: ignore[union-attr]
        drawn = RNG.standard_normal(shape)
        is_bool = param.type.dtype.is_bool  # type: ignore[union-attr]
        inputs.append(drawn > -0.2 if is_bool else drawn.astype("float32"))
    made = verify_module(DeadCodeElimination()(RecognizeAttention()(module)))
    with np.errstate(invalid="ignore"):
        expected = run(module, "main", *inputs)
        np.testing.assert_allclose(run(made, "main", *inputs), expected, atol=1e-6)
    return [b.value for b in bindings(made["main"]) if isinstance(b.value, Call)]  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("lines", "operators", "scale"),
    [
        (("s1 = R.matmul(q, k, transpose_b=True)",), [], 1.0),
        ((SCORES, "s1 = R.multiply(s, R.const(0.25))"), [], 0.25),
        ((SCORES, "s1 = R.divide(s, R.const(4.0))"), [], 0.25),
        (("q1 = R.multiply(q, R.const(0.5))", "s1 = R.matmul(q1, k, transpose_b=True)"), [], 0.5),
        (("t = R.permute_dims(k, axes=[0, 1, 3, 2])", "s1 = R.matmul(q, t)"), [], 1.0),
        ((SCORES, "s1 = R.add(s, a)"), [], 1.0),
        ((SCORES, "s0 = R.multiply(s, R.const(2.0))", "s1 = R.add(a, s0)"), [], 2.0),
        ((SCORES, "s1 = R.where(m, s, LOW)"), [], 1.0),
        ((SCORES, "s1 = R.where(m, LOW, s)"), ["logical_not"], 1.0),
        ((SCORES, "s1 = R.where(m, s, MIN)"), ["where"], 1.0),
        ((SCORES, "s1 = R.where(m, MIN, s)"), ["where"], 1.0),
    ],
)
def test_forms(lines: tuple[str, ...], operators: list[str], scale: float) -> None:
    calls = recognized(build(*lines, *END))
    assert [c.op for c in calls] == [*operators, "attention"]
    assert attr(calls[-1], "scale") == scale
    assert not attr(calls[-1], "causal")


@pytest.mark.parametrize("line", ["s1 = R.where(TRI, s, LOW)", "s1 = R.add(s, ADDED)"])
def test_a_constant_triangle_is_causal(line: str) -> None:
    (call,) = recognized(build(SCORES, line, *END))
    assert call.op == "attention"
    assert attr(call, "causal")
    assert len(call.args) == 3


def test_rows_without_keys_stay_nan() -> None:
    module = build(SCORES, "s1 = R.where(m, s, LOW)", *END)
    made = RecognizeAttention()(module)
    inputs = [RNG.standard_normal((2, 3, 4, n)).astype("float32") for n in (8, 8, 5)]
    mask, added = np.ones((2, 1, 4, 4), bool), np.zeros((4, 4), "float32")
    mask[0, 0, 1] = False
    with np.errstate(invalid="ignore"):
        found = run(made, "main", *inputs, mask, added)
    assert np.isnan(found[0, :, 1]).all()
    assert np.isfinite(found[1]).all()


@pytest.mark.parametrize("fill", [-2e3, -1e9, -2e30, float(np.finfo("float32").min)])
@pytest.mark.parametrize("outside", [False, True])
def test_rows_without_keys_are_means(fill: float, outside: bool) -> None:
    """What is filled in hides every score in a row without keys; a sum with it hides them only
    where it is large, and only there ``where`` may become one."""
    line = "s1 = R.where(m, LOW, s0)" if outside else "s1 = R.where(m, s0, LOW)"
    text = (SCORES, "s0 = R.multiply(s, R.const(100.0))", line, *END)
    made = RecognizeAttention()(build(*text, env=ENV | {"LOW": np.array(fill, "float32")}))
    inputs = [RNG.standard_normal((2, 3, 4, n)).astype("float32") for n in (8, 8, 5)]
    mask, added = np.ones((2, 1, 4, 4), bool), np.zeros((4, 4), "float32")
    mask[0, 0, 1] = False
    found = run(made, "main", *inputs, mask != outside, added)
    means = inputs[2][0].mean(axis=1)
    np.testing.assert_allclose(found[0, :, 1], means, atol=1e-6)


def test_three_dims_are_heads() -> None:
    params = {name: 'R.Tensor((3, 4, 8), "float32")' for name in "qkv"}
    calls = recognized(build("s1 = R.matmul(q, k, transpose_b=True)", *END, params=params))
    assert [c.op for c in calls] == ["reshape", "reshape", "reshape", "attention", "reshape"]


@pytest.mark.parametrize(
    "line",
    [
        "s1 = R.matmul(q, k, transpose_b=True)",
        "s1 = R.where(TRI, s, LOW)",
        "s1 = R.add(s, a)",
        "s1 = R.where(m, s, LOW)",
    ],
)
def test_two_dims_are_one_head(line: str) -> None:
    params = {name: 'R.Tensor((4, 8), "float32")' for name in "qkv"}
    params |= {"a": PARAMS["a"], "m": 'R.Tensor((4, 4), "bool")'}
    lines = (line,) if "matmul" in line else (SCORES, line)
    calls = recognized(build(*lines, *END, params=params))
    assert [c.op for c in calls] == ["reshape", "reshape", "reshape", "attention", "reshape"]
    assert attr(calls[3], "causal") == ("TRI" in line)


def test_two_linear_layers_are_no_attention() -> None:
    """Their weights are constants, which get layouts of their own."""
    env = {"K": RNG.standard_normal((4, 8)).astype("float32")}
    params = {"q": 'R.Tensor((4, 8), "float32")', "v": 'R.Tensor((4, 8), "float32")'}
    lines = ("s1 = R.linear(q, K)", "p = R.softmax(s1, axis=-1)")
    calls = recognized(build(*lines, "y = R.matmul(p, v)", params=params, env=env))
    assert [c.op for c in calls] == ["linear", "softmax", "matmul"]
    env = {"V": env["K"]}
    params = {"q": params["q"], "k": params["v"]}
    lines = ("s1 = R.linear(q, k)", "p = R.softmax(s1, axis=-1)")
    calls = recognized(build(*lines, "y = R.matmul(p, V)", params=params, env=env))
    assert [c.op for c in calls] == ["linear", "softmax", "matmul"]


def test_turned_operands() -> None:
    params = PARAMS | {"k": 'R.Tensor((2, 3, 8, 4), "float32")'}
    calls = recognized(build("s1 = R.matmul(q, k)", *END, params=params))
    assert [c.op for c in calls] == ["permute_dims", "attention"]


def test_half_precision_with_casts() -> None:
    params = {name: 'R.Tensor((1, 2, 4, 8), "float16")' for name in "qkv"}
    module = build(
        SCORES, 's1 = R.astype(s, dtype="float32")', "p0 = R.softmax(s1, axis=-1)",
        'p = R.astype(p0, dtype="float16")', "y = R.matmul(p, v)", params=params,
    )  # fmt: skip
    calls = [b.value for b in bindings(RecognizeAttention()(module)["main"])]  # type: ignore[arg-type]
    assert [c.op for c in calls if isinstance(c, Call)][-1] == "attention"


@pytest.mark.parametrize(
    "lines",
    [
        (SCORES, "s1 = R.relu(s)", *END),
        (SCORES, "s1 = R.add(s, s)", *END),
        (SCORES, "s1 = R.where(m, s, R.const(-5.0))", *END),
        (SCORES, "p = R.softmax(s, axis=2)", "y = R.matmul(p, v)"),
        (SCORES, "p = R.softmax(s, axis=-1)", "z = R.matmul(p, v)",
         "y = R.concat(z, p, axis=3)"),
        (SCORES, "p = R.softmax(s, axis=-1)", "z = R.matmul(p, v)", "y = R.concat(z, s, axis=3)"),
        ("w = R.strided_slice(v, axes=[1], begin=[0], end=[1])", SCORES,
         "p = R.softmax(s, axis=-1)", "y = R.matmul(p, w)"),
    ],
)  # fmt: skip
def test_what_is_none(lines: tuple[str, ...]) -> None:
    module = build(*lines)
    assert RecognizeAttention()(module)["main"] is module["main"]
