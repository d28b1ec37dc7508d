from __future__ import annotations

import numpy as np
import pytest

from burnish.support.errors import ArityError, DTypeMismatchError, ShapeMismatchError, VMError
from burnish.vm.program import Param, TensorSpec
from burnish.vm.signature import Signature, format_shape, format_spec
from burnish.vm.tensor import Tensor, array


def tensor(*shape: int, dtype: str = "float32") -> Tensor:
    return array(np.zeros(shape, dtype))


def signature(*shapes: tuple[str, ...], dims: tuple[str, ...] = ("m", "n")) -> Signature:
    params = [Param(f"x{i}", TensorSpec(s, "float32")) for i, s in enumerate(shapes)]
    return Signature("main", params, dims)


def test_dims_are_bound_at_first_sight_and_checked_after() -> None:
    s = signature(("m", "4"), ("n", "m"))
    assert s.bind([tensor(3, 4), tensor(5, 3)]) == [3, 5]
    assert s.bind([tensor(0, 4), tensor(1, 0)]) == [0, 1]
    with pytest.raises(ShapeMismatchError) as error:
        s.bind([tensor(3, 4), tensor(5, 2)])
    assert str(error.value) == (
        "main, argument 'x1': expected shape (n, m) with m = 3, n = 5, got (5, 2)."
    )


def test_fixed_sizes_and_ranks() -> None:
    s = signature(("m", "4"), ("n",))
    with pytest.raises(ShapeMismatchError, match=r"'x0': expected shape \(m, 4\).*got \(3, 5\)"):
        s.bind([tensor(3, 5), tensor(1)])
    with pytest.raises(ShapeMismatchError, match=r"'x1': expected shape \(n,\), got \(1, 1\)"):
        s.bind([tensor(3, 4), tensor(1, 1)])


def test_arithmetic_dims_wait_until_all_are_bound() -> None:
    s = signature(("m * 2 + n",), ("m",), ("n",))
    assert s.bind([tensor(11), tensor(4), tensor(3)]) == [4, 3]
    with pytest.raises(
        ShapeMismatchError, match=r"\(m \* 2 \+ n,\) with m = 4, n = 3, got \(12,\)"
    ):
        s.bind([tensor(12), tensor(4), tensor(3)])


def test_a_dim_that_stands_only_in_arithmetic_is_solved_for() -> None:
    s = signature(("m", "m + n * 2 + 1"), ("n * 3",))
    assert s.bind([tensor(2, 11), tensor(12)]) == [2, 4]
    with pytest.raises(ShapeMismatchError, match=r"\(m, m \+ n \* 2 \+ 1\) with m = 2, n = 4, got"):
        s.bind([tensor(2, 12), tensor(12)])
    with pytest.raises(ShapeMismatchError, match=r"'x1': expected shape \(n \* 3,\) with n = 4"):
        s.bind([tensor(2, 11), tensor(13)])


def test_a_dim_that_no_argument_gives() -> None:
    with pytest.raises(VMError, match="do not give the dimension n"):
        signature(("m", "m * 2"))
    s = signature(("m // 2",), dims=("m",))
    with pytest.raises(VMError, match="stands in 'm // 2' alone, which is not linear in it"):
        s.bind([tensor(4)])


def test_dtype_and_arity_name_what_is_wrong() -> None:
    s = Signature("main", [Param("ids", TensorSpec(("2",), "int64"))], ())
    with pytest.raises(DTypeMismatchError, match=r"^ids: expected dtype int64, got int32"):
        s.bind([tensor(2, dtype="int32")])
    with pytest.raises(ArityError) as error:
        s.bind([])
    assert str(error.value) == "main takes 1 argument (ids: int64(2,)); got 0."


def test_bfloat16_is_not_uint16() -> None:
    s = Signature("main", [Param("x", TensorSpec(("2",), "bfloat16"))], ())
    assert s.bind([array(np.zeros(2, np.float32), "bfloat16")]) == []
    with pytest.raises(DTypeMismatchError, match="expected dtype bfloat16, got uint16"):
        s.bind([tensor(2, dtype="uint16")])


def test_formats() -> None:
    assert [format_shape(s) for s in ((), (3,), ("m", 4))] == ["()", "(3,)", "(m, 4)"]
    assert format_spec(TensorSpec(("m", "4"), "int8")) == "int8(m, 4)"
