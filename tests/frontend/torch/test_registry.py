"""The torch converter context: dtypes, constants, numbers, locations."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from torch.fx import Graph, Node

from burnish.frontend.torch.registry import (
    SHARED,
    Context,
    arguments,
    base_name,
    import_dtype,
    integers,
    location,
    operator_name,
    values_of,
)
from burnish.frontend.torch.symbols import SymbolTable
from burnish.graphir.builder import BlockBuilder
from burnish.graphir.weights import Source
from burnish.support.dtype import DType
from burnish.support.errors import FrontendError, InternalError


def node_of(target: Any, *args: Any, trace: str = "", **kwargs: Any) -> Node:
    node = Graph().call_function(target, args, kwargs)
    node.meta["stack_trace"] = trace
    return node


def context() -> Context:
    return Context(BlockBuilder(), SymbolTable([]))


def test_dtypes_are_known_by_their_names() -> None:
    for name in ("float32", "bfloat16", "uint16", "int8", "bool"):
        assert import_dtype(getattr(torch, name), "x") is DType(name)


@pytest.mark.parametrize("dtype", [torch.complex64, torch.float8_e4m3fn, torch.qint8])
def test_other_dtypes_are_refused(dtype: torch.dtype) -> None:
    with pytest.raises(FrontendError) as caught:
        import_dtype(dtype, "input 'x'")
    assert str(caught.value).startswith(f"input 'x': dtype {dtype} cannot be imported; known are ")


def test_values_are_in_row_major_order() -> None:
    array, dtype = values_of(torch.arange(6.0).reshape(2, 3).T, "w")
    assert array.tolist() == [[0, 3], [1, 4], [2, 5]]
    assert array.flags.c_contiguous
    assert dtype == "float32"


def test_bfloat16_values_are_bits() -> None:
    array, dtype = values_of(torch.tensor([1.0, -2.0], dtype=torch.bfloat16), "w")
    assert dtype == "bfloat16"
    assert array.tolist() == [0x3F80, 0xC000]


@pytest.mark.parametrize(("elements", "is_shared"), [(SHARED // 4, True), (SHARED // 4 - 1, False)])
def test_large_weights_share_the_memory_of_the_tensor(elements: int, is_shared: bool) -> None:
    made = context()
    tensor = torch.arange(float(elements))
    w = made.weight("fc.weight", tensor, "parameter 'fc.weight'")
    assert w.name == "fc.weight"
    assert np.shares_memory(made.array(w), tensor.numpy()) == is_shared
    assert isinstance(made.builder.weights.weight(w.name).origin, Source) == is_shared
    assert not made.array(w).flags.writeable


@pytest.mark.parametrize(
    ("tensor", "message"),
    [
        (torch.empty(2, device="meta"), "w is on the meta device and holds no values"),
        (torch.eye(2).to_sparse(), "w has the layout torch.sparse_coo; call .to_dense()"),
    ],
)
def test_tensors_without_dense_values_are_refused(tensor: torch.Tensor, message: str) -> None:
    with pytest.raises(FrontendError) as caught:
        values_of(tensor, "w")
    assert str(caught.value).startswith(message)


@pytest.mark.parametrize(
    ("value", "dtype", "expected"),
    [
        (300, "uint8", 44),
        (-1, "uint8", 255),
        (1.5, "float16", 1.5),
        (0.5, "bool", True),
        (2, "int64", 2),
        (float("inf"), "float32", np.inf),
    ],
)
def test_numbers_become_scalars_as_in_torch(value: float, dtype: str, expected: float) -> None:
    made = context().scalar(value, DType(dtype))
    assert made.values()[()] == expected
    assert (str(made.type.dtype), made.values().shape) == (dtype, ())


def test_operands_of_no_kind_are_defects() -> None:
    with pytest.raises(InternalError, match="'text' where a tensor operand was expected"):
        context().operand("text")


def test_names_of_operators() -> None:
    add = node_of(torch.ops.aten.add.Tensor, 1, 2)
    import operator

    assert (operator_name(add), base_name(add)) == ("aten.add.Tensor", "add")
    assert operator_name(node_of(operator.getitem, (1,), 0)) == "operator.getitem"
    assert operator_name(node_of(torch.sym_max, 1, 2)) == "torch.sym_max"


def test_arguments_by_name_with_defaults() -> None:
    given = arguments(node_of(torch.ops.aten.add.Tensor, 1, 2, alpha=3))
    assert given == {"self": 1, "other": 2, "alpha": 3}
    assert arguments(node_of(torch.ops.aten.softmax.int, 1, 2))["dtype"] is None
    assert (integers(None), integers(2), integers([0, -1])) == ((), (2,), (0, -1))


def test_the_location_is_the_innermost_line_of_the_user() -> None:
    trace = (
        '  File "/home/u/model.py", line 10, in forward\n    z = self.linear(x)\n'
        f'  File "{torch.__path__[0]}/nn/modules/linear.py", line 134, in forward\n'
        "    return F.linear(input, self.weight, self.bias)\n"
    )
    add = torch.ops.aten.add.Tensor
    assert location(node_of(add, trace=trace)) == "/home/u/model.py:10: z = self.linear(x)"
    only_torch = "".join(trace.splitlines(keepends=True)[2:])
    assert location(node_of(add, trace=only_torch)).endswith(
        "F.linear(input, self.weight, self.bias)"
    )
    assert location(node_of(add)) == "node 'add_tensor'"
