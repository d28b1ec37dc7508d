"""Python text to PrimFuncs: statements, blocks and functions of the text form.

``ast`` does the reading; this file gives its statements their meaning and ``expr_parser`` its
expressions. Nothing of the text is ever executed. What the text may leave out is restored: the root
block around a function that has blocks, the ``T.reads`` and ``T.writes`` of a block, casts of
indices to int64. The result is well-scoped by construction; the other laws are
``tensorir.verify``'s.
"""

from __future__ import annotations

import ast
import textwrap
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from ..support.dtype import DType
from ..support.errors import DTypeError, ParseError, nearest
from ..support.node import walk
from ..support.source import Source, Span
from .arith import infer_regions
from .buffer import Buffer, BufferRegion, Range
from .expr import INDEX, Broadcast, Expr, FloatImm, IntImm, Var, as_expr, cast, const, sub
from .expr_parser import (
    Alias,
    BufferDecl,
    ExprParser,
    FreshVar,
    Handle,
    Value,
    Word,
    describe,
    no_part,
)
from .function import Param, PrimFunc
from .stmt import (
    Allocate,
    Block,
    BlockRealize,
    BufferStore,
    Evaluate,
    For,
    IfThenElse,
    IterVar,
    LetStmt,
    MatchBuffer,
    Stmt,
    seq,
)

_LOOP_WORDS = {
    "range": "serial",
    "T.serial": "serial",
    "T.parallel": "parallel",
    "T.vectorized": "vectorized",
    "T.unroll": "unrolled",
    "T.unrolled": "unrolled",
    "T.thread_binding": "thread_binding",
}
_AXIS_WORDS = {f"T.axis.{kind}": kind for kind in ("spatial", "reduce", "scan", "opaque")} | {
    "T.axis.S": "spatial",
    "T.axis.R": "reduce",
}
_BLOCK_WORDS = frozenset({"T.reads", "T.writes", "T.where", "T.block_attr", "T.func_attr"})


def parse_func(
    text: str, env: Mapping[str, object] | None = None, *, name: str = "<text>"
) -> PrimFunc:
    """The one PrimFunc of ``text`` (imports and comments around it are skipped).

    Free names resolve in ``env``; ``name`` is what errors call the text. Raises ParseError.
    """
    source = Source(name, textwrap.dedent(text))
    tree = parse_python(source)
    functions = [s for s in tree.body if isinstance(s, ast.FunctionDef)]
    others = [
        s for s in tree.body if not isinstance(s, ast.FunctionDef | ast.Import | ast.ImportFrom)
    ]
    if len(functions) != 1 or others:
        raise ParseError(
            f"Expected the text of one PrimFunc, found {len(functions)} functions and "
            f"{len(others)} other statements. A whole module is read by burnish.parse."
        )
    return parse_function_def(functions[0], source, env or {})


def parse_python(source: Source) -> ast.Module:
    """The syntax tree of a source; Python's SyntaxError becomes a ParseError at its place."""
    try:
        return ast.parse(source.text)
    except SyntaxError as error:
        line, column = error.lineno or 1, max((error.offset or 1) - 1, 0)
        end = error.end_offset - 1 if error.end_offset else column + 1
        span = Span(source, line, column, error.end_lineno or line, max(end, column + 1))
        raise ParseError(f"This is not Python syntax: {error.msg}.", span) from None


def parse_function_def(
    node: ast.FunctionDef, source: Source, env: Mapping[str, object]
) -> PrimFunc:
    """The PrimFunc that a ``def`` of ``source`` describes; its decorators are not looked at.

    ``env`` holds the names around it: numbers, strings, dtypes, tuples of them and PrimFuncs become
    constants. Raises ParseError at the guilty place.
    """
    return _FuncParser(source, env).func(node)


@dataclass
class _Context:
    """What the statements of a block's header said so far (or of a function's, for its root
    block).
    """

    iter_vars: list[IterVar] = field(default_factory=list)
    iter_values: list[Expr] = field(default_factory=list)
    predicate: Expr | None = None
    reads: tuple[BufferRegion, ...] | None = None
    writes: tuple[BufferRegion, ...] | None = None
    annotations: tuple[tuple[str, Any], ...] = ()
    allocated: list[Buffer] = field(default_factory=list)
    matched: list[MatchBuffer] = field(default_factory=list)
    init: Stmt | None = None


class _FuncParser(ExprParser):
    """Parses one function. ``contexts`` are the blocks around the current statement; the first is
    the function itself.
    """

    def __init__(self, source: Source, env: Mapping[str, object]) -> None:
        super().__init__(source, env)
        self.contexts: list[_Context] = [_Context()]
        self.handles: dict[str, Buffer] = {}
        self.loop_ranges: dict[int, Range] = {}
        self.attrs: tuple[tuple[str, Any], ...] = ()

    # -- functions -------------------------------------------------------------------------------
    def func(self, node: ast.FunctionDef) -> PrimFunc:
        params = self.params(node)
        body = self.suite(node.body, node)
        span = self.span(node)
        header = Span(
            self.source, span.line, span.column, span.line, span.column + len(f"def {node.name}")
        )
        body = self.with_root(body, header)
        resolved: list[Param] = []
        for arg, p in zip(node.args.args, params, strict=True):
            if isinstance(p, Handle):
                if p.name not in self.handles:
                    raise self.error(
                        arg, f"No T.match_buffer says what the handle {p.name!r} points to."
                    )
                resolved.append(self.handles[p.name])
            else:
                resolved.append(p)
        return PrimFunc(tuple(resolved), body, self.attrs, node.name).with_span(header)

    def params(self, node: ast.FunctionDef) -> list[Buffer | Var | Handle]:
        a = node.args
        for odd in (*a.posonlyargs, *a.kwonlyargs, a.vararg, a.kwarg):
            if odd is not None:
                raise self.error(odd, "A PrimFunc has plain parameters only.")
        if a.defaults:
            raise self.error(a.defaults[0], "A parameter of a PrimFunc has no default.")
        # Scalars come first: the shapes of buffers to their left may name them.
        made: dict[str, Buffer | Var | Handle] = {}
        for scalars in (True, False):
            for arg in a.args:
                if arg.annotation is None:
                    raise self.error(
                        arg,
                        f"The parameter {arg.arg!r} needs a type: T.Buffer(...), T.int64, ...",
                    )
                is_word = isinstance(arg.annotation, ast.Attribute | ast.Name)
                if is_word is scalars:
                    made[arg.arg] = self.param(arg, arg.annotation)
                    self.define(arg.arg, made[arg.arg])
        return [made[arg.arg] for arg in a.args]

    def param(self, arg: ast.arg, annotation: ast.expr) -> Buffer | Var | Handle:
        kind = self.value(annotation)
        if isinstance(kind, BufferDecl) and kind.data is None:
            return kind.make(arg.arg).with_span(self.span(arg))
        if isinstance(kind, FreshVar):
            kind = kind.dtype
        if isinstance(kind, DType):
            if kind == "handle":
                return Handle(arg.arg)
            return Var(arg.arg, kind).with_span(self.span(arg))
        raise self.error(
            annotation, f"Expected T.Buffer(...), a dtype or T.handle, found {describe(kind)}."
        )

    def with_root(self, body: Stmt, span: Span) -> Stmt:
        """The body inside its root block, unless it has one or (after lowering) no blocks at
        all.
        """
        context = self.contexts[0]
        if isinstance(body, BlockRealize) and body.block.name == "root" and not body.iter_values:
            if not context.allocated:
                return body
        elif not context.allocated and not any(isinstance(n, BlockRealize) for n in walk(body)):
            return body
        root = Block("root", (), (), (), body, None, tuple(context.allocated)).with_span(span)
        return BlockRealize((), const(True, "bool"), root).with_span(span)

    # -- suites ----------------------------------------------------------------------------------
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
            ranges = [self.range_of(node.iter, node.iter.args)]
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

    def word(self, node: ast.expr) -> str:
        """The path of a word of T; ``range`` for the builtin."""
        if isinstance(node, ast.Name) and node.id == "range" and self.lookup("range") is None:
            return "range"
        value = self.value(node)
        return value.path if isinstance(value, Word) else describe(value)

    def called(self, node: ast.AST | None) -> str:
        """The word that ``node`` calls, or an empty string where it calls none."""
        if not isinstance(node, ast.Call):
            return ""
        func = node.func
        if isinstance(func, ast.Attribute) and func.attr not in ("vstore", "vload"):
            value = self.value(func)
            return value.path if isinstance(value, Word) else ""
        return ""

    def targets(self, node: ast.expr) -> list[ast.Name]:
        items = node.elts if isinstance(node, ast.Tuple | ast.List) else [node]
        names = [i for i in items if isinstance(i, ast.Name)]
        if len(names) != len(items):
            raise self.error(node, "Expected a name, or several.")
        return names

    def new_var(self, node: ast.Name, dtype: DType) -> Var:
        var = Var(node.id, dtype).with_span(self.span(node))
        self.define(node.id, var)
        return var

    def range_of(self, node: ast.AST, args: Sequence[ast.expr]) -> Range:
        """The range of ``(stop)`` or ``(start, stop)``."""
        if len(args) == 1:
            extent = self.expr(args[0], INDEX)
            return Range(const(0, extent.dtype), extent).with_span(self.span(args[0]))
        if len(args) != 2:
            raise self.error(node, "Expected an extent, or a start and an end; loops have no step.")
        return self.interval(args[0], args[1])

    def interval(self, start: ast.expr, stop: ast.expr) -> Range:
        """``[start, stop)``. Of ``a`` and ``a + n`` (as the printer writes it) the extent is
        ``n``.
        """
        low = self.expr(start, INDEX)
        if (
            isinstance(stop, ast.BinOp)
            and isinstance(stop.op, ast.Add)
            and ast.dump(stop.left) == ast.dump(start)
        ):
            extent = self.expr(stop.right, INDEX)
        else:
            high = self.expr(stop, low.dtype)
            is_zero = isinstance(low, IntImm) and low.value == 0
            extent = high if is_zero else sub(high, low)
        span = self.span(start)
        return Range(low, extent if extent.span is not None else extent.with_span(span)).with_span(
            span
        )

    def loop_options(self, node: ast.Call, kind: str) -> tuple[str, tuple[tuple[str, Any], ...]]:
        thread = ""
        annotations: tuple[tuple[str, Any], ...] = ()
        for k in node.keywords:
            if k.arg == "thread" and kind == "thread_binding":
                thread = str(self.value(k.value))
            elif k.arg == "annotations":
                annotations = self.attrs_of(k.value)
            else:
                raise self.error(
                    k,
                    f"A loop has no option {k.arg!r}; it has annotations"
                    + (" and thread." if kind == "thread_binding" else "."),
                )
        if kind == "thread_binding" and not thread:
            raise self.error(node, 'Expected T.thread_binding(extent, thread="...").')
        return thread, annotations

    def attrs_of(self, node: ast.expr) -> tuple[tuple[str, Any], ...]:
        value = self.value(node)
        if not isinstance(value, dict) or not all(isinstance(k, str) for k in value):
            raise self.error(node, "Expected a dict with strings as keys.")
        return tuple(value.items())

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
        if word in _BLOCK_WORDS:
            self.header(word, call)
            return None
        return Evaluate(self.expr(call))

    # -- blocks ----------------------------------------------------------------------------------
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
        if (
            word in ("T.LetStmt", "T.allocate")
            and isinstance(call, ast.Call)
            and isinstance(target, ast.Name)
        ):
            with self.scope():
                return self.bind_value(node, target, call, None, node.body)
        raise self.error(
            node.items[0].context_expr,
            "Expected T.block(name), T.init(), or T.allocate(...) or T.LetStmt(...) with a name.",
        )

    def block(self, node: ast.With, call: ast.Call) -> Stmt:
        name = str(self.value(call.args[0])) if call.args else "block"
        span = self.span(call)
        context = _Context()
        self.contexts.append(context)
        with self.scope():
            body = self.suite(node.body, node)
        self.contexts.pop()
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

    def with_regions(self, block: Block, context: _Context) -> Block:
        """The block with what it reads and writes, where the text does not say it. A root block,
        which stands for the function, is left without.
        """
        if block.name == "root" and len(self.contexts) == 1:
            return block
        reads, writes = infer_regions(
            block.body, block.init, block.iter_vars, alloc_buffers=block.alloc_buffers
        )
        return Block(
            block.name,
            block.iter_vars,
            reads if context.reads is None else context.reads,
            writes if context.writes is None else context.writes,
            *[getattr(block, f) for f in block.init_fields[4:]],
        ).with_span(block.span)

    def header(self, word: str, call: ast.Call) -> None:
        """A statement that says something about the block (or function) it stands in."""
        context = self.contexts[-1]
        if word == "T.func_attr":
            if len(self.contexts) > 1:
                raise self.error(call, "T.func_attr stands in the function, not in a block.")
            self.attrs = self.attrs_of(self.arguments(call, 1)[0])
            return
        if len(self.contexts) == 1:
            raise self.error(call, f"{word} stands inside of a block.")
        if word == "T.reads":
            context.reads = self.regions(call)
        elif word == "T.writes":
            context.writes = self.regions(call)
        elif word == "T.where":
            (condition,) = self.arguments(call, 1)
            context.predicate = self.boolean(condition, self.value(condition))
        else:
            context.annotations = self.attrs_of(self.arguments(call, 1)[0])

    def regions(self, call: ast.Call) -> tuple[BufferRegion, ...]:
        items = call.args
        if len(items) == 1 and isinstance(items[0], ast.List | ast.Tuple):
            items = items[0].elts
        return tuple([self.region(i) for i in items])

    def region(self, node: ast.expr) -> BufferRegion:
        """``A[i, 0:4]``; a bare buffer is the whole of it."""
        base = self.value(node.value if isinstance(node, ast.Subscript) else node)
        if not isinstance(base, Buffer):
            raise self.error(node, f"Expected a region of a buffer, found {describe(base)}.")
        if not isinstance(node, ast.Subscript):
            whole = tuple([Range(IntImm(0, INDEX), d) for d in base.shape])
            return BufferRegion(base, whole).with_span(self.span(node))
        items = node.slice.elts if isinstance(node.slice, ast.Tuple) else [node.slice]
        if len(items) != len(base.shape):
            raise self.error(node, f"Expected {len(base.shape)} ranges, found {len(items)}.")
        ranges = tuple([self.region_range(i, d) for i, d in zip(items, base.shape, strict=True)])
        return BufferRegion(base, ranges).with_span(self.span(node))

    def region_range(self, node: ast.expr, dim: Expr) -> Range:
        if not isinstance(node, ast.Slice):
            return Range(self.index(node), IntImm(1, INDEX)).with_span(self.span(node))
        if node.step is not None:
            raise self.error(node.step, "A region has no step.")
        if node.upper is None:
            low = self.expr(node.lower, INDEX) if node.lower is not None else IntImm(0, INDEX)
            return Range(low, sub(dim, low)).with_span(self.span(node))
        return (
            self.interval(node.lower, node.upper)
            if node.lower is not None
            else self.range_of(node, [node.upper])
        )

    # -- assignments -----------------------------------------------------------------------------
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
        elif isinstance(node, ast.AnnAssign) or word in ("T.allocate", "T.LetStmt"):
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
            self.declare(node, target.id, value, allocates=allocates)
        elif isinstance(value, FreshVar):
            # Programs of TVM may call their sizes int32; here every size is int64.
            self.new_var(target, INDEX if value.dtype == "int32" else value.dtype)
        else:
            self.define(target.id, value)

    def declare(self, node: ast.Assign, name: str, decl: BufferDecl, *, allocates: bool) -> None:
        """A new buffer of the block, or another view of the memory of one that exists."""
        made = decl.make(name)
        if decl.data is None:
            if not allocates:
                raise self.error(
                    node.value,
                    "A T.Buffer in a body views memory: T.Buffer(shape, data=...). "
                    "New memory is T.alloc_buffer(shape) or T.allocate(shape, dtype, scope).",
                )
            self.contexts[-1].allocated.append(made)
            self.define(name, made)
            return
        if made.dtype is not decl.data.dtype or made.strides or decl.data.strides:
            raise self.error(
                node.value,
                f"A view must be compact and of the dtype of its data, {decl.data.dtype}.",
            )
        self.define(name, Alias(made.shape, decl.data))

    def match_buffer(self, target: ast.Name, call: ast.Call) -> None:
        """``A = T.match_buffer(handle, shape)`` of a parameter, or of a region inside a block."""
        if not call.args:
            raise self.error(call, "Expected T.match_buffer(handle or region, shape, dtype).")
        decl = self.buffer_decl(call, call.args[1:], call.keywords)
        made = decl.make(target.id)
        first = self.value(call.args[0]) if isinstance(call.args[0], ast.Name) else None
        if isinstance(first, Handle):
            if first.name in self.handles:
                raise self.error(call.args[0], f"The handle {first.name!r} is matched twice.")
            self.handles[first.name] = made
        elif len(self.contexts) > 1:
            source = self.region(call.args[0])
            self.contexts[-1].matched.append(MatchBuffer(made, source).with_span(self.span(call)))
        else:
            raise self.error(call.args[0], "Expected a parameter of type T.handle.")
        self.define(target.id, made)

    def axes(self, node: ast.stmt, names: list[ast.Name], word: str, call: ast.Call) -> None:
        if len(self.contexts) == 1:
            raise self.error(call, f"{word} stands inside of a block.")
        if word == "T.axis.remap":
            self.remap(names, call)
            return
        if word not in _AXIS_WORDS:
            raise self.error(
                call.func, f"Expected an axis, found {word}.{nearest(word, _AXIS_WORDS)}"
            )
        if len(names) != 1:
            raise self.error(node, f"{word} is one axis.")
        dom, value = self.arguments(call, 2)
        if isinstance(dom, ast.Tuple | ast.List):
            bounds = self.range_of(dom, dom.elts)
        else:
            bounds = self.range_of(dom, [dom])
        self.add_axis(names[0], bounds, _AXIS_WORDS[word], self.index(value))

    def remap(self, names: list[ast.Name], call: ast.Call) -> None:
        """``vi, vk = T.axis.remap("SR", [i, k])``: axes with the ranges of the loops they are bound
        to.
        """
        kinds, loops = self.arguments(call, 2)
        letters = self.value(kinds)
        items = loops.elts if isinstance(loops, ast.List | ast.Tuple) else []
        if not isinstance(letters, str) or set(letters) - {"S", "R"}:
            raise self.error(kinds, "Expected a string of S (spatial) and R (reduce).")
        if not len(letters) == len(items) == len(names):
            raise self.error(
                call,
                f"{len(names)} names, {len(letters)} kinds and {len(items)} loops do not match.",
            )
        for name, letter, item in zip(names, letters, items, strict=True):
            value = self.value(item)
            loop = self.loop_ranges.get(id(value))
            if loop is None:
                raise self.error(
                    item,
                    "Expected the variable of a loop around the block; anything else is bound by "
                    "T.axis.spatial(extent, value) or T.axis.reduce.",
                )
            self.add_axis(name, loop, "spatial" if letter == "S" else "reduce", value)

    def add_axis(self, name: ast.Name, dom: Range, kind: str, value: Expr) -> None:
        context = self.contexts[-1]
        var = Var(name.id, INDEX).with_span(self.span(name))
        context.iter_vars.append(IterVar(var, dom, kind).with_span(self.span(name)))
        context.iter_values.append(value)
        self.define(name.id, var)

    def store(self, target: ast.Subscript, value: ast.expr) -> Stmt:
        items = target.slice.elts if isinstance(target.slice, ast.Tuple) else [target.slice]
        buffer, indices = self.access(target, self.value(target.value), items)
        return BufferStore(buffer, self.stored(value, buffer, indices), indices)

    def stored(self, node: ast.expr, buffer: Buffer, indices: tuple[Expr, ...]) -> Expr:
        """The value of a store: a bare literal takes the buffer's dtype, a scalar the lanes of the
        index.
        """
        wanted = buffer.dtype.with_lanes(indices[-1].dtype.lanes if indices else 1)
        value = self.value(node)
        if isinstance(value, bool | int | float):
            return const(value, wanted).with_span(self.span(node))
        value = self.expr(node) if not isinstance(value, Expr) else value
        if (
            value.dtype is not wanted
            and value.dtype.with_lanes(wanted.lanes) is wanted
            and value.dtype.lanes == 1
        ):
            return Broadcast(value, wanted.lanes).with_span(self.span(node))
        if value.dtype is not wanted:
            raise self.error(
                node,
                f"Expected a value of dtype {wanted}, the buffer's; found {value.dtype}. "
                f'Convert it with T.Cast("{wanted}", ...).',
            )
        return value

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

    # -- lets and allocations --------------------------------------------------------------------
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
        if word == "T.allocate" and isinstance(value, ast.Call):
            buffer, annotations = self.allocation(target.id, value)
            self.define(target.id, buffer)
            return Allocate(buffer, self.suite(rest, node), annotations).with_span(span)
        if word == "T.LetStmt" and isinstance(value, ast.Call):
            (value,) = self.arguments(value, 1)
        dtype = self.dtype(annotation) if annotation is not None else None
        bound = self.let_value(value, dtype)
        var = self.new_var(target, bound.dtype)
        return LetStmt(var, bound, self.suite(rest, node)).with_span(span)

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

    def allocation(self, name: str, call: ast.Call) -> tuple[Buffer, tuple[tuple[str, Any], ...]]:
        """``T.allocate([extent], dtype, scope)`` with a buffer's options and ``annotations=``."""
        scope, args, keywords = "global", list(call.args), list(call.keywords)
        if len(args) == 3:
            scope = str(self.value(args.pop()))
        annotations: tuple[tuple[str, Any], ...] = ()
        for k in call.keywords:
            if k.arg == "annotations":
                annotations = self.attrs_of(k.value)
                keywords.remove(k)
        made = self.buffer_decl(call, args, keywords).make(name)
        fields = {f: getattr(made, f) for f in made.init_fields} | {"scope": scope}
        return Buffer(**fields).with_span(made.span), annotations


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
