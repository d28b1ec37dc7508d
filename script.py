"""The names programs are written with: ``from burnish.script import I, T, R``.

``@T.prim_func``, ``@R.function`` and ``@I.ir_module`` do not run what they decorate: they take its
source (``inspect`` for functions, the decorator's own line for classes), collect the names around
it (closure, enclosing class, globals), and hand both to the parsers. The other attributes of ``T``,
``R`` and ``I`` are words: they exist so that annotations evaluate when Python defines the function,
and so that editors know them; they compute nothing.
"""

from __future__ import annotations

import ast
import inspect
import linecache
import textwrap
from collections.abc import Callable, Mapping
from types import FrameType, FunctionType
from typing import Any, NoReturn, overload

from .graphir.expr import Function
from .graphir.module import IRModule
from .graphir.text.parser import parse_module_class
from .support.errors import ParseError, nearest
from .support.other_names import not_in_module
from .support.source import Source
from .tensorir.function import PrimFunc
from .tensorir.intrinsics import INTRINSICS
from .tensorir.text.parser import parse_function_def, parse_python
from .tensorir.text.text_values import INTRINSIC_ALIASES, NODE_WORDS

_T_TYPES = (
    "Buffer",
    "handle",
    "bool",
    "float16",
    "float32",
    "float64",
    "bfloat16",
    "int8",
    "int16",
    "int32",
    "int64",
    "uint8",
    "uint16",
    "uint32",
    "uint64",
)
_T_STATEMENTS = (
    "grid",
    "serial",
    "parallel",
    "vectorized",
    "unroll",
    "thread_binding",
    "block",
    "axis",
    "init",
    "reads",
    "writes",
    "where",
    "block_attr",
    "func_attr",
    "alloc_buffer",
    "match_buffer",
    "allocate",
    "decl_buffer",
    "launch_thread",
    "sblock",
    "sblock_attr",
    "sblock_alloc_buffer",
    "meta_var",
    "bind",
    "LetStmt",
    "evaluate",
)
_T_EXPRESSIONS = (
    "Cast",
    "cast",
    "Select",
    "Ramp",
    "Broadcast",
    "Let",
    "min_value",
    "max_value",
    "infinity",
    "ramp",
    "broadcast",
    "ceildiv",
    "truncmod",
    "any",
    "all",
    "Not",
    "var",
    *NODE_WORDS,
    *INTRINSIC_ALIASES,
    *INTRINSICS,
)
_R_TYPES = ("Tensor", "Tuple", "Shape", "Prim", "Object")


class Word:
    """One word of a vocabulary. Types can be called and indexed, as annotations do, and so can what
    stands in the body of a class, which Python runs; other words are read by the parsers and have
    no meaning when Python runs them.
    """

    __slots__ = ("_is_type", "_path")

    def __init__(self, path: str, *, is_type: bool = False) -> None:
        self._path, self._is_type = path, is_type

    def __call__(self, *args: object, **options: object) -> Word:
        if self._is_type:
            return self
        raise ParseError(
            f"{self._path} has a meaning only inside a function decorated with @T.prim_func or "
            "@R.function; Python cannot run it."
        )

    def __getitem__(self, item: object) -> Word:
        return self(item)

    __iter__ = None  # Python would index it without end

    def __getattr__(self, name: str) -> Word:
        if name.startswith("_"):
            raise AttributeError(name)
        return Word(f"{self._path}.{name}")

    def __or__(self, other: object) -> Word:
        return self

    def __repr__(self) -> str:
        return self._path


class _Vocabulary:
    """A namespace of words; ``open`` ones take any name (operators are many, and checked when
    parsed).
    """

    def __init__(
        self, name: str, types: tuple[str, ...], words: tuple[str, ...], *, is_open: bool
    ) -> None:
        self.__burnish_vocabulary__ = name
        self._is_open = is_open
        self._words = {w: Word(f"{name}.{w}") for w in words}
        self._words |= {w: Word(f"{name}.{w}", is_type=True) for w in types}

    def __getattr__(self, name: str) -> Any:
        words: dict[str, Word] = self.__dict__.get("_words", {})
        if name in words:
            return words[name]
        own = self.__dict__.get("__burnish_vocabulary__", "")
        if name.startswith("_") or not self.__dict__.get("_is_open", False):
            raise AttributeError(f"{own} has no word {name!r}.{nearest(name, words)}")
        return Word(f"{own}.{name}")

    def __dir__(self) -> list[str]:
        return sorted([*object.__dir__(self), *self._words])

    def __repr__(self) -> str:
        return f"burnish.script.{self.__burnish_vocabulary__}"


# -- source and surroundings ---------------------------------------------------------------------
def source_of(definition: object, frame: FrameType | None = None) -> tuple[Source, ast.stmt]:
    """The source of a function or class and its syntax tree.

    ``frame`` is where the decorator was called. Of a class Python itself knows no more than a name
    and a module, which is nothing in a notebook, and one of several where a file has several
    classes of one name; the line of its decorator tells.

    Raises ParseError where Python keeps no source (``-c``, ``exec``, the plain interactive prompt).
    """
    name = getattr(definition, "__qualname__", repr(definition))
    if isinstance(definition, type) and frame is not None:
        found = _decorated_class(definition.__name__, frame)
        if found is not None:
            return found
    try:
        lines, first = inspect.getsourcelines(definition)  # type: ignore[arg-type]
        path = inspect.getsourcefile(definition) or "<source>"  # type: ignore[arg-type]
    except (OSError, TypeError):
        raise ParseError(
            f"Python keeps no source for {name!r} (it was made by -c, exec or a plain prompt). "
            "Put the program in a file, or in a string read by burnish.parse(text)."
        ) from None
    return _one_statement(path, lines, first)


def _one_statement(path: str, lines: list[str], first: int) -> tuple[Source, ast.stmt]:
    text = textwrap.dedent("".join(lines))
    if text[:1].isspace():
        # A comment at the left margin keeps the text indented: give it a suite to stand in.
        text, first = "if True:\n" + text, first - 1
    source = Source(path, text, first)
    stmt = parse_python(source).body[0]
    return source, stmt.body[0] if isinstance(stmt, ast.If) else stmt


def _decorated_class(name: str, frame: FrameType) -> tuple[Source, ast.stmt] | None:
    """The class of this name whose decorator ``frame`` is about to call; None where there is none,
    as after ``ir_module(SomeClass)``."""
    path, line = frame.f_code.co_filename, frame.f_lineno
    linecache.checkcache(path)
    lines = linecache.getlines(path, frame.f_globals)
    try:
        tree = ast.parse("".join(lines))
    except SyntaxError:
        return None  # The file is no longer what runs.
    for node in ast.walk(tree):
        if isinstance(node, ast.ClassDef) and node.name == name and node.decorator_list:
            first = node.decorator_list[0].lineno
            if first <= line <= node.lineno:
                return _one_statement(path, lines[first - 1 : node.end_lineno], first)
    return None


def names_around(frame: FrameType | None, definition: object) -> dict[str, object]:
    """The names a definition can use: its closure and the enclosing class, then globals.

    ``frame`` is where the decorator was called; a class body also sees the function around it.
    """
    env: dict[str, object] = dict(getattr(definition, "__globals__", {}))
    frames: list[FrameType] = []
    while frame is not None:
        frames.append(frame)
        if not _is_class_body(frame):
            break
        frame = frame.f_back
    for f in reversed(frames):
        if f is frames[-1]:
            env |= f.f_globals
        env |= f.f_locals
    if isinstance(definition, FunctionType):
        for name, cell in zip(
            definition.__code__.co_freevars, definition.__closure__ or (), strict=True
        ):
            try:
                env[name] = cell.cell_contents
            except ValueError:
                continue  # Not assigned yet: a use of the name is then an error of its own.
    return env


def _is_class_body(frame: FrameType) -> bool:
    return "__module__" in frame.f_locals and "__qualname__" in frame.f_locals


def _caller(depth: int) -> FrameType | None:
    frame = inspect.currentframe()
    for _ in range(depth + 1):
        frame = frame.f_back if frame is not None else None
    return frame


def _expected(what: str, found: object, decorator: str) -> NoReturn:
    raise ParseError(f"{decorator} decorates {what}, not a {type(found).__name__}.")


# -- decorators ----------------------------------------------------------------------------------
class _T(_Vocabulary):
    """The vocabulary of PrimFuncs."""

    @overload
    def prim_func(self, func: Callable[..., Any]) -> PrimFunc: ...

    @overload
    def prim_func(
        self, func: None = None, *, private: bool = ..., check_well_formed: bool = ...
    ) -> Callable[[Callable[..., Any]], PrimFunc]: ...

    def prim_func(
        self,
        func: Callable[..., Any] | None = None,
        *,
        private: bool = False,
        check_well_formed: bool = True,
    ) -> PrimFunc | Callable[[Callable[..., Any]], PrimFunc]:
        """The PrimFunc that a Python function describes; also with options, as ``@T.prim_func()``.

        The options are those of TVM's programs and change nothing here. Raises ParseError.
        """
        if func is None:
            return lambda f: _prim_func(f, names_around(_caller(1), f))
        return _prim_func(func, names_around(_caller(1), func))


def _prim_func(func: Callable[..., Any], env: Mapping[str, object]) -> PrimFunc:
    if not isinstance(func, FunctionType):
        _expected("a function", func, "@T.prim_func")
    source, stmt = source_of(func)
    if not isinstance(stmt, ast.FunctionDef):
        _expected("a function", func, "@T.prim_func")
    return parse_function_def(stmt, source, env)


class _I(_Vocabulary):
    """The vocabulary of modules."""

    def ir_module(self, cls: type) -> IRModule:
        """The IRModule that a class describes. Raises ParseError."""
        if not isinstance(cls, type):
            _expected("a class", cls, "@I.ir_module")
        frame = _caller(1)
        env = names_around(frame, cls)
        source, stmt = source_of(cls, frame)
        if not isinstance(stmt, ast.ClassDef):
            _expected("a class", cls, "@I.ir_module")
        return parse_module_class(stmt, source, env)


class _R(_Vocabulary):
    """The vocabulary of graph functions."""

    @overload
    def function(self, func: Callable[..., Any]) -> Function: ...

    @overload
    def function(
        self,
        func: None = None,
        *,
        private: bool = ...,
        pure: bool = ...,
        check_well_formed: bool = ...,
    ) -> Callable[[Callable[..., Any]], Function]: ...

    def function(
        self,
        func: Callable[..., Any] | None = None,
        *,
        private: bool = False,
        pure: bool = True,
        check_well_formed: bool = True,
    ) -> Any:
        """The graph function that a Python function describes. Raises ParseError.

        In the body of a class it waits for ``@I.ir_module``, which sees the functions it calls.
        """
        if func is None:
            return lambda f: _function(f, _caller(1))
        return _function(func, _caller(1))


def _function(func: Callable[..., Any], frame: FrameType | None) -> Any:
    if not isinstance(func, FunctionType):
        _expected("a function", func, "@R.function")
    if frame is not None and _is_class_body(frame):
        return func
    source, stmt = source_of(func)
    if not isinstance(stmt, ast.FunctionDef):
        _expected("a function", func, "@R.function")
    alone = ast.ClassDef(name="Module", bases=[], keywords=[], body=[stmt], decorator_list=[])
    module = parse_module_class(ast.copy_location(alone, stmt), source, names_around(frame, func))
    return module[stmt.name]


T = _T("T", _T_TYPES, (*_T_STATEMENTS, *_T_EXPRESSIONS), is_open=False)
R = _R(
    "R",
    _R_TYPES,
    ("dataflow", "output", "call_dps", "call_tir", "call_dps_packed", "const"),
    is_open=True,
)
I = _I("I", ("module_attrs",), (), is_open=False)  # noqa: E741 - the name the field gives it

_ELSEWHERE = {
    "from_source": "burnish.parse",
    "ir": "I",
    "parse": "burnish.parse",
    "parser": "burnish.parse",
    "relax": "R",
    "tir": "T",
    "tirx": "T",
}
"""Names of TVM's script that are none here, and what does it."""


def __getattr__(name: str) -> NoReturn:
    raise not_in_module("burnish.script", name, _ELSEWHERE.get(name))


ir_module = I.ir_module
prim_func = T.prim_func
function = R.function
