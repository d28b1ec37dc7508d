"""linearize: a graph function as a list of calls over pieces of memory, ready for ``emit_vm``.

In the graph a reshape, a tuple or a projection is a binding like any other; at run time none of
them does anything. Here they are gone: what remains are the calls that run, and each operand is a
*view*, a shape seen on a *memory*. A memory is a parameter, a constant, what a call writes, or what
a function or a branch returns. Sequences nest only in the branches of an If.

Nothing is decided here: where memories live is ``emit_vm``'s and ``plan_memory``'s question.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal, TypeAlias

import numpy as np

from ...support.errors import CodegenError, InternalError, UnknownFunctionError
from ...tensorir.expr import Expr
from ...tensorir.expr import Var as DimVar
from ...tensorir.function import PrimFunc
from ...tensorir.visitor import substitute as replace_vars
from ...vm.program import Kernel
from ..analysis import solve_shape_vars
from ..dim import fold_dim
from ..expr import (
    Atom,
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
)
from ..module import IRModule
from ..op import attr, get_op, type_of
from ..type import ShapeType, TensorType, TupleType, Type, substitute_type


@dataclass(frozen=True)
class KernelInfo:
    """A compiled PrimFunc: its descriptor, and its workspace sizes as expressions over ``dims``,
    the symbolic dims in the order of the kernel ABI."""

    kernel: Kernel
    dims: tuple[DimVar, ...]
    shared_bytes: Expr
    thread_bytes: Expr


@dataclass(frozen=True, eq=False, slots=True)
class Memory:
    """Where a value is; ``index`` is the parameter's number. Compared by identity."""

    kind: Literal["param", "constant", "call", "result"]
    type: TensorType
    index: int = 0
    constant: np.ndarray | None = None


@dataclass(frozen=True, eq=False, slots=True)
class View:
    """A memory seen under a type of the same number of bytes."""

    memory: Memory
    type: TensorType


Tree: TypeAlias = "View | ShapeExpr | tuple[Tree, ...]"
"""A value: a view, a shape, or a tuple of values."""


@dataclass(frozen=True, eq=False, slots=True)
class KernelOp:
    """Calls a kernel, with the values of its dims; ``outs`` are memories of its own."""

    info: KernelInfo
    args: tuple[View, ...]
    outs: tuple[View, ...]
    dims: tuple[Expr, ...]

    @property
    def shared_bytes(self) -> Expr:
        return self._size(self.info.shared_bytes)

    @property
    def thread_bytes(self) -> Expr:
        return self._size(self.info.thread_bytes)

    def _size(self, size: Expr) -> Expr:
        return substitute(size, dict(zip(self.info.dims, self.dims, strict=True)))


@dataclass(frozen=True, eq=False, slots=True)
class EnvOp:
    """Calls an environment function, which writes ``outs``."""

    name: str
    args: tuple[Tree, ...]
    outs: tuple[View, ...]


@dataclass(frozen=True, eq=False, slots=True)
class FunctionOp:
    """Calls a graph function, which returns ``result``."""

    name: str
    args: tuple[Tree, ...]
    result: Tree


@dataclass(frozen=True, eq=False, slots=True)
class IfOp:
    """Runs one branch; ``result`` are memories of its own."""

    condition: Tree
    true_branch: Linear
    false_branch: Linear
    result: Tree


@dataclass(frozen=True, eq=False, slots=True)
class BindOp:
    """Gives a dim the value of a tensor of one element; where that is no size, an error says that
    ``sizes`` of the ``place`` are not as ``expected``."""

    dim: DimVar
    value: View
    place: str
    expected: str
    sizes: tuple[Expr, ...]


@dataclass(frozen=True, eq=False, slots=True)
class CheckOp:
    """Refuses calls for which two sizes are not equal."""

    one: Expr
    other: Expr


Op: TypeAlias = KernelOp | EnvOp | FunctionOp | IfOp | BindOp | CheckOp


@dataclass(frozen=True, eq=False, slots=True)
class Linear:
    """Calls in order, then a result."""

    ops: tuple[Op, ...]
    result: Tree


def leaves(tree: Tree) -> Iterator[View]:
    """The views in a value, left to right."""
    if isinstance(tree, View):
        yield tree
    elif isinstance(tree, tuple):
        for field in tree:
            yield from leaves(field)


def written(op: Op) -> list[Memory]:
    """The memories an operation fills."""
    match op:
        case KernelOp() | EnvOp():
            return [v.memory for v in op.outs]
        case FunctionOp() | IfOp():
            return [v.memory for v in leaves(op.result)]
        case BindOp() | CheckOp():
            return []


def read(op: Op) -> Iterator[Memory]:
    """The memories an operation reads, those read in branches included."""
    match op:
        case KernelOp() | EnvOp() | FunctionOp():
            for arg in op.args:
                yield from (v.memory for v in leaves(arg))
        case BindOp():
            yield op.value.memory
        case CheckOp():
            pass
        case IfOp():
            yield from (v.memory for v in leaves(op.condition))
            for branch in (op.true_branch, op.false_branch):
                for inner in branch.ops:
                    yield from read(inner)
                yield from (v.memory for v in leaves(branch.result))


def substitute(dim: Expr, values: Mapping[DimVar, Expr]) -> Expr:
    """A size with dims replaced, constants folded."""
    return fold_dim(replace_vars(dim, values))


def linearize(
    module: IRModule,
    func: Function,
    kernels: Mapping[str, KernelInfo],
    rename: Mapping[DimVar, DimVar] | None = None,
) -> Linear:
    """The calls of a graph function after legalisation, its dims replaced by ``rename``.

    Raises CodegenError for an operator that is still there and for a parameter that is no tensor,
    and UnknownFunctionError for a PrimFunc that has no kernel.
    """
    return _Linearizer(module, kernels, rename or {}).function(func)


class _Linearizer:
    def __init__(
        self,
        module: IRModule,
        kernels: Mapping[str, KernelInfo],
        rename: Mapping[DimVar, DimVar],
    ) -> None:
        self.module, self.kernels, self.rename = module, kernels, rename
        self.values: dict[Var, Tree] = {}
        self.constants: dict[Hashable, View] = {}
        self.ops: list[Op] = []

    def function(self, func: Function) -> Linear:
        for index, param in enumerate(func.params):
            if not isinstance(param.type, TensorType):
                raise CodegenError(
                    f"{func.name}: parameter {param.name!r} is no tensor; pass its fields instead."
                )
            kind = self.renamed(param.type)
            self.values[param] = View(Memory("param", kind, index), kind)
        return self.sequence(func.body)

    def sequence(self, seq: SeqExpr) -> Linear:
        outer, self.ops = self.ops, []
        for block in seq.blocks:
            for binding in block.bindings:
                self.values[binding.var] = self.value(binding.value)
        result = Linear(tuple(self.ops), self.atom(seq.result))
        self.ops = outer
        return result

    def value(self, value: Value) -> Tree:
        match value:
            case Call():
                return self.about_sizes(value) if get_op(value.op).stays else self.view(value)
            case CallDPS(func, args, out_type):
                return self.kernel(func.name, args, out_type)
            case CallDPSPacked(name, args, out_type):
                callee = self.module.functions.get(name)
                if isinstance(callee, PrimFunc):
                    return self.kernel(name, args, out_type)
                if callee is not None:
                    return self.call(name, args, out_type)
                op = EnvOp(name, self.atoms(args), _views(self.fresh("call", out_type)))
                self.ops.append(op)
                return _restore(out_type, iter(op.outs))
            case CallFunction(func, args, out_type):
                return self.call(func.name, args, out_type)
            case TupleGetItem(whole, index):
                fields = self.atom(whole)
                if not isinstance(fields, tuple):
                    raise InternalError("a field was taken of a value that is no tuple")
                return fields[index]
            case If():
                return self.branch(value)
            case _:
                return self.atom(value)

    def about_sizes(self, call: Call) -> Tree:
        return self.bound(call) if get_op(call.op).binds_dim else self.checked(call)

    def bound(self, call: Call) -> View:
        """The number itself; the dim has its value from here on."""
        number, shape = self.atom(call.args[0]), call.args[1]
        assert isinstance(number, View)
        assert isinstance(shape, ShapeExpr)
        (dim,) = self.shape(shape).values
        assert isinstance(dim, DimVar)
        met = call.args[2] if len(call.args) > 2 else None
        sizes = self.shape(met).values if isinstance(met, ShapeExpr) else ()
        place, expected = str(attr(call, "place")), str(attr(call, "expected"))
        self.ops.append(BindOp(dim, number, place, expected, sizes))
        return number

    def checked(self, call: Call) -> ShapeExpr:
        sizes = call.args[0]
        assert isinstance(sizes, ShapeExpr)
        a, b = (checked := self.shape(sizes)).values
        self.ops.append(CheckOp(a, b))
        return checked

    def view(self, call: Call) -> View:
        if not get_op(call.op).is_view:
            raise CodegenError(
                f"The operator {call.op} has no kernel: run LegalizeOps before emitting a program."
            )
        source, kind = self.atom(call.args[0]), type_of(call)
        if not isinstance(source, View) or not isinstance(kind, TensorType):
            raise InternalError(f"{call.op} of a value that is no tensor")
        return View(source.memory, self.renamed(kind))

    def renamed(self, kind: TensorType) -> TensorType:
        result = substitute_type(kind, self.rename)
        assert isinstance(result, TensorType)
        return result

    def fresh(self, kind: Literal["call", "result"], type_: Type) -> Tree:
        """A value of memories of its own."""
        match type_:
            case TensorType():
                renamed = self.renamed(type_)
                return View(Memory(kind, renamed), renamed)
            case TupleType(fields):
                return tuple([self.fresh(kind, f) for f in fields])
            case ShapeType(values):
                return self.shape(ShapeExpr(values, type_))

    def shape(self, shape: ShapeExpr) -> ShapeExpr:
        if not self.rename:
            return shape
        return ShapeExpr(tuple([substitute(d, self.rename) for d in shape.values]))

    def kernel(self, name: str, args: tuple[Atom, ...], out_type: Type) -> Tree:
        func = self.module.functions.get(name)
        info = self.kernels.get(name)
        if info is None or not isinstance(func, PrimFunc):
            raise UnknownFunctionError(name, self.kernels, "the kernels")
        solved = solve_shape_vars(func, [type_of(a) for a in args], out_type)
        dims = tuple([substitute(solved[v], self.rename) for v in func.shape_vars])
        views = tuple([v for a in args for v in leaves(self.atom(a))])
        op = KernelOp(info, views, _views(self.fresh("call", out_type)), dims)
        self.ops.append(op)
        return _restore(out_type, iter(op.outs))

    def call(self, name: str, args: tuple[Atom, ...], out_type: Type) -> Tree:
        result = self.fresh("result", out_type)
        self.ops.append(FunctionOp(name, self.atoms(args), result))
        return result

    def branch(self, value: If) -> Tree:
        condition = self.atom(value.condition)
        branches = self.sequence(value.true_branch), self.sequence(value.false_branch)
        result = self.fresh("result", type_of(value))
        self.ops.append(IfOp(condition, *branches, result))
        return result

    def atoms(self, atoms: Sequence[Atom]) -> tuple[Tree, ...]:
        return tuple([self.atom(a) for a in atoms])

    def atom(self, atom: Atom) -> Tree:
        match atom:
            case Var():
                return self.values[atom]
            case Constant():
                # One memory for all uses of one constant, also where the nodes differ.
                key = atom.identity
                known = self.constants.get(key)
                if known is None:
                    array = self.module.weights.array(atom)
                    known = View(Memory("constant", atom.type, constant=array), atom.type)
                    self.constants[key] = known
                return known
            case Tuple():
                return self.atoms(atom.fields)
            case ShapeExpr():
                return self.shape(atom)
            case GlobalVar(name):
                raise CodegenError(
                    f"The function {name!r} is used as a value; it can only be called."
                )


def _views(tree: Tree) -> tuple[View, ...]:
    return tuple(leaves(tree))


def _restore(type_: Type, views: Iterator[View]) -> Tree:
    """The views in the structure of a type."""
    if isinstance(type_, TupleType):
        return tuple([_restore(f, views) for f in type_.fields])
    return next(views)
