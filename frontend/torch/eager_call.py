"""Calls of a module in eager PyTorch that leave it, its inputs and the random numbers as they were.

The module is called itself, never a copy: parameters are what takes the memory of most, and they
stay. Buffers and other tensors, which calls may write, are copied meanwhile: a module that holds
its weights in buffers (those of int8) takes their memory twice.
"""

from __future__ import annotations

import contextlib
import copy
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, TypeVar

import torch
from torch._functorch._aot_autograd.subclass_parametrization import (
    unwrap_tensor_subclass_parameters,
)
from torch._subclasses.fake_tensor import FakeTensor
from torch.nn.parameter import is_lazy
from torch.utils import _pytree as pytree
from torch.utils._python_dispatch import is_traceable_wrapper_subclass

from .assignments import places_of
from .reachable_state import holders_of
from .scripted_modules import own_slots
from .size_builtins import namespaces_of

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
def unchanged(module: torch.nn.Module, also: Sequence[torch.Tensor] = ()) -> Iterator[None]:
    """Whatever calls do with them, afterwards buffers and other tensors that the module holds, and
    ``also``, are the same with their values again, and attributes, gradients and the state of
    random numbers what they were."""
    with (
        own_values([*module.buffers(), *tensors_of(module), *also]),
        own_gradients(module),
        torch.random.fork_rng(devices=[]),
        own_attributes(module),
    ):
        yield


def tensors_of(module: torch.nn.Module) -> list[torch.Tensor]:
    """The tensors that a module holds and that are no parameters, and those that have names in the
    files its classes stand in."""
    held = [p.value for p in places_of(module)]
    held += [x for names in namespaces_of(module) for x in names.values()]
    tensors = [x for x in held if isinstance(x, torch.Tensor)]
    return [x for x in tensors if not isinstance(x, torch.nn.Parameter)]


@contextlib.contextmanager
def own_values(tensors: Sequence[torch.Tensor]) -> Iterator[None]:
    """Afterwards tensors have the values that they had before, those that have any."""
    held = {id(x): x for x in tensors if _has_values(x)}
    plain = [_once(x) for x in held.values() if is_plain(x)]
    kept = [(x, x.clone()) for x in plain]
    # Of others torch may have no comparison, but it counts what is written.
    others = [x for x in held.values() if not is_plain(x) and not x.is_inference()]
    counted = [(x, x._version, x.detach().clone()) for x in others]
    try:
        yield
    finally:
        with torch.no_grad():
            for tensor, before in kept:
                if not torch.equal(tensor, before):
                    tensor.copy_(before)
            for tensor, version, before in counted:
                if tensor._version != version:
                    tensor.copy_(before)


def _has_values(x: torch.Tensor) -> bool:
    """Not so tensors of a trace (a graph of Dynamo's notes them with its nodes), of the device
    "meta", and those of lazy modules."""
    return not (isinstance(x, FakeTensor) or x.is_meta or is_lazy(x))


def is_plain(x: torch.Tensor) -> bool:
    """Whether elements lie in memory by strides, and so have values that can be compared."""
    is_strided = x.layout is torch.strided and not x.is_nested and not x.is_quantized
    return is_strided and not is_traceable_wrapper_subclass(x)


def _once(x: torch.Tensor) -> torch.Tensor:
    """The elements of a tensor, those that an expanded axis repeats once: torch writes no other."""
    found = x.detach()
    for axis, (size, stride) in enumerate(zip(x.shape, x.stride(), strict=True)):
        if stride == 0 and size > 1:
            found = found.narrow(axis, 0, 1)
    return found


@contextlib.contextmanager
def own_attributes(module: torch.nn.Module) -> Iterator[list[str]]:
    """Afterwards attributes of a module and of those in it, and all else that their code reaches
    (plain objects, containers, classes, globals), are the same objects with what they held. Gives a
    list, which then has the names of those that scripts have written."""
    places = [d for m in module.modules() for d in (vars(m), m._buffers) if isinstance(d, dict)]
    held = [(d, dict(d)) for d in places]
    reached = holders_of(module)
    try:
        with own_slots(module) as written:
            yield written
    finally:
        for place, attributes in held:
            place.clear()
            place.update(attributes)
        for holder in reached:
            holder.restore()


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


@contextlib.contextmanager
def plain_parameters(module: torch.nn.Module) -> Iterator[None]:
    """Parameters that are tensors around tensors (torchao's quantised ones) are those within, and
    made of them anew where a layer reads them: torch.export takes only these apart by itself."""
    if not any(map(is_traceable_wrapper_subclass, module.parameters())):
        yield
        return
    parts = [(m, type(m), dict(m._parameters), dict(m._modules)) for m in module.modules()]
    try:
        unwrap_tensor_subclass_parameters(module)
        yield
    finally:
        for part, kind, parameters, modules in parts:
            part.__class__ = kind
            for held, values in ((part._parameters, parameters), (part._modules, modules)):
                held.clear()
                held.update(values)  # type: ignore[arg-type]


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
