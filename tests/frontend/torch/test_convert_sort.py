"""Operators that order, find and accumulate, against eager torch."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch

from burnish.support.errors import FrontendError
from burnish.tests.frontend.torch.oracle import check_all, import_function, operators_of

torch.manual_seed(0)
X = torch.randperm(60).reshape(3, 4, 5).float()
TIES = torch.randint(0, 3, (4, 9)).float()
NANS = torch.tensor([[1.0, torch.nan, -torch.inf, torch.nan], [3.0, 3.0, torch.inf, 0.0]])


def pick(function: Callable[..., Any], index: int) -> Callable[..., Any]:
    """One of the results of a function."""
    return lambda x: function(x)[index]


def test_argmax_and_argmin() -> None:
    functions: dict[str, Callable[..., Any]] = {
        "all": lambda x: x.argmax(),
        "axis": lambda x: x.argmax(1),
        "negative": lambda x: x.argmin(-1),
        "keepdim": lambda x: x.argmin(0, keepdim=True),
        "indices of bools": lambda x: (x > 1).max(1)[1],
        "ints": lambda x: x.nan_to_num().int().argmax(-1),
    }
    for i in range(2):
        functions[f"largest {i}"] = pick(lambda x: x.max(1), i)
        functions[f"least {i}"] = pick(lambda x: x.min(-1, keepdim=True), i)
    for x in (X, NANS, TIES):
        check_all(functions, x)


def test_scalars() -> None:
    check_all(
        {
            "argmax": lambda x: x.argmax(),
            "argmin": lambda x: x.argmin(0),
            "max": lambda x: x.max(0)[0],
            "index": lambda x: x.min(0)[1],
            "sort": lambda x: x.sort()[0],
            "argsort": lambda x: x.argsort(),
            "cumsum": lambda x: x.cumsum(0),
            "logsumexp": lambda x: x.logsumexp(0),
            "topk": lambda x: x.topk(1)[1],
        },
        torch.tensor(3.5),
    )


def test_sorts() -> None:
    check_all(
        {
            "values": lambda x: x.sort()[0],
            "indices": lambda x: torch.sort(x, stable=True)[1],
            "descending": lambda x: torch.sort(x, dim=0, descending=True, stable=True)[1],
            "values descending": lambda x: x.sort(-1, descending=True)[0],
            "argsort": lambda x: torch.argsort(x, dim=0, stable=True),
            "msort": torch.msort,
        },
        TIES,
    )
    check_all({"nan": lambda x: x.sort()[0], "down": lambda x: x.sort(descending=True)[0]}, NANS)


def top(k: int, axis: int, *, largest: bool) -> Callable[..., Any]:
    return lambda x: x.topk(k, axis, largest)


def test_top_k() -> None:
    functions: dict[str, Callable[..., Any]] = {
        "kth": lambda x: x.kthvalue(2)[0],
        "kth index": lambda x: x.kthvalue(3, 1, keepdim=True)[1],
    }
    for k, axis, largest in [(1, -1, True), (3, 1, True), (2, 0, False), (0, -1, True)]:
        for i in range(2):
            functions[f"{k} {axis} {largest} {i}"] = pick(top(k, axis, largest=largest), i)
    check_all(functions, X)


def test_what_nobody_reads_is_dropped_by_the_compiler_not_here() -> None:
    imported = import_function(lambda x: x.topk(2)[1], X)
    assert operators_of(imported) == ["argsort", "gather_elements"]


def test_scans_and_sums() -> None:
    check_all(
        {
            "cumsum": lambda x: x.cumsum(1),
            "cumsum of ints": lambda x: x.int().cumsum(-1),
            "cumsum of bools": lambda x: (x > 3).cumsum(0),
            "cumsum in double": lambda x: x.cumsum(0, dtype=torch.float64),
            "cumprod": lambda x: (x / 30).cumprod(-1),
            "logsumexp": lambda x: x.logsumexp(1),
            "logsumexp of two": lambda x: x.logsumexp((0, -1), keepdim=True),
            "count_nonzero": lambda x: torch.count_nonzero(x),
            "count_nonzero of an axis": lambda x: torch.count_nonzero(x > 3, 1),
        },
        X,
    )
    special = torch.tensor([[-torch.inf, -torch.inf], [torch.inf, 1.0], [torch.nan, 1.0]])
    check_all({"logsumexp": lambda x: x.logsumexp(1), "cumsum": lambda x: x.cumsum(1)}, special)


def test_symbolic_sizes() -> None:
    check_all(
        {
            "argmax": lambda x: x.argmax(0),
            "sort": lambda x: x.sort(0)[0],
            "topk": lambda x: x.topk(2, 1)[0],
            "cumsum": lambda x: x.cumsum(0),
        },
        TIES,
        dynamic_shapes=(({0: "n"},),),
        also=((TIES[:2],), (TIES[:1],)),
    )


def test_an_empty_axis_is_refused() -> None:
    with pytest.raises(FrontendError):
        import_function(lambda x: x.argmax(1), torch.zeros(2, 0))


def test_as_many_as_a_named_size_says() -> None:
    x = torch.tensor([3.0, 1.0, 2.0, 9.0, 7.0, 5.0])
    check_all(
        {
            "topk": lambda x: x.topk(x.shape[0] // 2).values,
            "smallest": lambda x: x.topk(x.shape[0] // 2, largest=False).indices,
            "kth": lambda x: x.kthvalue(x.shape[0] // 2 + 1, keepdim=True).values,
            "median": lambda x: x.median(0).values,
        },
        x,
        dynamic_shapes=(({0: torch.export.Dim.DYNAMIC},),),
        also=((x[:5],), (torch.cat([x, x + 20]),)),
    )
