"""The torch front end's converter table and the context its converters work in."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import torch
from torch.fx import Node

from ...graphir.builder import BlockBuilder, call_op
from ...graphir.expr import Atom, ShapeExpr, Tuple, Value, Var, constant
from ...graphir.op import type_of
from ...graphir.type import ShapeType, TensorType
from ...support.dtype import DType
from ...support.errors import FrontendError, InternalError
from ...tensorir.expr import Expr, as_expr
from ..registry import ConverterRegistry
from .symbols import SymbolTable

REGISTRY = ConverterRegistry("torch")
converts = REGISTRY.converts

DTYPES: dict[torch.dtype, DType] = {
    torch.float64: DType("float64"),
    torch.float32: DType("float32"),
    torch.float16: DType("float16"),
    torch.bfloat16: DType("bfloat16"),
    torch.int64: DType("int64"),
    torch.int32: DType("int32"),
    torch.int16: DType("int16"),
    torch.int8: DType("int8"),
    torch.uint8: DType("uint8"),
    torch.bool: DType("bool"),
}


def location(node: Node) -> str:
    """The line of the user's Python source that a node came from, or the node's name."""
    trace = node.meta.get("stack_trace") or ""
    lines = [line.strip() for line in trace.strip().splitlines() if line.strip()]
    for i in range(len(lines) - 1, -1, -1):
        if lines[i].startswith("File "):
            code = lines[i + 1] if i + 1 < len(lines) else ""
            parts = lines[i].split(", in ")[0].replace('File "', "").replace('", line ', ":")
            return f"{parts}: {code}" if code else parts
    return f"node {node.name!r}"


def import_dtype(dtype: torch.dtype, where: str) -> DType:
    """The dtype of ours; raises FrontendError for complex and quantised ones."""
    try:
        return DTYPES[dtype]
    except KeyError:
        known = ", ".join(str(d).removeprefix("torch.") for d in DTYPES)
        raise FrontendError(f"{where}: dtype {dtype} cannot be imported; known are {known}.") from None


class Context:
    """Values of the nodes converted so far, and the builder they are emitted with."""

    def __init__(self, builder: BlockBuilder, symbols: SymbolTable) -> None:
        self.builder = builder
        self.symbols = symbols
        self.values: dict[str, Any] = {}
        """Node name to an atom, a dim expression (SymInt nodes), or a list of them."""

    # -- operands -----------------------------------------------------------------------------------
    def value(self, argument: Any) -> Any:
        """What a node's argument stands for: nodes become their values, lists are entered."""
        if isinstance(argument, Node):
            return self.values[argument.name]
        if isinstance(argument, (list, tuple)):
            return [self.value(a) for a in argument]
        return argument

    def operand(self, argument: Any, dtype: DType | None = None) -> Atom:
        """A tensor operand; Python numbers become scalar constants of ``dtype``; casts where it differs."""
        value = self.value(argument)
        if isinstance(value, (bool, int, float)):
            if dtype is None:
                raise InternalError(f"a number {value!r} where a tensor operand was expected")
            return constant(value, dtype) if dtype != "bfloat16" else self.cast(constant(value, "float32"), dtype)
        if isinstance(value, Expr):
            raise FrontendError(
                "a symbolic size is used as tensor data, which cannot be imported; "
                "make it static, or pass it as an input."
            )
        return value if dtype is None else self.cast(value, dtype)

    def type(self, atom: Atom) -> TensorType:
        kind = type_of(atom)
        assert isinstance(kind, TensorType)
        return kind

    def shape(self, sizes: Sequence[Any]) -> ShapeExpr:
        """Sizes (ints, SymInts, nodes) as a shape value."""
        values = tuple([self.dim(s) for s in sizes])
        return ShapeExpr(values, ShapeType(values))

    def dim(self, size: Any) -> Expr:
        """One size as an expression."""
        value = self.value(size)
        if isinstance(value, torch.SymInt):
            return self.symbols.convert(value)
        return as_expr(value)

    def static(self, argument: Any, what: str, node: Node) -> Any:
        """An argument that must be a plain Python value."""
        value = self.value(argument)
        if isinstance(value, (Var, Expr)):
            raise FrontendError(f"{node.target} at {location(node)}: {what} must be a constant.")
        return value

    # -- results --------------------------------------------------------------------------------------
    def emit(self, value: Value, name: str = "lv") -> Var:
        return self.builder.emit(value, name)

    def op(self, name: str, *args: Atom, **attrs: Any) -> Var:
        """Emit an operator call."""
        return self.builder.emit(call_op(name, *args, **attrs))

    def cast(self, atom: Atom, dtype: DType) -> Atom:
        """The value in another dtype; itself where it has it."""
        return atom if self.type(atom).dtype is dtype else self.op("astype", atom, dtype=str(dtype))

    def result_type(self, node: Node) -> TensorType:
        """The type torch gave a node: its shape and dtype."""
        return self.tensor_type(node.meta["val"], node)

    def tensor_type(self, fake: torch.Tensor, node: Node) -> TensorType:
        shape = tuple([self.symbols.convert(s) for s in fake.shape])
        return TensorType(shape, import_dtype(fake.dtype, location(node)))

    def result_shape(self, node: Node) -> ShapeExpr:
        values = self.result_type(node).shape
        return ShapeExpr(values, ShapeType(values))

    def reshaped(self, atom: Atom, node: Node) -> Var:
        """``atom`` under the shape torch gave the node."""
        return self.op("reshape", atom, self.result_shape(node))


def arguments(node: Node) -> Mapping[str, Any]:
    """A node's arguments by the operator's parameter names, defaults filled in."""
    schema = node.target._schema  # type: ignore[union-attr]
    bound: dict[str, Any] = {}
    for i, parameter in enumerate(schema.arguments):
        if i < len(node.args):
            bound[parameter.name] = node.args[i]
        elif parameter.name in node.kwargs:
            bound[parameter.name] = node.kwargs[parameter.name]
        elif parameter.has_default_value():
            bound[parameter.name] = parameter.default_value
    return bound


__all__ = ["REGISTRY", "Context", "Tuple", "arguments", "converts", "location"]
