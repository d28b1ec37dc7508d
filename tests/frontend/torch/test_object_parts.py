"""Objects taken apart by their attributes, and put together again."""

from __future__ import annotations

from collections import OrderedDict, namedtuple
from typing import Any

import pytest
import torch
from torch.utils import _pytree as pytree

from burnish.frontend.torch.object_parts import (
    flatten_object,
    flatten_object_with_paths,
    numbers_of,
    unflatten_object,
)
from burnish.support.errors import FrontendError

X = torch.arange(3.0)
Pair = namedtuple("Pair", ["left", "right"])


class Layer:
    def __init__(self, kind: str) -> None:
        self.kind = kind
        self.states: dict[int, torch.Tensor | None] = {0: X, 1: None}
        self.dtype = torch.float32
        self.size = X.shape


class Cache:
    made = 0

    def __init__(self) -> None:
        type(self).made += 1
        self.layers = [Layer("first"), Layer("second")]
        self.pair = Pair(X + 1, (X + 2, 5))
        self.named = OrderedDict(seen=True, count=X + 3)


def test_an_object_comes_back_as_it_was() -> None:
    cache = Cache()
    leaves, structure = flatten_object(cache)
    assert len(leaves) == 5
    made = Cache.made
    back = unflatten_object([2 * x for x in leaves], structure)
    assert Cache.made == made
    assert type(back) is Cache
    assert [layer.kind for layer in back.layers] == ["first", "second"]
    assert list(back.layers[0].states) == [0, 1]
    assert back.layers[1].states[1] is None
    assert back.layers[1].dtype is torch.float32
    assert back.layers[1].size == X.shape
    assert type(back.pair) is Pair
    assert type(back.named) is OrderedDict
    torch.testing.assert_close(back.layers[1].states[0], 2 * X)
    torch.testing.assert_close(back.pair.right[0], 2 * X + 4)
    assert back.pair.right[1] == 5
    torch.testing.assert_close(back.named["count"], 2 * X + 6)


def test_leaves_have_the_paths_of_attributes() -> None:
    found, structure = flatten_object_with_paths(Cache())
    assert structure == flatten_object(Cache())[1]
    assert [key for key, _ in found] == [
        pytree.MappingKey("layers[0].states[0]"), pytree.MappingKey("layers[1].states[0]"),
        pytree.MappingKey("pair[0]"), pytree.MappingKey("pair[1][0]"),
        pytree.MappingKey("named['count']"),
    ]  # fmt: skip


def _changed(change: Any) -> Any:
    cache = Cache()
    change(cache)
    return flatten_object(cache)[1]


@pytest.mark.parametrize(
    "change",
    [
        lambda c: setattr(c.layers[0], "kind", "other"),
        lambda c: setattr(c.layers[0], "dtype", torch.float16),
        lambda c: c.layers.pop(),
        lambda c: c.named.update(seen=1),
        lambda c: setattr(c, "more", X),
    ],
)
def test_what_is_no_tensor_belongs_to_the_structure(change: Any) -> None:
    assert _changed(lambda c: None) == flatten_object(Cache())[1]
    assert _changed(change) != flatten_object(Cache())[1]


def test_numbers_of_a_structure() -> None:
    assert numbers_of(flatten_object(Cache())[1]) == [5, True]
    assert numbers_of(None) == []


def test_an_object_that_holds_itself_is_refused() -> None:
    cache = Cache()
    cache.layers[0].owner = [cache]  # type: ignore[attr-defined]
    with pytest.raises(FrontendError, match=r"Cache\.layers\[0\]\.owner\[0\] .*holds itself"):
        flatten_object(cache)
