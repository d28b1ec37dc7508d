"""Types that hold tensors and that torch does not know how to take apart: it is told here.

torch.export takes tuples, dicts and what is registered with its pytrees. Dataclasses are told to it
by their fields, and the caches of transformers, which its models give by default: of keys and
values as that library does for its own exports, others by the attributes that they have. A
registration is the process's and stays.
"""

from __future__ import annotations

import dataclasses
import functools
import importlib
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from typing import Any

import torch
from torch.utils import _pytree as pytree
from torch.utils._python_dispatch import _disable_current_modes

from .object_parts import flatten_object, flatten_object_with_paths, unflatten_object

UNKNOWN = "not a known type"
"""What torch.export says of a result that it cannot take apart."""


def register_types(values: Any) -> None:
    """Make the types known that are found in ``values`` and hold tensors; others stay as they are.

    Where a type is told, what it holds is looked through too.
    """
    for leaf in pytree.tree_leaves(values):
        kind = type(leaf)
        if kind in pytree.SUPPORTED_NODES:
            pass  # told by a leaf before it
        elif dataclasses.is_dataclass(kind):
            torch.export.register_dataclass(kind)
        elif _is_cache(kind):
            _CACHES.get(kind.__name__, _register_object)(kind)
        else:
            continue
        register_types(leaf)


def taken_apart(value: Any) -> tuple[list[Any], pytree.TreeSpec] | None:
    """The leaves of an input of a type that torch, or this file, knows to hold some, and what is
    left of it, which can be a key; None for anything else."""
    register_types(value)
    leaves, spec = pytree.tree_flatten(value)
    return None if spec.is_leaf() else (leaves, spec)


def caches_in(values: Any) -> list[str]:
    """The types of transformers' caches among some values, which ``forward()`` may change."""
    leaves = pytree.tree_leaves(values, is_leaf=lambda x: _is_cache(type(x)))
    return list(dict.fromkeys([type(x).__name__ for x in leaves if _is_cache(type(x))]))


@contextmanager
def replaced_forward(module: torch.nn.Module, forward: Callable[..., Any]) -> Iterator[None]:
    """The module with another ``forward()``, and afterwards with what it had."""
    own = module.__dict__.get("forward")
    module.__dict__["forward"] = forward
    try:
        yield
    finally:
        del module.__dict__["forward"]
        if own is not None:
            module.__dict__["forward"] = own


@contextmanager
def registered_results(module: torch.nn.Module) -> Iterator[None]:
    """Makes the types known that ``forward`` returns, before anything else sees them."""
    forward = module.forward

    @functools.wraps(forward)
    def registering(*args: Any, **kwargs: Any) -> Any:
        result = forward(*args, **kwargs)
        register_types(result)
        return result

    with replaced_forward(module, registering):
        yield


def _is_cache(kind: type) -> bool:
    """Of transformers, or derived from one of these."""
    bases = [(base.__module__.partition(".")[0], base.__name__) for base in kind.__mro__]
    return any(package == "transformers" and name.endswith("Cache") for package, name in bases)


def _register(kind: type, flatten: Any, unflatten: Any, flatten_with_keys: Any) -> None:
    pytree.register_pytree_node(
        kind,
        flatten,
        unflatten,
        serialized_type_name=f"{kind.__module__}.{kind.__qualname__}",
        flatten_with_keys_fn=flatten_with_keys,
    )


def _register_object(kind: type) -> None:
    _register(kind, flatten_object, unflatten_object, flatten_object_with_paths)


def _register_cache(kind: type) -> None:
    """Keys and values, two lists, as transformers does where a cache has nothing else; states of
    recurrences and convolutions, and windows that have left tokens behind, by their attributes."""
    theirs = importlib.import_module("transformers.integrations.executorch")

    def flattening(as_lists: Callable[..., Any], as_object: Callable[..., Any]) -> Any:
        def flatten(cache: Any) -> tuple[list[Any], Any]:
            if not _is_keys_and_values(cache):
                return as_object(cache)
            known = theirs._get_cache_dict(cache), theirs._get_dynamic_cache_layout(cache)
            parts, context = as_lists(*known)
            return list(parts), context

        return flatten

    def unflatten(parts: Iterable[Any], context: Any) -> Any:
        if not isinstance(context, list):
            return unflatten_object(parts, context)
        if not all(isinstance(x, torch.Tensor) for x in pytree.tree_leaves(parts)):
            return kind()  # of the numbers of leaves, which a layer cannot be updated with
        return _cache_of(list(parts), context, theirs._unflatten_dynamic_cache)

    _register(
        kind,
        flattening(theirs._flatten_cache_dict, flatten_object),
        unflatten,
        flattening(theirs._flatten_cache_dict_with_keys, flatten_object_with_paths),
    )


def _cache_of(parts: list[Any], context: Any, make: Callable[..., Any]) -> Any:
    """A cache with these keys and values. transformers joins each to nothing, which copies it, and
    puts constants into a program that is traced: it makes a cache of others here, unseen."""
    with _disable_current_modes():
        others = [[torch.empty((1,) * x.ndim, dtype=x.dtype) for x in part] for part in parts]
        cache = make(others, context)
    names = context[0]
    held = dict(zip(names, parts, strict=True))
    for layer, keys, values in zip(
        cache.layers, held["key_cache"], held["value_cache"], strict=False
    ):
        layer.keys, layer.values, layer.device = keys, values, keys.device
        if hasattr(layer, "cumulative_length"):
            layer.cumulative_length = keys.shape[-2]
    return cache


def _is_keys_and_values(cache: Any) -> bool:
    """Whether keys and values, and windows of known sizes, are all that a cache has."""
    plain = {"DynamicLayer", "DynamicSlidingWindowLayer", "DummyLayer"}
    return all(type(layer).__name__ in plain and _has_all_tokens(layer) for layer in cache.layers)


def _has_all_tokens(layer: Any) -> bool:
    """Whether a layer's keys are those of all tokens that it has seen, and so tell their number."""
    seen = getattr(layer, "cumulative_length", None)
    if seen is None or layer.keys is None:
        return not seen
    if isinstance(layer.keys, torch.Tensor):
        return _expression(seen) == _expression(layer.keys.shape[-2])
    return True


def _expression(size: Any) -> Any:
    """A size in a form that compares without a guard."""
    return size.node.expr if isinstance(size, torch.SymInt) else size


def _register_pair(kind: type) -> None:
    """The caches of a decoder: of itself and of what it looks across to."""
    names = ("self_attention_cache", "cross_attention_cache")
    pytree.register_pytree_node(
        kind,
        lambda pair: ([getattr(pair, name) for name in names], None),
        lambda parts, _: kind(*parts),
        serialized_type_name=f"{kind.__module__}.{kind.__name__}",
        flatten_with_keys_fn=lambda pair: (
            [(pytree.GetAttrKey(name), getattr(pair, name)) for name in names],
            None,
        ),
    )


_CACHES = {"DynamicCache": _register_cache, "EncoderDecoderCache": _register_pair}
