"""PrimFunc: attributes, symbolic dims, outputs."""

from __future__ import annotations

from burnish.tensorir.buffer import make_buffer
from burnish.tensorir.expr import BOOL, INDEX, IntImm, Var
from burnish.tensorir.function import PrimFunc
from burnish.tensorir.stmt import Block, BlockRealize, BufferStore

M, N = Var("m"), Var("n")
S = Var("s", INDEX)
A, B = make_buffer("A", (M, N * S)), make_buffer("B", (N,))
ROOT = Block("root", (), (), (), BufferStore(B, A[0, 0], (IntImm(0),)))
FUNC = PrimFunc((A, S, B), BlockRealize((), IntImm(1, BOOL), ROOT), (("tir.noalias", True),))


def test_symbolic_dims_in_order_of_first_appearance_without_scalar_parameters() -> None:
    assert FUNC.shape_vars == (M, N)


def test_outputs_are_the_buffers_that_the_body_writes() -> None:
    assert FUNC.buffers == (A, B)
    assert FUNC.written == (B,)
    assert FUNC.root is ROOT


def test_attributes_are_changed_on_a_copy() -> None:
    changed = FUNC.with_attr("is_scheduled", True).with_attr("tir.noalias", False)
    assert changed.attrs == (("tir.noalias", False), ("is_scheduled", True))
    assert changed.attr("is_scheduled") is True
    assert changed.without_attr("is_scheduled").attr("is_scheduled", "none") == "none"
    assert FUNC.attrs == (("tir.noalias", True),)
    assert changed.body is FUNC.body


def test_the_global_symbol_names_the_function() -> None:
    assert FUNC.name == "main"
    assert FUNC.with_attr("global_symbol", "linear0").name == "linear0"


def test_a_dict_of_attributes() -> None:
    changed = FUNC.with_attr({"global_symbol": "g", "b": 2})
    assert (changed.name, changed.attr("b"), FUNC.attr("b")) == ("g", 2, None)
