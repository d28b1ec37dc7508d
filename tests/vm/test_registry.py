from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pytest

from burnish.support.errors import (
    ArgumentError,
    DuplicateFunctionError,
    EnvironmentFunctionError,
    UnknownFunctionError,
)
from burnish.vm.registry import (
    call_func,
    get_func,
    has_func,
    list_funcs,
    register_func,
    unregister_func,
)
from burnish.vm.tensor import Tensor, array


@pytest.fixture(autouse=True)
def clean() -> Iterator[None]:
    before = set(list_funcs())
    yield
    for name in set(list_funcs()) - before:
        unregister_func(name)


def test_both_ways_to_register() -> None:
    @register_func("test.decorated")
    def decorated(x: Tensor) -> None: ...

    register_func("test.direct", decorated)
    assert get_func("test.decorated") is get_func("test.direct") is decorated
    assert {"test.decorated", "test.direct"} <= set(list_funcs())


def test_a_duplicate_needs_override() -> None:
    register_func("test.f", print)
    with pytest.raises(DuplicateFunctionError, match=r"'test.f' is already registered.*override"):
        register_func("test.f", repr)
    assert get_func("test.f") is print
    register_func("test.f", repr, override=True)
    assert get_func("test.f") is repr


def test_the_nearest_name_is_suggested() -> None:
    register_func("test.linear", print)
    with pytest.raises(UnknownFunctionError, match=r"Did you mean 'test.linear'\?") as error:
        get_func("test.liner")
    assert isinstance(error.value, KeyError)
    with pytest.raises(UnknownFunctionError):
        unregister_func("test.liner")
    unregister_func("test.linear")
    assert not has_func("test.linear")


def test_a_decorator_without_a_name() -> None:
    with pytest.raises(ArgumentError, match=r'@register_func\("env.name"\)'):
        register_func(print)  # type: ignore[call-overload]


def test_arguments_are_written_in_place() -> None:
    @register_func("test.relu")
    def relu(x: Tensor, out: Tensor) -> None:
        np.maximum(x.numpy(), 0, out=out.numpy())

    out = array(np.zeros(2, np.float32))
    call_func("test.relu", [array(np.array([-1, 2], np.float32)), out])
    assert out.tolist() == [0, 2]


def test_what_it_raises_is_chained_and_named() -> None:
    @register_func("test.bad")
    def bad(x: Tensor, out: Tensor) -> None:
        raise ValueError("no such weight")

    with pytest.raises(EnvironmentFunctionError) as error:
        call_func("test.bad", [array(np.zeros((1, 3), np.float32)), array(np.zeros(2, np.int8))])
    assert str(error.value) == (
        "The environment function 'test.bad' raised ValueError: no such weight\n"
        "It was called with (float32[1, 3], int8[2]); "
        "the last arguments are outputs to write in place."
    )
    assert isinstance(error.value.__cause__, ValueError)
