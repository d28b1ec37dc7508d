"""The meaning of operators that order, find, accumulate and scatter, in NumPy."""

from __future__ import annotations

from typing import Any

import numpy as np


def arg_extreme(name: str) -> Any:
    def apply(x: Any, axis: int, keepdims: bool, last: bool) -> np.ndarray:
        found = getattr(np, name)
        if not last:
            return np.asarray(found(x, axis, keepdims=keepdims), np.int64)
        return np.asarray(x.shape[axis] - 1 - found(np.flip(x, axis), axis, keepdims=keepdims))

    return apply


def argsort(x: Any, axis: int, descending: bool, count: int | None, start: int) -> np.ndarray:
    """Stable; NaN is above everything."""
    if descending:
        back = np.flip(np.argsort(np.flip(x, axis), axis, kind="stable"), axis)
        order = x.shape[axis] - 1 - back
    else:
        order = np.argsort(x, axis, kind="stable")
    kept = [slice(None)] * x.ndim
    kept[axis] = slice(start, count)
    return np.asarray(order[tuple(kept)], np.int64)


def scan(name: str, identity: int) -> Any:
    def apply(x: Any, axis: int, exclusive: bool, reverse: bool) -> np.ndarray:
        x = np.flip(x, axis) if reverse else x
        found = getattr(np, name)(x, axis, dtype=x.dtype)
        if exclusive:
            first = np.full_like(np.take(found, [0] if x.shape[axis] else [], axis), identity)
            rest = np.take(found, range(x.shape[axis] - 1), axis)
            found = np.concatenate([first, rest], axis)
        return np.flip(found, axis) if reverse else found

    return apply


def _place(axes: Any, indices: Any) -> Any:
    place = dict(zip(axes, indices, strict=True))
    return tuple([place.get(d, slice(None)) for d in range(max(axes) + 1)])


def advanced_index(x: Any, *indices: Any, axes: Any) -> np.ndarray:
    return np.asarray(x[_place([a % x.ndim for a in axes], indices)])


UFUNCS = {"add": np.add, "mul": np.multiply, "max": np.maximum, "min": np.minimum}


def _write(out: np.ndarray, place: Any, updates: Any, reduction: str) -> np.ndarray:
    if reduction == "none":
        out[place] = updates
    else:
        UFUNCS[reduction].at(out, place, updates)
    return out


def scatter_index(x: Any, updates: Any, *indices: Any, axes: Any, reduction: str) -> np.ndarray:
    return _write(x.copy(), _place([a % x.ndim for a in axes], indices), updates, reduction)


def scatter_elements(x: Any, indices: Any, updates: Any, axis: int, reduction: str) -> np.ndarray:
    place = list(np.indices(indices.shape))
    place[axis] = indices
    return _write(x.copy(), tuple(place), updates, reduction)


def last_match(x: Any, y: Any, axis: int) -> np.ndarray:
    shape = [-1 if d == axis % x.ndim else 1 for d in range(x.ndim)]
    places = np.arange(x.shape[axis]).reshape(shape)
    return np.maximum.accumulate(np.where((x == y) | np.isnan(x), places, 0), axis)  # type: ignore[no-any-return]


def pad_edges(x: Any, pad_width: Any, mode: str) -> np.ndarray:
    name = {"reflect": "reflect", "replicate": "edge", "circular": "wrap"}[mode]
    return np.pad(x, np.reshape(pad_width, (-1, 2)), mode=name)  # type: ignore[call-overload, no-any-return]


def non_max_suppression(
    corners: Any, order: Any, there: Any, limit: Any, threshold: Any
) -> np.ndarray:
    """Box by box, each beside all that are kept."""
    kept = np.zeros(order.shape, bool)
    for b, c in np.ndindex(*order.shape[:2]):
        top, left, bottom, right = corners[b]
        areas = (bottom - top) * (right - left)
        chosen: list[int] = []
        for i, k in enumerate(order[b, c].clip(0, order.shape[2] - 1)):
            height = np.minimum(bottom[k], bottom[chosen]) - np.maximum(top[k], top[chosen])
            width = np.minimum(right[k], right[chosen]) - np.maximum(left[k], left[chosen])
            common = height.clip(0) * width.clip(0)
            with np.errstate(all="ignore"):
                overlaps = common / (areas[k] + areas[chosen] - common) > threshold
            if there[b, c, k] and len(chosen) < limit and not overlaps.any():
                kept[b, c, i] = True
                chosen.append(int(k))
    return kept


OPERATORS: dict[str, Any] = {
    "non_max_suppression": non_max_suppression,
    "argmax": arg_extreme("argmax"),
    "argmin": arg_extreme("argmin"),
    "argsort": argsort,
    "cumsum": scan("cumsum", 0),
    "cumprod": scan("cumprod", 1),
    "cummax": lambda x, axis: np.maximum.accumulate(x, axis),
    "cummin": lambda x, axis: np.minimum.accumulate(x, axis),
    "last_match": last_match,
    "advanced_index": advanced_index,
    "scatter_index": scatter_index,
    "scatter_elements": scatter_elements,
    "pad_edges": pad_edges,
}
