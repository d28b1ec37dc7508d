"""LegalizeOps: operators become destination-passing calls of PrimFuncs.

The door between the vocabulary of models and that of loops. Every kernel of the program is made
here, unscheduled; equal kernels are made once. Views stay: they cost no kernel. What the graph
alone knows, namely which parameters are always constants, is written on the kernels
(``layout_free``)."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from dataclasses import dataclass

from ...support.errors import TypeInferenceError
from ...support.node import replace
from ...support.passes import Pass
from ...support.structural import structural_equal, structural_hash
from ...tensorir.expr import BufferLoad, Expr, const
from ...tensorir.function import PrimFunc
from ...tensorir.stmt import Block
from ...tensorir.text.printer import print_attr
from ...tensorir.visitor import Mutator
from ..dim import OwnDims, static_shape
from ..expr import Atom, Call, CallDPS, Constant, GlobalVar, ShapeExpr, Value
from ..expr import Var as GraphVar
from ..module import IRModule
from ..mutator import ExprMutator
from ..op import get_op, reshaped, type_of
from ..type import TensorType, Type, map_dims, tensors_of

LEGALIZED = "legalized"
"""Attribute of the PrimFuncs made here (and of fused ones): the name of the operator. The compiler
schedules these; a PrimFunc without it was written by a user."""


@dataclass(frozen=True)
class LegalizeOps(Pass):
    """Replace operator calls by ``call_dps`` of PrimFuncs; views stay, as ``reshape``.

    Structurally equal PrimFuncs are shared. A scalar constant is written into the kernel. The
    parameters that get another constant are listed in the attribute ``layout_free``: only there may
    a schedule change the layout. A kernel called with constants is therefore not shared with one
    called without, and what is listed is constant at every call.

    *requires*: A-normal form, every operator in the table. *ensures*: no Call but ``reshape``.

        lv = R.flatten(x)
        y = R.relu(lv)
    becomes
        lv = R.reshape(x, R.shape([1, 784]))
        y = R.call_dps(cls.relu, (lv,), out_type=R.Tensor((1, 784), dtype="float32"))
    """

    def run(self, module: IRModule) -> IRModule:
        return _Legalizer(module).transform()


class _Legalizer(ExprMutator):
    def __init__(self, module: IRModule) -> None:
        super().__init__(module)
        self.made: dict[object, list[tuple[PrimFunc, GlobalVar]]] = {}
        self.known: dict[Hashable, GlobalVar] = {}
        """Kernels by what they were made from: models repeat their layers."""

    def visit_Call(self, call: Call) -> Value:  # noqa: N802
        new = super().visit_Call(call)
        assert isinstance(new, Call)
        op, kind = get_op(new.op), type_of(new)
        if op.is_view:
            assert isinstance(kind, TensorType)
            if new.op == "reshape":
                return new
            return reshaped(new.args[0], kind.shape).with_span(new.span)
        if op.stays:
            return new
        if op.legalize is None:
            raise TypeInferenceError(
                new.op,
                "this operator has no kernel; call an environment function instead",
                f'R.call_dps_packed("env.{new.op}", ...)',
                new.span,
            )
        args = [a for a in new.args if not isinstance(a, ShapeExpr)]
        left = [a for a in args if not _is_inlined(a)]
        signature = _signature(new, kind)
        var = None if signature is None else self.known.get(signature)
        if var is None:
            func = _inline_scalars(op.legalize(_with_own_dims(new)), args)
            free = [i for i, a in enumerate(left) if isinstance(a, Constant)]
            if free:
                func = func.with_attr("layout_free", free)
            var = self.shared(func, new.op)
            if signature is not None:
                self.known[signature] = var
        return CallDPS(var, tuple(left), kind).with_span(new.span)

    def shared(self, func: PrimFunc, op: str) -> GlobalVar:
        """The function in the module equal to ``func``, added under the operator's name at
        first."""
        func = func.with_attr(LEGALIZED, op)
        same = self.made.setdefault(structural_hash(func), [])
        for known, var in same:
            if structural_equal(known, func):
                return var
        same.append((func, self.builder.add_func(func, op)))
        return same[-1][1]


# -- kernels -----------------------------------------------------------------------------------
class _ScalarInliner(Mutator):
    """Replaces loads from some buffers by constants, and drops those buffers from read regions."""

    def __init__(self, values: dict[int, Expr]) -> None:
        self.values = values

    def visit_BufferLoad(self, n: BufferLoad) -> Expr:  # noqa: N802
        value = self.values.get(id(n.buffer))
        return self.generic_visit(n) if value is None else value

    def visit_Block(self, n: Block) -> Block:  # noqa: N802
        kept = tuple([r for r in n.reads if id(r.buffer) not in self.values])
        changed: Block = self.generic_visit(
            n if len(kept) == len(n.reads) else replace(n, reads=kept)
        )
        return changed


def _is_inlined(arg: Atom) -> bool:
    """Whether an argument is a scalar that is written into the kernel."""
    if not isinstance(arg, Constant) or arg.bits is None:
        return False
    return not arg.type.shape and arg.type.dtype != "bfloat16"


def _inline_scalars(func: PrimFunc, args: Sequence[Atom]) -> PrimFunc:
    """The kernel with its scalar constant arguments written into it."""
    values: dict[int, Expr] = {}
    for param, arg in zip(func.params, args, strict=False):
        if _is_inlined(arg):
            assert isinstance(arg, Constant)
            values[id(param)] = const(arg.values().item(), arg.type.dtype)
    if not values:
        return func
    params = tuple([p for p in func.params if id(p) not in values])
    return replace(func, params=params, body=_ScalarInliner(values).visit(func.body))


def _signature(call: Call, kind: Type) -> Hashable:
    """All of a call that its kernel is made from; None where a size is symbolic, and the kernel
    has Vars of its own."""
    first: dict[int, int] = {}
    operands: list[Hashable] = []
    shapes = [static_shape(t.shape) for t in tensors_of(kind)]
    for atom in call.args:
        if isinstance(atom, ShapeExpr):
            shapes.append(static_shape(atom.values))
            operands.append("shape")
            continue
        if not isinstance(atom, GraphVar | Constant) or not isinstance(atom.type, TensorType):
            return None
        scalar = atom.bits if isinstance(atom, Constant) and _is_inlined(atom) else None
        shapes.append(static_shape(atom.type.shape))
        which = first.setdefault(id(atom), len(first))
        operands.append((which, type(atom), scalar, atom.type.dtype))
    if any(shape is None for shape in shapes):
        return None
    attrs = tuple(sorted((k, print_attr(v)) for k, v in call.attrs))
    dtypes = tuple([t.dtype for t in tensors_of(kind)])
    return (call.op, attrs, tuple(operands), dtypes, tuple(shapes))


def _with_own_dims(call: Call) -> Call:
    """The call over symbolic dims of its own: the caller's Vars belong to the caller."""
    own = OwnDims()

    def proxy(atom: Atom) -> Atom:
        if isinstance(atom, ShapeExpr):
            return ShapeExpr(tuple([own(d) for d in atom.values]))
        return GraphVar(atom.name, map_dims(atom.type, own)) if isinstance(atom, GraphVar) else atom

    return replace(call, args=tuple([proxy(a) for a in call.args]))
