"""The graph IR under the names programs know it by: ``from burnish import graph``.

    x = graph.Var("x", graph.tensor_type((1, 784)))
    y = graph.op("relu", x)

Names only; the definitions are in ``graphir``. Functions are built of these with
``burnish.BlockBuilder`` and rewritten with ``burnish.ExprMutator``.
"""

from __future__ import annotations

from typing import NoReturn

from .graphir import ops as ops  # fills the operator table
from .graphir.builder import call_op
from .graphir.define_op import define_op
from .graphir.expr import (
    Atom,
    Binding,
    BindingBlock,
    Call,
    CallDPS,
    CallDPSPacked,
    CallFunction,
    Constant,
    Function,
    GlobalVar,
    If,
    SeqExpr,
    ShapeExpr,
    Tuple,
    TupleGetItem,
    Value,
    Var,
    constant,
)
from .graphir.op import all_ops, type_of
from .graphir.type import ShapeType, TensorType, TupleType, Type, tensor_type
from .graphir.verify import verify_module
from .support.other_names import not_in_module

op = call_op
const = constant

_ELSEWHERE = {
    "BlockBuilder": "burnish.BlockBuilder",
    "DataflowVar": "burnish.graph.Var",
    "DataTypeImm": "a str, as attributes are",
    "Expr": "burnish.graph.Value and burnish.graph.Atom",
    "ExternFunc": 'burnish.graph.CallDPSPacked("name", args, out_type)',
    "MatchCast": "R.match_cast of text, where sizes are known",
    "ObjectStructInfo": "nothing: values are tensors, tuples and shapes",
    "PrimValue": "a number, as attributes are, or a tensor of shape ()",
    "PyExprMutator": "burnish.ExprMutator",
    "PyExprVisitor": "burnish.ExprVisitor",
    "ShapeStructInfo": "burnish.graph.ShapeType",
    "TensorStructInfo": "burnish.graph.tensor_type",
    "TupleStructInfo": "burnish.graph.TupleType",
    "VirtualMachine": "burnish.VirtualMachine",
    "build": "burnish.build",
    "DataflowBlock": "burnish.graph.BindingBlock, with is_dataflow",
    "StringImm": "a str, as attributes are",
    "StructInfo": "burnish.graph.Type",
    "VarBinding": "burnish.graph.Binding",
    "analysis": "burnish.graph.verify_module and burnish.transform",
    "call_tir": "burnish.graph.CallDPS",
    "call_dps_packed": "burnish.graph.CallDPSPacked",
    "expr_functor": "burnish.ExprMutator and burnish.ExprVisitor, without a decorator",
    "frontend": "burnish.compile, which imports models",
    "get_shape_of": "burnish.graph.type_of(x).shape",
    "dpl": "burnish.patterns",
    "remove_all_unused": "burnish.transform.DeadCodeElimination",
    "transform": "burnish.transform",
}
"""Names of TVM's relax that are none here, and what does it."""


def __getattr__(name: str) -> NoReturn:
    raise not_in_module("burnish.graph", name, _ELSEWHERE.get(name))


__all__ = [
    "Atom", "Binding", "BindingBlock", "Call", "CallDPS", "CallDPSPacked", "CallFunction",
    "Constant", "Function", "GlobalVar", "If", "SeqExpr", "ShapeExpr", "ShapeType", "TensorType",
    "Tuple", "TupleGetItem", "TupleType", "Type", "Value", "Var", "all_ops", "call_op", "const",
    "constant", "define_op", "op", "ops", "tensor_type", "type_of", "verify_module",
]  # fmt: skip
