"""Blocks of the text form: axes, regions, predicates, annotations, and the buffers they make.

Between ``expr_parser`` and ``stmt_parser``: what stands at the head of a block (and of the
function, whose root block it is) is gathered in a ``Context`` until the block is complete.
``T.reads`` and ``T.writes`` that a text leaves out are inferred.
"""

from __future__ import annotations

import ast
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from ...support.dtype import DType
from ...support.errors import nearest
from ...support.source import Source
from ..arith import infer_regions
from ..buffer import Buffer, BufferRegion, Range
from ..expr import INDEX, Expr, IntImm, Var, sub
from ..stmt import Block, IterVar, MatchBuffer, Stmt
from .expr_parser import ExprParser
from .text_values import Alias, BufferDecl, Handle, Word, describe

_AXIS_WORDS = {f"T.axis.{kind}": kind for kind in ("spatial", "reduce", "scan", "opaque")} | {}
BLOCK_WORDS = frozenset({"T.reads", "T.writes", "T.where", "T.block_attr", "T.func_attr"})


@dataclass
class Context:
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


class BlockParser(ExprParser):
    """Parses heads of blocks. ``contexts`` are the blocks around the current statement; the first
    is the function itself.
    """

    def __init__(self, source: Source, env: Mapping[str, object]) -> None:
        super().__init__(source, env)
        self.contexts: list[Context] = [Context()]
        self.handles: dict[str, Buffer] = {}
        self.loop_ranges: dict[int, Range] = {}
        self.attrs: tuple[tuple[str, Any], ...] = ()

    # -- ranges ------------------------------------------------------------------------------------
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
        if isinstance(func, ast.Attribute) and func.attr not in ("vstore", "vload", "access_ptr"):
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

    def attrs_of(self, node: ast.expr) -> tuple[tuple[str, Any], ...]:
        value = self.value(node)
        if not isinstance(value, dict) or not all(isinstance(k, str) for k in value):
            raise self.error(node, "Expected a dict with strings as keys.")
        return tuple(value.items())

    # -- blocks ------------------------------------------------------------------------------------
    def with_regions(self, block: Block, context: Context) -> Block:
        """The block with what it reads and writes, where the text does not say it. A root block,
        which stands for the function, is left without.
        """
        if block.name == "root" and len(self.contexts) == 1:
            return block
        reads, writes = infer_regions(
            block.body,
            block.init,
            block.iter_vars,
            alloc_buffers=block.alloc_buffers,
            match_buffers=block.match_buffers,
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

    # -- axes --------------------------------------------------------------------------------------
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

    # -- buffers -----------------------------------------------------------------------------------
    def declare(self, value: ast.expr, name: str, decl: BufferDecl, *, allocates: bool) -> None:
        """A new buffer of the block, or another view of the memory of one that exists."""
        made = decl.make(name)
        if decl.data is None:
            if not allocates:
                raise self.error(
                    value,
                    "A T.Buffer in a body views memory: T.Buffer(shape, data=...). "
                    "New memory is T.alloc_buffer(shape) or T.allocate(shape, dtype, scope).",
                )
            self.contexts[-1].allocated.append(made)
            self.define(name, made)
            return
        if made.dtype is not decl.data.dtype or made.strides or decl.data.strides:
            raise self.error(
                value,
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
