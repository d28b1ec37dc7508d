"""Calls of a module in eager PyTorch that leave it, its inputs and the random numbers as they were.

The module is called itself, never a copy: weights are what takes the memory, and they stay.
"""

from __future__ import annotations

import contextlib
import copy
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, TypeVar

import torch
from torch.utils import _pytree as pytree

T = TypeVar("T")


def eager_call(module: torch.nn.Module, args: Sequence[Any], kwargs: Mapping[str, Any]) -> Any:
    """What a module gives, with gradients where it fails without them: some take derivatives.
    Raises what the second call raises."""
    try:
        with torch.no_grad():
            return module(*args, **kwargs)
    except Exception:  # whatever the model's own code raises
        with torch.enable_grad():
            return module(*args, **kwargs)


@contextlib.contextmanager
def unchanged(module: torch.nn.Module) -> Iterator[None]:
    """Whatever calls do with them, afterwards buffers are the same tensors with their values again,
    other attributes the same objects, and gradients and the state of random numbers what they
    were."""
    held = [(d, dict(d)) for m in module.modules() for d in (vars(m), m._buffers)]
    kept = [(buffer, buffer.clone()) for buffer in module.buffers()]
    with own_gradients(module), torch.random.fork_rng(devices=[]):
        try:
            yield
        finally:
            for place, attributes in held:
                place.clear()
                place.update(attributes)
            with torch.no_grad():
                for buffer, values in kept:
                    if not torch.equal(buffer, values):
                        buffer.copy_(values)


@contextlib.contextmanager
def own_gradients(module: torch.nn.Module) -> Iterator[None]:
    """Weights have no gradients, and afterwards those that they had before, whatever
    ``backward()`` adds to them."""
    kept = [(x, x.grad) for x in module.parameters()]
    try:
        for x, _ in kept:
            x.grad = None
        yield
    finally:
        for x, grad in kept:
            x.grad = grad


def copied(inputs: T) -> T:
    """Inputs of a call that may write them: copies, as far as they can be copied."""
    found: T = pytree.tree_map(_copied, inputs)
    return found


def _copied(x: Any) -> Any:
    if isinstance(x, torch.Tensor):
        return x.detach().clone().requires_grad_(x.requires_grad)
    with contextlib.suppress(Exception):  # a lock, a file, a module with tensors of a graph
        return copy.deepcopy(x)
    return x
