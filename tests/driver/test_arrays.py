"""Arrays of other libraries on their way in and out."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
import pytest
import torch

import burnish
from burnish import errors
from burnish.driver.arrays import (
    is_torch_tensor,
    like_inputs,
    random_inputs,
    tensor_to_torch,
    to_tensors,
    torch_kind,
    torch_to_tensor,
    write_outputs,
)
from burnish.vm.program import Param, TensorSpec

DTYPES = [
    "float64",
    "float32",
    "float16",
    "bfloat16",
    "int64",
    "int32",
    "int16",
    "int8",
    "uint8",
    "bool",
]


@pytest.mark.parametrize("dtype", DTYPES)
def test_torch_tensors_share_memory_both_ways(dtype: str) -> None:
    x = torch.tensor([[0, 1, 2], [3, 4, 5]]).to(getattr(torch, dtype))
    t = torch_to_tensor(x, "x")
    assert (t.shape, t.dtype) == ((2, 3), dtype)
    assert t.pointer == x.data_ptr()
    back = tensor_to_torch(t)
    assert back.data_ptr() == x.data_ptr()
    assert torch.equal(back, x)


def test_strided_and_negated_tensors_are_copied() -> None:
    x = torch.arange(6.0).reshape(2, 3)
    for changed in (x.T, torch._neg_view(-x).T):
        t = torch_to_tensor(changed, "x")
        assert t.data.flags.c_contiguous
        np.testing.assert_array_equal(t.numpy(), x.numpy().T)


def test_what_torch_has_and_burnish_has_not() -> None:
    with pytest.raises(errors.DTypeMismatchError, match="x: expected dtype a real dtype"):
        torch_to_tensor(torch.zeros(2, dtype=torch.complex64), "x")
    with pytest.raises(
        errors.ArgumentError, match=r"x: a? ?torch\.float8_e4m3fn .*cannot be passed"
    ):
        torch_to_tensor(torch.zeros(2).to(torch.float8_e4m3fn), "x")


ODD: dict[str, Callable[[torch.Tensor], torch.Tensor]] = {
    "sparse_csr": lambda x: x.to_sparse_csr(),
    "sparse": lambda x: x.to_sparse(),
    "mkldnn": lambda x: x.to_mkldnn(),
    "meta": lambda x: x.to("meta"),
    "nested": lambda x: torch.nested.nested_tensor([x[0], x[1]]),
    "no memory": torch._efficientzerotensor,
    "freed": lambda x: _freed(x),
}


def _freed(x: torch.Tensor) -> torch.Tensor:
    copy = x.clone()
    copy.untyped_storage().resize_(0)
    return copy


@pytest.mark.parametrize("name", ODD)
@pytest.mark.filterwarnings("ignore:.*(beta|prototype)")
def test_tensors_without_plain_memory_are_refused_at_every_call(name: str) -> None:
    """Also by the generated entry, which takes the second call and would read address 0."""
    x = torch.ones(2, 3)
    model = burnish.compile(torch.nn.ReLU().eval(), (x,))
    odd = ODD[name](torch.Size((2, 3)) if name == "no memory" else x)
    for _ in range(2):
        with pytest.raises(errors.ArgumentError, match="input 'input': "):
            model(odd)
        assert torch.equal(model(x), x)


def test_is_torch_tensor() -> None:
    assert is_torch_tensor(torch.zeros(1))
    assert not is_torch_tensor(np.zeros(1))


def test_asking_does_not_import_torch() -> None:
    program = (
        "import sys, numpy, burnish\n"
        "from burnish.driver.arrays import is_torch_tensor, to_tensors\n"
        "assert not is_torch_tensor(1)\n"
        "to_tensors([numpy.zeros(1)], ['x'])\n"
        "assert 'torch' not in sys.modules"
    )
    subprocess.run([sys.executable, "-c", program], check=True)


def test_outputs_come_in_the_library_of_the_inputs() -> None:
    t = burnish.array([1.0, 2.0])
    a, x = np.zeros(1), torch.zeros(1)
    assert isinstance(like_inputs([t], [a])[0], np.ndarray)
    assert isinstance(like_inputs([t], [a, x])[0], torch.Tensor)
    assert like_inputs([t], [a, t]) == [t]
    half = burnish.array([1.0], "bfloat16")
    assert like_inputs([half], [a]) == [half]
    assert like_inputs([half], [x])[0].dtype is torch.bfloat16


def test_to_tensors_names_the_input() -> None:
    with pytest.raises(errors.ArgumentError, match="second: expected a NumPy array"):
        to_tensors([np.zeros(1), 3], ["first", "second"])


def test_outputs_are_written_into_bfloat16_tensors_and_dicts() -> None:
    half = burnish.array([1.5, -2.0], "bfloat16")
    out = torch.zeros(2, dtype=torch.bfloat16)
    write_outputs(out, [half])
    assert out.tolist() == [1.5, -2.0]
    named = {"y": burnish.empty((2,), "bfloat16")}
    write_outputs(named, [half])
    assert named["y"].tolist() == [1.5, -2.0]
    with pytest.raises(errors.DTypeMismatchError, match="expected dtype bfloat16, got uint16"):
        write_outputs(np.zeros(2, np.uint16), [half])


def test_memory_that_cannot_be_written() -> None:
    t = burnish.array(np.ones(2, np.float32))
    with pytest.raises(errors.ArgumentError, match="out: its memory cannot be written"):
        write_outputs(torch._neg_view(torch.zeros(2)), [t])
    with pytest.raises(errors.ArityError, match="gives 1 output; 0 arrays were passed"):
        write_outputs([], [t])


def test_random_inputs_fit_the_parameters() -> None:
    params = [
        Param("x", TensorSpec(("n", "2 * n"), "float32")),
        Param("i", TensorSpec((), "int64")),
        Param("h", TensorSpec(("3",), "bfloat16")),
    ]
    made = random_inputs(params, size=2)
    assert [(t.shape, t.dtype) for t in made] == [
        ((2, 4), "float32"),
        ((), "int64"),
        ((3,), "bfloat16"),
    ]
    assert 0 <= made[0].numpy().min() < made[0].numpy().max() < 1
    assert made[0].tolist() == random_inputs(params, size=2)[0].tolist()
    with pytest.raises(errors.ArgumentError, match="'x' has the named size 'n'"):
        random_inputs(params)


def test_the_torch_kind_knows_all_dtypes() -> None:
    assert list(torch_kind().dtypes) == DTYPES
    assert torch_kind() is torch_kind()


# -- outputs that live in memory of the entry's own ------------------------------------------------
@pytest.fixture
def doubles() -> Callable[[torch.Tensor], torch.Tensor]:
    """``2 * x`` of four numbers, by the entry for torch tensors."""

    class Doubles(torch.nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return x * 2

    x = torch.ones(4)
    model = burnish.compile(Doubles().eval(), (x,), threads=1)
    model(x)
    assert model._entry != model._dispatch
    entry: Callable[[torch.Tensor], torch.Tensor] = model._entry
    return entry


def test_outputs_that_somebody_has_are_not_written_again(doubles: Any) -> None:
    x = torch.arange(4.0)
    held = [doubles(x + n) for n in range(6)]
    arrays = [doubles(x + n).numpy() for n in range(6)]
    slices = [doubles(x + n)[1:] for n in range(6)]
    packed = [torch.from_dlpack(doubles(x + n)) for n in range(6)]
    for n in range(6):
        expected = (x + n) * 2
        assert torch.equal(held[n], expected)
        np.testing.assert_array_equal(arrays[n], expected.numpy())
        assert torch.equal(slices[n], expected[1:])
        assert torch.equal(packed[n], expected)


def test_memory_is_used_again_when_nobody_has_it(doubles: Any) -> None:
    x = torch.ones(4)
    places = {doubles(x).data_ptr() for _ in range(20)}
    assert len(places) <= 2


@pytest.mark.parametrize(
    "change",
    [
        lambda y: y.resize_(4000),
        lambda y: y.untyped_storage().resize_(0),
        lambda y: y.untyped_storage().resize_(8),
        lambda y: y.share_memory_(),
        lambda y: y.set_(torch.zeros(2)),
        lambda y: y.requires_grad_(),
        lambda y: y.t_(),
    ],
)
def test_whatever_somebody_does_to_an_output(doubles: Any, change: Any) -> None:
    x = torch.arange(4.0)
    for _ in range(4):
        y = doubles(x)
        change(y)
        del y
        for _ in range(3):
            again = doubles(x)
            assert torch.equal(again, x * 2)
            assert again.untyped_storage().nbytes() >= 16
            assert not again.requires_grad


def test_outputs_of_inference_mode_are_tensors_as_any(doubles: Any) -> None:
    x = torch.arange(4.0)
    with torch.inference_mode():
        kept = [doubles(x) for _ in range(3)]
        assert torch.equal(kept[-1], x * 2)
    weight = torch.ones(4, requires_grad=True)
    (doubles(x) * weight).sum().backward()
    assert torch.equal(weight.grad, x * 2)
    (kept[0] * 1).sum()


def test_threads_do_not_share_outputs(doubles: Any) -> None:
    def work(n: int) -> bool:
        x = torch.full((4,), float(n))
        return all(torch.equal(doubles(x), x * 2) for _ in range(200))

    with ThreadPoolExecutor(8) as pool:
        assert all(pool.map(work, range(8)))


def test_without_a_count_outputs_are_new(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delattr(torch._C, "_storage_Use_Count")
    torch_kind.cache_clear()
    try:
        assert torch_kind().view == ""
    finally:
        monkeypatch.undo()
        torch_kind.cache_clear()
    assert torch_kind().view
