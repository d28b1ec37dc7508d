"""Passes, pipelines, instruments, and the text form of pipelines."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from burnish.support.errors import BurnishError, ConfigError, InternalError, PassError, VerifyError
from burnish.support.passes import (
    Instrument,
    Pass,
    Pipeline,
    PrintAfter,
    TimePasses,
    VerifyEach,
    instruments_from_flags,
    kebab_case,
    parse_pipeline,
)


class Module:
    """Anything with ``copy()`` will do."""

    def __init__(self, items: list[str]) -> None:
        self.items = items

    def copy(self) -> Module:
        return Module(list(self.items))

    def __str__(self) -> str:
        return " ".join(self.items) + "\n"


@dataclass(frozen=True)
class AppendWord(Pass):
    """Appends a word, ``times`` times."""

    word: str = "a"
    times: int = 1
    options_list: tuple[int, ...] = ()
    flag: bool = False
    limit: float | None = None

    def run(self, module: Any) -> Any:
        module.items.extend([self.word] * self.times)
        return module


@dataclass(frozen=True)
class FailOp(Pass):
    """Raises what it is given."""

    error: type[Exception]

    def run(self, module: Any) -> Any:
        raise self.error("no luck")


@dataclass(frozen=True)
class BindParams(Pass):
    """A pass with an option that has no default."""

    function: str
    params: dict[str, int] = field(default_factory=dict)


KNOWN = (AppendWord, FailOp, BindParams)


@pytest.mark.parametrize(
    ("name", "kebab"),
    [
        ("FuseOps", "fuse-ops"),
        ("EmitVM", "emit-vm"),
        ("CSEPass", "cse-pass"),
        ("max_depth", "max-depth"),
    ],
)
def test_names_are_kebab_case(name: str, kebab: str) -> None:
    assert kebab_case(name) == kebab


def test_a_pass_works_on_a_copy() -> None:
    module = Module(["x"])
    result = AppendWord("y")(module)
    assert (module.items, result.items) == (["x"], ["x", "y"])
    assert AppendWord.name == "append-word"


def test_an_error_inside_a_pass_is_wrapped_once() -> None:
    with pytest.raises(PassError) as caught:
        Pipeline([Pipeline([FailOp(BurnishError)])])(Module([]))
    assert caught.value.pass_name == "fail-op"
    assert str(caught.value) == (
        "In pass 'fail-op': no luck\nSet BURNISH_DUMP=DIR to keep every stage of the compilation."
    )
    assert isinstance(caught.value.__cause__, BurnishError)


@pytest.mark.parametrize("error", [InternalError, ZeroDivisionError])
def test_our_own_defects_pass_through_with_a_note(error: type[Exception]) -> None:
    with pytest.raises(error) as caught:
        FailOp(error)(Module([]))
    assert caught.value.__notes__ == ["in pass 'fail-op'"]


def test_a_pipeline_runs_in_order_and_nests() -> None:
    inner = Pipeline([AppendWord("b"), AppendWord("c", times=2)])
    pipeline = Pipeline([AppendWord(), inner])
    assert str(pipeline(Module([]))) == "a b c c\n"
    assert [p.name for p in inner] == ["append-word", "append-word"]
    assert len(pipeline) == 2


def test_instruments_are_told_before_and_after() -> None:
    class Log(Instrument):
        lines: list[str]

        def __init__(self) -> None:
            self.lines = []

        def before_pass(self, pass_: Pass, module: Any) -> None:
            self.lines.append(f"before {pass_}: {str(module).strip()}")

        def after_pass(self, pass_: Pass, module: Any) -> None:
            self.lines.append(f"after {pass_}: {str(module).strip()}")

    log = Log()
    Pipeline([AppendWord()]).with_instruments(log)(Module(["x"]))
    assert log.lines == ["before append-word: x", "after append-word: x a"]


def test_verify_each_blames_the_pass() -> None:
    def verify(module: Module) -> None:
        if "bad" in module.items:
            raise VerifyError("no bad word", "bad")

    pipeline = Pipeline([AppendWord("good"), AppendWord("bad"), AppendWord()], [VerifyEach(verify)])
    with pytest.raises(PassError, match="the law: no bad word") as caught:
        pipeline(Module([]))
    assert caught.value.pass_name == "append-word"


def test_time_passes() -> None:
    timer = TimePasses()
    Pipeline([AppendWord(), AppendWord("b")], [timer])(Module([]))
    assert [name for name, _ in timer.seconds] == ["append-word", "append-word"]
    assert all(seconds >= 0 for _, seconds in timer.seconds)
    assert timer.table().count(" ms\n") == 2


def test_print_after() -> None:
    lines: list[str] = []
    Pipeline([AppendWord("b")], [PrintAfter(["append-word"], write=lines.append)])(Module([]))
    Pipeline([AppendWord("c")], [PrintAfter(["other"], write=lines.append)])(Module([]))
    Pipeline([AppendWord("d")], [PrintAfter(["all"], write=lines.append)])(Module([]))
    assert lines == ["# -- after append-word{word=b}\nb\n", "# -- after append-word{word=d}\nd\n"]


def test_instruments_from_flags(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("BURNISH_VERIFY", raising=False)
    monkeypatch.delenv("BURNISH_PRINT_AFTER", raising=False)
    (verify,) = instruments_from_flags(str, ["fuse-ops"])
    assert isinstance(verify, VerifyEach)
    monkeypatch.setenv("BURNISH_VERIFY", "none")
    assert instruments_from_flags(str, ["fuse-ops"]) == ()
    monkeypatch.setenv("BURNISH_PRINT_AFTER", "fuse-ops")
    (printer,) = instruments_from_flags(str, ["fuse-ops"])
    assert isinstance(printer, PrintAfter)
    assert printer.names == ("fuse-ops",)


def test_a_pass_that_is_none_cannot_be_printed_after(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("BURNISH_PRINT_AFTER", "fuse-op")
    with pytest.raises(ConfigError) as caught:
        instruments_from_flags(str, ["canonicalize", "fuse-ops"])
    assert str(caught.value) == (
        "BURNISH_PRINT_AFTER expects all, or names of passes: canonicalize, fuse-ops; found "
        "'fuse-op'. Did you mean 'fuse-ops'?"
    )
    monkeypatch.setenv("BURNISH_PRINT_AFTER", "all")
    assert len(instruments_from_flags(str, [])) == 2


# -- text
# ---------------------------------------------------------------------------------------------
@pytest.mark.parametrize(
    "text",
    [
        "",
        "append-word",
        "append-word,append-word{word=b}",
        "append-word{times=8,options-list=(1, 2),flag=true,limit=0.5}",
        "append-word{word='x,y}'},bind-params{function=main,params={'a': 1}}",
        "append-word{word='true'}",
    ],
)
def test_text_both_ways(text: str) -> None:
    pipeline = parse_pipeline(text, KNOWN)
    assert str(pipeline) == text
    assert parse_pipeline(str(pipeline), {k.name: k for k in KNOWN}) == pipeline


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (
            "apend-word",
            "There is no pass 'apend-word'; there are append-word, fail-op, bind-params.",
        ),
        ("append-word{size=1}", "it has word, times, options-list, flag, limit."),
        ("append-word{times}", "Option 'times' of pass 'append-word' needs a value"),
        ("append-word{times=1+}", "option 'times' of pass 'append-word': '1+' is no value."),
        ("append-word{times=1", "Unbalanced brackets or quotes"),
        ("append-word}", "Unbalanced brackets or quotes"),
        ("append-word{word='a}", "Unbalanced brackets or quotes"),
        ("append-word{times=1}x", "Expected options as in"),
        ("append-word,,append-word", "An empty item in the pipeline text"),
        ("bind-params", "Pass 'bind-params' cannot be made from 'bind-params'"),
    ],
)
def test_texts_that_are_no_pipeline(text: str, message: str) -> None:
    with pytest.raises(ConfigError) as caught:
        parse_pipeline(text, KNOWN)
    assert message in str(caught.value)


@settings(max_examples=80, deadline=None, derandomize=True)
@given(
    st.text(max_size=6),
    st.integers(),
    st.lists(st.integers()),
    st.booleans(),
    st.none() | st.floats(allow_nan=False, allow_infinity=False),
)
def test_options_round_trip(
    word: str, times: int, numbers: list[int], flag: bool, limit: float | None
) -> None:
    pipeline = Pipeline([AppendWord(word, times, tuple(numbers), flag, limit), AppendWord()])
    assert parse_pipeline(str(pipeline), KNOWN) == pipeline


def test_a_pass_works_on_modules() -> None:
    with pytest.raises(ConfigError, match="Expected an IRModule for the pass 'append-word'"):
        AppendWord()(3)
