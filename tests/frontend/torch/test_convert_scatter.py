"""Indexing by several tensors, scatters, and views of windows, against eager torch."""

from __future__ import annotations

import pytest
import torch
import torch.nn.functional as F

import burnish
from burnish.support.errors import FrontendError
from burnish.tests.frontend.torch.oracle import check_all, import_function, operators_of

torch.manual_seed(0)
X = torch.rand(4, 5, 3)
AT, TO = torch.tensor([[2], [0]]), torch.tensor([1, 0, 2])
M = torch.rand(5, 4)
PLACES = torch.tensor([[0, 2, 1, 0], [4, 2, 1, 3]])


def test_indexing() -> None:
    check_all(
        {
            "first": lambda x: x[TO],
            "last": lambda x: x[..., TO],
            "list": lambda x: x[:, [0, -1]],
            "two": lambda x: x[AT, TO],
            "apart": lambda x: x[AT, :, TO],
            "behind": lambda x: x[:, AT, TO],
            "all": lambda x: x[AT, TO, TO],
            "with a number": lambda x: x[TO, 1],
            "with a slice": lambda x: x[1:, TO, ::2],
            "int32": lambda x: x[TO.int()],
            "take": lambda x: torch.take(x, AT),
            "index_select": lambda x: x.index_select(1, TO),
        },
        X,
    )


def test_one_index_is_a_take() -> None:
    assert operators_of(import_function(lambda x: x[:, TO], X)) == ["take"]
    assert operators_of(import_function(lambda x: x[TO, TO], X)) == ["advanced_index"]


def test_indices_that_are_computed() -> None:
    imported = check_all(
        {"rows": lambda x, i: x[i], "points": lambda x, i: x[i, i % 5]},
        X,
        torch.tensor([3, -1, 0]),
        dynamic_shapes=(({0: "n"}, {0: "k"}),),
        also=((torch.rand(6, 5, 3), torch.tensor([5, 5])),),
    )
    assert set(imported.dim_names) == {"n", "k"}


def put(x: torch.Tensor) -> torch.Tensor:
    y = x.clone()
    y[:, 1] = 7.0
    y[0] = x[1]
    return y


HIGH, HIGH_ROWS = int((X > 0.5).sum()), int((X[:, 0, 0] > 0.5).sum())


def test_writing() -> None:
    check_all(
        {
            "put": lambda x: x.index_put((AT, TO), torch.tensor(2.0)),
            "accumulate": lambda x: x.index_put((TO[[0, 0, 1]],), x[:3], accumulate=True),
            "second axis": lambda x: torch.ops.aten.index_put(x, [None, TO], x[:, :3]),
            "mask": lambda x: x.index_put((x > 0.5,), torch.tensor(0.0)),
            "mask of rows": lambda x: x.index_put((x[:, 0, 0] > 0.5,), torch.tensor(0.0)),
            "a value each": lambda x: x.index_put((x > 0.5,), x.flatten()[:HIGH]),
            "a row each": lambda x: x.index_put((x[:, 0, 0] > 0.5,), x[:HIGH_ROWS]),
            "mask behind": lambda x: torch.ops.aten.index_put(
                x, [None, x[0, :, 0] > 0.5], x[:, :1], True
            ),
            "index_add": lambda x: x.index_add(0, TO, x[:3]),
            "index_copy": lambda x: x.index_copy(1, TO, x[:, :3] + 1),
            "index_fill": lambda x: x.index_fill(1, TO, -1.0),
            "index_fill of a turned one": lambda x: x.mT.index_fill(1, TO, -1.0),
            "assignments": put,
            "select_scatter": lambda x: x.select_scatter(x[0] + 1, 0, 2),
        },
        X,
    )


def test_scatters() -> None:
    ones = torch.arange(8.0).reshape(2, 4)
    check_all(
        {
            "src": lambda m: m.scatter(0, PLACES[:1], ones),
            "value": lambda m: m.scatter(0, PLACES, -1.0),
            "add": lambda m: m.scatter_add(0, PLACES, ones),
            "second axis": lambda m: m.scatter_add(1, PLACES % 4, ones),
            "prod": lambda m: m.scatter_reduce(0, PLACES, ones, "prod"),
            "amax": lambda m: m.scatter_reduce(0, PLACES, ones, "amax"),
            "amin": lambda m: m.scatter_reduce(0, PLACES, ones, "amin"),
        },
        M,
    )


@pytest.mark.filterwarnings("ignore:The reduce argument")
def test_the_old_form_of_reductions() -> None:
    ones = torch.arange(8.0).reshape(2, 4)
    check_all(
        {
            "src": lambda m: m.scatter(0, PLACES, ones, reduce="multiply"),
            "value": lambda m: m.scatter(0, PLACES, 2.0, reduce="add"),
        },
        M,
    )


def test_one_hot() -> None:
    labels = torch.tensor([[0, 3], [2, 1]])
    check_all({"one_hot": lambda x: F.one_hot(x, 5)}, labels)


def test_diagonals_and_windows() -> None:
    check_all(
        {
            "diagonal": lambda x: x.diagonal(),
            "offset": lambda x: x.diagonal(1, 1, 2),
            "below": lambda x: x.diagonal(-2, 0, 1),
            "turned": lambda x: x.diagonal(0, 2, 0),
            "none": lambda x: x.diagonal(9, 0, 1),
            "trace": lambda x: x[0].trace(),
            "einsum": lambda x: torch.einsum("iij->ij", x[:, :4]),
            "diag_embed": lambda x: torch.diag_embed(x),
            "unfold": lambda x: x.unfold(1, 3, 1),
            "unfold the last": lambda x: x.unfold(-1, 2, 2),
            "unfold to nothing": lambda x: x.unfold(1, 0, 1),
            "unfold truth": lambda x: (x > 0).unfold(2, 3, 2),
            "unfold twice": lambda x: x.unfold(1, 3, 1).unfold(2, 2, 2),
            "im2col": lambda x: F.unfold(x[None], 2, padding=1),
            "im2col of one": lambda x: F.unfold(x, (2, 3), dilation=(2, 1), stride=2),
            "roll": lambda x: x.roll((1, -2), (0, 1)),
            "roll flat": lambda x: x.roll(3),
            "roll more than all": lambda x: x.roll((-7, 9, 0), (2, 1, 0)),
            "roll twice": lambda x: x.roll((1, 1), (2, 2)),
            "roll nothing": lambda x: x[:, :0].roll(1, 1),
            "repeat_interleave": lambda x: x.repeat_interleave(2, 1),
            "tile": lambda x: x.tile(2, 1, 2),
            "flip": lambda x: x.flip(0, 2),
        },
        X,
    )


HOW = ("sum", "prod", "mean", "amax", "amin")


def test_what_stood_there_may_not_count() -> None:
    """With repeated places, places nobody writes to, and NaN and infinities among the updates."""
    x, updates = torch.randn(4, 5), torch.randn(3, 5)
    updates[0, 0], updates[1, 1], updates[2, 2] = torch.nan, torch.inf, -torch.inf
    places = torch.tensor([[0, 1, 1, 3, 0], [0, 1, 2, 3, 1], [2, 2, 1, 3, 1]])
    check_all(
        {
            f"{how} {keep}": lambda x, u, how=how, keep=keep: x.scatter_reduce(
                0, places, u, how, include_self=keep
            )
            for how in HOW
            for keep in (True, False)
        },
        x,
        updates,
    )
    numbers = torch.randint(-9, 9, (4, 5)), torch.randint(-9, 9, (3, 5))
    check_all(
        {
            f"{how} {keep}": lambda x, u, how=how, keep=keep: x.scatter_reduce(
                0, places, u, how, include_self=keep
            )
            for how in HOW
            for keep in (True, False)
        },
        *numbers,
    )


def test_places_of_a_scalar() -> None:
    zero = torch.tensor(0)
    check_all(
        {
            how: lambda x, u, how=how: x.scatter_reduce(0, zero, u, how)
            for how in ("sum", "prod", "amax")
        },
        torch.tensor(3.0),
        torch.tensor(-2.0),
    )


@pytest.mark.parametrize(
    ("function", "message"),
    [
        (lambda x: torch.unique(x, dim=0), "aten.unique_dim.default"),
    ],
)
def test_what_cannot_be_imported(function, message) -> None:  # type: ignore[no-untyped-def]
    with pytest.raises(FrontendError) as caught:
        import_function(function, M)
    assert message in str(caught.value)


def test_windows_along_a_named_axis() -> None:
    x = torch.arange(24.0).reshape(6, 4)
    check_all(
        {
            "unfold": lambda x: x.unfold(0, 2, 1),
            "steps": lambda x: x.unfold(0, 3, 2).sum(-1),
        },
        x,
        dynamic_shapes=(({0: torch.export.Dim("n", min=3, max=64)},),),
        also=((x[:3],), (torch.cat([x, x]),)),
    )


@pytest.mark.parametrize("how", ["sum", "prod", "amax", "amin"])
@pytest.mark.parametrize("keep", [True, False])
def test_truth_values_combine(how: str, keep: bool) -> None:
    torch.manual_seed(0)
    x, v, places = torch.rand(6, 5) < 0.5, torch.rand(6, 5) < 0.5, torch.randint(0, 6, (6, 5))
    check_all(
        {
            "scatter": lambda x, i, v: x.scatter_reduce(0, i, v, how, include_self=keep),
            "index_put": lambda x, i, v: x.index_put((i[0],), v[:5], accumulate=True),
        },
        x, places, v,
    )  # fmt: skip


def test_a_diagonal_of_named_sizes() -> None:
    x = torch.arange(30.0).reshape(6, 5)
    check_all(
        {
            "square": lambda x: (x @ x.T).diagonal(),
            "offset": lambda x: (x @ x.T).diagonal(offset=-1),
            "trace": lambda x: (x @ x.T).trace(),
        },
        x,
        dynamic_shapes=(({0: "n"},),),
        also=((x[:2],), (torch.cat([x, x]),)),
    )


@pytest.mark.parametrize("dtype", [torch.float32, torch.int64])
def test_what_a_mask_chose_is_put_back(dtype: torch.dtype) -> None:
    """As many values as only data tell: none, all, and rows of them."""

    class Changed(torch.nn.Module):
        def forward(self, x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
            elements, rows = x.clone(), x.clone()
            mask = elements > 0
            elements[mask] = elements[mask] * 2
            elements[elements > 1] += 1
            rows[rows[:, 0] > 0] *= 0
            return elements, rows

    module = Changed()
    x = torch.arange(-10, 10).reshape(4, 5)
    shapes = ({0: "n"},)
    model = burnish.compile(module, (x.to(dtype),), dynamic_shapes=shapes)
    for given in (x, x * 0, x.abs() + 1, x[:1], x.flip(0)):
        for one, other in zip(model(given.to(dtype)), module(given.to(dtype)), strict=True):
            torch.testing.assert_close(one, other)
