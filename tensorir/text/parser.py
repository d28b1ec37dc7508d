"""Python text to PrimFuncs: functions of the text form.

``ast`` does the reading; ``stmt_parser`` gives its statements their meaning and ``expr_parser`` its
expressions. Nothing of the text is ever executed. What the text may leave out is restored: the root
block around a function that has blocks, the ``T.reads`` and ``T.writes`` of a block, casts of
indices to int64. The result is well-scoped by construction; the other laws are
``tensorir.verify``'s.
"""

from __future__ import annotations

import ast
import textwrap
from collections.abc import Mapping

from ...support.dtype import DType
from ...support.errors import ParseError
from ...support.node import walk
from ...support.source import Source, Span
from ..buffer import Buffer
from ..expr import Var, const
from ..function import Param, PrimFunc
from ..stmt import Block, BlockRealize, Stmt
from .stmt_parser import StmtParser
from .text_values import BufferDecl, FreshVar, Handle, describe


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


class _FuncParser(StmtParser):
    """Parses one function."""

    # -- functions ---------------------------------------------------------------------------------
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
