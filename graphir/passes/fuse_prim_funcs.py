"""FusePrimFuncs: each group of fuse-ops becomes one PrimFunc.

The bodies are laid one after another under one root block. What was a tensor between two kernels is
now a buffer that the root allocates. Nothing is inlined or moved: an elementwise block stays a
block, and the schedule decides where it is computed. Every binder is copied, because a kernel may
stand in several groups, or twice in one."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from copy import copy
from dataclasses import dataclass

from ...support.errors import InternalError
from ...support.node import replace, walk
from ...support.passes import Pass
from ...tensorir.buffer import Buffer
from ...tensorir.expr import Expr, Let, Var, const
from ...tensorir.function import PrimFunc
from ...tensorir.stmt import Block, BlockRealize, For, LetStmt, Stmt, seq
from ...tensorir.visitor import Mutator, substitute
from ..analysis import solve_shape_vars
from ..expr import CallDPS, CallFunction, Function, Value
from ..expr import Var as GraphVar
from ..module import IRModule
from ..mutator import ExprMutator
from ..op import type_of
from ..type import TensorType
from .annotate_pattern import classify
from .fuse_ops import PRIMITIVE
from .legalize import LEGALIZED


@dataclass(frozen=True)
class FusePrimFuncs(Pass):
    """Replace each ``primitive`` function by a PrimFunc, and its calls by ``call_dps``.

    Parameters are the group's inputs, then its output. ``layout_free`` is carried over: a parameter
    is free if every kernel of the group that reads it says so.

    *requires*: fuse-ops. *ensures*: no ``primitive`` function; one kernel for each group.

        y = cls.fused_linear_relu(x, w)
    becomes
        y = R.call_dps(cls.fused_linear_relu, (x, w), out_type=R.Tensor((1, 128), dtype="float32"))
    """

    def run(self, module: IRModule) -> IRModule:
        fused: dict[str, PrimFunc] = {}
        for name, func in module.graph_functions.items():
            if func.attr(PRIMITIVE):
                fused[name] = fuse_group(func, module, name)
        if not fused:
            return module
        result = _CallReplacer(module, fused).transform()
        result.functions = {n: fused.get(n, f) for n, f in result.functions.items()}
        return result


class _CallReplacer(ExprMutator):
    def __init__(self, module: IRModule, fused: Mapping[str, PrimFunc]) -> None:
        super().__init__(module)
        self.fused = fused

    def visit_function(self, func: Function) -> Function:
        return func if func.attr(PRIMITIVE) else super().visit_function(func)

    def visit_CallFunction(self, call: CallFunction) -> Value:  # noqa: N802
        new = super().visit_CallFunction(call)
        assert isinstance(new, CallFunction)
        if new.func.name not in self.fused:
            return new
        return CallDPS(new.func, new.args, new.out_type).with_span(new.span)


# -- one group ---------------------------------------------------------------------------------
def fuse_group(group: Function, module: IRModule, name: str) -> PrimFunc:
    """The PrimFunc of a group: its parameters' buffers, then the output's."""
    merged = _Merged(group)
    for block in group.body.blocks:
        for binding in block.bindings:
            call = binding.value
            if isinstance(call, GraphVar):
                continue  # another name
            if not isinstance(call, CallDPS):
                raise InternalError(f"the group {name!r} holds a {type(call).__name__}")
            func = module[call.func]
            assert isinstance(func, PrimFunc)
            merged.add(func, call, binding.var)
    return merged.finish(name)


class _Merged:
    """The function under construction: buffers by graph variable, bodies in order."""

    def __init__(self, group: Function) -> None:
        self.group = group
        self.names: dict[GraphVar, GraphVar] = {}
        """Further names of values: ``y = x``."""
        for block in group.body.blocks:
            for b in block.bindings:
                if isinstance(b.value, GraphVar):
                    self.names[b.var] = self.value_of(b.value)
        self.result = self.value_of(group.body.result)
        self.buffers: dict[GraphVar, Buffer] = {}
        self.bodies: list[Stmt] = []
        self.allocated: list[Buffer] = []
        self.buffer_names: set[str] = set()
        self.block_names: set[str] = {"root"}
        self.layout_free: dict[GraphVar, bool] = {}
        self.operators: list[str] = []

    def add(self, func: PrimFunc, call: CallDPS, var: GraphVar) -> None:
        """Append a copy of ``func`` that reads the call's arguments and writes the variable's
        buffer."""
        dims = solve_shape_vars(func, [type_of(a) for a in call.args], call.out_type)
        free = func.attr("layout_free") or []
        mapping: dict[Buffer, Buffer] = {}
        values = [*[self.value_of(a) for a in call.args], var]
        for index, (param, value) in enumerate(zip(func.buffers, values, strict=True)):
            if value not in self.buffers:
                self.buffers[value] = self._buffer(param, value)
            mapping[param] = self.buffers[value]
            if value is not var:
                self.layout_free[value] = self.layout_free.get(value, True) and index in free
        for buffer in func.root.alloc_buffers:
            shape = tuple([substitute(d, dims) for d in buffer.shape])
            mapping[buffer] = replace(
                buffer, name=self._unique(buffer.name, self.buffer_names), shape=shape
            )
            self.allocated.append(mapping[buffer])
        if var is not self.result:
            self.allocated.append(self.buffers[var])
        self.bodies.append(_copied(func.root.body, mapping, dims, self._unique_block))
        self.operators.append(str(func.attr(LEGALIZED) or func.name))

    def value_of(self, atom: Value) -> GraphVar:
        """The variable that a value was bound to first."""
        assert isinstance(atom, GraphVar)
        return self.names.get(atom, atom)

    def _buffer(self, param: Buffer, value: GraphVar) -> Buffer:
        kind = value.type
        assert isinstance(kind, TensorType)
        return Buffer(self._unique(param.name, self.buffer_names), kind.shape, kind.dtype)

    def _unique_block(self, name: str) -> str:
        return self._unique(name, self.block_names)

    @staticmethod
    def _unique(name: str, taken: set[str]) -> str:
        unique, number = name, 0
        while unique in taken:
            number += 1
            unique = f"{name}_{number}"
        taken.add(unique)
        return unique

    def finish(self, name: str) -> PrimFunc:
        params = (*[self.buffers[p] for p in self.group.params], self.buffers[self.result])
        root = Block("root", (), (), (), seq(*self.bodies), None, tuple(self.allocated))
        body = BlockRealize((), const(True, "bool"), root)
        attrs: list[tuple[str, object]] = [
            ("global_symbol", name),
            ("tir.noalias", True),
            (LEGALIZED, "_".join(self.operators)),
        ]
        free = [i for i, p in enumerate(self.group.params) if self.layout_free.get(p)]
        if free:
            attrs.append(("layout_free", free))
        func = PrimFunc(params, body, tuple(attrs), name)
        return func.with_attr("op_pattern", classify(func))


class _Rebinder(Mutator):
    """Replaces the binders of a body by copies, and gives its blocks new names."""

    def __init__(
        self, variables: dict[int, Expr], buffers: dict[int, Buffer], names: dict[int, str]
    ) -> None:
        self.variables, self.buffers, self.names = variables, buffers, names

    def visit_Var(self, n: Var) -> Expr:  # noqa: N802
        return self.variables.get(id(n), n)

    def visit_Buffer(self, n: Buffer) -> Buffer:  # noqa: N802
        return self.buffers.get(id(n), n)

    def visit_Block(self, n: Block) -> Block:  # noqa: N802
        made: Block = self.generic_visit(n)
        return replace(made, name=self.names[id(n)])


def _copied(
    body: Stmt,
    mapping: Mapping[Buffer, Buffer],
    dims: Mapping[Var, Expr],
    unique_block: Callable[[str], str],
) -> Stmt:
    """A body with other buffers and dims, and binders of its own."""
    variables: dict[int, Expr] = {id(v): e for v, e in dims.items()}
    buffers = {id(b): c for b, c in mapping.items()}
    names: dict[int, str] = {}
    for n in walk(body, (Buffer,)):
        if isinstance(n, (For, Let, LetStmt)):
            variables[id(n.var)] = Var(n.var.name, n.var.dtype)
        elif isinstance(n, Block):
            names[id(n)] = unique_block(n.name)
            for axis in n.iter_vars:
                variables[id(axis.var)] = Var(axis.var.name, axis.var.dtype)
            for buffer in (*n.alloc_buffers, *[m.buffer for m in n.match_buffers]):
                buffers[id(buffer)] = copy(buffer)
    made: Stmt = _Rebinder(variables, buffers, names).visit(body)
    return made
