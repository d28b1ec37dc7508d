"""Whether code reads what it sets in every call, for anything but to set that again.

    self.calls += 1     self.log.append(x)     print(self.calls)        nothing reads these
    if self.calls > 2:     return x * self.calls                        something does

A call can only differ from the one before by what it reads, so the code that a call ran tells,
branches that it did not take included. A value that only sets other places counts as read where
these are. What is no source text, or a name that cannot be told, counts as read.
"""

from __future__ import annotations

import ast
import functools
import inspect
import re
import sys
import textwrap
from collections.abc import Iterator
from contextlib import contextmanager
from types import CodeType, FrameType
from typing import Any

from .reachable_state import is_foreign

_ADDS = frozenset(
    {"add", "append", "appendleft", "clear", "discard", "extend", "insert", "update"}
)  # fmt: skip
_KEY = re.compile(r"""\[(?:'(?:[^'\\]|\\.)*'|"(?:[^"\\]|\\.)*"|[^]]*)\]""")
"""A key of a container, as ``repr`` has it."""
_TELLS = frozenset({"print", "debug", "info", "warning", "log"})


@contextmanager
def codes_run(found: set[CodeType]) -> Iterator[None]:
    """Adds the code that runs meanwhile to ``found``, torch's and Python's own not."""
    held = sys.getprofile()

    def note(frame: FrameType, event: str, _: Any) -> None:
        code = frame.f_code
        is_new = event == "call" and code not in found
        if is_new and not is_foreign(frame.f_globals.get("__name__", "builtins")):
            found.add(code)

    sys.setprofile(note)
    try:
        yield
    finally:
        sys.setprofile(held)


def is_read(name: str, codes: set[CodeType]) -> bool:
    """Whether some of the code reads what stands in a place of this name."""
    return _is_read(_attribute(name), codes, set())


def _attribute(name: str) -> str:
    """The last name of a place: "many" of "0.many[2]", "total" of "total of hook"."""
    plain = _KEY.sub("", name).partition(" of ")[0]
    words = re.findall(r"[A-Za-z_]\w*", plain)
    return words[-1] if words else ""


def _is_read(word: str, codes: set[CodeType], asked: set[str]) -> bool:
    if word in asked:
        return False
    asked.add(word)
    for code in codes:
        if word in code.co_consts:  # getattr(self, "calls")
            return True
        if word not in _beyond(code):
            continue
        tree = _tree(code)
        if tree is None or any(_reads(use, codes, asked) for use in _uses(tree, word)):
            return True
    return False


def _beyond(code: CodeType) -> tuple[str, ...]:
    """The names in code that are no local variables: attributes, globals, what is closed over."""
    return (*code.co_names, *code.co_freevars, *code.co_cellvars)


@functools.lru_cache(maxsize=256)
def _tree(code: CodeType) -> ast.AST | None:
    try:
        tree = ast.parse(textwrap.dedent(inspect.getsource(code)))
    except (OSError, SyntaxError, TypeError, ValueError):
        return None
    return tree


def _uses(tree: ast.AST, word: str) -> Iterator[list[ast.AST]]:
    """Where a name or an attribute stands, each with all that is around it, the innermost first."""
    open_: list[tuple[ast.AST, list[ast.AST]]] = [(tree, [])]
    while open_:
        node, around = open_.pop()
        found = getattr(node, "id", None) or getattr(node, "attr", None)
        if found == word and isinstance(node, (ast.Name, ast.Attribute)):
            yield [node, *around]
        open_ += [(child, [node, *around]) for child in ast.iter_child_nodes(node)]


def _reads(use: list[ast.AST], codes: set[CodeType], asked: set[str]) -> bool:
    """Whether the value at a place in the source goes where it can change a result."""
    node, at = use[0], 0
    while isinstance(use[at + 1], ast.Subscript) and use[at + 1].value is node:  # type: ignore[attr-defined]
        node, at = use[at + 1], at + 1
    if isinstance(getattr(node, "ctx", None), (ast.Store, ast.Del)):
        return False
    around = use[at + 1]
    if isinstance(around, ast.Attribute) and around.attr in _ADDS:
        return not (isinstance(use[at + 2], ast.Call) and isinstance(use[at + 3], ast.Expr))
    statement = next(x for x in use if isinstance(x, ast.stmt))
    if isinstance(statement, ast.Expr):
        call = statement.value
        told = call.func if isinstance(call, ast.Call) else None
        return (getattr(told, "attr", None) or getattr(told, "id", None)) not in _TELLS
    if isinstance(statement, (ast.Global, ast.Nonlocal)):
        return False
    return not _sets_alone(statement, codes, asked)


def _sets_alone(statement: ast.stmt, codes: set[CodeType], asked: set[str]) -> bool:
    """Whether a statement only computes what stands in a place that nothing reads."""
    targets: list[Any] = []
    if isinstance(statement, ast.AugAssign):
        targets = [statement.target]
    elif isinstance(statement, ast.Assign):
        targets = list(statement.targets)
    calls = [x for x in ast.walk(statement) if isinstance(x, (ast.Call, ast.NamedExpr))]
    if calls or not targets:
        return False
    for target in targets:
        while isinstance(target, ast.Subscript):
            target = target.value
        word = str(getattr(target, "attr", None) or getattr(target, "id", ""))
        # What a local variable holds may go anywhere.
        is_local = not any(word in _beyond(code) for code in codes)
        if is_local or _is_read(word, codes, asked):
            return False
    return True


__all__ = ["codes_run", "is_read"]
