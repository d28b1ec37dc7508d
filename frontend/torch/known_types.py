"""Types that hold tensors and that torch does not know how to take apart: it is told here.

torch.export takes tuples, dicts and what is registered with its pytrees. Dataclasses are told to it
by their fields, and the caches of transformers, which its models give by default, as that library
does for its own exports. A registration is the process's and stays.
"""

from __future__ import annotations

import dataclasses
import functools
import importlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import torch
from torch.utils import _pytree as pytree

UNKNOWN = "not a known type"
"""What torch.export says of a result that it cannot take apart."""


def register_types(values: Any) -> None:
    """Make the types known that are found in ``values`` and hold tensors; others stay as they are.

    Where a type is told, what it holds is looked through too.
    """
    for leaf in pytree.tree_leaves(values):
        kind = type(leaf)
        if dataclasses.is_dataclass(kind):
            torch.export.register_dataclass(kind)
        elif kind.__module__ == "transformers.cache_utils" and kind.__name__ in _CACHES:
            _CACHES[kind.__name__](kind)
        else:
            continue
        register_types(leaf)


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


def _register_cache(kind: type) -> None:
    importlib.import_module(
        "transformers.integrations.executorch"
    ).register_dynamic_cache_export_support()


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
