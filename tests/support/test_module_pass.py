"""module_pass: passes from functions and classes, and the context that pipelines run in."""

from __future__ import annotations

import threading
from typing import Any

import pytest

from burnish.support.errors import BurnishError, ConfigError, PassError
from burnish.support.module_pass import module_pass
from burnish.support.passes import Pass, PassContext, Pipeline, PrintAfter


class Words:
    """A module is anything with ``copy()``."""

    def __init__(self, *words: str) -> None:
        self.words = list(words)

    def copy(self) -> Words:
        return Words(*self.words)

    def __str__(self) -> str:
        return " ".join(self.words)


@module_pass
def add_one(mod: Words, ctx: PassContext) -> Words:
    """Adds a word."""
    mod.words.append("one")
    return mod


@module_pass(opt_level=2, name="costly")
def add_two(mod: Words, ctx: PassContext) -> Words:
    return Words(*mod.words, "two")


@module_pass(opt_level=1)
class AddWord:
    """Adds a word of one's choice."""

    def __init__(self, word: str, *, times: int = 1) -> None:
        self.word, self.times = word, times

    def transform_module(self, mod: Words, ctx: PassContext) -> Words:
        mod.words += [self.word] * self.times * ctx.config.get("factor", 1)
        return mod


def test_a_function_becomes_a_pass() -> None:
    module = Words("zero")
    assert isinstance(add_one, Pass)
    assert (add_one.name, add_one.opt_level, add_one.__doc__) == ("add-one", 0, "Adds a word.")
    assert str(add_one(module)) == "zero one"
    assert str(module) == "zero"


def test_a_class_becomes_a_class_of_passes() -> None:
    pass_ = AddWord("x", times=2)
    assert isinstance(pass_, Pass)
    assert isinstance(pass_, AddWord)
    assert (pass_.name, pass_.opt_level, pass_.word) == ("add-word", 1, "x")
    assert AddWord.__name__ == "AddWord"
    assert AddWord.__doc__ == "Adds a word of one's choice."
    assert str(pass_(Words())) == "x x"
    with pytest.raises(AttributeError, match="no attribute 'wort'"):
        _ = pass_.wort


def test_both_stand_in_pipelines() -> None:
    pipeline = Pipeline([add_one, AddWord("x"), Pipeline([add_two])])
    assert str(pipeline(Words())) == "one x two"
    assert str(pipeline) == "add-one,add-word,costly"


def test_the_context_is_handed_over() -> None:
    with PassContext(config={"factor": 3}):
        assert str(AddWord("x")(Words())) == "x x x"
        with PassContext() as inner:
            assert PassContext.current() is inner
            assert str(AddWord("x")(Words())) == "x"
        assert PassContext.current().config == {"factor": 3}
    assert PassContext.current() == PassContext()


@pytest.mark.parametrize(
    ("level", "words"), [(None, "one x two"), (2, "one x two"), (1, "one x"), (0, "one")]
)
def test_a_level_leaves_costlier_passes_out(level: int | None, words: str) -> None:
    pipeline = Pipeline([add_one, Pipeline([AddWord("x"), add_two])])
    with PassContext(opt_level=level):
        assert str(pipeline(Words())) == words


def test_instruments_of_the_context_see_every_pass() -> None:
    lines: list[str] = []
    with PassContext(instruments=[PrintAfter(["all"], write=lines.append)]):
        Pipeline([add_one, AddWord("x")])(Words())
    assert lines == ["# -- after add-one\none\n", "# -- after add-word\none x\n"]
    Pipeline([add_one])(Words())
    assert len(lines) == 2


def test_a_thread_has_its_own_context() -> None:
    seen: list[PassContext] = []
    with PassContext(opt_level=1):
        thread = threading.Thread(target=lambda: seen.append(PassContext.current()))
        thread.start()
        thread.join()
    assert seen == [PassContext()]


def test_a_context_ends_where_an_error_leaves_it() -> None:
    with pytest.raises(BurnishError), PassContext(opt_level=1):
        raise BurnishError("no luck")
    assert PassContext.current() == PassContext()


@pytest.mark.parametrize(("result", "found"), [(None, "nothing"), ("text", "a str")])
def test_a_pass_must_return_the_module(result: Any, found: str) -> None:
    @module_pass(name="forgetful")
    def forgetful(mod: Words, ctx: PassContext) -> Any:
        return result

    message = f"In pass 'forgetful': the pass returned {found}; expected a Words. End it with"
    with pytest.raises(PassError, match=message):
        forgetful(Words())


class NoTransform:
    pass


class OneArgument:
    def transform_module(self, mod: Any) -> Any:
        return mod


@pytest.mark.parametrize(
    ("found", "message"),
    [
        (lambda mod: mod, r"a function of \(mod, ctx\); '<lambda>' cannot be called so: too many"),
        (3, r"a function of \(mod, ctx\); 'int' is none"),
        (NoTransform, r"transform_module\(self, mod, ctx\); 'NoTransform' is none"),
        (OneArgument, r"'OneArgument' cannot be called so: too many"),
    ],
)
def test_what_is_no_pass(found: Any, message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        module_pass(found)


@pytest.mark.parametrize("found", [AddWord, lambda mod, ctx: mod])
def test_a_pipeline_holds_passes(found: Any) -> None:
    with pytest.raises(ConfigError, match=r"A pipeline holds passes; found .*Decorate a function"):
        Pipeline([found])
