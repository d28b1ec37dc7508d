"""Operators written with others against eager torch: repeated values, NaN, empty bags, borders."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import nn

import burnish
from burnish.frontend.torch.decompositions import DECOMPOSITIONS, FEW_BOUNDARIES, aten
from burnish.support.errors import FrontendError, UnsupportedOpError
from burnish.tests.frontend.torch.oracle import check_all, import_function, operators_of

torch.manual_seed(0)
NAN, INF = torch.nan, torch.inf
X = torch.tensor(
    [[0.5, -1.0, NAN, 2.0, 2.0, -INF], [3.0, 3.0, 1.0, INF, -2.0, 0.0], [NAN, NAN, 1.0, 0, 5, 5]]
)
NUMBERS = torch.tensor([[3, 1, 3, 2, 2, 9], [1, 1, 1, 1, 1, 1], [-5, 7, 7, 0, 8, 8]])


def test_bilinear() -> None:
    check_all(
        {"bias": nn.Bilinear(4, 5, 6), "none": nn.Bilinear(4, 5, 1, bias=False)},
        torch.randn(2, 3, 4),
        torch.randn(2, 3, 5),
    )


@pytest.mark.parametrize("p", [0.0, 0.5, 1.0, 2.0, 3.0, INF])
def test_distances(p: float) -> None:
    a, b = torch.randn(2, 5, 3), torch.randn(2, 1, 3)
    check_all({"all pairs": lambda a, b: torch.cdist(a, b, p=p)}, a, b)
    check_all({"of one": lambda a: F.pdist(a[0], p), "norm": lambda a: a.norm(p, -1)}, a)
    for rows, columns in ((5, 0), (0, 3)):
        a, b = torch.randn(rows, columns), torch.randn(2, columns)
        check_all({"of nothing": lambda a, b: torch.cdist(a, b, p=p)}, a, b)


def test_conv_tbc() -> None:
    w, b = torch.randn(3, 4, 5), torch.randn(5)
    check_all({"pad": lambda x: torch.conv_tbc(x, w, b, 1)}, torch.randn(7, 2, 4))


@pytest.mark.parametrize("size", [1, 7, FEW_BOUNDARIES, FEW_BOUNDARIES + 1, 200])
def test_places_in_sorted_sequences(size: int) -> None:
    edges = torch.randint(-20, 20, (size,)).sort()[0].float()
    rows = torch.stack([edges, edges.flip(0) * -1])
    x = torch.cat([torch.randint(-22, 22, (2, 9)).float(), torch.tensor([[NAN, INF, -INF]] * 2)], 1)
    check_all(
        {
            "left": lambda x: torch.bucketize(x, edges),
            "bucket of a number": lambda x: torch.bucketize(0.3, edges) + x,
            "bucket of an integer": lambda x: torch.bucketize(1, edges, right=True) + x,
            "right": lambda x: torch.bucketize(x, edges, right=True),
            "int32": lambda x: torch.bucketize(x, edges, out_int32=True),
            "rows": lambda x: torch.searchsorted(rows, x),
            "side": lambda x: torch.searchsorted(rows, x, side="right"),
            "sorter": lambda x: torch.searchsorted(
                rows.flip(1), x, sorter=torch.arange(size).flip(0).repeat(2, 1)
            ),
            "number": lambda x: x[0, 0] + torch.searchsorted(edges, 3.0),
        },
        x,
    )


@pytest.mark.parametrize("x", [X, NUMBERS], ids=["float", "int"])
@pytest.mark.parametrize("axis", [0, 1, -1])
def test_running_extremes(x: torch.Tensor, axis: int) -> None:
    check_all(
        {
            "max": lambda x: x.cummax(axis)[0],
            "place of max": lambda x: x.cummax(axis)[1],
            "min": lambda x: x.cummin(axis)[0],
            "place of min": lambda x: x.cummin(axis)[1],
        },
        x,
    )


def test_scans_of_one_element_and_of_many() -> None:
    for x in (torch.randn(2, 1), torch.randn(1, 33), torch.tensor(3.0)):
        check_all(
            {
                "max": lambda x: x.cummax(-1)[0],
                "place": lambda x: x.cummax(-1)[1],
                "logcumsumexp": lambda x: x.logcumsumexp(-1),
            },
            x,
        )


def test_logcumsumexp_does_not_overflow() -> None:
    x = torch.tensor([[1000.0, 999.0, -1000.0, 1001.0], [-INF, -INF, 0.0, 1.0]])
    check_all({"rows": lambda x: x.logcumsumexp(1), "columns": lambda x: x.logcumsumexp(0)}, x)


def test_slices_are_written_as_whole_pieces() -> None:
    """Without looking elements up; with a step as torch does it."""
    x = torch.randn(6, 5)
    functions: dict[str, Callable[..., Any]] = {
        "behind": lambda x: torch.slice_scatter(x, x[2:] * 2, 0, 2),
        "between": lambda x: torch.slice_scatter(x, x[:, :2] * 2, 1, -4, 3),
        "in front": lambda x: torch.slice_scatter(x, x[:4] * 2, 0, None, 4),
        "all": lambda x: torch.slice_scatter(x, x * 2, 0, -99, 99),
        "none": lambda x: torch.slice_scatter(x, x[:0], 0, 4, 2),
        "past the end": lambda x: torch.slice_scatter(x, x[:0], 0, 99),
        "before the start": lambda x: torch.slice_scatter(x, x[:0], 0, 0, 0),
    }
    check_all({**functions, "step": lambda x: torch.slice_scatter(x, x[:3] + 1, 0, 0, 6, 2)}, x)
    for function in functions.values():
        operators = operators_of(import_function(function, x))
        assert not {"take", "advanced_index", "gather_elements", "where"} & set(operators)


def test_medians() -> None:
    distinct = torch.tensor([[4.0, 1.0, 3.0, 2.0], [0.5, NAN, -1.0, 7.0], [NAN, 2.0, NAN, NAN]])
    check_all(
        {
            "rows": lambda x: x.median(1)[0],
            "place": lambda x: x.median(1)[1],
            "columns": lambda x: x.median(0, keepdim=True)[0],
            "all": lambda x: x.median(),
            "numbers": lambda x: x.nanmedian(1)[0],
            "place of numbers": lambda x: x[:2].nanmedian(1)[1],
            "all numbers": lambda x: x.nanmedian(),
        },
        distinct,
    )
    check_all({"int": lambda x: x.median(1)[0], "all": lambda x: x.nanmedian()}, NUMBERS)


def test_masked_scatter() -> None:
    x, source = torch.randn(3, 6), torch.randn(20)
    check_all(
        {
            "some": lambda x, s: x.masked_scatter(x > 0, s),
            "all": lambda x, s: x.masked_scatter(x == x, s),
            "none": lambda x, s: x.masked_scatter(x != x, s),
            "broadcast": lambda x, s: x.masked_scatter(x[:1] > 0, s),
        },
        x,
        source,
    )


@pytest.mark.parametrize("offset", [-2, 0, 1, 3])
def test_diagonal_scatter(offset: int) -> None:
    x = torch.randn(4, 2, 5)
    src = torch.randn(x.diagonal(offset, 0, 2).shape)
    check_all({"put": lambda x: x.diagonal_scatter(src, offset, 0, 2)}, x)


@pytest.mark.filterwarnings("ignore:index_reduce:UserWarning")
@pytest.mark.parametrize("how", ["prod", "mean", "amax", "amin"])
def test_index_reduce(how: str) -> None:
    index, source = torch.tensor([0, 2, 0, 0]), torch.randn(3, 4)
    check_all(
        {
            str(keep): lambda x, keep=keep: x.index_reduce(1, index, source, how, include_self=keep)
            for keep in (True, False)
        },
        torch.randn(3, 5),
    )


@pytest.mark.parametrize("mode", ["sum", "mean", "max"])
def test_bags_of_embeddings(mode: str) -> None:
    """Bags without rows at the start, inside and at the end; repeated rows; padding."""
    at, offsets = torch.tensor([4, 2, 2, 9, 0, 4, 4]), torch.tensor([0, 0, 3, 3, 5, 7])
    bag = nn.EmbeddingBag(10, 3, mode=mode)
    padded = nn.EmbeddingBag(10, 3, mode=mode, padding_idx=4)
    last = nn.EmbeddingBag(10, 3, mode=mode, include_last_offset=True)
    check_all({"plain": bag, "padded": padded, "last": last}, at, offsets)
    check_all({"rows": bag, "padded": padded}, torch.tensor([[4, 4], [2, 4], [0, 1]]))


def test_bags_with_weights() -> None:
    table, offsets = torch.randn(10, 3), torch.tensor([0, 2])
    check_all(
        {
            "sum": lambda at, w: F.embedding_bag(
                at, table, offsets, mode="sum", per_sample_weights=w
            )
        },
        torch.tensor([4, 2, 2, 9]),
        torch.randn(4),
    )


def test_other_results_of_bags_are_not_made() -> None:
    table, offsets = torch.randn(10, 3), torch.tensor([0, 2])
    with pytest.raises(UnsupportedOpError, match="_embedding_bag"):
        import_function(
            lambda at: torch.embedding_bag(table, at, offsets)[2], torch.tensor([4, 2, 2, 9])
        )


def test_a_number_is_searched_for_in_the_dtype_of_the_sequence() -> None:
    edges = torch.tensor([0.05, 0.1, 0.2], dtype=torch.float64)
    whole = torch.tensor([1, 2, 3])
    check_all(
        {
            "float64": lambda x: x[0] + torch.searchsorted(edges, 0.1),
            "right": lambda x: x[0] + torch.searchsorted(edges, 0.1, right=True),
            "integers": lambda x: x[0] + torch.searchsorted(whole, 2),
            "fraction": lambda x: x[0] + torch.searchsorted(whole, 2.5),
        },
        torch.rand(2),
    )


def check(op: Any, *args: Any, **kwargs: Any) -> None:
    """A decomposition by itself."""
    found, wanted = DECOMPOSITIONS[op](*args, **kwargs), op(*args, **kwargs)
    torch.testing.assert_close(found, wanted, equal_nan=True)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.bfloat16])
def test_parts_of_numbers_are_exact(dtype: torch.dtype) -> None:
    """Powers of two and their neighbours, the least and the largest numbers."""
    info = torch.finfo(dtype)
    x = torch.tensor(
        [0.0, -0.0, 1.0, -1.0, 2.0, 0.75, -3.5, info.max, -info.max, info.tiny, INF, -INF, NAN],
        dtype=dtype,
    )
    x = torch.cat([x, torch.nextafter(x, torch.ones_like(x)), torch.nextafter(x, -x)])
    check(aten.nextafter.default, x.unsqueeze(1), x)
    if dtype != torch.bfloat16:
        check(aten.frexp.Tensor, x)
    for decimals in (-2, 0, 2):
        check(aten.round.decimals, x.clamp(-100, 100) * 77, decimals=decimals)
    check(aten.angle.default, x)


def test_places_of_elements_in_a_row() -> None:
    x, at = torch.arange(12.0).reshape(3, 4), torch.tensor([[0, -1], [5, 5]])
    check(aten.take.default, x, at)
    check(aten.put.default, x, at[0], torch.tensor([7.0, 8.0]))
    check(aten.put.default, x, at, torch.ones(2, 2), True)
    check(aten.dist.default, x, x + 1, 3)


def test_memory_is_read_by_strides_where_the_tensor_is_all_of_it() -> None:
    x = torch.arange(12.0).reshape(3, 4)
    check(aten.as_strided.default, x, (2, 3), (1, 2), 3)
    check(aten.as_strided_scatter.default, x, torch.zeros(2, 3), (2, 3), (1, 4), 1)
    with pytest.raises(FrontendError, match="is a part of its memory"):
        DECOMPOSITIONS[aten.as_strided.default](x[:, :2], (2,), (1,))
    turned = torch.arange(24.0).reshape(2, 3, 4).permute(2, 0, 1)
    check(aten.as_strided.default, turned, (3, 2, 2), (4, 2, 1), 5)
    check(aten.as_strided_scatter.default, turned, torch.zeros(2, 3), (2, 3), (1, 4), 1)


def test_memory_around_a_tensor_is_not_read() -> None:
    x = torch.arange(6)
    check(aten.as_strided.default, x[1:], (2,), (2,), 2)
    check(aten.as_strided.default, x[1:], (2, 2), (1, 3), None)
    check(aten.as_strided.default, x[:2], (0, 9), (1, 1))
    for part, *rest in ((x[1:], (2,), (1,), 0), (x[:2], (4,), (1,)), (x[4:], (2,), (1,), 5)):
        with pytest.raises(FrontendError, match="as_strided reads the places"):
            DECOMPOSITIONS[aten.as_strided.default](part, *rest)


@pytest.mark.parametrize(("beta", "alpha"), [(1, 1), (0, 2), (0.5, 0.25)])
def test_products_of_a_batch_are_added_up(beta: float, alpha: float) -> None:
    a, b = torch.randn(3, 2, 4), torch.randn(3, 4, 5)
    check(aten.addbmm.default, torch.full((5,), NAN), a, b, beta=beta, alpha=alpha)
    whole = [t.mul(9).to(torch.int64) for t in (a, b)]
    check(aten.addbmm.default, torch.ones(2, 5).long(), *whole, beta=beta, alpha=alpha)


def test_rows_that_are_looked_up_are_not_longer_than_allowed() -> None:
    weight, at = torch.randn(5, 3), torch.tensor([[0, 2], [2, 3]])
    wanted = F.embedding(at, weight.clone(), max_norm=1.0)
    renormed = DECOMPOSITIONS[aten.embedding_renorm.default](weight, at, 1.0, 2.0)
    torch.testing.assert_close(F.embedding(at, renormed), wanted)
    assert torch.equal(renormed[[1, 4]], weight[[1, 4]])


@pytest.mark.parametrize("n", [0, 1, 3, 6, 9, 70])
def test_logcumsumexp_of_a_named_size(n: int) -> None:
    """How often prefixes are doubled depends on the size, and is not that of the example."""

    class Net(torch.nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return x.logcumsumexp(0)

    model = burnish.compile(Net(), (torch.zeros(6, 2),), dynamic_shapes=({0: "n"},))
    x = torch.linspace(-50, 50, 2 * n).reshape(n, 2)
    x[1:2] = -torch.inf
    x[4:5, 0] = torch.inf
    torch.testing.assert_close(model(x), x.logcumsumexp(0))
