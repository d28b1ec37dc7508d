"""Rebuilds the documents, so that everything they show is what the compiler prints.

    python docs/build.py [FILE.md ...]            rewrite README.md, docs/*.md and the results
    python docs/build.py --check [FILE.md ...]    compare only; exit code 1 where one is out of date

The ``python`` blocks of a document run in order, as one program, in an empty folder. A region

    <!-- from: expression -->
    anything
    <!-- end -->

holds the text of the expression, which sees the program's names and the words below. ``<!-- from
(llvmlite 0.50): expression -->`` is compared only where that version is installed.
"""

from __future__ import annotations

import argparse
import difflib
import importlib
import inspect
import io
import itertools
import os
import re
import sys
import tempfile
import types
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager, redirect_stdout, suppress
from dataclasses import dataclass
from importlib import metadata
from pathlib import Path
from typing import Any

from burnish.benchmarks.results import all_results, headline
from burnish.driver import cli
from burnish.frontend.onnx.registry import REGISTRY as ONNX
from burnish.frontend.torch import convert_refused
from burnish.frontend.torch.decompositions import DECOMPOSITIONS
from burnish.frontend.torch.registry import REGISTRY as TORCH
from burnish.graphir.op import all_ops
from burnish.support.config import describe_flags
from burnish.tensorir.schedule.entries import Entry, entries

ROOT = Path(__file__).resolve().parent.parent
_BEGIN = re.compile(r"<!-- from(?: \((?P<package>\S+) (?P<version>\S+)\))?: (?P<expression>.+) -->")
_END = "<!-- end -->"
_LARGE = re.compile(r'R\.const\(("[^"]+"), R\.Tensor\(.*?\)\)')
_SMALL = re.compile(r'R\.const\(\[([^,\]]+), [^\]]+\], ("\w+")\)')
_NUMBERS = re.compile(r"-?\b\d+\b(?: \+ \d+\b)?|\bzmm\d+")


# -- the words of a region ------------------------------------------------------------------------
def fence(text: str, language: str = "text") -> str:
    """A fenced block. Shown IR is fenced as ``py``: ``python`` blocks are programs."""
    return f"```{language}\n{text.rstrip()}\n```"


def brief(script: str) -> str:
    """Constants with their hash or their first value alone, and ``...`` for the rest."""
    script = _LARGE.sub(r"R.const(\1, ...)", script)
    return _SMALL.sub(r"R.const([\1, ...], \2)", script)


def functions(script: str, *names: str, heads: Sequence[str] = ()) -> str:
    """The functions ``names`` of a module's text, ``heads`` by their first line; no others."""
    opening, *parts = re.split(r"(?m)^(?=    @)", script)
    shown = [opening.split("\n\n")[-1].rstrip("\n")]
    for part in parts:
        decorator, head, *body = part.rstrip().splitlines()
        name = re.sub(r"\(.*", "", head.strip().removeprefix("def "))
        if name in heads:
            body = ["        ..."]
        elif name not in names:
            decorator, head, body = "    ...", "", []
        text = "\n".join(line for line in (decorator, head, *body) if line)
        if text != "    ..." or shown[-1] != text:
            shown.append(text)
    return shown[0] + "\n" + "\n\n".join(shown[1:])


def thin(text: str, least: int = 4) -> str:
    """Of a run of lines that differ only in numbers: two of them, ``...`` and the last."""
    lines = text.rstrip().splitlines()
    kept: list[str] = []
    i = 0
    while i < len(lines):
        shape = _NUMBERS.sub("0", lines[i])
        end = i
        while end < len(lines) and _NUMBERS.sub("0", lines[end]) == shape:
            end += 1
        if end - i >= least:
            indent = " " * (len(lines[i]) - len(lines[i].lstrip()))
            kept += [*lines[i : i + 2], indent + "...", lines[end - 1]]
        else:
            kept += lines[i:end]
        i = end
    return "\n".join(kept)


def inner_loop(assembly: str) -> str:
    """The innermost loop of an assembly text, from its label to its jump, without comments."""
    start = assembly.rindex("\n.L", 0, assembly.index("Inner Loop Header")) + 1
    label = assembly[start : assembly.index(":", start)]
    end = re.compile(rf"\tj\w+\t{re.escape(label)}\n").search(assembly, start)
    if end is None:
        raise SystemExit(f"the assembly has no jump to {label}")
    lines = [re.sub(r"\s*#.*", "", line) for line in assembly[start : end.end()].splitlines()]
    return "\n".join(line.expandtabs(8) for line in lines if line.strip())


def without_objects(program: str) -> str:
    """A program's text without the hashes of its object code, which change with LLVM."""
    return re.sub(r"(?m)(^object\(.*\n)+", "...\n", program)


def read(path: str) -> str:
    """A file that the program wrote."""
    return Path(path).read_text(encoding="utf-8")


def dumped(folder: str) -> str:
    """The files of a dump, in the order they were written."""
    return "\n".join(line.split()[0] for line in read(f"{folder}/index.txt").splitlines()[1:])


def docstring(module: str, opening: str) -> str:
    """The indented block of a module's docstring that begins with a line like this, as a fence."""
    text = inspect.cleandoc(importlib.import_module(f"burnish.{module}").__doc__ or "")
    lines = text.splitlines()
    first = next(i for i, line in enumerate(lines) if line.startswith(f"    {opening}"))
    block = itertools.takewhile(lambda line: line.startswith("    "), lines[first:])
    return fence("\n".join([line.removeprefix("    ") for line in block]))


def usage() -> str:
    """``burnish --help`` without the flags."""
    out = io.StringIO()
    with environment({"COLUMNS": "100"}), redirect_stdout(out), suppress(SystemExit):
        cli.main(["--help"])
    return out.getvalue().partition("Environment flags:")[0].rstrip()


def flags() -> str:
    """The table of environment flags."""
    return describe_flags().rstrip()


def operators() -> str:
    """The graph operators by name."""
    return ", ".join(f"`{name}`" for name in sorted(all_ops()))


def torch_operators() -> str:
    """The ATen operators that the PyTorch front end converts, overloads joined."""
    converted = [n for n in TORCH.names if TORCH[n].__module__ != convert_refused.__name__]
    return _aten_names(converted)


def torch_decompositions() -> str:
    """The ATen operators that the PyTorch front end writes with others itself."""
    return _aten_names([str(op) for op in DECOMPOSITIONS])


def torch_refusals() -> str:
    """The ATen operators that the PyTorch front end refuses with a reason."""
    return _aten_names([n for n in TORCH.names if TORCH[n].__module__ == convert_refused.__name__])


def _aten_names(names: Iterable[str]) -> str:
    found = {name.removeprefix("aten.").rsplit(".", 1)[0] for name in names}
    return ", ".join(f"`{name}`" for name in sorted(found))


def onnx_operators() -> str:
    """The operators that the ONNX front end converts."""
    return ", ".join(f"`{name}`" for name in ONNX.names)


def primitives_contents() -> str:
    """The groups of schedule primitives, with links to the entries."""
    return "\n".join(
        f"- {group.partition(': ')[0]}: " + ", ".join(f"[{e.name}](#{e.name})" for e in members)
        for group, members in _groups().items()
    )


def primitives() -> str:
    """An entry for every schedule primitive, by groups, from their docstrings."""
    parts: list[str] = []
    for group, members in _groups().items():
        title, _, subject = group.partition(": ")
        about = [f"{subject[:1].upper()}{subject[1:]}."] if subject else []
        parts += [f"## {title}", *about, *(_primitive(e) for e in members)]
    return "\n\n".join(parts)


def _groups() -> dict[str, list[Entry]]:
    groups: dict[str, list[Entry]] = {}
    for e in entries():
        groups.setdefault(e.group.removesuffix("."), []).append(e)
    return groups


def _primitive(e: Entry) -> str:
    meaning = re.sub(r"``([^`]+)``", r"`\1`", e.meaning)
    parts = [f"### {e.name}", fence(f"sch.{e.signature}", "py"), meaning]
    if e.example is not None:
        before, schedule, after = e.example
        parts += ["Before:", fence(before, "py"), "Schedule:", fence(schedule, "py")]
        if after is not None:
            parts += ["After:", fence(after, "py")]
    return "\n\n".join(parts)


def speed() -> str:
    """The figures of the README, from the data of the newest run of the benchmarks."""
    return headline()


def results() -> str:
    """All tables of the benchmarks, from their data."""
    return all_results()


def section(document: str, opening: str) -> str:
    """The fenced block of another document that contains ``opening``, fence included."""
    text = (ROOT / document).read_text(encoding="utf-8")
    for block in re.findall(r"(?ms)^```.*?^```$", text):
        if opening in block:
            return str(block)
    raise SystemExit(f"{document} has no block with {opening!r}")


def passage(file: str, opening: str, kind: str = "py") -> str:
    """The lines of a file of the repository from one that begins with ``opening`` (after its
    indentation), with its decorators, to the next that is indented no further."""
    lines = (ROOT / file).read_text(encoding="utf-8").splitlines()
    found = [i for i, line in enumerate(lines) if line.lstrip().startswith(opening)]
    if len(found) != 1:
        raise SystemExit(f"{file} has {len(found)} lines that begin with {opening!r}, not one")
    first, end = found[0], found[0] + 1
    indent = len(lines[first]) - len(lines[first].lstrip())
    while end < len(lines) and lines[end].startswith(" " * (indent + 1)):
        end += 1
    while lines[first - 1].lstrip().startswith("@"):
        first -= 1
    return fence("\n".join([line[indent:] for line in lines[first:end]]), kind)


WORDS: dict[str, Callable[..., str]] = {
    f.__name__: f
    for f in (
        fence, brief, functions, thin, inner_loop, without_objects, read, dumped, usage, flags,
        operators, torch_operators, torch_decompositions, torch_refusals, onnx_operators,
        primitives_contents, primitives, section, passage, docstring, speed, results,
    )
}  # fmt: skip


# -- documents ------------------------------------------------------------------------------------
@dataclass(frozen=True)
class Part:
    """A piece of a document: ``kind`` is text, python (with its first line) or region."""

    kind: str
    text: str
    line: int = 0
    head: str = ""


def split(document: str) -> Iterator[Part]:
    """A document in order; the pieces' ``head`` and ``text`` add up to it."""
    lines = document.splitlines(keepends=True)
    i = 0
    while i < len(lines):
        line = lines[i].strip()
        if _BEGIN.fullmatch(line):
            end = _find(lines, i, _END)
            yield Part("region", "".join(lines[i + 1 : end]), i + 1, lines[i])
            yield Part("text", lines[end])
        elif line == "```python":
            end = _find(lines, i, "```")
            yield Part("text", lines[i])
            yield Part("python", "".join(lines[i + 1 : end]), i + 1)
            yield Part("text", lines[end])
        else:
            end = _find(lines, i, "```") if line.startswith("```") else i
            yield Part("text", "".join(lines[i : end + 1]))
        i = end + 1


def _find(lines: Sequence[str], start: int, closing: str) -> int:
    for i in range(start + 1, len(lines)):
        if lines[i].strip() == closing:
            return i
    raise SystemExit(f"line {start + 1}: there is no {closing!r} after {lines[start].strip()!r}")


class Program:
    """The Python blocks of one document, run as one module under the document's line numbers."""

    def __init__(self, document: str, name: str) -> None:
        self.module = types.ModuleType(name)
        self.output = ""
        code = ["\n"] * len(document.splitlines())
        for part in split(document):
            if part.kind == "python":
                block = part.text.splitlines(keepends=True)
                code[part.line : part.line + len(block)] = block
        # A real file: the decorators of burnish.script read their source.
        self.file = Path(f"{name}.py").resolve()
        self.file.write_text("".join(code), encoding="utf-8")
        self.module.__file__ = str(self.file)
        sys.modules[name] = self.module

    def run(self, part: Part) -> None:
        """Run a block; its standard output is kept for ``output()``."""
        out = io.StringIO()
        with redirect_stdout(out):
            code = compile("\n" * part.line + part.text, str(self.file), "exec")
            exec(code, vars(self.module))
        self.output = out.getvalue()

    def show(self, part: Part) -> str:
        """The text of a region."""
        match = _BEGIN.fullmatch(part.head.strip())
        assert match is not None
        package = match["package"]
        if package and not metadata.version(package).startswith(match["version"]):
            return part.text
        words: dict[str, Any] = {**WORDS, "output": lambda: self.output}
        return str(eval(match["expression"], {**vars(self.module), **words})).rstrip() + "\n"


def build(path: Path) -> str:
    """The document as it should be. Raises what its programs raise."""
    document = path.read_text(encoding="utf-8")
    with tempfile.TemporaryDirectory() as folder, working_directory(folder):
        program = Program(document, f"document_{path.stem}")
        result = []
        for part in split(document):
            if part.kind == "python":
                program.run(part)
            shown = program.show(part) if part.kind == "region" else part.text
            result.append(part.head + shown)
    return "".join(result)


@contextmanager
def working_directory(folder: str) -> Iterator[None]:
    """Run in a folder, and come back."""
    before = os.getcwd()
    os.chdir(folder)
    try:
        yield
    finally:
        os.chdir(before)


@contextmanager
def environment(values: dict[str, str]) -> Iterator[None]:
    """Set environment variables for a while."""
    before = dict(os.environ)
    os.environ.update(values)
    try:
        yield
    finally:
        os.environ.clear()
        os.environ.update(before)


def documents() -> list[Path]:
    """README.md, everything in docs, and the results of the benchmarks."""
    return [
        ROOT / "README.md",
        *sorted((ROOT / "docs").glob("*.md")),
        ROOT / "benchmarks" / "RESULTS.md",
    ]


def main(argv: Sequence[str] | None = None) -> int:
    """Rebuild or compare; the exit code is 1 where a document is out of date."""
    parser = argparse.ArgumentParser(description="Rebuild the documents.")
    parser.add_argument("--check", action="store_true", help="compare only")
    parser.add_argument("files", nargs="*", type=Path, help="default: all")
    options = parser.parse_args(argv)
    os.environ["BURNISH_CACHE"] = "0"  # reports are not to tell what this machine has kept
    stale = False
    for path in options.files or documents():
        path = path.resolve()
        old, new = path.read_text(encoding="utf-8"), build(path)
        if old == new:
            continue
        stale = True
        if options.check:
            name = path.relative_to(ROOT).as_posix() if path.is_relative_to(ROOT) else path.name
            lines = old.splitlines(), new.splitlines()
            print("\n".join(difflib.unified_diff(*lines, name, "rebuilt", lineterm="")))
        else:
            path.write_text(new, encoding="utf-8")
    return int(stale and options.check)


if __name__ == "__main__":
    sys.exit(main())
