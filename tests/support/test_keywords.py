"""Keywords that there are not: whatever burnish gives to users names the nearest one."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator
from typing import Any

import pytest

import burnish
from burnish.driver.compiled_model import CompiledModel
from burnish.driver.executable import Executable
from burnish.driver.loaded_model import LoadedModel
from burnish.driver.report import CompileReport
from burnish.driver.tune_report import save_report
from burnish.support.errors import BurnishError, KeywordError
from burnish.support.keywords import hinted


@hinted
class Machine:
    def __init__(self, name: str, *, threads: int = 1) -> None:
        self.name, self.threads = name, threads

    def run(self, x: int, times: int = 1) -> int:
        return x * times

    @staticmethod
    def of(threads: int) -> Machine:
        return Machine("own", threads=threads)

    def set(self, **given: int) -> dict[str, int]:
        return given


def test_calls_are_what_they_were() -> None:
    made = Machine.of(threads=2)
    assert (made.name, made.threads) == ("own", 2)
    assert (made.run(3), made.run(3, 2), made.run(x=3, times=4)) == (3, 6, 12)
    assert made.set(thread=1) == {"thread": 1}
    assert list(inspect.signature(Machine.run).parameters) == ["self", "x", "times"]
    with pytest.raises(TypeError, match="missing 1 required positional argument"):
        made.run()  # type: ignore[call-arg]


def test_the_nearest_keyword_is_named() -> None:
    with pytest.raises(TypeError) as caught:
        Machine("m", thread=1)  # type: ignore[call-arg]
    assert isinstance(caught.value, BurnishError)
    said = "Machine() got an unexpected keyword argument 'thread'. Did you mean 'threads'?"
    assert str(caught.value) == said
    with pytest.raises(TypeError, match=r"Machine.run\(\) .* 'tims'. Did you mean 'times'?"):
        Machine("m").run(1, tims=2)  # type: ignore[call-arg]
    with pytest.raises(TypeError, match=r"'xyzzy'\.$"):
        Machine("m").run(1, xyzzy=2)  # type: ignore[call-arg]


def faces() -> Iterator[tuple[str, Callable[..., Any]]]:
    """What users call, and what that gives them, by name."""
    classes = {c.__name__: c for c in (CompiledModel, LoadedModel, Executable, CompileReport)}
    yield "save_report", save_report
    for name in burnish._PUBLIC:
        value = getattr(burnish, name)
        if inspect.isclass(value):
            classes[name] = value
        elif inspect.isfunction(value):
            yield name, value
    for name, kind in classes.items():
        for method in dir(kind):
            value = getattr(kind, method, None)
            if not method.startswith("_") and inspect.isfunction(value):
                yield f"{name}.{method}", value


def options_of(function: Callable[..., Any]) -> list[str]:
    """The names of parameters with defaults; none where any keyword is taken."""
    parameters = inspect.signature(function).parameters.values()
    if any(p.kind is p.VAR_KEYWORD for p in parameters):
        return []
    return [p.name for p in parameters if p.default is not p.empty]


FACES = {name: f for name, f in faces() if options_of(f)}


def test_the_face_is_large() -> None:
    assert len(FACES) > 60
    assert {"compile", "load", "Schedule.split", "CompiledModel.tune"} <= FACES.keys()


@pytest.mark.parametrize("name", FACES)
def test_every_option_of_the_public_face_is_named_where_it_is_misspelt(name: str) -> None:
    of_a_method = [None] if "." in name else []
    for option in options_of(FACES[name]):
        with pytest.raises(KeywordError, match=f"Did you mean '{option}'"):
            FACES[name](*of_a_method, **{option + "_": None})


@pytest.mark.parametrize("called", [burnish.te.placeholder, burnish.transform.FuseOps])
def test_functions_of_modules_have_pythons_own_message(called: Callable[..., Any]) -> None:
    with pytest.raises(TypeError, match="unexpected keyword argument 'xyzzy'"):
        called(xyzzy=1)
