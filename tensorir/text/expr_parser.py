"""The words of ``T`` that give a value: casts, intrinsics, literals of a dtype, declarations.

On top of ``value_parser``; ``block_parser`` and ``stmt_parser`` stand on this.
"""

from __future__ import annotations

import ast
from types import FunctionType
from typing import Any

import numpy as np

from ...support.dtype import DType
from ...support.errors import BurnishError, DTypeError, nearest
from .. import expr as e
from ..buffer import SCOPES, Buffer, is_scope
from ..expr import BOOL, INDEX, Expr, IntImm, Var, const, paired, sub
from ..intrinsics import INTRINSICS, call_intrin
from .text_values import (
    DTYPE_WORDS,
    ELSEWHERE,
    INTRINSIC_ALIASES,
    NODE_WORDS,
    BufferDecl,
    FreshVar,
    Value,
    Word,
    describe,
)
from .value_parser import ValueParser

_BUFFER_OPTIONS = ("shape", "dtype", "data", "strides", "elem_offset", "scope", "align")
_METHODS = ("vload", "astype", "access_ptr", "offset_of")
"""What is called as ``A.name(...)``."""
_NEUTRAL: dict[str, tuple[object, ...]] = {
    "buffer_type": ("", "default"),
    "axis_separators": (None, ()),
}
"""Options of TVM's buffers whose defaults change nothing."""


class ExprParser(ValueParser):
    """Parses expressions, and what declares a buffer."""

    # -- calls -------------------------------------------------------------------------------------
    def value_Call(self, node: ast.Call) -> Value:  # noqa: N802
        if isinstance(node.func, ast.Attribute) and node.func.attr in _METHODS:
            return getattr(self, node.func.attr)(node, node.func)
        if isinstance(node.func, ast.Name) and node.func.id == "float" and len(node.args) == 1:
            return float(self.value(node.args[0]))
        helper = self.helper(node.func)
        if helper is not None:
            return self.helped(node, helper)
        callee = self.value(node.func)
        if isinstance(callee, DType):
            return self.typed(node, callee)
        if not isinstance(callee, Word):
            raise self.error(
                node.func,
                f"Expected a word of T, found {describe(callee)}, which cannot be called here.",
            )
        word = callee.path.removeprefix("T.")
        method = getattr(self, f"call_{word.replace('.', '_')}", None)
        if method is not None:
            return method(node)
        return self.intrinsic(node, word)

    def helper(self, func: ast.expr) -> FunctionType | None:
        """The function of the surrounding Python program that a name stands for."""
        if not isinstance(func, ast.Name) or self.lookup(func.id) is not None:
            return None
        found = self.env.get(func.id)
        return found if isinstance(found, FunctionType) else None

    def helped(self, node: ast.Call, helper: FunctionType) -> Value:
        """What a Python function makes of values: it runs now, and its expression stands here."""
        args = [self.operand(a) for a in node.args]
        options = {k.arg: self.operand(k.value) for k in node.keywords if k.arg is not None}
        name = helper.__name__
        try:
            made = helper(*args, **options)
        except BurnishError as error:
            raise self.error(node, f"The Python function {name!r}: {error.message}") from error
        except (ArithmeticError, AttributeError, LookupError, TypeError, ValueError) as error:
            found = f"The Python function {name!r} fails here: {type(error).__name__}: {error}."
            raise self.error(node, found) from error
        if isinstance(made, e.Equality):
            made = made.as_expr()
        if isinstance(made, Expr | bool | int | float):
            return made
        raise self.error(
            node,
            f"The Python function {name!r} gives {type(made).__name__}; expected an expression "
            "or a number. Inside of it values are those of te: te.exp(x), te.select(...).",
        )

    def intrinsic(self, node: ast.Call, word: str) -> Expr:
        if word in ELSEWHERE:
            raise self.error(node.func, f"T.{word} is not part of PrimFuncs. {ELSEWHERE[word]}")
        declared = next((k for k in node.keywords if k.arg == "dtype"), None)
        if declared is not None:  # as programs of TVM say the dtype of what a function gives
            bare = ast.Call(node.func, node.args, [k for k in node.keywords if k is not declared])
            made = self.intrinsic(ast.copy_location(bare, node), word)
            if made.dtype is not self.dtype(declared.value):
                raise self.error(declared, f"T.{word} gives {made.dtype} here.")
            return made
        self.no_keywords(node)
        if word in NODE_WORDS:
            a, b = paired(*[self.operand(a) for a in self.arguments(node, 2)])
            return NODE_WORDS[word](a, b)  # type: ignore[call-arg]
        name = INTRINSIC_ALIASES.get(word, word)
        if name not in INTRINSICS:
            known = [*INTRINSICS, *NODE_WORDS, *DTYPE_WORDS]
            known += [m.removeprefix("call_") for m in dir(self) if m.startswith("call_")]
            raise self.error(
                node.func, f"T has no {word!r} that gives a value.{nearest(word, known)}"
            )
        return call_intrin(name, *[self.operand(a) for a in node.args])

    def operand(self, node: ast.expr) -> Expr | int | float | bool:
        value = self.value(node)
        if isinstance(value, Expr | bool | int | float):
            return value
        raise self.error(node, f"Expected a value, found {describe(value)}.")

    def no_keywords(self, node: ast.Call) -> None:
        if node.keywords:
            raise self.error(node.keywords[0], f"There is no option {node.keywords[0].arg!r} here.")

    def arguments(self, node: ast.Call, count: int) -> list[ast.expr]:
        if len(node.args) != count:
            raise self.error(
                node,
                f"Expected {count} argument{'s' if count != 1 else ''}, found {len(node.args)}.",
            )
        return node.args

    def named_arguments(self, node: ast.Call, names: tuple[str, ...]) -> list[ast.expr]:
        """One argument for each name, in this order, given by place or by name."""
        given = dict(zip(names, node.args, strict=False))
        for k in node.keywords:
            if k.arg not in names or k.arg in given:
                raise self.error(k, f"There is no option {k.arg!r} here.")
            given[k.arg] = k.value
        found = len(node.args) + len(node.keywords)
        if found != len(names):
            word = f"argument{'s' if len(names) != 1 else ''}"
            raise self.error(node, f"Expected {len(names)} {word}, found {found}.")
        return [given[name] for name in names]

    def typed(self, node: ast.Call, dtype: DType) -> Value:
        """``T.float32(0)``, ``T.float32("inf")``, ``T.int64(x)`` (a cast), ``T.int64()`` (a fresh
        Var).
        """
        odd = next((k for k in node.keywords if k.arg != "is_size_var"), None)
        if odd is not None:
            raise self.error(odd, f"There is no option {odd.arg!r} here.")
        if dtype == "handle":
            # What a handle points to is said by its T.match_buffer.
            return dtype
        if not node.args:
            return FreshVar(dtype)
        value = self.value(self.arguments(node, 1)[0])
        if isinstance(value, str):
            return const(float(value), dtype)
        if isinstance(value, Expr):
            return (
                value
                if value.dtype is dtype
                else e.Cast(dtype.with_lanes(value.dtype.lanes), value)
            )
        return const(value, dtype)

    def dtype(self, node: ast.expr) -> DType:
        value = self.value(node)
        if isinstance(value, DType):
            return value
        if isinstance(value, str):
            try:
                return DType(value)
            except DTypeError as error:
                raise self.error(node, error.message) from None
        raise self.error(node, f"Expected a dtype, found {describe(value)}.")

    def number(self, node: ast.expr) -> int:
        value = self.value(node)
        if isinstance(value, IntImm):
            return value.value
        if isinstance(value, int):
            return value
        raise self.error(node, f"Expected an integer known while parsing, found {describe(value)}.")

    def value_Subscript(self, node: ast.Subscript) -> Value:  # noqa: N802
        base = self.value(node.value)
        if isinstance(base, Word) and base.path == "T.Buffer":
            items = node.slice.elts if isinstance(node.slice, ast.Tuple) else [node.slice]
            return self.buffer_decl(node, items, [])
        return super().value_Subscript(node)

    # -- words -------------------------------------------------------------------------------------
    def call_var(self, node: ast.Call) -> FreshVar:
        """``T.var("int64")``, as older programs write ``T.int64()``."""
        return FreshVar(self.dtype(self.arguments(node, 1)[0]) if node.args else INDEX)

    def call_ceildiv(self, node: ast.Call) -> Expr:
        a, b = paired(*[self.operand(a) for a in self.arguments(node, 2)])
        return e.FloorDiv(e.Add(a, sub(b, 1)), b)

    def call_truncmod(self, node: ast.Call) -> Expr:
        a, b = paired(*[self.operand(a) for a in self.arguments(node, 2)])
        if a.dtype.is_float:
            return call_intrin("fmod", a, b)
        return e.Sub(a, e.Mul(e.Div(a, b), b))

    def call_any(self, node: ast.Call) -> Expr:
        return self.joined(node, e.Or)

    def call_all(self, node: ast.Call) -> Expr:
        return self.joined(node, e.And)

    def joined(self, node: ast.Call, build: type[e.And] | type[e.Or]) -> Expr:
        """Conditions joined from the left; of one, itself."""
        if not node.args:
            raise self.error(node, "Expected one condition, or several.")
        self.no_keywords(node)
        first, *rest = [self.boolean(a, self.value(a)) for a in node.args]
        for condition in rest:
            first = build(first, condition)
        return first

    def call_Cast(self, node: ast.Call) -> Expr:  # noqa: N802
        dtype, value = self.named_arguments(node, ("dtype", "value"))
        return e.Cast(self.dtype(dtype), self.expr(value))

    def call_cast(self, node: ast.Call) -> Expr:
        value, dtype = self.named_arguments(node, ("value", "dtype"))
        return e.Cast(self.dtype(dtype), self.expr(value))

    def astype(self, node: ast.Call, func: ast.Attribute) -> Expr:
        """``value.astype("float16")``, as te writes a conversion."""
        (dtype,) = self.named_arguments(node, ("dtype",))
        return e.cast(self.expr(func.value), self.dtype(dtype))

    def call_reinterpret(self, node: ast.Call) -> Expr:
        dtype, value = self.arguments(node, 2)
        return call_intrin("reinterpret", self.expr(value), dtype=self.dtype(dtype))

    def call_Select(self, node: ast.Call) -> Expr:  # noqa: N802
        condition, a, b = self.arguments(node, 3)
        pair = paired(self.operand(a), self.operand(b))
        return e.Select(self.boolean(condition, self.value(condition)), *pair)

    def call_Not(self, node: ast.Call) -> Expr:  # noqa: N802
        (a,) = self.arguments(node, 1)
        return e.Not(self.boolean(a, self.value(a)))

    def call_Ramp(self, node: ast.Call) -> Expr:  # noqa: N802
        base, stride, lanes = self.arguments(node, 3)
        return e.Ramp(*paired(self.operand(base), self.operand(stride)), self.number(lanes))

    def call_Broadcast(self, node: ast.Call) -> Expr:  # noqa: N802
        value, lanes = self.arguments(node, 2)
        return e.Broadcast(self.expr(value), self.number(lanes))

    def call_Let(self, node: ast.Call) -> Expr:  # noqa: N802
        (body,) = self.arguments(node, 1)
        where = next((k.value for k in node.keywords if k.arg == "where"), None)
        if (
            not isinstance(where, ast.Dict)
            or len(where.keys) != 1
            or not isinstance(where.keys[0], ast.Name)
        ):
            raise self.error(node, "Expected T.Let(body, where={name: value}).")
        value = self.expr(where.values[0])
        var = Var(where.keys[0].id, value.dtype).with_span(self.span(where.keys[0]))
        with self.scope():
            self.define(var.name, var)
            return e.Let(var, value, self.expr(body))

    def call_min_value(self, node: ast.Call) -> Expr:
        return self.extreme(node, -1)

    def call_max_value(self, node: ast.Call) -> Expr:
        return self.extreme(node, 1)

    def extreme(self, node: ast.Call, sign: int) -> Expr:
        """The largest or smallest finite value of a dtype."""
        dtype = self.dtype(self.arguments(node, 1)[0])
        if dtype is DType("bfloat16"):
            return const(sign * 3.3895313892515355e38, dtype)
        if dtype.is_float:
            return const(sign * float(np.finfo(dtype.to_numpy()).max), dtype)
        return e.min_value(dtype) if sign < 0 else e.max_value(dtype)

    def call_infinity(self, node: ast.Call) -> Expr:
        return const(float("inf"), self.dtype(self.arguments(node, 1)[0]))

    def vload(self, node: ast.Call, func: ast.Attribute) -> Expr:
        """``A.vload([indices], predicate=lanes)``."""
        (items,) = self.arguments(node, 1)
        if not isinstance(items, ast.List | ast.Tuple):
            raise self.error(items, "Expected a list of indices.")
        buffer, indices = self.access(node, self.value(func.value), items.elts)
        predicate = next((self.expr(k.value) for k in node.keywords if k.arg == "predicate"), None)
        return e.BufferLoad(buffer, indices, predicate)

    # -- declarations ------------------------------------------------------------------------------
    def call_Buffer(self, node: ast.Call) -> BufferDecl:  # noqa: N802
        return self.buffer_decl(node, node.args, node.keywords)

    call_alloc_buffer = call_Buffer

    call_decl_buffer = call_Buffer

    def buffer_decl(
        self, node: ast.expr, args: list[ast.expr], keywords: list[ast.keyword]
    ) -> BufferDecl:
        """``(shape, dtype="float32", data=, strides=, elem_offset=, scope=, align=)``."""
        given = dict(zip(("shape", "dtype"), args, strict=False))
        given |= {k.arg: k.value for k in keywords if k.arg is not None}
        if "shape" not in given or len(args) > 2:
            raise self.error(node, "Expected a shape and a dtype.")
        for option, text in given.items():
            if option == "offset_factor":
                self.number(text)  # a promise about the offset, which nothing here relies on
            elif option in _NEUTRAL:
                if self.value(text) not in _NEUTRAL[option]:
                    raise self.error(
                        text,
                        f"A buffer has the {option} that its shape, strides and elem_offset give: "
                        f"leave {option} out.",
                    )
            elif option not in _BUFFER_OPTIONS:
                raise self.error(
                    text, f"A buffer has no option {option!r}.{nearest(option, _BUFFER_OPTIONS)}"
                )
        data = self.value(given["data"]) if "data" in given else None
        if data is not None and not isinstance(data, Buffer):
            raise self.error(
                given["data"], f"Expected the data of a buffer, found {describe(data)}."
            )
        default = data.dtype if data is not None else DType("float32")
        shape = self.dims(given["shape"])
        dtype = self.dtype(given["dtype"]) if "dtype" in given else default
        scope = self.storage_scope(given["scope"]) if "scope" in given else "global"
        strides = self.dims(given["strides"]) if "strides" in given else ()
        offset = self.dim(given["elem_offset"]) if "elem_offset" in given else IntImm(0, INDEX)
        align = self.number(given["align"]) if "align" in given else 0
        span = self.span(node)

        def make(name: str) -> Buffer:
            return Buffer(name, shape, dtype, scope, strides, offset, align).with_span(span)

        return BufferDecl(make, data)

    def storage_scope(self, node: ast.expr) -> str:
        scope = str(self.value(node))
        if not is_scope(scope):
            raise self.error(
                node,
                f"Expected a scope of {', '.join(SCOPES)}, or one of these with a tag, "
                f"'global.tag'; found {scope!r}. The others belong to other devices; write 'local' "
                "for one thread's memory.",
            )
        return scope

    def dims(self, node: ast.expr) -> tuple[Expr, ...]:
        if isinstance(node, ast.Tuple | ast.List):
            return tuple([self.dim(d) for d in node.elts])
        value = self.value(node)
        if isinstance(value, tuple):
            return tuple([self.as_dim(node, v) for v in value])
        return (self.as_dim(node, value),)

    def dim(self, node: ast.expr) -> Expr:
        return self.as_dim(node, self.value(node))

    def as_dim(self, node: ast.expr, value: Value) -> Expr:
        """A dimension as int64; in a string, names that are not known yet are symbolic dims."""
        if isinstance(value, str):
            value = self.symbolic_dim(node, value)
        if isinstance(value, int | float) and not isinstance(value, bool) and value == int(value):
            return IntImm(int(value), INDEX).with_span(self.span(node))
        if isinstance(value, Expr) and value.dtype.is_integer and value.dtype.lanes == 1:
            if value.dtype is INDEX:
                return value
            if isinstance(value, IntImm):
                return IntImm(value.value, INDEX).with_span(self.span(node))
            return e.Cast(INDEX, value).with_span(self.span(node))
        raise self.error(node, f"Expected a dimension, found {describe(value)}.")

    def symbolic_dim(self, node: ast.expr, text: str) -> Value:
        try:
            tree = ast.parse(text.strip(), mode="eval").body
        except SyntaxError:
            raise self.error(node, f"The dimension {text!r} is not an expression.") from None
        for n in ast.walk(tree):
            # Everything in the string is reported at the string.
            ast.copy_location(n, node)
            if isinstance(n, ast.Name) and n.id != "T" and self.lookup(n.id) is None:
                self.scopes[0][n.id] = Var(n.id, INDEX).with_span(self.span(node))
        return self.value(tree)

    # -- attributes --------------------------------------------------------------------------------
    def value_Dict(self, node: ast.Dict) -> Value:  # noqa: N802
        return {
            self.value(k): self.attr(v)
            for k, v in zip(node.keys, node.values, strict=True)
            if k is not None
        }

    def attr(self, node: ast.expr) -> Any:
        """A value of an attribute: plain Python, constants of the IR included."""
        value = self.value(node)
        return self.plain(node, value)

    def plain(self, node: ast.expr, value: Value) -> Any:
        if isinstance(value, IntImm | e.FloatImm):
            return bool(value.value) if value.dtype is BOOL else value.value
        if isinstance(value, tuple):
            return [self.plain(node, v) for v in value]
        if value is None or isinstance(value, bool | int | float | str | dict):
            return value
        raise self.error(node, f"An attribute holds plain Python values, not {describe(value)}.")
