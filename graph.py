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

op = call_op
const = constant

_ELSEWHERE = {
    "BlockBuilder": "burnish.BlockBuilder",
    "DataflowVar": "burnish.graph.Var",
    "PyExprMutator": "burnish.ExprMutator",
    "PyExprVisitor": "burnish.ExprVisitor",
    "ShapeStructInfo": "burnish.graph.ShapeType",
    "TensorStructInfo": "burnish.graph.tensor_type",
    "TupleStructInfo": "burnish.graph.TupleType",
    "VirtualMachine": "burnish.VirtualMachine",
    "build": "burnish.build",
    "dpl": "burnish.patterns",
    "transform": "burnish.transform",
}
"""Names of TVM's relax that are none here, and what does it."""


def __getattr__(name: str) -> NoReturn:
    known = _ELSEWHERE.get(name)
    hint = f"; here it is {known} (docs/from_tvm.md)" if known else ""
    raise AttributeError(f"module 'burnish.graph' has no attribute {name!r}{hint}")


__all__ = [
    "Atom", "Binding", "BindingBlock", "Call", "CallDPS", "CallDPSPacked", "CallFunction",
    "Constant", "Function", "GlobalVar", "If", "SeqExpr", "ShapeExpr", "ShapeType", "TensorType",
    "Tuple", "TupleGetItem", "TupleType", "Type", "Value", "Var", "all_ops", "call_op", "const",
    "constant", "define_op", "op", "ops", "tensor_type", "type_of", "verify_module",
]  # fmt: skip
