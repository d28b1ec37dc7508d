"""RNN, GRU and LSTM beside torch's, and what only ONNX has beside its evaluator."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from onnx import ModelProto, helper

from burnish.driver.compile import compile
from burnish.frontend.onnx import import_onnx
from burnish.tests.frontend.onnx.oracle import Arrays, check, compare, evaluate, model, refusal

STEPS, BATCH, INPUTS, UNITS = 3, 2, 4, 5
GATES = {"RNN": 1, "GRU": 3, "LSTM": 4}
X = np.random.default_rng(0).standard_normal((STEPS, BATCH, INPUTS)).astype(np.float32)


def weights(kind: str, directions: int = 1) -> dict[str, np.ndarray]:
    rng, rows = np.random.default_rng(1), GATES[kind] * UNITS
    shapes = {"w": (rows, INPUTS), "r": (rows, UNITS), "b": (2 * rows,)}
    return {
        n: rng.standard_normal((directions, *s)).astype(np.float32) / 2 for n, s in shapes.items()
    }


def node(kind: str, inputs: str, attributes: str, arrays: Arrays) -> ModelProto:
    body = f"y, h = {kind} <hidden_size = {UNITS}{attributes}> ({inputs})"
    return model(body, f"float[{STEPS}, {BATCH}, {INPUTS}] x", outputs="float y, float h",
                 weights=arrays)  # fmt: skip


@pytest.mark.parametrize("kind", GATES)
def test_cells_are_those_of_onnx(kind: str) -> None:
    check(node(kind, "x, w, r, b", "", weights(kind)), x=X)


@pytest.mark.parametrize("kind", GATES)
def test_a_wide_clip_changes_nothing(kind: str) -> None:
    plain, wide = (node(kind, "x, w, r, b", a, weights(kind)) for a in ("", ", clip = 100.0"))
    for one, other in zip(_run(plain), _run(wide), strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-5, atol=1e-6)


def test_what_an_activation_takes_is_clipped() -> None:
    """As ONNX says; its own evaluator does not look at clip."""
    arrays = weights("RNN")
    w, r, b = (arrays[n][0].astype("float64") for n in "wrb")
    h, expected = np.zeros((BATCH, UNITS)), []
    for x in X:
        h = np.tanh(np.clip(x @ w.T + h @ r.T + b[:UNITS] + b[UNITS:], -0.3, 0.3))
        expected.append(h)
    y, last = _run(node("RNN", "x, w, r, b", ", clip = 0.3", arrays))
    np.testing.assert_allclose(y[:, 0], expected, rtol=1e-5, atol=1e-6)
    np.testing.assert_allclose(last[0], h, rtol=1e-5, atol=1e-6)


def test_both_directions_are_those_of_torch() -> None:
    arrays = weights("LSTM", 2)
    module = torch.nn.LSTM(INPUTS, UNITS, bidirectional=True)
    # ONNX: input, output, forget, cell; torch: input, forget, cell, output
    for d, suffix in enumerate(("", "_reverse")):
        for name, part in (("weight_ih", "w"), ("weight_hh", "r")):
            split = np.split(arrays[part][d], 4)
            gates = np.concatenate([split[i] for i in (0, 2, 3, 1)])
            getattr(module, f"{name}_l0{suffix}").data = torch.from_numpy(gates)
        for i, name in enumerate(("bias_ih", "bias_hh")):
            split = np.split(np.split(arrays["b"][d], 2)[i], 4)
            gates = np.concatenate([split[i] for i in (0, 2, 3, 1)])
            getattr(module, f"{name}_l0{suffix}").data = torch.from_numpy(gates)
    made = node("LSTM", "x, w, r, b", ', direction = "bidirectional"', arrays)
    with torch.no_grad():
        expected, (last, _) = module(torch.from_numpy(X))
    y, h = _run(made)
    wanted = expected.numpy().reshape(STEPS, BATCH, 2, UNITS).transpose(0, 2, 1, 3)
    np.testing.assert_allclose(y, wanted, rtol=1e-5, atol=1e-5)
    np.testing.assert_allclose(h, last.numpy(), rtol=1e-5, atol=1e-5)


def _run(made: ModelProto) -> list[np.ndarray]:
    return evaluate(import_onnx(made), {"x": X})


def test_rows_end_at_their_own_lengths() -> None:
    arrays = weights("GRU") | {"n": np.array([3, 1], np.int32)}
    y, h = _run(node("GRU", "x, w, r, b, n", "", arrays))
    alone, _ = _run(node("GRU", "x, w, r, b", "", weights("GRU")))
    np.testing.assert_allclose(y[:, :, 0], alone[:, :, 0], rtol=1e-6)
    assert not y[1:, :, 1].any()
    np.testing.assert_allclose(h[:, 1], alone[0, :, 1], rtol=1e-6)


def test_unknown_activations_are_refused() -> None:
    made = node("RNN", "x, w, r", ', activations = ["Magic"]', weights("RNN"))
    assert "activation 'Magic' is unknown" in refusal(made)


@pytest.mark.parametrize(
    ("first", "second", "both", "alone"),
    [
        ("Tanh", "LeakyRelu", "activation_alpha = [0.1]", "activation_alpha = [0.1]"),
        ("Elu", "Affine", "activation_alpha = [2.0, 0.3], activation_beta = [0.4]",
         "activation_alpha = [0.3], activation_beta = [0.4]"),
        ("LeakyRelu", "HardSigmoid", "activation_alpha = [0.1]", "activation_alpha = [0.2]"),
        ("Sigmoid", "ScaledTanh", "activation_alpha = [0.7]",
         "activation_alpha = [0.7], activation_beta = [1.0]"),
    ],
)  # fmt: skip
def test_numbers_of_activations_are_for_those_that_take_one(
    first: str, second: str, both: str, alone: str
) -> None:
    """Of two directions the second, beside a node that has it alone."""
    arrays = weights("RNN", 2)
    names = f', direction = "bidirectional", activations = ["{first}", "{second}"], {both}'
    y, _ = _run(node("RNN", "x, w, r, b", names, arrays))
    own = {name: array[1:] for name, array in arrays.items()}
    names = f', direction = "reverse", activations = ["{second}"], {alone}'
    wanted, _ = _run(node("RNN", "x, w, r, b", names, own))
    np.testing.assert_allclose(y[:, 1:], wanted, rtol=1e-5, atol=1e-6)
    assert wanted.any()


def _steps(kind: str, directions: str, *, shape: str, outputs: str, lengths: bool) -> ModelProto:
    count = 2 if directions == "bidirectional" else 1
    arrays = weights(kind, count)
    body = (
        f'{outputs} = {kind} <hidden_size = {UNITS}, direction = "{directions}">'
        f" (x, w, r, b{', n' if lengths else ''})"
    )
    names = [o for o in outputs.split(", ") if o]
    made = model(body, f"float[{shape}, {INPUTS}] x" + (", int32[B] n" if lengths else ""),
                 outputs=", ".join(f"float {n}" for n in names), weights=arrays)  # fmt: skip
    if outputs.startswith(", "):
        made.graph.node[0].output.insert(0, "")
    return made


@pytest.mark.parametrize("kind", GATES)
@pytest.mark.parametrize("directions", ["forward", "reverse", "bidirectional"])
def test_a_symbolic_number_of_steps_is_a_loop(kind: str, directions: str) -> None:
    """Compared with the same steps written out, which ONNX's evaluator and torch were above."""
    outputs = "y, h, c" if kind == "LSTM" else "y, h"
    named, fixed = (
        _steps(kind, directions, shape=shape, outputs=outputs, lengths=True)
        for shape in ("S, B", "5, B")
    )
    x = np.random.default_rng(2).standard_normal((5, 3, INPUTS)).astype(np.float32)
    n = np.array([5, 2, 3], np.int32)
    imported, written = import_onnx(named), import_onnx(fixed)
    assert "loop" in imported.module.script()
    assert "loop" not in written.module.script()
    pairs = zip(
        evaluate(imported, {"x": x, "n": n}), evaluate(written, {"x": x, "n": n}), strict=True
    )
    for one, other in pairs:
        np.testing.assert_allclose(one, other, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("kind", GATES)
@pytest.mark.parametrize("direction", ["forward", "reverse"])
def test_one_program_serves_every_number_of_steps(kind: str, direction: str) -> None:
    """Compared with the same of that many steps, which the evaluator or torch were above."""
    for outputs in ("y", "y, h, c" if kind == "LSTM" else "y, h"):
        made = _steps(kind, direction, shape="S, B", outputs=outputs, lengths=False)
        if kind == "GRU" and direction == "reverse":
            made.graph.node[0].attribute.append(helper.make_attribute("linear_before_reset", 1))
        compiled = compile(made)
        for steps, batch in ((1, 2), (6, 1), (40, 3)):
            x = np.random.default_rng(steps).standard_normal((steps, batch, INPUTS))
            fixed = ModelProto.FromString(made.SerializeToString())
            dims = fixed.graph.input[0].type.tensor_type.shape.dim
            for dim, size in zip(dims, x.shape, strict=True):
                dim.dim_value = size
            given = x.astype(np.float32)
            found, wanted = compiled(given), evaluate(import_onnx(fixed), {"x": given})
            results = found if isinstance(found, (tuple, list)) else [found]
            for one, other in zip(results, wanted, strict=True):
                np.testing.assert_allclose(one, other, rtol=1e-4, atol=1e-5)
        assert compiled.compilations == 1


@pytest.mark.parametrize(
    ("kind", "options"),
    [*[(kind, "") for kind in GATES], ("GRU", ", linear_before_reset = 1")],
)
def test_plain_cells_are_one_operator(kind: str, options: str) -> None:
    for direction in ("forward", "reverse"):
        for inputs in ("x, w, r, b", "x, w, r"):
            attributes = f'{options}, direction = "{direction}"'
            one = node(kind, inputs, attributes, weights(kind))
            other = node(kind, inputs, f"{attributes}, clip = 50.0", weights(kind))
            assert "R.recurrent(" in import_onnx(one).module.script()
            assert "R.recurrent(" not in import_onnx(other).module.script()
            for found, wanted in zip(_run(one), _run(other), strict=True):
                np.testing.assert_allclose(found, wanted, rtol=1e-5, atol=1e-6)


def test_many_steps_are_a_loop_too() -> None:
    for outputs in ("y", "y, h"):
        made = _steps("LSTM", "forward", shape="300, 2", outputs=outputs, lengths=False)
        made.graph.node[0].attribute.append(helper.make_attribute("clip", 100.0))
        x = np.random.default_rng(3).standard_normal((300, 2, INPUTS)).astype(np.float32)
        compiled = compile(made)
        compare(compiled, made, tolerance=1e-4, x=x)
        assert "loop" in compiled.script("00-import")


@pytest.mark.parametrize("by_row", [False, True])
def test_weights_of_bytes_are_those_that_they_stand_for(by_row: bool) -> None:
    rng, rows = np.random.default_rng(4), 4 * UNITS
    shape = (1, rows) if by_row else (1,)
    held = {n: rng.integers(-100, 100, (1, k, rows)).astype(np.int8)
            for n, k in (("w", INPUTS), ("r", UNITS))}  # fmt: skip
    scales = {n: rng.uniform(0.005, 0.01, shape).astype(np.float32) for n in ("w", "r")}
    zeros = {n: rng.integers(-3, 3, shape).astype(np.int8) for n in ("w", "r")}
    wide = {
        n: ((held[n] - zeros[n].astype(np.float32).reshape(1, 1, -1))
            * scales[n].reshape(1, 1, -1)).transpose(0, 2, 1)
        for n in held
    }  # fmt: skip
    bias = {"b": weights("LSTM")["b"]}
    plain = node("LSTM", "x, w, r, b", "", {**wide, **bias})
    extra = {f"{n}{k}": a for k, found in (("s", scales), ("z", zeros)) for n, a in found.items()}
    name = "com.microsoft.DynamicQuantizeLSTM"
    body = f"y, h = {name} <hidden_size = {UNITS}> (x, w, r, b, , , , , ws, wz, rs, rz)"
    made = model(body, f"float[{STEPS}, {BATCH}, {INPUTS}] x", outputs="float y, float h",
                 weights={**held, **bias, **extra}, domains=', "com.microsoft" : 1')  # fmt: skip
    for one, other in zip(_run(made), _run(plain), strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-5, atol=1e-6)
    del made.graph.node[0].input[8:]
    assert "needs a scale" in refusal(made)
