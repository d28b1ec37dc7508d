"""A compiled model: kinds of arrays, signatures, inputs and outputs, stages."""

from __future__ import annotations

import gc
import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import nn

import burnish
from burnish import errors
from burnish.driver.compiled_model import CompiledModel
from burnish.support.choices import STAGES
from burnish.tests.driver.programs import (
    Add,
    DLPackOnly,
    Structured,
    assert_close,
    expected,
    read_only,
)


class FromDict(nn.Module):
    def forward(self, batch: dict[str, torch.Tensor]) -> torch.Tensor:
        return batch["a"] + batch["b"]


# -- kinds of arrays ------------------------------------------------------------------------------
def test_torch_in_torch_out(module: nn.Module, static: CompiledModel, image: torch.Tensor) -> None:
    for _ in range(3):  # the complete way first, then the fast entry
        y = static(image)
        assert type(y) is torch.Tensor
        assert_close(y, expected(module, image))


def test_numpy_in_numpy_out(module: nn.Module, static: CompiledModel, image: torch.Tensor) -> None:
    for _ in range(3):
        y = static(image.numpy())
        assert type(y) is np.ndarray
        assert_close(y, expected(module, image))


def test_anything_else_gives_burnish_tensors(static: CompiledModel, image: torch.Tensor) -> None:
    wanted = static(image.numpy())
    for x in (burnish.array(image), DLPackOnly(image.numpy())):
        y = static(x)
        assert type(y) is type(burnish.empty((1,)))
        np.testing.assert_array_equal(y.numpy(), wanted)


def test_one_torch_tensor_makes_the_outputs_torch(structured: CompiledModel) -> None:
    y = structured(np.ones(3, np.float32), torch.ones(3))
    assert type(y["sum"]) is torch.Tensor


def misaligned(image: torch.Tensor) -> np.ndarray:
    memory = np.zeros(image.numel() * 4 + 1, np.uint8)[1:].view(np.float32).reshape(image.shape)
    memory[...] = image.numpy()
    assert not memory.flags.aligned
    return memory


def misaligned_torch(image: torch.Tensor) -> torch.Tensor:
    memory = bytearray(image.numel() * 4 + 1)
    x = torch.frombuffer(memory, dtype=torch.float32, offset=1).reshape(image.shape)
    x.copy_(image)
    assert x.data_ptr() % 4
    return x


def strided(image: torch.Tensor) -> torch.Tensor:
    x = torch.zeros(*image.shape[:-1], 56)[..., ::2]
    x.copy_(image)
    return x


def negated(image: torch.Tensor) -> torch.Tensor:
    """A tensor whose memory holds its negation, as torch makes them of conjugates."""
    x: torch.Tensor = torch._neg_view(-image)
    assert x.is_neg()
    assert x.is_contiguous()
    return x


@pytest.mark.parametrize(
    "change",
    [
        misaligned,
        misaligned_torch,
        read_only,
        strided,
        negated,
        lambda x: strided(x).numpy(),
        lambda x: x.clone().requires_grad_(),
        lambda x: nn.Parameter(x.clone()),
        lambda x: x.numpy()[:, :, ::-1][:, :, ::-1],
    ],
)
def test_unusual_inputs_are_read_right(
    static: CompiledModel, image: torch.Tensor, change: Any
) -> None:
    wanted = static(image.numpy())
    changed = change(image)
    for _ in range(2):
        y = static(changed)
        np.testing.assert_array_equal(np.asarray(y), wanted)
    assert not getattr(y, "requires_grad", False)


@pytest.mark.parametrize("dtype", [torch.bool, torch.uint8, torch.int32, torch.int64])
def test_bool_and_integer_inputs(dtype: torch.dtype) -> None:
    class Select(nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return torch.where(x > 0, 2, 3) + x

    x = torch.tensor([0, 1, 1, 0, 1]).to(dtype)
    model = burnish.compile(Select().eval(), (x,))
    y = model(x)
    assert y.dtype is Select()(x).dtype
    assert torch.equal(y, Select()(x))
    np.testing.assert_array_equal(model(x.numpy()), y.numpy())


# -- outputs --------------------------------------------------------------------------------------
@pytest.mark.parametrize("kind", ["torch", "numpy", "burnish"])
def test_outputs_are_fresh_memory(static: CompiledModel, image: torch.Tensor, kind: str) -> None:
    convert = {"torch": lambda x: x, "numpy": lambda x: x.numpy(), "burnish": burnish.array}[kind]
    inputs = [convert(image * k) for k in range(6)]
    wanted = [np.asarray(static(x)).copy() for x in inputs]
    kept = [static(x) for x in inputs]
    rows = [np.asarray(static(x))[0, 2:5] for x in inputs]
    gc.collect()
    for y, row, w in zip(kept, rows, wanted, strict=True):
        np.testing.assert_array_equal(np.asarray(y), w)
        np.testing.assert_array_equal(row, w[0, 2:5])


def test_an_input_that_is_returned_is_copied(image: torch.Tensor) -> None:
    class Identity(nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return x

    model = burnish.compile(Identity().eval(), (image,))
    for x in (image, image.numpy()):
        for _ in range(2):
            y = model(x)
            assert not np.shares_memory(np.asarray(y), np.asarray(x))
            np.testing.assert_array_equal(np.asarray(y), np.asarray(x))
    assert model.report.copies == 1


def test_a_module_that_returns_a_constant(image: torch.Tensor) -> None:
    class Constant(nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return torch.ones(3)

    model = burnish.compile(Constant().eval(), (image,))
    first = model(image)
    first.zero_()
    assert torch.equal(model(image), torch.ones(3))


def test_a_module_without_inputs_gives_torch_tensors() -> None:
    class Nothing(nn.Module):
        def forward(self) -> torch.Tensor:
            return torch.arange(3.0) * 2

    for model in (burnish.compile(Nothing().eval(), ()), burnish.compile(Nothing().eval())):
        for _ in range(2):
            assert torch.equal(model(), torch.tensor([0.0, 2, 4]))


def test_the_default_device_does_not_matter(static: CompiledModel, image: torch.Tensor) -> None:
    wanted = static(image)
    static(image)
    with torch.device("meta"):
        for _ in range(2):
            y = static(image)
    assert y.device.type == "cpu"
    assert torch.equal(y, wanted)


def test_outputs_have_the_structure_of_the_module(structured: CompiledModel) -> None:
    a, b = torch.rand(3), torch.rand(3)
    y, wanted = structured(a, b), Structured()(a, b)
    assert list(y) == ["sum", "rest"]
    assert type(y["rest"]) is tuple
    assert type(y["rest"][1]) is list
    torch.testing.assert_close(y, wanted)
    assert type(structured(a.numpy(), b.numpy())["rest"][0]) is np.ndarray


def test_plain_outputs_are_given_back() -> None:
    class Mixed(nn.Module):
        def forward(self, x: torch.Tensor) -> Any:
            return x + 1, None, 3, {"a": x * 2}

    y = burnish.compile(Mixed().eval(), (torch.ones(2),))(torch.ones(2))
    assert y[1:3] == (None, 3)
    assert torch.equal(y[3]["a"], y[0])


def test_a_list_of_one_output_stays_a_list() -> None:
    class Listed(nn.Module):
        def forward(self, x: torch.Tensor) -> list[torch.Tensor]:
            return [x + 1]

    model = burnish.compile(Listed().eval(), (torch.ones(2),))
    y = model(torch.ones(2))
    assert type(y) is list
    assert torch.equal(y[0], torch.full((2,), 2.0))


# -- inputs by name -------------------------------------------------------------------------------
def test_inputs_by_keyword(structured: CompiledModel) -> None:
    a, b = torch.rand(3), torch.rand(3)
    for y in (structured(b=b, a=a), structured(a, b=b), structured.run({"b": b, "a": a})):
        assert torch.equal(y["rest"][0], a - b)


def test_unknown_and_doubled_names_are_arity_errors(structured: CompiledModel) -> None:
    a = torch.rand(3)
    with pytest.raises(errors.ArityError, match="'bb' is no input of this model"):
        structured(a, bb=a)
    with pytest.raises(errors.ArityError, match="'a' was given twice"):
        structured(a, a=a)
    with pytest.raises(errors.ArityError, match="takes 2 inputs"):
        structured.run({"a": a})


def test_a_dict_as_input_keeps_its_structure() -> None:
    model = burnish.compile(FromDict().eval())
    y = model({"a": np.ones(3, np.float32), "b": np.ones(3, np.float32)})
    np.testing.assert_array_equal(y, [2, 2, 2])
    assert torch.equal(model({"a": torch.ones(3), "b": torch.ones(3)}), torch.full((3,), 2.0))
    assert model.compilations == 1
    fixed = burnish.compile(FromDict().eval(), ({"a": torch.ones(3), "b": torch.ones(3)},))
    with pytest.raises(errors.ArityError, match=r"'batch': .*'a', 'b'; found one without 'b'"):
        fixed({"a": torch.ones(3)})


def test_plain_values_are_part_of_the_program() -> None:
    class Scale(nn.Module):
        def forward(self, x: torch.Tensor, k: int) -> torch.Tensor:
            return x * k

    fixed = burnish.compile(Scale().eval(), (torch.ones(3), 2))
    assert torch.equal(fixed(torch.ones(3), 2), torch.full((3,), 2.0))
    with pytest.raises(errors.ArgumentError, match="2 at compilation"):
        fixed(torch.ones(3), 3)
    lazy = burnish.compile(Scale().eval())
    assert torch.equal(lazy(torch.ones(3), 2), torch.full((3,), 2.0))
    assert torch.equal(lazy(torch.ones(3), k=3), torch.full((3,), 3.0))
    assert lazy.compilations == 2


# -- a fixed signature ----------------------------------------------------------------------------
def test_a_fixed_signature_is_never_cast_nor_compiled_again(
    module: nn.Module, image: torch.Tensor
) -> None:
    model = burnish.compile(module, (image,))
    for _ in range(2):
        with pytest.raises(errors.ShapeMismatchError, match="expected shape") as caught:
            model(torch.cat([image, image]))
        assert 'compile(module, args, dynamic_shapes=({0: "batch"},)).' in str(caught.value)
        with pytest.raises(errors.DTypeMismatchError, match="expected dtype float32, got float64"):
            model(image.double())
        with pytest.raises(errors.DTypeMismatchError, match="expected dtype float32, got bfloat16"):
            model(image.bfloat16())
        with pytest.raises(errors.DTypeMismatchError):
            model(image.numpy().astype(np.float16))
        with pytest.raises(errors.ArityError, match=r"takes 1 input \(input\); got 2"):
            model(image, image)
        with pytest.raises(errors.ArityError):
            model()
        model(image)
    assert model.compilations == 1


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda x: x.tolist(), "expected a NumPy array, a burnish tensor or anything with"),
        (lambda x: 3.0, "got float"),
        (lambda x: x.to("meta"), "is on meta; burnish runs on the CPU"),
        (lambda x: x.to_sparse(), "layout is torch.sparse_coo"),
    ],
)
def test_what_is_no_dense_cpu_tensor_is_refused(
    static: CompiledModel, image: torch.Tensor, change: Any, message: str
) -> None:
    with pytest.raises(errors.ArgumentError, match=message):
        static(change(image))


def test_foreign_dtypes_are_refused(static: CompiledModel, image: torch.Tensor) -> None:
    with pytest.raises(errors.DTypeMismatchError):
        static(image.to(torch.complex64))
    with pytest.raises(errors.DTypeError, match="input 'input' of a dtype in native byte order"):
        static(image.numpy().astype(">f4"))


# -- dims that vary -------------------------------------------------------------------------------
def test_one_compilation_answers_every_batch(module: nn.Module, dynamic: CompiledModel) -> None:
    generator = torch.Generator().manual_seed(1)
    for batch in (0, 1, 3, 256, 900, 1):
        x = torch.rand((batch, 1, 28, 28), generator=generator)
        y = dynamic(x)
        assert y.shape == (batch, 10)
        torch.testing.assert_close(y, torch.from_numpy(expected(module, x)), rtol=1e-5, atol=1e-5)
        np.testing.assert_array_equal(dynamic(x.numpy()), y.numpy())
    assert dynamic.compilations == 1


def test_other_dims_stay_fixed(dynamic: CompiledModel) -> None:
    with pytest.raises(errors.ShapeMismatchError, match=r"\(batch, 1, 28, 28\)") as caught:
        dynamic(torch.rand(2, 1, 28, 27))
    assert not getattr(caught.value, "__notes__", [])


def test_a_row_has_the_same_result_in_every_batch(dynamic: CompiledModel) -> None:
    x = torch.rand(37, 1, 28, 28)
    whole = dynamic(x)
    for begin, end in ((5, 6), (0, 2), (30, 37), (3, 36)):
        torch.testing.assert_close(dynamic(x[begin:end]), whole[begin:end], rtol=1e-6, atol=1e-6)


def test_dims_named_lazily(image: torch.Tensor) -> None:
    model = burnish.compile(Add().eval(), dynamic_shapes=({0: "n"},))
    for n in (2, 1, 0, 5):
        assert torch.equal(model(torch.zeros(n, 3)), torch.ones(n, 3))
    assert model.compilations == 1
    with pytest.raises(errors.ShapeMismatchError):
        model(torch.zeros(2, 4))
    assert model(torch.zeros(2, 3, dtype=torch.float64)).dtype is torch.float64
    assert model.compilations == 2


# -- looking inside -------------------------------------------------------------------------------
def test_every_stage_can_be_read(static: CompiledModel) -> None:
    assert "R.linear(" in static.script("00-import")
    assert "R.linear(" in static.script("10-canonical")
    assert "R.call_dps(cls.linear," in static.script("20-legalized")
    assert "R.call_dps(cls.fused_linear_relu," in static.script()
    assert "T.vectorized" in static.script("40-scheduled")
    assert static.script("45-packed") != static.script("40-scheduled")
    assert 'call("kernel:main_segment0"' in static.script("70-bytecode")
    assert static.module.script() == static.script("40-scheduled")


def test_an_unknown_stage_names_the_nearest(static: CompiledModel) -> None:
    with pytest.raises(errors.BurnishError, match="Did you mean '30-fused'"):
        static.script("30-fuse")


def test_show_prints(static: CompiledModel, capsys: pytest.CaptureFixture[str]) -> None:
    static.show()
    static.show("70-bytecode")
    printed = capsys.readouterr().out
    assert "fused_linear_relu" in printed
    assert "main_segment0" in printed


def test_every_stage_is_shown(static: CompiledModel) -> None:
    for stage in STAGES:
        assert static.script(stage).strip(), stage
    kernels = static.module.prim_funcs
    for stage, mark, word in (("50-lowered", "#", "@T.prim_func"), ("60-llvm", ";", "define ")):
        text = static.script(stage)
        assert [f"{mark} -- {name}" for name in kernels] == re.findall(
            rf"^{mark} -- .*", text, re.M
        )
        assert text.count(word) >= len(kernels)


class Counts(torch.nn.Module):
    def forward(self, x: torch.Tensor, mask: torch.Tensor) -> Any:
        return {
            "half": x.shape[0] / 2,
            "is_long": x.shape[0] > 3,
            "kept": x[mask].shape[0],
            "sizes": list(x.shape),
            "y": x + 1,
        }


def test_sizes_and_numbers_of_them_leave_a_model(tmp_path: Path) -> None:
    """An int in eager is an int here, be it of a named size or of one that data tell."""
    module, x = Counts().eval(), torch.rand(4, 3)
    model = burnish.compile(module, (x, x > 0.5), dynamic_shapes=({0: "n"}, {0: "n"}))
    model.save(tmp_path / "m.burnish")
    for each in (model, burnish.load(tmp_path / "m.burnish")):
        for size in (2, 5):
            z = torch.rand(size, 3)
            for wrap in (lambda t: t, lambda t: t.numpy()):
                found, expected = each(wrap(z), wrap(z > 0.5)), module(z, z > 0.5)
                assert np.array_equal(found.pop("y"), expected.pop("y"))
                assert found == expected
                assert [type(v) for v in found.values()] == [float, bool, int, list]
    assert model.verify(x, x > 0.5)


def test_a_size_may_be_all_that_a_model_gives() -> None:
    class Rows(torch.nn.Module):
        def forward(self, x: torch.Tensor) -> int:
            return x.shape[0] * 2

    model = burnish.compile(Rows().eval(), (torch.ones(4),), dynamic_shapes=({0: "n"},))
    assert [model(torch.ones(n)) for n in (0, 3, 5)] == [0, 6, 10]
    with pytest.raises(errors.FrontendError, match="name these: dynamic_shapes"):
        burnish.compile(Rows().eval(), (torch.ones(4),))
