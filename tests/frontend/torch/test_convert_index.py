"""Embeddings and gathers against eager torch."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import nn

from burnish.tests.frontend.torch.oracle import check_all, import_function, operators_of

torch.manual_seed(0)
X = torch.rand(5, 4)
AT = torch.tensor([[3, 0], [1, 4]])
PLACES = torch.tensor([[0, 3, 2, 1], [4, 0, 1, 2]])


def test_rows_and_elements() -> None:
    check_all(
        {
            "embedding": lambda x, i: F.embedding(i, x),
            "padded": lambda x, i: F.embedding(i, x, padding_idx=0),
            "module": lambda x, i: nn.Embedding(5, 3, _weight=X[:, :3])(i),
            "int32": lambda x, i: F.embedding(i.int(), x),
            "index_select": lambda x, i: x.index_select(0, i[0]),
            "columns": lambda x, i: x.index_select(-1, i[1] - 1),
            "gather": lambda x, i: x.gather(0, PLACES),
            "gather columns": lambda x, i: x.gather(1, PLACES[:, :2] % 4),
            "take_along_dim": lambda x, i: torch.take_along_dim(x, PLACES, 0),
        },
        X,
        AT,
    )


def test_scalars_are_vectors_of_one_and_nothing_is_taken_of_nothing() -> None:
    check_all(
        {
            "select": lambda x, i: x[0, 0].index_select(0, i[0, :1] * 0),
            "by a scalar": lambda x, i: x.index_select(0, i[0, 0]),
            "gather": lambda x, i: x[0, 0].gather(0, i[0, 0] * 0),
            "nothing": lambda x, i: x[:0].index_select(0, i[0, :0]),
        },
        X,
        AT,
    )


def test_symbolic_sizes() -> None:
    imported = check_all(
        {"embedding": lambda x, i: F.embedding(i, x)},
        X,
        AT,
        dynamic_shapes=(({0: "rows"}, {0: "n"}),),
        also=((torch.rand(9, 4), torch.tensor([[8, 2]])),),
    )
    assert operators_of(imported) == ["take"]


def test_a_gather_is_one_operator() -> None:
    assert operators_of(import_function(lambda x: x.gather(0, PLACES), X)) == ["gather_elements"]
