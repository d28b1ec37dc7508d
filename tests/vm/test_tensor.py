from __future__ import annotations

import numpy as np
import pytest

from burnish.support.errors import ArgumentError, DTypeError
from burnish.vm.tensor import Tensor, array, as_tensor, empty


@pytest.mark.parametrize("shape", [(), (0,), (3,), (2, 3, 5)])
@pytest.mark.parametrize("dtype", ["float32", "int8", "bool", "bfloat16", "float64"])
def test_empty_is_aligned_and_has_its_type(shape: tuple[int, ...], dtype: str) -> None:
    t = empty(shape, dtype)
    assert (t.shape, t.dtype, t.pointer % 64) == (shape, dtype, 0)
    assert t.nbytes == t.size * t.dtype.itemsize


def test_array_copies() -> None:
    source = np.arange(6, dtype=np.int32).reshape(2, 3)
    t = array(source.T)
    source[0, 0] = 99
    assert t.shape == (3, 2)
    assert t.tolist() == [[0, 3], [1, 4], [2, 5]]
    assert array(t).pointer != t.pointer
    assert array([1.5, 2.0]).dtype == "float64"
    assert array(3, "float32").item() == 3.0


def test_everything_that_leaves_shares_memory() -> None:
    t = array(np.zeros(4, np.float32))
    t.numpy()[0] = 1
    np.asarray(t)[1] = 2
    np.from_dlpack(t)[2] = 3
    t.reshape((2, 2)).numpy()[1, 1] = 4
    assert t.tolist() == [1, 2, 3, 4]
    assert np.array(t, dtype=np.float64).dtype == np.float64
    assert np.array(t) is not t.data
    with pytest.raises(ValueError, match="only by a copy"):
        np.asarray(t, dtype=np.int32, copy=False)


def test_torch_sees_and_makes_writes() -> None:
    torch = pytest.importorskip("torch")
    t = array(np.zeros(3, np.float32))
    seen = torch.from_dlpack(t)
    seen[0] = 7
    t.numpy()[1] = 8
    assert t.tolist() == [7, 8, 0]
    assert seen.tolist() == [7, 8, 0]
    shared = as_tensor(seen, "x")
    assert shared.pointer == t.pointer
    assert array(torch.ones(2, 3).t()).shape == (3, 2)


def test_tensors_that_cannot_be_taken_are_named() -> None:
    torch = pytest.importorskip("torch")
    with pytest.raises(ArgumentError, match=r"^main, argument 'x': .*use tensor.detach\(\)"):
        as_tensor(torch.ones(2, requires_grad=True), "main, argument 'x'")
    with pytest.raises(ArgumentError, match="got list"):
        as_tensor([1, 2], "x")
    with pytest.raises(DTypeError, match="complex64"):
        as_tensor(np.ones(2, np.complex64), "x")
    with pytest.raises(DTypeError, match="native byte order"):
        as_tensor(np.ones(2, ">f4"), "x")


def test_a_strided_input_is_copied_and_a_strided_output_refused() -> None:
    strided = np.arange(8, dtype=np.float32)[::2]
    t = as_tensor(strided, "x")
    assert t.tolist() == [0, 2, 4, 6]
    assert t.data is not strided
    with pytest.raises(ArgumentError, match="y: an output must be C-contiguous"):
        as_tensor(strided, "y", copy=False)
    unaligned = np.zeros(9, np.uint8)[1:].view(np.float32)
    assert as_tensor(unaligned, "x").data.flags.aligned


def test_bfloat16() -> None:
    values = np.array([1.0, -2.5, 3.14159, np.inf, np.nan, 1e-40, 3.4e38], np.float32)
    t = array(values, "bfloat16")
    torch = pytest.importorskip("torch")
    reference = torch.from_numpy(values).bfloat16()
    assert np.array_equal(t.float32(), reference.float().numpy(), equal_nan=True)
    assert t.bits().dtype == np.uint16
    assert array(values[:2], "bfloat16").tolist() == [1.0, -2.5]
    assert array(np.array([1, 2**40]), "int64").tolist() == [1, 2**40]
    assert array(t, "float32").dtype == "float32"
    odd = Tensor(np.array([0x7F81, 0xFFC3], np.uint16), "bfloat16")
    assert array(odd, "bfloat16").bits().tolist() == [0x7F81, 0xFFC3], "NaN keep their bits"
    assert Tensor(t.bits(), "bfloat16").pointer == t.pointer
    for taken in (t.numpy, lambda: np.asarray(t), t.__dlpack__):
        with pytest.raises(DTypeError, match=r"take \.bits\(\)"):
            taken()


def test_wrapping_checks_the_memory() -> None:
    with pytest.raises(ArgumentError, match=r"copy it with burnish.array\(x\)"):
        Tensor(np.zeros((4, 4))[:, 0])
    with pytest.raises(DTypeError, match="memory of bfloat16"):
        Tensor(np.zeros(4, np.float32), "bfloat16")
    with pytest.raises(ArgumentError, match="cannot have the shape"):
        empty((2, -1))
    with pytest.raises(ArgumentError, match=r"\(6 elements\) cannot be seen as \(4,\)"):
        empty((2, 3)).reshape((4,))
    with pytest.raises(ArgumentError, match="one element"):
        empty((2,)).item()


def test_repr() -> None:
    assert repr(array(np.array([1, 2], np.int8))) == "Tensor([1, 2], shape=(2,), dtype=int8)"


def test_a_masked_array_is_refused() -> None:
    with pytest.raises(ArgumentError, match="x: a masked array's mask would be lost"):
        as_tensor(np.ma.masked_array([1.0, 2.0], [True, False]), "x")
