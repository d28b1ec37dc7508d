"""A model of tensor programs and environment functions, in three mixtures."""

from __future__ import annotations

from types import ModuleType

import numpy as np
import pytest

import burnish


def test_it_runs(program: ModuleType, capsys: pytest.CaptureFixture[str]) -> None:
    program.main()
    text = capsys.readouterr().out
    predictions = [line.split(": ")[1] for line in text.splitlines() if " prediction: " in line]
    assert len(predictions) == 4
    assert len(set(predictions)) == 1
    correct, count = (
        int(word)
        for word in text.split("MyModuleWithParams: ")[1].split(" correct")[0].split(" of ")
    )
    assert count == 200
    assert correct > 160
    assert 'R.call_dps_packed("env.relu", (lv0,)' in text


@pytest.mark.parametrize("name", ["MyModule", "MyModuleWithExternCall", "MyModuleMixture"])
def test_every_mixture_computes_the_model(program: ModuleType, name: str) -> None:
    rng = np.random.default_rng(3)
    shapes = {"w0": (128, 784), "b0": (128,), "w1": (10, 128), "b1": (10,)}
    params = {k: (rng.standard_normal(s) * 0.1).astype("float32") for k, s in shapes.items()}
    x = rng.random((1, 784), dtype="float32")
    bound = burnish.transform.BindParams("main", params)(getattr(program, name))
    result = burnish.VirtualMachine(burnish.build(bound))["main"](x).numpy()
    np.testing.assert_allclose(result, program.numpy_mlp(x, params), rtol=1e-3, atol=1e-4)


def test_environment_functions_write_in_place(program: ModuleType) -> None:
    out = burnish.empty((1, 1))
    arrays = [burnish.array(v, "float32") for v in ([[1.0, -2.0]], [[3.0, 4.0]], [6.0])]
    program.torch_linear(*arrays, out)
    np.testing.assert_array_equal(out.numpy(), [[1.0]])
    out = burnish.empty((1, 2))
    program.numpy_relu(burnish.array([[1.0, -2.0]], "float32"), out)
    np.testing.assert_array_equal(out.numpy(), [[1.0, 0.0]])
