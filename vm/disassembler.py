"""Program text both ways: ``print_program`` and ``parse_program``.

The text is Python syntax, so the parser is ``ast`` and errors have a caret. Constants and objects
print as their hashes; their contents travel beside the text and are given back to
``parse_program``.

    target({"cpu": "znver4"})
    constant("sha256:2c26b46b...", float32[128, 784])
    object("sha256:fcde2b2e...", 5312)
    kernel("relu0", symbol="relu0", params=[("x", float32[m, 4]), ("y", float32[m, 4])],
        outputs=(1,), dims=("m",), shared_bytes="0", thread_bytes="0", inplace=False)

    with function("main", params=[("x", float32[m, 4])], result=float32[m, 4], registers=2,
    dims=("m",)):
        call("builtin:match_shape", r0)
        r1 = call("builtin:alloc_tensor", ("m", "4"), "float32")
        call("kernel:relu0", r0, r1, dims=("m",))
        ret(r1)

``parse_program(print_program(p), ...)`` equals ``p``. Nothing of the text is ever evaluated.
"""

from __future__ import annotations

import ast
import hashlib
import math
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np

from ..support.dtype import DType
from ..support.errors import ParseError, VMError
from ..support.source import Source, Span
from .assembler import FunctionBuilder, Label
from .program import (
    Arg,
    Call,
    Const,
    Goto,
    If,
    Imm,
    Instruction,
    Kernel,
    Param,
    Program,
    Reg,
    ResultSpec,
    Ret,
    TensorSpec,
    VMFunction,
    verify_program,
)
from .tensor import Tensor, dtype_of, wrap


# -- hashes ---------------------------------------------------------------------------------------
def constant_hash(value: object) -> str:
    """The name of a constant: a hash of its dtype, shape and bytes."""
    tensor = _tensor(value)
    digest = hashlib.sha256(f"{tensor.dtype}{tensor.shape}".encode())
    digest.update(np.ascontiguousarray(tensor.data).data)
    return f"sha256:{digest.hexdigest()[:32]}"


def object_hash(image: bytes) -> str:
    """The name of an object file."""
    return f"sha256:{hashlib.sha256(image).hexdigest()[:32]}"


def _tensor(value: object) -> Tensor:
    if isinstance(value, Tensor):
        return value
    if isinstance(value, np.ndarray):
        return wrap(value, dtype_of(value))
    raise VMError(f"A constant is an array or a tensor, not {type(value).__name__}.")


# -- printing -------------------------------------------------------------------------------------
def print_program(program: Program) -> str:
    """The program as text."""
    lines: list[str] = []
    if program.target:
        lines.append(f"target({_literal(program.target)})")
    for value in program.constants:
        tensor = _tensor(value)
        spec = TensorSpec(tuple(map(str, tensor.shape)), str(tensor.dtype))
        lines.append(f'constant("{constant_hash(value)}", {_spec(spec)})')
    lines += [f'object("{object_hash(image)}", {len(image)})' for image in program.objects]
    lines += [_kernel(k) for k in program.kernels.values()]
    for function in program.functions.values():
        lines += ["", print_function(function)]
    return "\n".join(lines).lstrip("\n") + "\n"


def print_function(function: VMFunction) -> str:
    """One function as text, jumps as labels."""
    targets: dict[int, str] = {}
    for position, instruction in enumerate(function.instructions):
        match instruction:
            case Goto(offset) | If(_, offset):
                targets[position + offset] = ""
            case Call() | Ret():
                pass
    for number, position in enumerate(sorted(targets)):
        targets[position] = f"L{number}"
    lines = [
        f"with function({_literal(function.name)}, params={_params(function.params)}, "
        f"result={_result(function.result)}, registers={function.num_registers}, "
        f"dims={_literal(function.dim_names)}):"
    ]
    for position, instruction in enumerate(function.instructions):
        if position in targets:
            lines.append(f"    label({targets[position]})")
        lines.append(f"    {_instruction(instruction, position, targets)}")
    return "\n".join(lines)


def _instruction(instruction: Instruction, position: int, targets: Mapping[int, str]) -> str:
    match instruction:
        case Call(dst, func, args, dims):
            parts = [_literal(func), *[_arg(a) for a in args]]
            if dims:
                parts.append(f"dims={_literal(dims)}")
            head = f"r{dst} = " if dst >= 0 else ""
            return f"{head}call({', '.join(parts)})"
        case Ret(value):
            return f"ret({_arg(value)})"
        case Goto(offset):
            return f"goto({targets[position + offset]})"
        case If(condition, offset):
            return f"branch(r{condition}, {targets[position + offset]})"


def _kernel(k: Kernel) -> str:
    return (
        f"kernel({_literal(k.name)}, symbol={_literal(k.symbol)}, params={_params(k.params)}, "
        f"outputs={_literal(k.outputs)}, dims={_literal(k.dims)}, "
        f"shared_bytes={_literal(k.shared_bytes)}, thread_bytes={_literal(k.thread_bytes)}, "
        f"inplace={k.inplace})"
    )


def _params(params: Iterable[Param]) -> str:
    return f"[{', '.join([f'({_literal(p.name)}, {_spec(p.spec)})' for p in params])}]"


def _spec(spec: TensorSpec) -> str:
    return f"{spec.dtype}[{', '.join(spec.shape) or '()'}]"


def _result(result: ResultSpec) -> str:
    if isinstance(result, TensorSpec):
        return _spec(result)
    return f"[{', '.join([_result(r) for r in result])}]"


def _arg(arg: Arg) -> str:
    match arg:
        case Reg(index):
            return f"r{index}"
        case Const(index):
            return f"c{index}"
        case Imm(value):
            return _literal(value)


def _literal(value: object) -> str:
    match value:
        case str():
            # Double quotes, as the formatter has them; repr still escapes what needs it.
            text = repr(value)
            return f'"{text[1:-1]}"' if text[0] == "'" and '"' not in text else text
        case float() if not math.isfinite(value):
            return f'float("{value}")'
        case tuple():
            return f"({', '.join([_literal(v) for v in value])}{',' if len(value) == 1 else ''})"
        case list():
            return f"[{', '.join([_literal(v) for v in value])}]"
        case dict():
            return (
                "{" + ", ".join([f"{_literal(k)}: {_literal(v)}" for k, v in value.items()]) + "}"
            )
        case bool() | int() | float() | None:
            return repr(value)
        case _:
            raise VMError(f"A program text cannot hold a {type(value).__name__}.")


# -- parsing --------------------------------------------------------------------------------------
def parse_program(
    text: str,
    constants: Mapping[str, object] | None = None,
    objects: Mapping[str, bytes] | None = None,
    *,
    name: str = "<program>",
) -> Program:
    """Read a program's text; ``constants`` and ``objects`` give contents by hash.

    Raises ParseError with the guilty columns, and VMError for a hash that was not given or for a
    program that ``verify_program`` refuses.
    """
    try:
        tree = ast.parse(text, name)
    except SyntaxError as error:
        source = Source(name, text)
        line, column = error.lineno or 1, max(0, (error.offset or 1) - 1)
        raise ParseError(error.msg, Span(source, line, column, line, column + 1)) from None
    program = _Parser(Source(name, text), constants or {}, objects or {}).program(tree)
    verify_program(program)
    return program


class _Parser:
    def __init__(
        self, source: Source, constants: Mapping[str, object], objects: Mapping[str, bytes]
    ) -> None:
        self.source, self.constants, self.objects = source, constants, objects
        self.lines = source.text.splitlines()

    def error(self, n: ast.AST, message: str) -> ParseError:
        line, column = getattr(n, "lineno", 1), getattr(n, "col_offset", 0)
        end = (getattr(n, "end_lineno", line), getattr(n, "end_col_offset", column + 1))
        return ParseError(message, Span(self.source, line, column, *end))

    def program(self, tree: ast.Module) -> Program:
        result = Program()
        for s in tree.body:
            match s:
                case ast.Expr(value=ast.Call(func=ast.Name(id="target"), args=[table])):
                    result.target = dict(self.literal(table))
                case ast.Expr(value=ast.Call(func=ast.Name(id="constant"), args=[key, spec])):
                    result.constants.append(self.constant(key, spec))
                case ast.Expr(value=ast.Call(func=ast.Name(id="object"), args=[key, _])):
                    result.objects.append(self.object(key))
                case ast.Expr(value=ast.Call(func=ast.Name(id="kernel"), args=[title]) as call):
                    kernel = self.kernel(self.literal(title), self.keywords(call))
                    result.kernels[kernel.name] = kernel
                case ast.With(items=[ast.withitem(context_expr=ast.Call() as head)]):
                    function = self.function(head, s.body)
                    result.functions[function.name] = function
                case _:
                    raise self.error(
                        s, "expected target, constant, object, kernel or `with function(...)`"
                    )
        return result

    def constant(self, key: ast.expr, spec: ast.expr) -> object:
        name = self.literal(key)
        if name not in self.constants:
            raise VMError(
                f"The program needs the constant {name}, {ast.unparse(spec)}; pass it to "
                "parse_program(text, constants={...})."
            )
        value = _tensor(self.constants[name])
        expected = self.spec(spec)
        found = TensorSpec(tuple(map(str, value.shape)), str(value.dtype))
        if found != expected:
            raise VMError(
                f"The constant {name} is {_spec(found)}; the program has {_spec(expected)}."
            )
        return self.constants[name]

    def object(self, key: ast.expr) -> bytes:
        name = self.literal(key)
        if name not in self.objects:
            raise VMError(
                f"The program needs the object {name}; pass it to "
                "parse_program(text, objects={...})."
            )
        return self.objects[name]

    def keywords(self, call: ast.Call) -> dict[str, ast.expr]:
        return {k.arg: k.value for k in call.keywords if k.arg is not None}

    def kernel(self, name: str, given: dict[str, ast.expr]) -> Kernel:
        fields = {k: self.literal(v) for k, v in given.items() if k != "params"}
        allowed = {"symbol", "outputs", "dims", "shared_bytes", "thread_bytes", "inplace"}
        for key in fields:
            if key not in allowed:
                raise self.error(given[key], f"a kernel has no {key!r}")
        return Kernel(name=name, params=self.params(given["params"]), **fields)

    def params(self, n: ast.expr) -> tuple[Param, ...]:
        if not isinstance(n, ast.List):
            raise self.error(n, "expected a list of (name, type)")
        result: list[Param] = []
        for item in n.elts:
            match item:
                case ast.Tuple(elts=[title, spec]):
                    result.append(Param(self.literal(title), self.spec(spec)))
                case _:
                    raise self.error(item, "expected (name, type)")
        return tuple(result)

    def spec(self, n: ast.expr) -> TensorSpec:
        match n:
            case ast.Subscript(value=ast.Name(id=dtype), slice=ast.Tuple(elts=dims)):
                return TensorSpec(tuple([self.text(d) for d in dims]), str(DType(dtype)))
            case ast.Subscript(value=ast.Name(id=dtype), slice=one):
                return TensorSpec((self.text(one),), str(DType(dtype)))
        raise self.error(n, "expected a tensor type, as float32[m, 4]")

    def text(self, n: ast.expr) -> str:
        """The source of an expression exactly as written: shape texts compare as text."""
        line = self.lines[n.lineno - 1].encode()
        return line[n.col_offset : n.end_col_offset].decode()

    def result(self, n: ast.expr) -> ResultSpec:
        if isinstance(n, ast.List):
            return tuple([self.result(e) for e in n.elts])
        return self.spec(n)

    def function(self, head: ast.Call, body: Sequence[ast.stmt]) -> VMFunction:
        given = self.keywords(head)
        if not (
            isinstance(head.func, ast.Name) and head.func.id == "function" and len(head.args) == 1
        ):
            raise self.error(head, "expected `with function(name, ...)`")
        for key in ("params", "result", "registers", "dims"):
            if key not in given:
                raise self.error(head, f"the function's {key} are missing")
        builder = FunctionBuilder(
            self.literal(head.args[0]),
            self.params(given["params"]),
            self.result(given["result"]),
            self.literal(given["dims"]),
        )
        registers = self.literal(given["registers"])
        for _ in range(registers - len(builder.params)):
            builder.register()
        labels: dict[str, Label] = {}
        for s in body:
            self.instruction(builder, s, labels)
        return builder.finish()

    def instruction(self, f: FunctionBuilder, s: ast.stmt, labels: dict[str, Label]) -> None:
        def label(name: str) -> Label:
            return labels.setdefault(name, f.label(name))

        match s:
            case ast.Expr(value=ast.Call(func=ast.Name(id="call")) as call):
                self.call(f, call, None)
            case ast.Assign(
                targets=[ast.Name(id=dst)], value=ast.Call(func=ast.Name(id="call")) as call
            ):
                self.call(f, call, Reg(self.index(s, dst, "r")))
            case ast.Expr(value=ast.Call(func=ast.Name(id="ret"), args=[value])):
                f.ret(self.arg(value))
            case ast.Expr(value=ast.Call(func=ast.Name(id="label"), args=[ast.Name(id=name)])):
                f.place(label(name))
            case ast.Expr(value=ast.Call(func=ast.Name(id="goto"), args=[ast.Name(id=name)])):
                f.goto(label(name))
            case ast.Expr(
                value=ast.Call(
                    func=ast.Name(id="branch"), args=[ast.Name(id=register), ast.Name(id=name)]
                )
            ):
                f.branch(Reg(self.index(s, register, "r")), label(name))
            case _:
                raise self.error(s, "expected call, ret, label, goto or branch")

    def call(self, f: FunctionBuilder, call: ast.Call, dst: Reg | None) -> None:
        if not call.args:
            raise self.error(call, "expected call(function, arguments...)")
        dims = self.literal(self.keywords(call).get("dims", ast.Tuple(elts=[])))
        args = [self.arg(a) for a in call.args[1:]]
        f.call(self.literal(call.args[0]), args, dst=dst, dims=dims)

    def arg(self, n: ast.expr) -> Arg:
        if isinstance(n, ast.Name):
            kind = Const if n.id.startswith("c") else Reg
            return kind(self.index(n, n.id, "c" if kind is Const else "r"))
        return Imm(self.literal(n))

    def index(self, n: ast.AST, name: str, letter: str) -> int:
        if name[:1] != letter or not name[1:].isdigit():
            raise self.error(
                n, f"expected a register r0, r1, ... or a constant c0, c1, ...; found {name!r}"
            )
        return int(name[1:])

    def literal(self, n: ast.expr) -> Any:
        match n:
            case ast.Constant(value=value):
                return value
            case ast.Tuple(elts=items):
                return tuple([self.literal(i) for i in items])
            case ast.List(elts=items):
                return [self.literal(i) for i in items]
            case ast.Dict(keys=keys, values=values):
                return {
                    self.literal(k): self.literal(v)
                    for k, v in zip(keys, values, strict=True)
                    if k is not None
                }
            case ast.UnaryOp(op=ast.USub(), operand=ast.Constant(value=int() | float() as value)):
                return -value
            case ast.Call(func=ast.Name(id="float"), args=[ast.Constant(value=str() as value)]):
                return float(value)
        raise self.error(n, "expected a literal")
