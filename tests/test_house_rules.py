"""Rules of the house that no linter knows; each fails with the list of what breaks it."""

from __future__ import annotations

import ast
import tomllib
from collections.abc import Callable, Iterator
from functools import cache
from pathlib import Path

import pytest

from burnish.support.config import FLAGS

ROOT = Path(__file__).resolve().parent.parent
ROOMS = ("driver", "faces", "frontend", "models", "graphir", "tuner", "tensorir", "vm", "support")
Rule = Callable[[ast.Module], Iterator[ast.AST]]
BARE = ("RuntimeError", "Exception", "NotImplementedError", "BaseException")
OPTIONAL_PACKAGES = ("torch", "onnx", "xgboost", "rich", "pygments", "ml_dtypes")
FORBIDDEN_NAMES = ("utils.py", "helpers.py", "common.py", "misc.py")

MAY_IMPORT_INSIDE = {
    "frontend/": "torch and onnx are optional",
    "driver/": "the front door opens only the rooms it needs",
    "support/host.py": "LLVM is asked about the machine once, and takes long to import",
    "vm/native.py": "LLVM's linker links what is not for x86-64, and takes long to import",
    "graphir/module.py": "its text methods call the printer, which needs the module",
}
"""Places that may import inside functions, and why."""

TESTED_ELSEWHERE = {
    "driver/loaded_model.py": "what burnish.load gives; in test_load.py, which opens files",
    "support/abi.py": "constants only; tests of tensorir/codegen and vm bind kernels by it",
    "tensorir/segment.py": "a record; by the tests of what plans and what emits segments",
    "tensorir/schedule/primitives/apply_rule.py": "in test_apply_rule.py, with what it calls",
    "tensorir/schedule/queries.py": "by the tests of its examples in test_entries.py",
    "support/source.py": "tested with the errors that render spans (tests/support/test_errors.py)",
}
"""Files with logic that have no test file of their own, and why."""


TOOLS_OF_TESTS = {
    "frontend/torch/opinfo": "PyTorch's own database of operators, another",
    "fuzz": "the generator of random schedules, a command of its own",
    "models_of_others": "the comparison of other libraries' models, a command of its own",
    "mutation": "the mutation run, a command of its own",
    "ulp": "the sweep of elementary functions over all float32 numbers, another",
}
"""Folders of tests that belong to no room: they hold tools and the tests of these."""


def source_files() -> list[Path]:
    files = list(ROOT.glob("*.py"))
    for room in ROOMS:
        files += (ROOT / room).rglob("*.py")
    return sorted(files)


def place(path: Path) -> str:
    return path.relative_to(ROOT).as_posix()


@cache
def parse(path: Path) -> ast.Module:
    return ast.parse(path.read_text(encoding="utf-8"), str(path))


def star_imports(tree: ast.Module) -> Iterator[ast.AST]:
    for n in ast.walk(tree):
        if isinstance(n, ast.ImportFrom) and any(a.name == "*" for a in n.names):
            yield n


def inner_imports(tree: ast.Module) -> Iterator[ast.AST]:
    """Imports inside functions, except of optional packages."""
    for f in ast.walk(tree):
        if not isinstance(f, (ast.FunctionDef, ast.AsyncFunctionDef)):
            continue
        for n in ast.walk(f):
            if isinstance(n, ast.Import):
                names = [a.name for a in n.names]
            elif isinstance(n, ast.ImportFrom):
                names = ["." if n.level else n.module or ""]
            else:
                continue
            if any(name.split(".")[0] not in OPTIONAL_PACKAGES for name in names):
                yield n


def bare_raises(tree: ast.Module) -> Iterator[ast.AST]:
    for n in ast.walk(tree):
        if isinstance(n, ast.Raise):
            raised = n.exc.func if isinstance(n.exc, ast.Call) else n.exc
            if isinstance(raised, ast.Name) and raised.id in BARE:
                yield n


def environment_reads(tree: ast.Module) -> Iterator[ast.AST]:
    for n in ast.walk(tree):
        if isinstance(n, ast.Attribute) and n.attr in ("environ", "getenv"):
            yield n


def missing_docstring(tree: ast.Module) -> Iterator[ast.AST]:
    if ast.get_docstring(tree) is None and tree.body:
        yield tree.body[0]


def has_logic(path: Path) -> bool:
    """Whether a file defines a function or a class (re-exports and tables do not count)."""
    if path.name == "__init__.py":
        return False
    return any(isinstance(n, (ast.FunctionDef, ast.ClassDef)) for n in parse(path).body)


def violations(rule: Rule, exempt: tuple[str, ...] = ()) -> str:
    """A line for each place that breaks the rule: empty where all is well."""
    return "\n".join(
        f"{place(p)}:{getattr(n, 'lineno', 1)}"
        for p in source_files()
        if not any(place(p).startswith(e) for e in exempt)
        for n in rule(parse(p))
    )


def expect_none(found: str) -> None:
    """Fail with the whole list (an assertion would cut it short)."""
    if found:
        pytest.fail(found, pytrace=False)


def test_no_star_import() -> None:
    expect_none(violations(star_imports))


def test_no_import_inside_a_function() -> None:
    expect_none(violations(inner_imports, exempt=tuple(MAY_IMPORT_INSIDE)))


def test_no_bare_exception_is_raised() -> None:
    expect_none(violations(bare_raises))


def test_only_config_reads_the_environment() -> None:
    expect_none(violations(environment_reads, exempt=("support/config.py",)))


def test_every_file_says_what_it_is() -> None:
    expect_none(violations(missing_docstring))


def test_no_file_with_a_name_that_says_nothing() -> None:
    assert [place(p) for p in source_files() if p.name in FORBIDDEN_NAMES] == []


def test_every_file_with_logic_has_its_test() -> None:
    missing = [
        place(p)
        for p in source_files()
        if has_logic(p)
        and place(p) not in TESTED_ELSEWHERE
        and not (ROOT / "tests" / p.relative_to(ROOT).parent / f"test_{p.name}").exists()
    ]
    expect_none("\n".join(missing))


def test_the_list_of_exceptions_is_current() -> None:
    assert [name for name in TESTED_ELSEWHERE if not (ROOT / name).exists()] == []


def test_every_test_folder_mirrors_a_room() -> None:
    tests = ROOT / "tests"
    orphans = [
        p.relative_to(tests).as_posix()
        for p in tests.rglob("test_*.py")
        if p.parent != tests
        and p.parent.relative_to(tests).as_posix() not in TOOLS_OF_TESTS
        and not (ROOT / p.parent.relative_to(tests)).is_dir()
    ]
    assert orphans == []


def test_every_package_is_in_the_wheel() -> None:
    listed = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    folders = [p.parent.relative_to(ROOT) for r in ROOMS for p in (ROOT / r).rglob("__init__.py")]
    expected = ["burnish", *sorted(".".join(("burnish", *f.parts)) for f in folders)]
    assert listed["tool"]["setuptools"]["packages"] == expected


def test_every_flag_is_in_the_readme() -> None:
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    rows = [line for line in readme.splitlines() if line.startswith("| `")]
    expect_none("\n".join(n for n in FLAGS if not any(f"`{n}`" in row for row in rows)))


@pytest.mark.parametrize(
    ("rule", "text", "count"),
    [
        (star_imports, "from os import *", 1),
        (inner_imports, "def f():\n    import os\n    import torch\n    from . import x", 2),
        (bare_raises, "raise RuntimeError('x')\nraise ValueError\nraise Exception", 2),
        (environment_reads, "import os\nos.environ['X']\nos.getenv('X')", 2),
        (missing_docstring, "x = 1", 1),
    ],
)
def test_each_rule_finds_what_it_forbids(rule: Rule, text: str, count: int) -> None:
    assert len(list(rule(ast.parse(text)))) == count
