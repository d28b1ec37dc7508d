"""Nodes of the graph IR, in A-normal form.

A Function's body is a SeqExpr: blocks of bindings, then a result. Each binding gives a Var the
value of one operation whose arguments are *atoms*: Var, Constant, ShapeExpr, GlobalVar, or a Tuple
of atoms. In a **dataflow block** everything is pure and straight-line; ``If`` stands only outside
of one.

``call_dps(f, args, out_type)``: the caller allocates a tensor (or several: a TupleType) of
``out_type`` and the PrimFunc ``f`` of the module writes it. ``call_dps_packed(name, ...)`` does the
same with a function of the module called ``name`` or, failing that, an environment function.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, TypeAlias

import numpy as np

from ..support.aligned import aligned_copy
from ..support.display import as_html, show_text
from ..support.dtype import DType, bfloat16_bits
from ..support.errors import BurnishError, DTypeError
from ..support.node import Node, node, replace
from ..support.other_names import OtherName
from ..tensorir import expr as tir
from .type import ShapeType, TensorType, TupleType, Type

Attrs: TypeAlias = tuple[tuple[str, Any], ...]


def _hold_tuples(node: Node, *names: str) -> None:
    """Lists that a node was given become tuples, which is what every walk goes through."""
    for name in names:
        value = getattr(node, name)
        if type(value) is not tuple:
            object.__setattr__(node, name, tuple(value))


@node
class Var(Node):
    """A binder: a parameter, or the left side of a binding. Bound once."""

    name: str
    type: Type
    name_hint = OtherName("name")
    struct_info = OtherName("type")
    checked_type = OtherName("type")

    def __post_init__(self) -> None:
        if not isinstance(self.name, str) or not isinstance(self.type, Node):
            found = f"{type(self.name).__name__} and {type(self.type).__name__}"
            raise BurnishError(
                "Var takes a name and a type: Var('x', tensor_type((1, 784), 'float32')); found "
                f"{found}."
            )

    def __repr__(self) -> str:
        return self.name


Identity: TypeAlias = "tuple[str, bytes | None, DType, tuple[int, ...]]"
"""What tells the tensors of constants apart."""


@node
class Constant(Node):
    """A tensor known at compile time: the name that the module's ``weights`` know its values by; or
    the values themselves, in ``bits`` and without a name."""

    name: str
    type: TensorType
    bits: bytes | None = None
    """The elements in row-major order: of small constants (``literal.py``), and of those that no
    module has named yet."""
    data = OtherName("values(), or the module's weights[name]")
    struct_info = OtherName("type")

    @property
    def shape(self) -> tuple[int, ...]:
        """The shape, as ints."""
        return tuple([d.value for d in self.type.shape if isinstance(d, tir.IntImm)])

    @property
    def identity(self) -> Identity:
        """Equal for constants that are one tensor, also where the nodes differ. The values alone do
        not tell: a row and a column may have the same ones."""
        return self.name, self.bits, self.type.dtype, self.shape

    def values(self) -> np.ndarray:
        """The values of a constant that has them itself, as an aligned, read-only array (bfloat16
        as uint16)."""
        assert self.bits is not None
        dtype = self.type.dtype
        flat = np.frombuffer(self.bits, "uint16" if dtype == "bfloat16" else dtype.to_numpy())
        array = aligned_copy(flat.reshape(self.shape))
        array.flags.writeable = False
        return array


@node
class GlobalVar(Node):
    """A reference to a function of the module, by name."""

    name: str
    name_hint = OtherName("name")


@node
class ShapeExpr(Node):
    """A shape as a value. Its type has the same dims, which need not be said twice."""

    values: tuple[tir.Expr, ...]
    type: ShapeType = ShapeType(())

    def __post_init__(self) -> None:
        _hold_tuples(self, "values")
        if not self.type.values:
            object.__setattr__(self, "type", ShapeType(self.values))


@node
class Tuple(Node):
    fields: tuple[Atom, ...]

    def __post_init__(self) -> None:
        _hold_tuples(self, "fields")


@node
class TupleGetItem(Node):
    value: Atom
    index: int


@node
class Call(Node):
    """An operator of ``graphir.ops`` applied to atoms; ``attrs`` are (name, value) pairs of plain
    values."""

    op: str
    args: tuple[Atom, ...]
    attrs: Attrs = ()
    struct_info = OtherName("burnish.graph.type_of(call)")
    sinfo_args = OtherName("nothing: an operator's operands say its type")

    def __post_init__(self) -> None:
        if not isinstance(self.op, str):
            raise BurnishError(
                f"Call applies an operator, by its name: Call('add', (a, b)); found "
                f"{type(self.op).__name__}. A PrimFunc of the module is called by CallDPS, a graph "
                "function by CallFunction."
            )
        _hold_tuples(self, "args", "attrs")

    def attr(self, key: str, default: Any = None) -> Any:
        for k, v in self.attrs:
            if k == key:
                return v
        return default


@node
class CallDPS(Node):
    """``R.call_dps(cls.func, args, out_type)``: a PrimFunc of the module."""

    func: GlobalVar
    args: tuple[Atom, ...]
    out_type: Type
    struct_info = OtherName("out_type")

    def __post_init__(self) -> None:
        _hold_tuples(self, "args")


@node
class CallDPSPacked(Node):
    """``R.call_dps_packed("name", args, out_type)``: of the module, or of the environment."""

    name: str
    args: tuple[Atom, ...]
    out_type: Type
    struct_info = OtherName("out_type")

    def __post_init__(self) -> None:
        _hold_tuples(self, "args")


@node
class CallFunction(Node):
    """A graph Function of the module, called with values; returns a value."""

    func: GlobalVar
    args: tuple[Atom, ...]
    out_type: Type
    struct_info = OtherName("out_type")

    def __post_init__(self) -> None:
        _hold_tuples(self, "args")


@node
class If(Node):
    """``condition`` is a bool scalar tensor; both branches give the same type."""

    condition: Atom
    true_branch: SeqExpr
    false_branch: SeqExpr


@node
class Binding(Node):
    var: Var
    value: Value


@node
class BindingBlock(Node):
    """Bindings in order; ``is_dataflow`` blocks are pure."""

    bindings: tuple[Binding, ...]
    is_dataflow: bool


@node
class SeqExpr(Node):
    blocks: tuple[BindingBlock, ...]
    result: Atom


@node
class Function(Node):
    """A graph function. ``attrs`` the compiler knows: ``global_symbol``, ``num_input``."""

    params: tuple[Var, ...]
    body: SeqExpr
    ret_type: Type
    attrs: Attrs = ()
    name: str = "main"
    struct_info = OtherName("ret_type and the types of the params")
    ret_struct_info = OtherName("ret_type")
    checked_type = OtherName("ret_type and the types of the params")
    name_hint = OtherName("the name in mod.functions")
    is_pure = OtherName("nothing: functions have no effects")

    def attr(self, key: str, default: Any = None) -> Any:
        for k, v in self.attrs:
            if k == key:
                return v
        return default

    def with_attr(self, key: str | Mapping[str, Any], value: Any = None) -> Function:
        """A copy with one attribute set or replaced, or with all of a dict."""
        given = dict(key) if isinstance(key, Mapping) else {key: value}
        kept = tuple([(k, v) for k, v in self.attrs if k not in given])
        return replace(self, attrs=(*kept, *given.items()))

    def script(self) -> str:
        """The function as text that ``burnish.parse`` reads back, where it calls no other."""
        return f"# from burnish.script import R\n\n{self!r}\n"

    def show(self) -> None:
        """Print the function, in colours where that is possible."""
        show_text(self.script())

    def _repr_html_(self) -> str:
        """What a notebook shows of a function that ends a cell."""
        return as_html(self.script())


Atom: TypeAlias = Var | Constant | ShapeExpr | GlobalVar | Tuple
TYPED = (Var, Constant, ShapeExpr, GlobalVar, TensorType, TupleType, ShapeType)
"""The classes of nodes below which there are types and sizes alone: most of what a walk meets."""
Operation: TypeAlias = Call | CallDPS | CallDPSPacked | CallFunction | TupleGetItem | If
Value: TypeAlias = Atom | Operation


def constant(data: object, dtype: str | TensorType | None = None) -> Constant:
    """A Constant that has a copy of ``data`` (anything ``np.asarray`` takes) itself. The module it
    is emitted into gives it a name where it is large. ``dtype`` may be the whole type, which the
    data are then held against.

    Of bfloat16, a uint16 array holds the bits; other numbers are rounded. Where no dtype is given
    a Python float is float32, as in a text. Raises BurnishError for data of another shape than the
    type's.
    """
    if isinstance(dtype, TensorType):
        made = constant(data, str(dtype.dtype))
        wanted = tuple([d.value if isinstance(d, tir.IntImm) else None for d in dtype.shape])
        if made.shape != wanted:
            raise BurnishError(
                f"constant: the data have the shape {made.shape}, the type {wanted}."
            )
        return made
    if dtype is None and isinstance(data, float) and not isinstance(data, np.generic):
        dtype = "float32"
    held = None if dtype in (None, "bfloat16") else DType(dtype).to_numpy()
    array = np.asarray(data, dtype=held)
    if dtype == "bfloat16" and array.dtype.kind in "fib":
        array = bfloat16_bits(array)
    if array.dtype.kind not in "fiub":
        raise DTypeError(str(array.dtype), ("a float, integer or bool array",), what="a constant")
    return Constant("", array_type(array, dtype), array.tobytes())


def array_type(array: np.ndarray, dtype: str | None = None) -> TensorType:
    """The type of an array; ``dtype`` is needed for bfloat16, held as uint16."""
    kind = DType(dtype) if dtype is not None else DType.from_numpy(array.dtype)
    return TensorType(tuple([tir.IntImm(n) for n in array.shape]), kind)
