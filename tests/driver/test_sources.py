"""Whatever is a model: ONNX in three forms, exported programs, IRModules, torch modules."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import nn

import burnish
from burnish import errors
from burnish.driver.compiled_model import CompiledModel
from burnish.driver.sources import as_example, import_ir_module, is_torch_module, source_name

onnx = pytest.importorskip("onnx")


def onnx_mlp(module: nn.Module) -> onnx.ModelProto:
    """The MLP as a person would write it in ONNX, for any number of images."""
    from onnx import TensorProto, helper, numpy_helper

    w0, b0, w1, b1 = [p.detach().numpy() for p in module.parameters()]
    named = {"w0": w0, "b0": b0, "w1": w1, "b1": b1}
    graph = helper.make_graph(
        [
            helper.make_node("Flatten", ["image.1"], ["flat"], axis=1),
            helper.make_node("Gemm", ["flat", "w0", "b0"], ["hidden"], transB=1),
            helper.make_node("Relu", ["hidden"], ["positive"]),
            helper.make_node("Gemm", ["positive", "w1", "b1"], ["logits"], transB=1),
        ],
        "mlp",
        [helper.make_tensor_value_info("image.1", TensorProto.FLOAT, ["batch", 1, 28, 28])],
        [helper.make_tensor_value_info("logits", TensorProto.FLOAT, ["batch", 10])],
        [numpy_helper.from_array(value, name) for name, value in named.items()],
    )
    opset = [helper.make_opsetid("", 17)]
    return helper.make_model(graph, opset_imports=opset, ir_version=8)


@pytest.fixture(scope="module")
def from_onnx(module: nn.Module) -> CompiledModel:
    model: CompiledModel = burnish.compile(onnx_mlp(module))
    return model


def test_onnx_from_proto_bytes_and_path(
    module: nn.Module, from_onnx: CompiledModel, tmp_path: Path
) -> None:
    proto = onnx_mlp(module)
    path = tmp_path / "mlp.onnx"
    onnx.save(proto, path)
    sources = (path, str(path), proto.SerializeToString())
    x = torch.rand(5, 1, 28, 28)
    with torch.no_grad():
        wanted = module(x).numpy()
    np.testing.assert_allclose(from_onnx(x.numpy()), wanted, rtol=1e-5, atol=1e-6)
    for source in sources:
        np.testing.assert_array_equal(burnish.compile(source)(x.numpy()), from_onnx(x.numpy()))


def test_onnx_gives_the_bits_of_torch(from_onnx: CompiledModel, dynamic: CompiledModel) -> None:
    x = torch.rand(5, 1, 28, 28)
    assert torch.equal(from_onnx(x), dynamic(x))
    assert from_onnx.report.kernels == ["fused_linear_relu", "linear_1"]


def test_onnx_inputs_keep_their_own_names(from_onnx: CompiledModel) -> None:
    x = np.zeros((2, 1, 28, 28), np.float32)
    for y in (
        from_onnx({"image.1": x}),
        from_onnx.run({"image.1": x}),
        from_onnx(**{"image.1": x}),
    ):
        np.testing.assert_array_equal(y, from_onnx(x))
    with pytest.raises(
        errors.ArityError, match=r"'image' is no input of this model; the inputs are image\.1"
    ):
        from_onnx.run({"image": x})


def test_advice_about_shapes_fits_the_source(static: CompiledModel) -> None:
    """Only a torch module's dims can be named at compile time."""
    model = burnish.compile(static.executable.stages["00-import"])
    with pytest.raises(errors.ShapeMismatchError) as caught:
        model(np.zeros((2, 1, 28, 28), np.float32))
    assert not getattr(caught.value, "__notes__", [])


def test_what_is_no_onnx(tmp_path: Path) -> None:
    with pytest.raises(errors.FrontendError, match="cannot be read: No such file"):
        burnish.compile(tmp_path / "nothing.onnx")
    (tmp_path / "text.onnx").write_text("hello")
    with pytest.raises(errors.FrontendError, match="no ONNX model"):
        burnish.compile(tmp_path / "text.onnx")


def test_an_exported_program(module: nn.Module, static: CompiledModel, image: torch.Tensor) -> None:
    program = torch.export.export(module, (image,))
    assert torch.equal(burnish.compile(program)(image), static(image))


def test_an_ir_module(static: CompiledModel, image: torch.Tensor) -> None:
    model = burnish.compile(static.executable.stages["00-import"])
    assert torch.equal(model(image), static(image))
    assert torch.equal(model(input=image), static(image))
    with pytest.raises(errors.ArityError, match="'inptu' is no input of this model"):
        model(inptu=image)
    with pytest.raises(errors.ArityError, match="'input' was given twice"):
        model(image, input=image)
    with pytest.raises(errors.ArityError, match=r"takes 1 input \(input\); got 2"):
        model(image, image)


def parse(body: str, params: str = 'x: R.Tensor((2,), "float32")') -> burnish.IRModule:
    text = f"@I.ir_module\nclass M:\n    @R.function\n    def main({params}):\n{body}"
    module: burnish.IRModule = burnish.parse(text)
    return module


def test_several_results_of_an_ir_module_come_as_a_tuple() -> None:
    body = """
        with R.dataflow():
            y = R.relu(x)
            z = R.add(x, x)
            R.output(y, z)
        return (y, z)
"""
    y, z = burnish.compile(parse(body))(np.array([-1, 2], np.float32))
    assert y.tolist() == [0, 2]
    assert z.tolist() == [-2, 4]


def test_an_ir_module_without_a_graph_function_is_for_build() -> None:
    from burnish.tests.driver.programs import add_one

    with pytest.raises(errors.FrontendError, match=r"use burnish\.build"):
        import_ir_module(burnish.IRModule({"main": add_one("main")}))
    with pytest.raises(errors.BurnishError, match="no function 'main'"):
        import_ir_module(burnish.IRModule({"f": add_one("f"), "g": add_one("g")}))
    with pytest.raises(errors.FrontendError, match=r"use burnish\.build"):
        import_ir_module(burnish.IRModule({"f": add_one("f")}))


@pytest.mark.parametrize("source", [3, None, [1], np.zeros(3), object])
def test_what_is_no_model(source: object) -> None:
    with pytest.raises(errors.FrontendError, match=r"compile takes a torch.nn.Module"):
        burnish.compile(source)


def test_examples_go_with_torch_modules_only(static: CompiledModel, image: torch.Tensor) -> None:
    module = static.executable.stages["00-import"]
    with pytest.raises(errors.FrontendError, match="example_inputs goes with"):
        burnish.compile(module, (image,))
    with pytest.raises(errors.FrontendError, match="dynamic_shapes goes with"):
        burnish.compile(module, dynamic_shapes=({0: "batch"},))


@pytest.mark.parametrize("example", [torch.zeros(2), np.zeros(2), 3, "x"])
def test_a_bare_example_is_refused(example: object) -> None:
    with pytest.raises(errors.FrontendError, match="example_inputs takes a tuple"):
        burnish.compile(nn.ReLU(), example)  # type: ignore[arg-type]


class Keywords(nn.Module):
    def forward(
        self, x: torch.Tensor, mask: Any = None, *, scale: Any = None, **more: Any
    ) -> torch.Tensor:
        for factor in (mask, scale, *more.values()):
            x = x if factor is None else x * factor
        return x


@pytest.mark.parametrize(
    ("given", "calls"),
    [
        (({"x": 2, "mask": 3},), ["a(x=2, mask=5)", "a(mask=5, x=2)", "a(2, mask=5)", "a(2, 5)"]),
        (({"x": 2, "scale": 3, "own": 5},), ["a(x=7, scale=2, own=3)", "a(7, own=2, scale=3)"]),
        (((2,), {"scale": 3}), ["a(7, scale=5)", "a(x=7, scale=5)"]),
        (((2, None), {"scale": 3}), ["a(2, None, scale=3)", "a(2, scale=3, mask=None)"]),
        ((None, {"x": 2}), ["a(x=5)", "a(5)"]),
    ],
)
def test_examples_by_keyword(given: Any, calls: list[str], tmp_path: Path) -> None:
    def tensors(values: Any) -> Any:
        if isinstance(values, dict):
            return {k: tensors(v) for k, v in values.items()}
        if isinstance(values, tuple):
            return tuple([tensors(v) for v in values])
        return values if values is None else torch.full((2,), float(values))

    inputs, *named = tensors(given)
    module = Keywords().eval()
    model = burnish.compile(module, inputs, example_kwargs=named[0] if named else None)
    model.save(tmp_path / "m.burnish")
    for each in (model, burnish.load(tmp_path / "m.burnish")):
        for call in calls:

            def a(*args: Any, **kwargs: Any) -> Any:
                found = each(*tensors(args), **tensors(kwargs))  # noqa: B023
                return torch.equal(found, module(*tensors(args), **tensors(kwargs)))

            assert eval(call, {"a": a}), call
    assert model.compilations == 1
    model.refresh()
    args, kwargs = ((), inputs) if isinstance(inputs, dict) else (inputs or (), named[0])
    assert torch.equal(model(*args, **kwargs), module(*args, **kwargs))


@pytest.mark.parametrize(
    ("inputs", "named", "said"),
    [
        ({"x": torch.ones(2)}, {"scale": torch.ones(2)}, "give all of them as one"),
        ({"y": torch.ones(2)}, None, r"required argument: 'x'.* stands in a tuple, \(inputs,\)"),
        ({0: torch.ones(2)}, None, "keys are names of forward"),
        (
            (torch.ones(2),),
            [torch.ones(2)],
            "example_kwargs takes a dict of inputs by name",
        ),
        ((torch.ones(2),), {"x": torch.ones(2)}, "multiple values for argument 'x'"),
    ],
)
def test_examples_by_keyword_that_do_not_fit(inputs: Any, named: Any, said: str) -> None:
    with pytest.raises(errors.FrontendError, match=said):
        burnish.compile(Keywords().eval(), inputs, example_kwargs=named)


def test_sizes_of_inputs_by_keyword_have_names() -> None:
    x = torch.ones(2, 3)
    shapes = {"x": {0: "batch"}, "scale": {0: "batch"}}
    model = burnish.compile(Keywords().eval(), {"x": x, "scale": x}, dynamic_shapes=shapes)
    assert model(x=torch.ones(5, 3), scale=torch.ones(5, 3)).shape == (5, 3)


def test_examples_may_be_arrays() -> None:
    frozen = np.zeros(3, np.float32)
    frozen.flags.writeable = False
    for example in (frozen, burnish.array(frozen)):
        model = burnish.compile(nn.ReLU(), (example,))
        assert model(np.array([-1, 0, 2], np.float32)).tolist() == [0, 0, 2]
    held = as_example({"a": [frozen, 1], "b": None}, "x")
    assert isinstance(held["a"][0], torch.Tensor)
    assert held["a"][1:] == [1]
    assert held["b"] is None


def test_what_is_a_torch_module() -> None:
    assert is_torch_module(nn.ReLU())
    assert not is_torch_module(nn.ReLU)
    assert not is_torch_module(3)


def test_a_model_is_called_by_its_file_or_its_class() -> None:
    assert source_name("folder/net.onnx") == source_name(Path("/x/net.onnx")) == "net.onnx"
    assert source_name(nn.ReLU()) == "ReLU"
    assert source_name(b"") == "bytes"


@pytest.mark.parametrize(
    ("source", "advice"),
    [
        (lambda x: x * 2, "found function. Put the function into a module"),
        (torch.relu, "Put the function into a module"),
        (partial(torch.add, 1), "found partial. Put the function into a module"),
        (torch.nn.Linear, r"found the class Linear. Make an instance of it: Linear\(\.\.\.\)"),
        (torch.nn.Linear(2, 2).forward, "Give the module itself, the Linear"),
        (torch.nn.Linear(2, 2).state_dict(), "module.load_state_dict"),
        (3, r"found int\.$"),
    ],
)
def test_what_is_no_model_says_how_it_becomes_one(source: Any, advice: str) -> None:
    for inputs in (None, (torch.ones(2),)):
        with pytest.raises(errors.FrontendError, match=f"compile takes a .*{advice}"):
            burnish.compile(source, inputs)
