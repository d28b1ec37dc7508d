"""``docs/build.py``: documents in pieces, regions, and the words that shorten what is shown."""

from __future__ import annotations

from pathlib import Path

import pytest

from burnish.tests.docs.documents import load_builder

builder = load_builder()

DOCUMENT = """# Title
```python
x = 6
print(x * 7)
```
<!-- from: fence(output()) -->
stale
<!-- end -->
```text
<!-- from: nothing -->
```
<!-- from: x + 1 -->
<!-- end -->
"""

BUILT = DOCUMENT.replace("stale\n", "```text\n42\n```\n").replace("x + 1 -->\n", "x + 1 -->\n7\n")


def write(folder: Path, text: str) -> Path:
    path = folder / "page.md"
    path.write_text(text, encoding="utf-8")
    return path


def test_regions_hold_what_the_program_gives(tmp_path: Path) -> None:
    assert builder.build(write(tmp_path, DOCUMENT)) == BUILT
    assert builder.build(write(tmp_path, BUILT)) == BUILT


def test_the_pieces_add_up_to_the_document() -> None:
    assert "".join(p.head + p.text for p in builder.split(DOCUMENT)) == DOCUMENT


def test_main_rewrites_or_compares(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = write(tmp_path, DOCUMENT)
    assert builder.main(["--check", str(path)]) == 1
    assert "-stale" in capsys.readouterr().out
    assert path.read_text() == DOCUMENT
    assert builder.main([str(path)]) == 0
    assert path.read_text() == BUILT
    assert builder.main(["--check", str(path)]) == 0


def test_a_program_that_fails_fails_at_its_line(tmp_path: Path) -> None:
    path = write(tmp_path, "\n\n```python\n1 / 0\n```\n")
    with pytest.raises(ZeroDivisionError) as error:
        builder.build(path)
    assert error.traceback[-1].lineno == 3  # counted from 0: line 4 of the page


def test_decorators_find_the_source_of_a_block(tmp_path: Path) -> None:
    text = """```python
from burnish.script import I, R, T

@I.ir_module
class M:
    @R.function
    def main(x: R.Tensor((2,), "float32")):
        return R.relu(x)
```
<!-- from: M.script().count("R.relu") -->
<!-- end -->
"""
    assert "-->\n1\n<!--" in builder.build(write(tmp_path, text))


def test_a_region_that_does_not_end_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(SystemExit, match=r"line 1: there is no '<!-- end -->'"):
        builder.build(write(tmp_path, "<!-- from: 1 -->\n"))


def test_a_region_of_another_version_is_left_alone(tmp_path: Path) -> None:
    text = "<!-- from (llvmlite 0.0.1): 1 / 0 -->\nold\n<!-- end -->\n"
    assert builder.build(write(tmp_path, text)) == text
    text = "<!-- from (numpy ): 1 + 1 -->\nold\n<!-- end -->\n"
    assert builder.build(write(tmp_path, text)) == text


def test_brief_shortens_constants_alone() -> None:
    text = (
        'R.f(R.const("fc.weight", R.Tensor((2, 3), dtype="float32")), '
        'R.const([1.5, 2.5], "float32"), R.const([1.0], "float32"), x)'
    )
    assert builder.brief(text) == (
        'R.f(R.const("fc.weight", ...), R.const([1.5, ...], "float32"), '
        'R.const([1.0], "float32"), x)'
    )


def test_functions_picks_and_marks_what_is_left_out() -> None:
    script = """# header

@I.ir_module
class Module:
    @R.function
    def main(x: R.Tensor((2,), "float32")):
        return x

    @T.prim_func
    def a(x):
        pass

    @T.prim_func
    def b(x):
        pass

    @T.prim_func
    def c(x):
        pass
"""
    assert builder.functions(script, "main", heads=("c",)) == (
        "@I.ir_module\nclass Module:\n"
        '    @R.function\n    def main(x: R.Tensor((2,), "float32")):\n        return x\n\n'
        "    ...\n\n"
        "    @T.prim_func\n    def c(x):\n        ..."
    )


def test_thin_keeps_the_first_two_and_the_last_of_a_run() -> None:
    run = [f"  x[{i}] = y[{i} + 1]" for i in range(6)]
    assert builder.thin("\n".join(["a", *run, "b"])).splitlines() == [
        "a", run[0], run[1], "  ...", run[5], "b",
    ]  # fmt: skip
    assert builder.thin("\n".join(run[:3])).splitlines() == run[:3]


def test_inner_loop_is_label_to_jump() -> None:
    assembly = (
        "f:\n\tnop\n.LBB0_1:  # %a\n\tmov\t%eax, %ebx\n.LBB0_2: # %b\n"
        "  # =>This Inner Loop Header: Depth=2\n\tadd\t$1, %eax # x\n\tjb\t.LBB0_2\n\tjb\t.LBB0_1\n"
    )
    assert builder.inner_loop(assembly).split() == [
        ".LBB0_2:",
        "add",
        "$1,",
        "%eax",
        "jb",
        ".LBB0_2",
    ]


def test_without_objects_drops_their_lines() -> None:
    text = 'target({})\nobject("sha256:1", 2)\nobject("sha256:3", 4)\nkernel("k")\n'
    assert builder.without_objects(text) == 'target({})\n...\nkernel("k")\n'


def test_usage_has_commands_and_no_flags() -> None:
    assert "compile" in builder.usage()
    assert "BURNISH_" not in builder.usage()


def test_a_passage_is_a_definition_or_a_line() -> None:
    text = builder.passage("docs/build.py", "def results")
    assert text.splitlines()[:2] == ["```py", "def results() -> str:"]
    assert text.splitlines()[-2:] == ["    return all_results()", "```"]
    assert builder.passage("Makefile", "BENCH  :=", "make") == "```make\nBENCH  := .venv-bench\n```"
    decorated = builder.passage("docs/build.py", "class Part")
    assert decorated.splitlines()[1] == "@dataclass(frozen=True)"
    with pytest.raises(SystemExit, match="0 lines that begin with 'def nothing'"):
        builder.passage("docs/build.py", "def nothing")


def test_section_finds_a_block() -> None:
    assert builder.section("docs/architecture.md", "00-import").startswith("```\n")
    with pytest.raises(SystemExit, match="has no block"):
        builder.section("docs/architecture.md", "no such text")
