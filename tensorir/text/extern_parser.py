"""Calls of functions of C in the text form, and the pointers that they take.

    T.evaluate(T.call_extern("int32", "dot16", C.access_ptr("w"), A.access_ptr("r", offset=i * 16)))
    C[i] = T.call_extern("float32", "cosf", A[i])

On top of ``block_parser``, since what a called function touches is what the block around it
declares: ``A.data`` and ``T.address_of(A[i])``, which do not say what happens to the memory, read
what T.reads has and write what T.writes has.
"""

from __future__ import annotations

import ast
import re

from ...support.dtype import DType
from ..buffer import Buffer
from ..expr import (
    INDEX,
    AccessPtr,
    BufferLoad,
    Expr,
    ExternCall,
    IntImm,
    StringImm,
    add,
    as_expr,
    const,
    mul,
)
from ..stmt import Stmt
from ..visitor import own_pointers
from .block_parser import BlockParser, Context
from .text_values import Alias, Value, describe, is_dtype_word

_SYMBOL = re.compile(r"[A-Za-z_][A-Za-z0-9_.$]*")
_MASKS = {1: "r", 2: "w", 3: "rw"}
_DEFAULTS = {"ptr_type": "handle", "content_lanes": 1, "extent": None}
"""Options of TVM's access_ptr that say nothing new here."""


class ExternParser(BlockParser):
    """Parses calls of functions of C."""

    def call_call_extern(self, node: ast.Call) -> Expr:
        """``T.call_extern(dtype, symbol, args...)``, or ``T.call_extern(symbol, args...,
        dtype=...)``."""
        args = list(node.args)
        for k in node.keywords:
            if k.arg != "dtype":
                raise self.error(k, f"There is no option {k.arg!r} here.")
            if not args or not self.is_dtype(args[0]):
                args.insert(0, k.value)
        if len(args) < 2:
            raise self.error(node, 'Expected T.call_extern("dtype", "symbol", arguments...).')
        word, symbol = self.value(args[0]), self.value(args[1])
        dtype = DType("handle") if word in ("void", "") else self.dtype(args[0])
        if not isinstance(symbol, str) or not _SYMBOL.fullmatch(symbol):
            raise self.error(args[1], "Expected the name of a function of C, a string.")
        if symbol.startswith("llvm."):
            raise self.error(args[1], "LLVM's intrinsics are no functions of C: write T.exp.")
        return ExternCall(symbol, tuple([self.foreign(a) for a in args[2:]]), dtype)

    def is_dtype(self, node: ast.expr) -> bool:
        """Whether a word in front of the symbol is the dtype of what a function gives."""
        value = self.value(node)
        text = value if isinstance(value, str) else ""
        return isinstance(value, DType) or text == "void" or is_dtype_word(text)

    call_call_pure_extern = call_call_extern

    def foreign(self, node: ast.expr) -> Expr:
        """An argument of a called function: a scalar, a string, or a pointer."""
        value = self.value(node)
        if isinstance(value, Buffer | Alias):
            return self.pointer(node, value, None, IntImm(0, INDEX))
        if isinstance(value, str):
            return StringImm(value).with_span(self.span(node))
        if isinstance(value, bool | int | float):
            return as_expr(value).with_span(self.span(node))
        if isinstance(value, Expr):
            return value
        raise self.error(
            node, f"Expected a value or a pointer, A.access_ptr(...); found {describe(value)}."
        )

    def access_ptr(self, node: ast.Call, func: ast.Attribute) -> Expr:
        """``A.access_ptr("r", offset=0)``; the mask may also be a number, 1 + 2."""
        base = self.value(func.value)
        given = dict(
            zip(("access_mask", "ptr_type", "content_lanes", "offset"), node.args, strict=False)
        )
        given |= {k.arg: k.value for k in node.keywords if k.arg is not None}
        offset: Expr = IntImm(0, INDEX)
        mask: Value = None
        for name, item in given.items():
            if name == "access_mask":
                mask = self.value(item)
            elif name == "offset":
                offset = self.index(item)
            elif name not in _DEFAULTS or self.value(item) != _DEFAULTS[name]:
                raise self.error(
                    item,
                    f"A pointer has no {name!r} here: it has access_mask and offset, and what the "
                    "function touches is said by T.reads and T.writes.",
                )
        return self.pointer(node, base, mask, offset)

    def offset_of(self, node: ast.Call, func: ast.Attribute) -> Value:
        """``A.offset_of([i, j])[0]``: how many elements behind the first an element lies."""
        (items,) = self.arguments(node, 1)
        if not isinstance(items, ast.List | ast.Tuple):
            raise self.error(items, "Expected a list of indices.")
        buffer, indices = self.access(node, self.value(func.value), items.elts)
        total: Expr = IntImm(0, INDEX)
        for i, stride in zip(indices, buffer.all_strides, strict=True):
            total = add(total, mul(i, stride))
        return (total,)

    def call_address_of(self, node: ast.Call) -> Expr:
        """``T.address_of(A[i, j])``, with a mask and an offset as access_ptr has them."""
        if not node.args:
            raise self.error(node, "Expected T.address_of(A[i]).")
        element = self.value(node.args[0])
        if isinstance(element, Buffer):
            return self.pointer(node, element, None, IntImm(0, INDEX))
        if not isinstance(element, BufferLoad):
            raise self.error(node.args[0], f"Expected an element, found {describe(element)}.")
        mask = self.value(node.args[1]) if len(node.args) > 1 else None
        offset: Expr = IntImm(0, INDEX)
        for k in node.keywords:
            if k.arg != "offset":
                raise self.error(k, f"There is no option {k.arg!r} here.")
            offset = self.index(k.value)
        return AccessPtr(element, offset, self.mask(node, element.buffer, mask))

    def call_assume(self, node: ast.Call) -> Expr:
        """``T.assume(condition)``: a promise that nothing here relies on."""
        (condition,) = self.arguments(node, 1)
        self.boolean(condition, self.value(condition))
        return IntImm(0, INDEX)

    def call_type_annotation(self, node: ast.Call) -> Value:
        return self.dtype(self.arguments(node, 1)[0])

    def call_tvm_access_ptr(self, node: ast.Call) -> Expr:
        """``T.tvm_access_ptr(dtype, A.data, offset, extent, mask)``, as TVM prints access_ptr."""
        _, data, offset, _, mask = self.arguments(node, 5)
        return self.pointer(node, self.value(data), self.value(mask), self.index(offset))

    def pointer(self, node: ast.expr, base: Value, mask: Value, offset: Expr) -> Expr:
        if isinstance(base, Alias):
            base = base.target
        if not isinstance(base, Buffer):
            raise self.error(node, f"Expected a buffer, found {describe(base)}.")
        first = BufferLoad(base, tuple([const(0, INDEX) for _ in base.shape]))
        return AccessPtr(first.with_span(self.span(node)), offset, self.mask(node, base, mask))

    def mask(self, node: ast.expr, buffer: Buffer, mask: Value) -> str:
        """ "r", "w" or "rw": as it is given, or as the block around declares. A function that is
        handed a buffer to write, which the block declares to read too, updates it."""
        if isinstance(mask, IntImm):
            mask = mask.value
        context = self.contexts[-1]
        sources = {m.buffer: m.source.buffer for m in context.matched}
        source = sources.get(buffer, buffer)
        declared = ""
        for letter, regions in (("r", context.reads), ("w", context.writes)):
            declared += letter if any(r.buffer is source for r in regions or ()) else ""
        if mask is not None:
            found = _MASKS.get(mask, mask) if isinstance(mask, int) else mask
            if found not in _MASKS.values():
                raise self.error(node, f'An access mask is "r", "w" or "rw"; found {mask!r}.')
            return declared if found == "w" and declared == "rw" else str(found)
        if not declared:
            raise self.error(
                node,
                f"Nothing says what the function does with {buffer.name!r}: write "
                f'{buffer.name}.access_ptr("r"), "w" or "rw", or name it in T.reads and T.writes '
                "of the block, before this.",
            )
        return declared

    def require_declared(self, node: ast.AST, body: Stmt, context: Context) -> None:
        """A block whose body calls functions with pointers says what it reads and writes: nobody
        else knows."""
        called = own_pointers(body)
        if called and (context.reads is None or context.writes is None):
            names = ", ".join(dict.fromkeys(repr(p.buffer.name) for p in called))
            raise self.error(
                node,
                f"A function is called with a pointer to {names}, and what it reads and writes "
                "there cannot be found: declare both, T.reads(...) and T.writes(...), in this "
                "block.",
            )


__all__ = ["ExternParser"]
