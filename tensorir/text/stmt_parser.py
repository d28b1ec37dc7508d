"""Statements of the text form: loops, branches, blocks, stores, lets and allocations.

A let or an allocation scopes over the statements after it, so a suite is read as a whole. On top of
``extern_parser``; ``parser`` makes functions of it.
"""

from __future__ import annotations

import ast
from collections.abc import Sequence
from typing import Any

from ...support.dtype import DType
from ...support.errors import DTypeError, nearest
from ..buffer import Buffer
from ..expr import (
    FLOAT32,
    INDEX,
    Broadcast,
    Call,
    Expr,
    ExternCall,
    FloatImm,
    IntImm,
    Var,
    as_expr,
    cast,
    const,
)
from ..intrinsics import is_pure
from ..stmt import (
    Allocate,
    Block,
    BlockRealize,
    BufferStore,
    Evaluate,
    For,
    IfThenElse,
    LetStmt,
    Stmt,
    seq,
)
from ..store_values import converts, refused_store
from .block_parser import BLOCK_WORDS, Context
from .extern_parser import ExternParser
from .text_values import ELSEWHERE, BufferDecl, FreshVar, Value, describe, no_part

_LOOP_WORDS = {
    "range": "serial",
    "T.serial": "serial",
    "T.parallel": "parallel",
    "T.vectorized": "vectorized",
    "T.unroll": "unrolled",
    "T.unrolled": "unrolled",
    "T.thread_binding": "thread_binding",
}

_BINDING_WORDS = ("T.allocate", "T.decl_buffer", "T.LetStmt", "T.bind", "T.launch_thread")
"""Words whose name scopes over the statements after them, or inside of a with."""


class StmtParser(ExternParser):
    """Parses the statements of one function."""

    # -- suites ------------------------------------------------------------------------------------
    def suite(self, stmts: Sequence[ast.stmt], owner: ast.AST) -> Stmt:
        """The statements of one indentation. A let or an allocation scopes over those after it."""
        made: list[Stmt] = []
        for i, s in enumerate(stmts):
            target = _bound_name(s)
            if target is not None and isinstance(s, ast.Assign | ast.AnnAssign):
                stmt = self.bind(s, target, stmts[i + 1 :])
            else:
                stmt = self.stmt(s)
            if stmt is not None:
                made.append(stmt if stmt.span is not None else stmt.with_span(self.span(s)))
            if target is not None and stmt is not None:
                break
        if not made:
            raise self.error(
                owner, "Expected a statement that does something; there is only a header here."
            )
        result = seq(*made)
        return result if result.span is not None else result.with_span(made[0].span)

    def stmt(self, node: ast.stmt) -> Stmt | None:
        """One statement; None for one that only says something about the block or the names."""
        method = getattr(self, f"stmt_{type(node).__name__}", None)
        if method is None:
            raise self.error(node, no_part(node))
        try:
            result: Stmt | None = method(node)
        except DTypeError as error:
            raise self.error(node, error.message) from None
        return result

    def stmt_Pass(self, node: ast.Pass) -> Stmt:  # noqa: N802
        return Evaluate(IntImm(0, INDEX))

    # -- loops and branches ------------------------------------------------------------------------
    def stmt_For(self, node: ast.For) -> Stmt:  # noqa: N802
        if node.orelse:
            raise self.error(node.orelse[0], "A loop has no else.")
        if not isinstance(node.iter, ast.Call):
            raise self.error(node.iter, "Expected range(...), T.grid(...) or another loop of T.")
        targets = self.targets(node.target)
        word = self.word(node.iter.func)
        if word == "T.grid":
            self.no_keywords(node.iter)
            if len(targets) != len(node.iter.args):
                raise self.error(
                    node.target,
                    f"T.grid has {len(node.iter.args)} loops, but {len(targets)} names stand here.",
                )
            ranges = [self.range_of(e, [e]) for e in node.iter.args]
            kind, thread = "serial", ""
            annotations: tuple[tuple[str, Any], ...] = ()
        elif word in _LOOP_WORDS:
            if len(targets) != 1:
                raise self.error(node.target, f"{word} is one loop; several at once are a T.grid.")
            kind = _LOOP_WORDS[word]
            thread, annotations = self.loop_options(node.iter, kind)
            ranges = [self.range_of(node.iter, [a for a in node.iter.args if not _is_text(a)])]
        else:
            raise self.error(
                node.iter.func,
                f"Expected a loop, found {word}.{nearest(word, [*_LOOP_WORDS, 'T.grid'])}",
            )
        span = self.span(node)
        with self.scope():
            loop_vars = [
                self.new_var(t, r.extent.dtype) for t, r in zip(targets, ranges, strict=True)
            ]
            self.loop_ranges |= {id(v): r for v, r in zip(loop_vars, ranges, strict=True)}
            stmt = self.suite(node.body, node)
        for v, r in reversed(list(zip(loop_vars, ranges, strict=True))):
            stmt = For(v, r.min, r.extent, kind, stmt, thread, annotations).with_span(span)
        return stmt

    def loop_options(self, node: ast.Call, kind: str) -> tuple[str, tuple[tuple[str, Any], ...]]:
        thread = ""
        annotations: tuple[tuple[str, Any], ...] = ()
        for k in node.keywords:
            if k.arg == "thread" and kind == "thread_binding":
                thread = str(self.value(k.value))
            elif k.arg == "step":
                if self.value(k.value) != 1:
                    raise self.error(
                        k,
                        "Loops have no step. Write a loop over the number of steps, and "
                        "start + i * step for its variable.",
                    )
            elif k.arg == "annotations":
                annotations = self.attrs_of(k.value)
            else:
                raise self.error(
                    k,
                    f"A loop has no option {k.arg!r}; it has annotations"
                    + (" and thread." if kind == "thread_binding" else "."),
                )
        if kind == "thread_binding" and node.args and _is_text(node.args[-1]):
            # The thread may also stand behind the extent.
            thread = str(self.value(node.args[-1]))
        if kind == "thread_binding" and not thread:
            raise self.error(node, 'Expected T.thread_binding(extent, thread="...").')
        return thread, annotations

    def stmt_If(self, node: ast.If) -> Stmt:  # noqa: N802
        condition = self.boolean(node.test, self.value(node.test))
        with self.scope():
            then_case = self.suite(node.body, node)
        if not node.orelse:
            return IfThenElse(condition, then_case)
        with self.scope():
            return IfThenElse(condition, then_case, self.suite(node.orelse, node))

    def stmt_Expr(self, node: ast.Expr) -> Stmt | None:  # noqa: N802
        call = node.value
        if isinstance(call, ast.Constant) and isinstance(call.value, str):
            return None
        if not isinstance(call, ast.Call):
            raise self.error(node, "This expression is not used.")
        if isinstance(call.func, ast.Attribute) and call.func.attr == "vstore":
            return self.vstore(call, call.func)
        word = self.called(call)
        if word == "T.evaluate":
            return Evaluate(self.expr(self.arguments(call, 1)[0]))
        if word == "T.assume":
            return Evaluate(self.expr(call))
        if word in BLOCK_WORDS:
            self.header(word, call)
            return None
        value = self.value(call)
        if not isinstance(value, Expr):
            raise self.error(node, f"Expected a statement, found {describe(value)}.")
        if not isinstance(value, ExternCall) and (not isinstance(value, Call) or is_pure(value)):
            raise self.error(node, "This value is not used: store it, A[i] = value.")
        return Evaluate(value)

    # -- blocks ------------------------------------------------------------------------------------
    def stmt_With(self, node: ast.With) -> Stmt | None:  # noqa: N802
        if len(node.items) != 1:
            raise self.error(node, "Write one 'with' for each of these.")
        call, target = node.items[0].context_expr, node.items[0].optional_vars
        word = self.called(call)
        assert isinstance(call, ast.Call) or not word
        if word == "T.block" and isinstance(call, ast.Call):
            return self.block(node, call)
        if word == "T.init":
            context = self.contexts[-1]
            if context.init is not None or len(self.contexts) == 1:
                raise self.error(node, "T.init stands once, inside of a block.")
            with self.scope():
                context.init = self.suite(node.body, node)
            return None
        if isinstance(call, ast.Call) and isinstance(target, ast.Name):
            if word in _BINDING_WORDS and not self.views(call):
                with self.scope():
                    return self.bind_value(node, target, call, None, node.body)
            if word == "T.decl_buffer":
                with self.scope():
                    self.declare(call, target.id, self.value(call), allocates=False)
                    return self.suite(node.body, node)
        raise self.error(
            node.items[0].context_expr,
            ELSEWHERE.get(word.removeprefix("T."))
            or "Expected T.block(name), T.init(), or T.allocate(...), T.decl_buffer(...), "
            "T.launch_thread(...) or T.LetStmt(...) with a name.",
        )

    def views(self, call: ast.expr) -> bool:
        """Whether a declaration is of another view of memory that exists."""
        return isinstance(call, ast.Call) and any(k.arg == "data" for k in call.keywords)

    def block(self, node: ast.With, call: ast.Call) -> Stmt:
        name = str(self.value(call.args[0])) if call.args else "block"
        span = self.span(call)
        context = Context()
        self.contexts.append(context)
        with self.scope():
            body = self.suite(node.body, node)
        self.contexts.pop()
        self.require_declared(call, body, context)
        block = Block(
            name,
            tuple(context.iter_vars),
            context.reads or (),
            context.writes or (),
            body,
            context.init,
            tuple(context.allocated),
            tuple(context.matched),
            context.annotations,
        ).with_span(span)
        if context.reads is None or context.writes is None:
            block = self.with_regions(block, context)
        predicate = context.predicate if context.predicate is not None else const(True, "bool")
        return BlockRealize(tuple(context.iter_values), predicate, block).with_span(span)

    # -- assignments -------------------------------------------------------------------------------
    def stmt_Assign(self, node: ast.Assign) -> Stmt | None:  # noqa: N802
        """``A[i] = value`` and ``vi, vj = T.axis.remap(...)``; names alone are ``bind``'s."""
        if len(node.targets) != 1:
            raise self.error(node, "Write one assignment for each of these.")
        target = node.targets[0]
        if isinstance(target, ast.Subscript):
            return self.store(target, node.value)
        if isinstance(node.value, ast.Call) and self.called(node.value).startswith("T.axis."):
            self.axes(node, self.targets(target), self.called(node.value), node.value)
            return None
        if isinstance(target, ast.Tuple) and isinstance(node.value, ast.Tuple):
            names, items = self.targets(target), node.value.elts
            axes = [v for v in items if self.called(v).startswith("T.axis.")]
            if len(names) == len(items) == len(axes):
                for name, axis in zip(names, axes, strict=True):
                    assert isinstance(axis, ast.Call)
                    self.axes(node, [name], self.called(axis), axis)
                return None
            sizes = [self.value(v) for v in items]
            if len(names) == len(sizes) and all(isinstance(s, FreshVar) for s in sizes):
                for name, size in zip(names, sizes, strict=True):
                    self.name_value(node, name, size, allocates=False)
                return None
        raise self.error(target, "Only T.axis.remap gives several values.")

    def bind(
        self, node: ast.Assign | ast.AnnAssign, target: ast.Name, rest: Sequence[ast.stmt]
    ) -> Stmt | None:
        """``name = value``: a declaration (None), or a let or an allocation that scopes over
        ``rest``.
        """
        if node.value is None:
            raise self.error(node, f"The variable {target.id!r} needs a value.")
        word = self.called(node.value)
        call = node.value
        if isinstance(call, ast.Call) and word.startswith("T.axis."):
            self.axes(node, [target], word, call)
        elif isinstance(call, ast.Call) and word == "T.match_buffer":
            self.match_buffer(target, call)
        elif isinstance(call, ast.Call) and word == "T.meta_var":
            self.define(target.id, self.value(self.arguments(call, 1)[0]))
        elif isinstance(node, ast.AnnAssign) or (
            word in _BINDING_WORDS and not self.views(node.value)
        ):
            annotation = node.annotation if isinstance(node, ast.AnnAssign) else None
            return self.bind_value(node, target, node.value, annotation, rest)
        else:
            value = self.value(node.value)
            if isinstance(value, Expr) and not isinstance(value, Var | IntImm | FloatImm):
                return self.bind_value(node, target, node.value, None, rest)
            self.name_value(node, target, value, allocates=word == "T.alloc_buffer")
        return None

    def name_value(
        self, node: ast.Assign, target: ast.Name, value: Value, *, allocates: bool
    ) -> None:
        """A name for something known while parsing: a buffer, a symbolic dim, a number, a
        variable.
        """
        if isinstance(value, BufferDecl):
            self.declare(node.value, target.id, value, allocates=allocates)
        elif isinstance(value, FreshVar):
            # Programs of TVM may call their sizes int32; here every size is int64.
            self.new_var(target, INDEX if value.dtype == "int32" else value.dtype)
        else:
            self.define(target.id, value)

    def store(self, target: ast.Subscript, value: ast.expr) -> Stmt:
        items = target.slice.elts if isinstance(target.slice, ast.Tuple) else [target.slice]
        buffer, indices = self.access(target, self.value(target.value), items)
        return BufferStore(buffer, self.stored(value, buffer, indices), indices)

    def stored(self, node: ast.expr, buffer: Buffer, indices: tuple[Expr, ...]) -> Expr:
        """The value of a store: a bare literal takes the buffer's dtype, a scalar the lanes of the
        index, and a number of another dtype is converted, but for a float to an integer.
        """
        wanted = buffer.dtype.with_lanes(indices[-1].dtype.lanes if indices else 1)
        value = self.value(node)
        if isinstance(value, float) and wanted.scalar.is_integer and not value.is_integer():
            raise self.error(node, refused_store(buffer.name, wanted, FLOAT32, is_literal=True))
        if isinstance(value, bool | int | float):
            return const(value, wanted).with_span(self.span(node))
        value = self.expr(node) if not isinstance(value, Expr) else value
        if (
            value.dtype is not wanted
            and value.dtype.with_lanes(wanted.lanes) is wanted
            and value.dtype.lanes == 1
        ):
            return Broadcast(value, wanted.lanes).with_span(self.span(node))
        if value.dtype is wanted:
            return value
        if value.dtype.lanes != wanted.lanes or not converts(value.dtype.scalar, wanted.scalar):
            is_literal = isinstance(value, FloatImm)
            refused = refused_store(buffer.name, wanted, value.dtype, is_literal=is_literal)
            raise self.error(node, refused)
        return cast(value, wanted).with_span(self.span(node))

    def vstore(self, call: ast.Call, func: ast.Attribute) -> Stmt:
        """``A.vstore([indices], value, predicate=lanes)``."""
        items, value = self.arguments(call, 2)
        if not isinstance(items, ast.List | ast.Tuple):
            raise self.error(items, "Expected a list of indices.")
        buffer, indices = self.access(call, self.value(func.value), items.elts)
        predicate = next((self.expr(k.value) for k in call.keywords if k.arg == "predicate"), None)
        return BufferStore(buffer, self.stored(value, buffer, indices), indices, predicate)

    def stmt_AugAssign(self, node: ast.AugAssign) -> Stmt:  # noqa: N802
        if not isinstance(node.target, ast.Subscript):
            raise self.error(node.target, "Only elements of buffers are assigned to twice.")
        load = ast.copy_location(
            ast.Subscript(node.target.value, node.target.slice, ast.Load()), node.target
        )
        return self.store(
            node.target, ast.copy_location(ast.BinOp(load, node.op, node.value), node)
        )

    # -- lets and allocations ----------------------------------------------------------------------
    def bind_value(
        self,
        node: ast.stmt,
        target: ast.Name,
        value: ast.expr,
        annotation: ast.expr | None,
        rest: Sequence[ast.stmt],
    ) -> Stmt:
        """``target`` bound to ``value`` in the statements ``rest``."""
        span = self.span(node)
        word = self.called(value)
        if word == "T.launch_thread" and isinstance(value, ast.Call):
            return self.launch_thread(target, value, rest, node)
        if word in ("T.allocate", "T.decl_buffer") and isinstance(value, ast.Call):
            buffer, annotations = self.allocation(target.id, value)
            self.define(target.id, buffer)
            return Allocate(buffer, self.suite(rest, node), annotations).with_span(span)
        if word in ("T.LetStmt", "T.bind") and isinstance(value, ast.Call):
            (value,) = self.arguments(value, 1)
        dtype = self.dtype(annotation) if annotation is not None else None
        bound = self.let_value(value, dtype)
        var = self.new_var(target, bound.dtype)
        return LetStmt(var, bound, self.suite(rest, node)).with_span(span)

    def launch_thread(
        self, target: ast.Name, call: ast.Call, rest: Sequence[ast.stmt], node: ast.stmt
    ) -> Stmt:
        """``tx = T.launch_thread("threadIdx.x", 16)``: a loop around all that follows."""
        thread, extent = self.arguments(call, 2)
        name, dom = self.value(thread), self.range_of(extent, [extent])
        if not isinstance(name, str):
            raise self.error(thread, "Expected the name of a thread axis, such as 'threadIdx.x'.")
        var = self.new_var(target, INDEX)
        self.loop_ranges[id(var)] = dom
        return For(var, dom.min, dom.extent, "thread_binding", self.suite(rest, node), name)

    def let_value(self, node: ast.expr, dtype: DType | None) -> Expr:
        value = self.value(node)
        if isinstance(value, bool | int | float):
            return as_expr(value, dtype).with_span(self.span(node))
        bound = self.expr(node) if not isinstance(value, Expr) else value
        # Programs of TVM call their indices int32; here an index is int64 all the same.
        if dtype is None or bound.dtype is dtype or (dtype == "int32" and bound.dtype is INDEX):
            return bound
        if dtype is INDEX and bound.dtype.is_integer:
            return cast(bound, INDEX)
        raise self.error(node, f"Expected a value of dtype {dtype}, found {bound.dtype}.")


def _is_text(node: ast.expr) -> bool:
    return isinstance(node, ast.Constant) and isinstance(node.value, str)


def _bound_name(node: ast.stmt) -> ast.Name | None:
    """The name that an assignment to a name alone gives."""
    if isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name):
        return node.target
    if (
        isinstance(node, ast.Assign)
        and len(node.targets) == 1
        and isinstance(node.targets[0], ast.Name)
    ):
        return node.targets[0]
    return None
