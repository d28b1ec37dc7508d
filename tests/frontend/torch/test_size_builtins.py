"""Python's own functions of named sizes: the same as Python's, at every size."""

from __future__ import annotations

import sys
from typing import Any

import torch
import torch.nn.functional as F

from burnish.frontend.torch import import_module
from burnish.frontend.torch.size_builtins import SizeBuiltins
from burnish.tests.frontend.torch.oracle import One, check_all

X = torch.linspace(-1, 1, 10).reshape(2, 5)
NAMED: Any = (({1: "n"},),)
OTHERS = tuple([(torch.linspace(-2, 3, 2 * n).reshape(2, n),) for n in (1, 3, 4, 8)])
ROWS: Any = (({0: "n"},),)
OTHER_ROWS = tuple([(torch.linspace(-2, 3, 5 * n).reshape(n, 5),) for n in (1, 3, 4, 8)])


def test_whole_numbers() -> None:
    check_all(
        {
            "half": lambda x: x[:, : int(x.shape[1] / 2)],
            "a part": lambda x: x[:, : int(x.shape[1] * 0.75)],
            "itself": lambda x: x.reshape(int(x.shape[0]) * int(x.shape[1])),
            "rounded": lambda x: x[:, : round(x.shape[1] / 2)],
            "text": lambda x: x * int("2"),
            "of another base": lambda x: x * int("11", 2) * int.from_bytes(b"a", "big"),
        },
        X,
        dynamic_shapes=NAMED,
        also=OTHERS,
    )


def windows(x: torch.Tensor) -> torch.Tensor:
    """Cut into windows and joined again, as of Swin Transformers."""
    side, (height, width) = 2, x.shape[1:3]
    parts = x.view(x.shape[0], height // side, side, width // side, side, -1).transpose(2, 3)
    cut = parts.reshape(-1, side, side, x.shape[3])
    batch = int(cut.shape[0] / (height * width / side / side))
    joined = cut.view(batch, height // side, width // side, side, side, -1).transpose(2, 3)
    return joined.reshape(batch, height, width, -1)


def test_quotients_that_are_whole() -> None:
    x = torch.rand(3, 4, 6, 5)
    check_all(
        {
            "windows": windows,
            "as many": lambda x: x.reshape(int(x.numel() / 120), 120),
            "divided again": lambda x: x.flatten()[: int(x.shape[0] * 8 / 2 / 2)].view(-1, 2),
        },
        x,
        dynamic_shapes=({0: "n"},),
        also=[(torch.rand(n, 4, 6, 5),) for n in (1, 2, 7)],
    )


def test_numbers_beside_tensors() -> None:
    check_all(
        {
            "float": lambda x: x / float(x.shape[1]),
            "float of a float": lambda x: x * float(x.shape[1] / 3),
            "of a tensor's shape": lambda x: x.sum(1) / float(x.numel()),
        },
        X,
        dynamic_shapes=NAMED,
        also=OTHERS,
    )


def test_how_many_rows() -> None:
    check_all(
        {
            "len": lambda x: x / len(x),
            "len of a shape": lambda x: x * len(x.shape),
            "expanded": lambda x: torch.arange(5).expand(len(x), 5) + x,
        },
        X.repeat(2, 1),
        dynamic_shapes=ROWS,
        also=OTHER_ROWS,
    )


def test_the_larger_and_the_smaller() -> None:
    check_all(
        {
            "max": lambda x: F.pad(x, (0, max(4 - int(x.shape[1]), 0))),
            "min": lambda x: x[:, : min(int(x.shape[1]), 3)],
            "of a list": lambda x: x * max([len(x), int(x.shape[1]), 2]),
            "by a key": lambda x: x * max(-3, 2, key=abs),
        },
        X,
        dynamic_shapes=NAMED,
        also=OTHERS,
    )


def test_named_sizes_are_integers() -> None:
    def padded(x: torch.Tensor) -> torch.Tensor:
        n = x.shape[1]
        sides = (n, n) if isinstance(n, int) else n
        assert issubclass(bool, int)
        return F.pad(x, sides) * float(n)

    check_all({"of either side": padded}, X, dynamic_shapes=NAMED, also=OTHERS)


def test_names_are_pythons_again() -> None:
    names: dict[str, Any] = {"len": "a name of its own"}
    with SizeBuiltins([names]):
        assert names["int"]("3") == 3
        assert isinstance(3, names["int"])
        assert names["len"] == "a name of its own"
    assert names == {"len": "a name of its own"}
    import_module(One(lambda x: x * float(x.shape[1])).eval(), (X,), ({1: "n"},))
    assert "float" not in vars(sys.modules[__name__])
