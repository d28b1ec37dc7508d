from __future__ import annotations

import numpy as np
import pytest

from burnish.support.errors import ArgumentError, DTypeMismatchError, ShapeMismatchError, VMError
from burnish.vm.builtins import BUILTINS, Frame, get_builtin, link_static
from burnish.vm.program import Arg, Imm, Param, Reg, Ret, TensorSpec, VMFunction
from burnish.vm.signature import Signature
from burnish.vm.storage import Storage
from burnish.vm.tensor import array


@pytest.fixture
def frame() -> Frame:
    spec = TensorSpec(("m", "n"), "float32")
    params = (Param("x", spec),)
    function = VMFunction("main", params, 1, (Ret(Imm(0)),), spec, ("m", "n"))
    return Frame(function, Signature("main", params, ("m", "n")), [None], [2, 3])


def test_match_shape_binds_the_dims(frame: Frame) -> None:
    BUILTINS["match_shape"](frame, array(np.zeros((5, 7), np.float32)))
    assert frame.dims == [5, 7]


def test_allocation_evaluates_shapes(frame: Frame) -> None:
    t = BUILTINS["alloc_tensor"](frame, ("m", "n * 4"), "bfloat16")
    assert (t.shape, t.dtype) == ((2, 12), "bfloat16")
    storage = BUILTINS["alloc_storage"](frame, "m * 64")
    a = BUILTINS["tensor_at"](frame, storage, "m * 8", ("n",), "int32")
    a.data[:] = 5
    assert storage.data[16:28].view(np.int32).tolist() == [5, 5, 5]
    assert BUILTINS["make_shape"](frame, ("n", "m + 1")) == (3, 3)


def test_views_and_tuples(frame: Frame) -> None:
    t = array(np.arange(6, dtype=np.int8))
    seen = BUILTINS["reshape"](frame, t, ("m", "n"))
    assert (seen.shape, seen.pointer) == ((2, 3), t.pointer)
    assert BUILTINS["shape_of"](frame, seen) == (2, 3)
    both = BUILTINS["make_tuple"](frame, t, seen)
    assert BUILTINS["tuple_get"](frame, both, 1) is seen
    assert BUILTINS["move"](frame, t) is t
    with pytest.raises(VMError, match="index 2 of a tuple of 2"):
        BUILTINS["tuple_get"](frame, both, 2)
    with pytest.raises(VMError, match="index 0 of Tensor"):
        BUILTINS["tuple_get"](frame, t, 0)


def test_copy_wants_equal_types(frame: Frame) -> None:
    a, b = array(np.ones(3, np.float32)), array(np.zeros(3, np.float32))
    BUILTINS["copy"](frame, a, b)
    assert b.tolist() == [1, 1, 1]
    with pytest.raises(ShapeMismatchError, match=r"expected shape \(3,\), got \(2,\)"):
        BUILTINS["copy"](frame, array(np.ones(2, np.float32)), b)
    with pytest.raises(DTypeMismatchError, match="expected dtype float32, got int8"):
        BUILTINS["copy"](frame, array(np.ones(3, np.int8)), b)


def test_scalars(frame: Frame) -> None:
    assert BUILTINS["read_scalar"](frame, array(np.array(True))) is True
    assert BUILTINS["read_scalar"](frame, array(np.array([7]))) == 7
    with pytest.raises(ArgumentError, match=r"A condition is one element.*\(2,\)"):
        BUILTINS["read_scalar"](frame, array(np.array([7, 8])))
    with pytest.raises(ArgumentError, match=r"one element; this tensor has shape \(2,\)"):
        BUILTINS["read_scalar"](frame, array(np.array([7, 8])))


def test_check(frame: Frame) -> None:
    BUILTINS["check"](frame, "m < n", "unused")
    with pytest.raises(ShapeMismatchError) as error:
        BUILTINS["check"](frame, "m == n", "The operands of add do not broadcast.")
    assert str(error.value) == (
        "main: expected shape with m == n, got m = 2, n = 3. The operands of add do not broadcast."
    )


def test_lookup() -> None:
    assert get_builtin("copy") is BUILTINS["copy"]
    with pytest.raises(VMError, match=r"There is no builtin 'cpoy'. Did you mean 'copy'\?"):
        get_builtin("cpoy")


# -- static shapes ---------------------------------------------------------------------------------
def test_static_allocations_are_settled_once(frame: Frame) -> None:
    frame.registers[0] = storage = link_static("alloc_storage", (Imm("256"),))(frame)  # type: ignore[misc]
    assert storage.nbytes == 256
    args = (Reg(0), Imm("64"), Imm(("2", "3")), Imm("float32"))
    made = link_static("tensor_at", args)
    assert made is not None
    tensor = made(frame)
    assert (tensor.shape, tensor.dtype) == ((2, 3), "float32")
    assert tensor.pointer == storage.pointer + 64
    alone = link_static("alloc_tensor", (Imm(("4",)), Imm("bfloat16")))
    assert alone is not None
    assert (alone(frame).shape, alone(frame).dtype) == ((4,), "bfloat16")


def test_a_tensor_beyond_its_storage_is_an_error(frame: Frame) -> None:
    frame.registers[0] = Storage(64)
    made = link_static("tensor_at", (Reg(0), Imm("32"), Imm(("9",)), Imm("float32")))
    assert made is not None
    with pytest.raises(ArgumentError, match="beyond a storage of 64 bytes"):
        made(frame)


@pytest.mark.parametrize(
    ("name", "args"),
    [
        ("alloc_storage", (Imm("m * 4"),)),
        ("alloc_tensor", (Imm(("m", "4")), Imm("float32"))),
        ("tensor_at", (Reg(0), Imm("0"), Imm(("m",)), Imm("float32"))),
        ("reshape", (Reg(0), Imm(("4",)))),
    ],
)
def test_symbolic_sizes_are_left_to_the_builtin(name: str, args: tuple[Arg, ...]) -> None:
    assert link_static(name, args) is None
