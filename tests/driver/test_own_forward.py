"""Modules whose forward() is a compiled model are traced and called as they were."""

from __future__ import annotations

import functools
import threading
from typing import Any

import pytest
import torch
from torch import nn

import burnish
from burnish import errors
from burnish.driver.compiled_model import CompiledModel
from burnish.driver.own_forward import own_forward
from burnish.tests.driver.programs import Add


def test_the_last_one_that_leaves_puts_the_model_back() -> None:
    module = Add().eval()
    model = burnish.compile(module)
    module.forward = model
    first, second = own_forward(module), own_forward(module)
    first.__enter__()
    second.__enter__()
    first.__exit__(None, None, None)
    assert "forward" not in module.__dict__
    second.__exit__(None, None, None)
    assert module.forward is model


def test_what_was_assigned_meanwhile_stays() -> None:
    module = Add().eval()
    module.forward = burnish.compile(module).__call__
    other: Any = lambda x: x  # noqa: E731
    with own_forward(module):
        module.forward = other
    assert module.forward is other


def test_other_sources_and_forwards_stay() -> None:
    module = Add().eval()
    other: Any = lambda x: x  # noqa: E731
    module.forward = other
    for source in (module, b"onnx", "model.onnx", None):
        with own_forward(source):
            assert module.forward is other


def test_a_part_of_a_larger_module() -> None:
    whole = nn.Sequential(Add(), Add()).eval()
    whole[0].forward = burnish.compile(whole[0])
    model = burnish.compile(whole, (torch.zeros(2),))
    assert torch.equal(model(torch.zeros(2)), torch.full((2,), 2.0))
    assert torch.equal(whole(torch.zeros(2)), torch.full((2,), 2.0))
    assert isinstance(whole[0].forward, CompiledModel)


def test_a_wrapper_around_the_model_is_told() -> None:
    """It would wait for itself."""
    module = Add().eval()
    model = burnish.compile(module)

    @functools.wraps(module.forward)
    def logged(*args: Any) -> Any:
        return model(*args)

    module.forward = logged
    found: list[BaseException] = []

    def call() -> None:
        try:
            module(torch.zeros(2))
        except BaseException as error:
            found.append(error)

    thread = threading.Thread(target=call, daemon=True)
    thread.start()
    thread.join(100)
    assert not thread.is_alive()
    assert isinstance(found[0], errors.FrontendError)
    assert "calls the model that is compiled of it" in str(found[0])


def test_inputs_that_forward_does_not_take() -> None:
    model = burnish.compile(Add().eval())
    with pytest.raises(errors.ArityError, match="too many positional arguments"):
        model(torch.zeros(2), torch.zeros(2))
