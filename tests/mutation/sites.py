"""The mutants of a Python file: small changes of its meaning, as edits of its text.

A mutant replaces one span of the source, so that everything else stays as it is written. Left alone
is what no behaviour depends on (annotations, docstrings, messages of errors) or what Python does
not give places for (the inside of f-strings).
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from dataclasses import dataclass, replace

COMPARED: dict[type[ast.cmpop], str] = {
    ast.Lt: "<=",
    ast.LtE: "<",
    ast.Gt: ">=",
    ast.GtE: ">",
    ast.Eq: "!=",
    ast.NotEq: "==",
    ast.Is: "is not",
    ast.IsNot: "is",
    ast.In: "not in",
    ast.NotIn: "in",
}
OPERATORS: dict[type[ast.operator], str] = {
    ast.Add: "-",
    ast.Sub: "+",
    ast.Mult: "+",
    ast.Div: "*",
    ast.FloorDiv: "*",
    ast.Mod: "//",
    ast.BitAnd: "|",
    ast.BitOr: "&",
}
OTHER_NAME = {"any": "all", "all": "any", "min": "max", "max": "min"}


@dataclass(frozen=True)
class Mutant:
    """One change: ``text[begin:end]`` becomes ``new``. ``line`` to ``last`` run it, and ``where``
    is the function it is in; with ``nth`` it is told from the same change elsewhere in it."""

    file: str
    where: str
    kind: str
    line: int
    last: int
    begin: int
    end: int
    old: str
    new: str
    nth: int = 0

    @property
    def key(self) -> str:
        """What names the mutant as long as the code around it moves only."""
        old, new = (" ".join(part.split()) for part in (self.old, self.new))
        return f"{self.file} {self.where} {self.kind} `{old}` -> `{new}` #{self.nth}"

    def apply(self, text: str) -> str:
        """The text of the file with the change made."""
        return text[: self.begin] + self.new + text[self.end :]


class _Finder:
    def __init__(self, file: str, text: str) -> None:
        self.file = file
        self.text = text
        lines = text.splitlines(keepends=True)
        self.offsets = [0]
        for line in lines:
            self.offsets.append(self.offsets[-1] + len(line))
        self.lines = lines

    def at(self, line: int, column: int) -> int:
        """Where a place given as line and bytes of UTF-8 is in the text."""
        before = self.lines[line - 1].encode()[:column].decode()
        return self.offsets[line - 1] + len(before)

    def span(self, n: ast.expr | ast.stmt) -> tuple[int, int]:
        assert n.end_lineno is not None
        assert n.end_col_offset is not None
        return self.at(n.lineno, n.col_offset), self.at(n.end_lineno, n.end_col_offset)

    def source(self, n: ast.expr | ast.stmt) -> str:
        begin, end = self.span(n)
        return self.text[begin:end]

    def mutant(
        self, kind: str, n: ast.expr | ast.stmt, new: str, span: tuple[int, int] | None = None
    ) -> Mutant:
        begin, end = span or self.span(n)
        last = n.end_lineno or n.lineno
        if isinstance(n, (ast.FunctionDef, ast.ClassDef)):
            last = n.lineno
        old = self.text[begin:end]
        return Mutant(self.file, "", kind, n.lineno, last, begin, end, old, new)

    # -- walk --------------------------------------------------------------------------------------
    def visit(self, n: ast.AST, where: str) -> Iterator[Mutant]:
        """The mutants of a node and what is below it."""
        if isinstance(n, (ast.FunctionDef, ast.ClassDef)):
            where = f"{where}.{n.name}" if where != "module" else n.name
            if n.name in ("__repr__", "__str__"):
                return
        if isinstance(n, ast.If) and isinstance(n.test, ast.Name) and n.test.id == "TYPE_CHECKING":
            return
        for made in self.of_node(n):
            yield replace(made, where=where)
        for child in _children(n):
            yield from self.visit(child, where)

    def of_node(self, n: ast.AST) -> Iterator[Mutant]:
        match n:
            case ast.Compare():
                yield from self.compared(n)
            case ast.BoolOp():
                yield from self.connected(n)
            case ast.UnaryOp() | ast.BinOp():
                yield from self.operated(n)
            case ast.Constant():
                yield from self.constant(n)
            case ast.Name(ctx=ast.Load()) if n.id in OTHER_NAME:
                yield self.mutant("function", n, OTHER_NAME[n.id])
            case ast.IfExp():
                new = f"{self.source(n.orelse)} if {self.source(n.test)} else {self.source(n.body)}"
                yield self.mutant("swap branches", n, f"({new})")
            case ast.comprehension():
                yield from [self.mutant("drop filter", test, "True") for test in n.ifs]
            case ast.Call():
                yield from self.called(n)
            case ast.stmt():
                yield from self.statement(n)

    def operated(self, n: ast.UnaryOp | ast.BinOp) -> Iterator[Mutant]:
        if isinstance(n, ast.UnaryOp):
            operand = f"({self.source(n.operand)})"
            if isinstance(n.op, ast.Not):
                yield self.mutant("drop not", n, operand)
            elif isinstance(n.op, ast.USub) and not isinstance(n.operand, ast.Constant):
                yield self.mutant("drop minus", n, operand)
        elif type(n.op) in OPERATORS and not _is_text(n):
            gap = self.span(n.left)[1], self.span(n.right)[0]
            between = self.text[gap[0] : gap[1]]
            sign = SIGNS[type(n.op)]
            if between.count(sign) == 1 and "#" not in between:
                made = self.mutant("operator", n, between.replace(sign, OPERATORS[type(n.op)]), gap)
                yield replace(made, old=self.source(n)[:60])

    def constant(self, n: ast.Constant) -> Iterator[Mutant]:
        if isinstance(n.value, bool):
            yield self.mutant("constant", n, str(not n.value))
        elif isinstance(n.value, int):
            yield self.mutant("constant", n, str(n.value + 1))
            if n.value > 0:
                yield self.mutant("constant", n, str(n.value - 1))

    def compared(self, n: ast.Compare) -> Iterator[Mutant]:
        operands = [n.left, *n.comparators]
        for left, op, right in zip(operands, n.ops, n.comparators, strict=False):
            gap = self.span(left)[1], self.span(right)[0]
            between = self.text[gap[0] : gap[1]]
            sign = SIGNS[type(op)]
            if between.count(sign) == 1 and "#" not in between:
                made = self.mutant("compare", n, between.replace(sign, COMPARED[type(op)]), gap)
                yield replace(made, old=self.source(n)[:60])

    def connected(self, n: ast.BoolOp) -> Iterator[Mutant]:
        for k, (left, right) in enumerate(zip(n.values, n.values[1:], strict=False)):
            rest = [self.source(v) for i, v in enumerate(n.values) if i != k + 1]
            word, other = ("and", "or") if isinstance(n.op, ast.And) else ("or", "and")
            yield self.mutant("drop condition", n, f"({f' {word} '.join(rest)})")
            if len(n.values) == 2:
                new = f"({self.source(left)} {other} {self.source(right)})"
                yield self.mutant("and/or", n, new)

    def called(self, n: ast.Call) -> Iterator[Mutant]:
        first = n.args[:2]
        if len(first) == 2 and not any(isinstance(a, ast.Starred) for a in first):
            a, b = (self.source(x) for x in first)
            if a != b and not (isinstance(n.func, ast.Name) and n.func.id in SYMMETRIC):
                begin, end = self.span(first[0])[0], self.span(first[1])[1]
                between = self.text[self.span(first[0])[1] : self.span(first[1])[0]]
                yield self.mutant("swap arguments", n, b + between + a, (begin, end))

    def statement(self, n: ast.stmt) -> Iterator[Mutant]:
        match n:
            case ast.If() | ast.While():
                begin, end = self.span(n.test)
                made = self.mutant("condition", n.test, f"not ({self.text[begin:end]})")
                yield made
                if isinstance(n, ast.If):
                    yield replace(made, kind="drop branch", new="False")
            case ast.Return(value=ast.expr() as value) if not isinstance(value, ast.Constant):
                yield self.mutant("return None", n, "return None")
            case ast.Expr(value=ast.Call()) | ast.AugAssign() | ast.Continue() | ast.Break():
                yield self.mutant("drop statement", n, "pass")
            case ast.Assign(targets=[ast.Subscript() | ast.Attribute()]):
                yield self.mutant("drop statement", n, "pass")


SYMMETRIC = frozenset({"isinstance", "min", "max", "getattr", "cast", "zip"})
"""Functions whose arguments have no order, or whose mutant would not run at all."""


def _children(n: ast.AST) -> Iterator[ast.AST]:
    """What is below a node and worth changing."""
    if isinstance(n, (ast.JoinedStr, ast.Raise, ast.Assert)):
        return
    if isinstance(n, ast.Call) and _makes_error(n.func):
        return
    if isinstance(n, ast.AnnAssign):
        if n.value is not None:
            yield n.value
        return
    if isinstance(n, (ast.FunctionDef, ast.AsyncFunctionDef)):
        yield from [*n.decorator_list, *n.args.defaults]
        yield from [d for d in n.args.kw_defaults if d is not None]
        yield from n.body
        return
    if isinstance(n, ast.Assign) and isinstance(n.targets[0], ast.Name):
        if n.targets[0].id not in ("__slots__", "__all__") and not _is_alias(n.value):
            yield n.value
        return
    yield from ast.iter_child_nodes(n)


def _is_alias(n: ast.expr) -> bool:
    """Whether a value is a type: ``Callable[...]``, ``A | B``."""
    return isinstance(n, ast.Subscript) and isinstance(n.value, ast.Name) and n.value.id.istitle()


def _makes_error(func: ast.expr) -> bool:
    name = func.attr if isinstance(func, ast.Attribute) else getattr(func, "id", "")
    return name == "error" or name.endswith(("Error", "warn"))


def _is_text(n: ast.BinOp) -> bool:
    parts = ast.walk(n)
    return any(isinstance(p, ast.JoinedStr) or _is_string(p) for p in parts)


def _is_string(n: ast.AST) -> bool:
    return isinstance(n, ast.Constant) and isinstance(n.value, str)


SIGNS: dict[type[ast.operator | ast.cmpop], str] = {
    ast.Lt: "<",
    ast.LtE: "<=",
    ast.Gt: ">",
    ast.GtE: ">=",
    ast.Eq: "==",
    ast.NotEq: "!=",
    ast.Is: "is",
    ast.IsNot: "is not",
    ast.In: "in",
    ast.NotIn: "not in",
    ast.Add: "+",
    ast.Sub: "-",
    ast.Mult: "*",
    ast.Div: "/",
    ast.FloorDiv: "//",
    ast.Mod: "%",
    ast.BitAnd: "&",
    ast.BitOr: "|",
}


def mutants(file: str, text: str) -> list[Mutant]:
    """All mutants of a file, in the order of the text; a few are no Python (``is_python``)."""
    finder = _Finder(file, text)
    made: list[Mutant] = []
    seen: dict[str, int] = {}
    for m in finder.visit(ast.parse(text), "module"):
        nth = seen.get(m.key, 0)
        seen[m.key] = nth + 1
        made.append(replace(m, nth=nth))
    return made


def is_python(text: str) -> bool:
    """Whether a text parses."""
    try:
        ast.parse(text)
    except SyntaxError:
        return False
    return True
