"""create_prim_func: the PrimFunc of a graph of compute definitions.

Each definition that the given tensors need becomes one block, in dependency order. The function
holds only plain Buffers and fresh Vars, never a Tensor, a ReduceAxis or a Reduce; nothing is
scheduled. ``Built`` also tells which block and which buffers came of which definition, for who
schedules by definitions.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from ...support.errors import ComputeError
from ..arith import infer_regions
from ..buffer import Buffer, Range
from ..expr import BufferLoad, Expr, Let, Reduce, Var, const
from ..function import PrimFunc
from ..stmt import Block, BlockRealize, BufferStore, For, IterVar, LetStmt, Stmt, seq
from ..visitor import Mutator
from .reducers import COMBINERS
from .tensor import ComputeOp, ReduceAxis, Tensor, TupleReduce

DefinitionOf = Callable[[Tensor], "ComputeOp | None"]


@dataclass(slots=True)
class Built:
    """The function, and the block, loops and buffers by the ``id`` of what they were made from."""

    func: PrimFunc
    blocks: dict[int, str]
    """Definition to the name of its block."""
    buffers: dict[int, Buffer]
    """Tensor to its buffer."""


def create_prim_func(args: Sequence[Tensor | Var], name: str = "main") -> PrimFunc:
    """A PrimFunc with ``args`` as parameters, in this order: inputs, outputs, scalars, mixed at
    will.

    Every definition that the given tensors need becomes one block below the root block, in
    dependency order; tensors that are not parameters are allocated by the root. Raises ComputeError
    where a placeholder is needed but not among ``args``, or ``args`` repeats one.
    """
    return build_prim_func(args, name=name).func


def build_prim_func(
    args: Sequence[Tensor | Var],
    roots: Iterable[ComputeOp] = (),
    *,
    name: str = "main",
    definition_of: DefinitionOf = lambda t: t.op,
) -> Built:
    """``create_prim_func`` that also makes the blocks of ``roots``, and takes definitions from
    ``definition_of``, which may differ from what the tensors say."""
    _check_arguments(args)
    wanted = [definition_of(a) for a in args if isinstance(a, Tensor)]
    order = dependency_order([*[op for op in wanted if op is not None], *roots], definition_of)
    if not order:
        raise ComputeError("create_prim_func got placeholders alone; there is nothing to compute.")
    buffer_names, block_names = _Names(), _Names()
    block_names.unique("root")
    for a in args:
        if isinstance(a, Var):
            buffer_names.unique(a.name)
    buffers: dict[int, Buffer] = {}
    params = [a if isinstance(a, Var) else _plain_buffer(a, buffers, buffer_names) for a in args]
    allocated: list[Buffer] = []
    for op in order:
        for t in (*op.inputs, *op.outputs):
            if id(t) in buffers:
                continue
            if definition_of(t) is None:
                known = ", ".join(repr(a.name) for a in args)
                raise ComputeError(
                    f"The placeholder {t.name!r} is read, but it is not among the arguments of "
                    f"create_prim_func ({known})."
                )
            if t in op.outputs:
                allocated.append(_plain_buffer(t, buffers, buffer_names))
    blocks: dict[int, str] = {}
    nests: list[Stmt] = []
    for op in order:
        blocks[id(op)] = block_names.unique(op.name.replace(".", "_"))
        nests.append(_build_block(op, buffers, blocks[id(op)]))
    root = Block("root", (), (), (), seq(*nests), alloc_buffers=tuple(allocated))
    body = BlockRealize((), const(True, "bool"), root)
    func = PrimFunc(tuple(params), body, (("tir.noalias", True),), name)
    return Built(func, blocks, buffers)


def _check_arguments(args: Sequence[Tensor | Var]) -> None:
    for a in args:
        if not isinstance(a, (Tensor, Var)):
            hint = " Write the outputs one by one." if isinstance(a, (tuple, list)) else ""
            raise ComputeError(
                f"The arguments are tensors and scalar variables; found {type(a).__name__}.{hint}"
            )
    if len({id(a) for a in args}) != len(args):
        raise ComputeError("create_prim_func got the same argument twice.")


def dependency_order(
    roots: Iterable[ComputeOp], definition_of: DefinitionOf = lambda t: t.op
) -> list[ComputeOp]:
    """Every definition the roots need, each once, after those it reads."""
    order: list[ComputeOp] = []
    done: set[int] = set()
    stack: list[tuple[ComputeOp, bool]] = [(op, False) for op in reversed(list(roots))]
    while stack:
        op, ready = stack.pop()
        if ready:
            order.append(op)
        elif id(op) not in done:
            done.add(id(op))
            stack.append((op, True))
            needed = [definition_of(t) for t in reversed(op.inputs)]
            stack.extend([(n, False) for n in needed if n is not None])
    return order


class _Names:
    """Names that are each given out once."""

    def __init__(self) -> None:
        self.taken: set[str] = set()

    def unique(self, hint: str) -> str:
        name, number = hint, 0
        while name in self.taken:
            number += 1
            name = f"{hint}_{number}"
        self.taken.add(name)
        return name


def _plain_buffer(t: Tensor, buffers: dict[int, Buffer], names: _Names) -> Buffer:
    name = names.unique(t.name.replace(".", "_"))
    made = Buffer(name, t.shape, t.dtype, t.scope, t.strides, t.elem_offset, t.alignment)
    buffers[id(t)] = made
    return made


# -- definitions to blocks -------------------------------------------------------------------------
class _Instantiate(Mutator):
    """Replaces axes by a block's iter vars and Tensors by the function's buffers.

    Lets are renamed: a definition may be instantiated several times, and a Var is bound once.
    """

    def __init__(self, variables: dict[int, Expr], buffers: Mapping[int, Buffer]) -> None:
        self.variables, self.buffers = variables, buffers

    def visit_Var(self, n: Var) -> Expr:  # noqa: N802
        return self.variables.get(id(n), n)

    def visit_ReduceAxis(self, n: ReduceAxis) -> Expr:  # noqa: N802
        return self.variables[id(n)]

    def visit_Tensor(self, n: Tensor) -> Buffer:  # noqa: N802
        return self.buffers[id(n)]

    def visit_Let(self, n: Let) -> Expr:  # noqa: N802
        value = self.visit(n.value)
        fresh = Var(n.var.name, n.var.dtype)
        self.variables[id(n.var)] = fresh
        return Let(fresh, value, self.visit(n.body))


def _build_block(op: ComputeOp, buffers: Mapping[int, Buffer], name: str) -> Stmt:
    """The loop nest of one definition: spatial loops outside, reduce loops inside, one block."""
    axes: list[tuple[Var, Range, str]] = [(a.var, a.dom, "spatial") for a in op.axis]
    axes += [(a, a.dom, "reduce") for a in op.reduce_axis]
    names = _Names()
    loops = [Var(names.unique(v.name.replace(".", "_"))) for v, _, _ in axes]
    iter_vars = [
        IterVar(Var(f"v_{loop.name}"), dom, kind)
        for loop, (_, dom, kind) in zip(loops, axes, strict=True)
    ]
    variables: dict[int, Expr] = {
        id(v): it.var for (v, _, _), it in zip(axes, iter_vars, strict=True)
    }
    targets = [buffers[id(t)] for t in op.outputs]
    indices = tuple([it.var for it in iter_vars[: len(op.axis)]])
    init, body = _init_and_body(op, targets, indices, _Instantiate(variables, buffers))
    reads, writes = infer_regions(body, init, iter_vars)
    annotations = tuple([(k, _attribute(v, buffers)) for k, v in op.attrs])
    block = Block(name, tuple(iter_vars), reads, writes, body, init, annotations=annotations)
    stmt: Stmt = BlockRealize(tuple(loops), const(True, "bool"), block)
    for loop, it in reversed(list(zip(loops, iter_vars, strict=True))):
        stmt = For(loop, it.dom.min, it.dom.extent, "serial", stmt)
    return stmt


def _attribute(value: Any, buffers: Mapping[int, Buffer]) -> Any:
    """An attribute of a definition as one of its block: a Tensor in it becomes a buffer's name."""
    if isinstance(value, Tensor):
        return buffers[id(value)].name if id(value) in buffers else value.name
    if isinstance(value, (list, tuple)):
        return [_attribute(v, buffers) for v in value]
    return value


def _init_and_body(
    op: ComputeOp, targets: Sequence[Buffer], indices: tuple[Expr, ...], instantiate: _Instantiate
) -> tuple[Stmt | None, Stmt]:
    def store(values: Sequence[Expr]) -> Stmt:
        pairs = zip(targets, values, strict=True)
        return seq(*[BufferStore(target, value, indices) for target, value in pairs])

    first = op.bodies[0]
    if isinstance(first, Reduce):
        source = instantiate.visit(first.source)
        value = COMBINERS[first.combiner](BufferLoad(targets[0], indices), source)
        return store([instantiate.visit(first.identity)]), store([value])
    if not isinstance(first, TupleReduce):
        return None, store([instantiate.visit(b) for b in op.bodies])
    init = store([instantiate.visit(e) for e in first.identities])
    several = len(targets) > 1
    held = [BufferLoad(target, indices) for target in targets]
    terms = [instantiate.visit(s) for s in first.sources]
    values = first.reducer.combine(held, terms, several=several)
    if not several:
        return init, store(values)
    # All values are made before any is stored: each may depend on every old one.
    made = [Var(f"v_{t.name}", t.dtype) for t in targets]
    body = store(made)
    for var, value in reversed(list(zip(made, values, strict=True))):
        body = LetStmt(var, value, body)
    return init, body
