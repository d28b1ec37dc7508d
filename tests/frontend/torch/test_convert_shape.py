"""Views, permutations, joins, cuts and pads against eager torch, with a symbolic batch too."""

from __future__ import annotations

from typing import Any

import pytest
import torch
import torch.nn.functional as F

import burnish
from burnish.tests.frontend.torch.oracle import One, check_all, import_function, operators_of

X = torch.arange(24.0).reshape(2, 3, 4)
LONG = torch.arange(72.0).reshape(6, 12)

VIEWS = {
    "view": lambda x: x.view(x.shape[0], 12),
    "view -1": lambda x: x.view(-1, 2),
    "reshape": lambda x: x.transpose(1, 2).reshape(-1, 12),
    "flatten": lambda x: x.flatten(1),
    "flatten all": lambda x: torch.flatten(x),
    "unflatten": lambda x: x.unflatten(2, (2, 2)),
    "unsqueeze": lambda x: x.unsqueeze(1).unsqueeze(-1),
    "squeeze": lambda x: x.unsqueeze(1).squeeze(1),
    "squeeze dims": lambda x: torch.squeeze(x[:, :1, :1], (1, 2)),
    "permute": lambda x: x.permute(2, 0, 1),
    "transpose": lambda x: x.transpose(0, -1),
    "mT": lambda x: x.mT,
    "movedim": lambda x: x.movedim(0, 2),
    "t": lambda x: x[:, 0].t(),
    "expand": lambda x: x[:, :1].expand(-1, 5, -1),
    "expand_as": lambda x: x[:, :1, :].expand_as(x),
    "broadcast_to": lambda x: torch.broadcast_to(x, (2, *x.shape)),
    "repeat": lambda x: x.repeat(2, 1, 3),
    "repeat more": lambda x: x.repeat(3, 1, 1, 1),
    "cat": lambda x: torch.cat([x, x * 2], 1),
    "cat 0": lambda x: torch.cat([x, x]),
    "cat promotes": lambda x: torch.cat([x.int(), x], -1),
    "stack": lambda x: torch.stack([x, x + 1], 1),
    "stack -1": lambda x: torch.stack([x, x.double()], dim=-1),
    "slice": lambda x: x[:, 1:3, ::2],
    "slice end": lambda x: x[:, -2:, :-1],
    "slice whole": lambda x: x[: x.shape[0]],
    "select": lambda x: x[:, 1],
    "select -1": lambda x: x[..., -1],
    "narrow": lambda x: x.narrow(2, 1, 2),
    "chunk": lambda x: x.chunk(2, dim=1)[1],
    "split": lambda x: x.split(3, dim=2)[1],
    "split sizes": lambda x: x.split([1, 2], dim=1)[0] + x.split([1, 2], dim=1)[1],
    "unbind": lambda x: x.unbind(1)[2],
    "flip": lambda x: x.flip(1, -1),
    "pad": lambda x: F.pad(x, (1, 2)),
    "pad two": lambda x: F.pad(x, (0, 1, 2, 0), value=-1.5),
    "pad cuts": lambda x: F.pad(x, (-1, 2, 0, -1)),
    "pad ints": lambda x: F.pad(x.long(), (1, 0), value=3),
    "pad nothing": lambda x: F.pad(x, (0, 0)),
    "constant pad": lambda x: torch.constant_pad_nd(x, (1, 2), 0.5),
    "constant pad two": lambda x: torch.constant_pad_nd(x, (0, 1, 2, 0)),
    "constant pad cuts": lambda x: torch.constant_pad_nd(x, (-1, 2, 0, -1), -1.5),
    "constant pad nothing": lambda x: torch.constant_pad_nd(x, (0, 0)),
}


def test_static_shapes() -> None:
    check_all(
        VIEWS
        | {
            "split 0": lambda x: x.split(1)[1],
            "select 0": lambda x: x[1],
            "cat with nothing": lambda x: torch.cat([torch.zeros(0), x]),
            "T": lambda x: x[0].T,
            "flip 0": lambda x: x.flip(0),
            "flip of a scalar": lambda x: x[0, 0, 0].flip(-1),
            "slice of nothing": lambda x: x[:, 5:],
        },
        X,
    )


def test_a_symbolic_batch() -> None:
    imported = check_all(
        VIEWS, X, dynamic_shapes=(({0: "batch"},),), also=((X[:1],), (torch.cat([X, X, X]),))
    )
    text = imported.module.script()
    assert "x: R.Tensor" not in text
    assert '"batch * 12"' in text
    assert imported.dim_names == ("batch",)


def test_views_become_one_operator_and_whole_slices_none() -> None:
    assert operators_of(import_function(lambda x: x.unsqueeze(0).squeeze(0)[:], X)) == [
        "reshape",
        "reshape",
    ]


def test_one_element_of_a_symbolic_axis() -> None:
    check_all(
        {"first": lambda x: x[0], "last": lambda x: x[-1], "token": lambda x: x[:, 0]},
        X,
        dynamic_shapes=(({0: torch.export.Dim("batch", min=1)},),),
        also=((X[:1],),),
    )


def test_cuts_of_a_symbolic_axis() -> None:
    check_all(
        {
            "narrow": lambda x: x.narrow(0, 1, 2),
            "begin": lambda x: x[1:],
            "steps": lambda x: x[1::2],
            "symbolic end": lambda x: x[:, : x.shape[0] - 3],
            "symbolic begin": lambda x: x[:, 6 - x.shape[0] :],
            "from behind": lambda x: x[-3:],
            "symbolic from behind": lambda x: x[3 - x.shape[0] :],
        },
        LONG,
        dynamic_shapes=(({0: torch.export.Dim("batch", min=4, max=6)},),),
        also=((LONG[:4],), (LONG[:5],)),
    )


def test_ends_that_are_longer_than_an_axis_are_all_of_it() -> None:
    """As a cache keeps its last 512 steps, also of fewer."""
    x = torch.arange(18.0).reshape(9, 2)
    check_all(
        {
            "the last": lambda x: x[-5:],
            "every other": lambda x: x[-5::2],
            "to the last": lambda x: x[-5:-1],
            "to the third": lambda x: x[-5:3],
            "before the last": lambda x: x[-7:-5],
            "many": lambda x: x.mT[..., -512:],
            "of a half": lambda x: x[-(x.shape[0] // 2 + 2) :],
        },
        x,
        dynamic_shapes=(({0: "n"},),),
        also=[(x[:n],) for n in (1, 2, 3, 4, 5, 6, 8)],
    )


def test_a_symbolic_axis_is_turned_round() -> None:
    check_all(
        {
            "flip": lambda x: x.flip(0),
            "flip of several": lambda x: x.flip(-1, 0),
            "roll": lambda x: x.roll(1, 0),
            "roll of all": lambda x: x.roll(3) + x.roll(-x.shape[0]),
            "roll of more than there is": lambda x: x.roll((-9, 2), (0, -1)),
            "eye": lambda x: torch.eye(x.shape[0]),
            "eye of two sizes": lambda x: torch.eye(3, x.shape[0], dtype=torch.int32),
        },
        X,
        dynamic_shapes=(({0: "batch"},),),
        also=((X[:1],), (torch.cat([X, X, X]),)),
    )


def test_pieces_and_pads_of_named_sizes() -> None:
    x = torch.arange(24.0).reshape(6, 4)
    check_all(
        {
            "chunk": lambda x: torch.cat([p * 2 for p in x.chunk(2)]),
            "sizes": lambda x: x.split([x.shape[0] // 2, x.shape[0] - x.shape[0] // 2])[1],
            "pad": lambda x: torch.nn.functional.pad(x, (0, 0, x.shape[0], 1), value=3.0),
            "pad columns": lambda x: torch.nn.functional.pad(x, (x.shape[0], 0)),
        },
        x,
        dynamic_shapes=(({0: torch.export.Dim.AUTO},),),
        also=((x[:2],), (torch.cat([x, x]),)),
    )


ROTATIONS = {
    "halves": lambda x: torch.cat((-x.chunk(2, -1)[1], x.chunk(2, -1)[0]), -1),
    "neighbours": lambda x: torch.stack((-x[..., 1::2], x[..., ::2]), -1).flatten(-2),
    "pairs": lambda x: torch.stack([f(x) for f in PAIR], -1).flatten(3),
    "viewed pairs": lambda x: torch.stack([f(x) for f in PAIR], -1).view(x.shape),
}
PAIR = (
    lambda x: -x.reshape(*x.shape[:-1], -1, 2).unbind(-1)[1],
    lambda x: x.reshape(*x.shape[:-1], -1, 2)[..., 0],
)


@pytest.mark.parametrize("spelling", ROTATIONS)
@pytest.mark.parametrize("named", [{}, {"dynamic_shapes": ({2: "n"}, {0: "n"}, {0: "n"})}])
def test_rotary_embeddings_are_one_kernel(spelling: str, named: dict[str, Any]) -> None:
    class Rotation(torch.nn.Module):
        def forward(
            self, x: torch.Tensor, cosines: torch.Tensor, sines: torch.Tensor
        ) -> torch.Tensor:
            return x * cosines + ROTATIONS[spelling](x) * sines

    given = [torch.randn(shape) for shape in ((2, 3, 12, 16), (12, 16), (12, 16))]
    model = burnish.compile(Rotation(), tuple(given), **named)
    assert len(model.report.kernels) == 1
    torch.testing.assert_close(model(*given), Rotation()(*given))


def test_pads_that_cut_axes_of_named_sizes() -> None:
    """Steps moved on by one, as RWKV does, and ends cut off."""
    check_all(
        {
            "shifted": lambda x: F.pad(x, (1, -1)) + x,
            "shifted back": lambda x: F.pad(x, (-2, 2), value=3.0) * x,
            "cut": lambda x: F.pad(x, (-1, -1)),
            "another axis": lambda x: F.pad(x, (1, 0, 1, -1)),
        },
        torch.arange(12.0).reshape(2, 6),
        dynamic_shapes=(({1: "n"},),),
        also=[(torch.arange(2.0 * n).reshape(2, n),) for n in (2, 3, 9)],
    )


def test_pads_of_sizes_that_may_be_negative() -> None:
    check_all(
        {
            "by half": lambda x: F.pad(x, (-(x.shape[1] // 2), 0)),
            "to a length": lambda x: F.pad(x, (0, 7 - x.shape[1]), value=2.0),
            "of whole numbers": lambda x: F.pad(x.long(), (7 - x.shape[1], 1), value=-1),
        },
        torch.arange(12.0).reshape(2, 6),
        dynamic_shapes=(({1: "n"},),),
        also=[(torch.arange(2.0 * n).reshape(2, n),) for n in (3, 7, 8, 9)],
    )


def test_pads_of_an_axis_that_has_nothing() -> None:
    """Its elements cannot be looked up, so all of it is the value."""
    pad = One(lambda x, y: F.pad(x, (y.shape[0] - 2, 2), value=3.0)).eval()
    given = (torch.ones(4), torch.ones(5))
    model = burnish.compile(pad, given, dynamic_shapes=({0: "n"}, {0: "k"}))
    for n, k in ((0, 3), (3, 1), (2, 2)):
        x, y = torch.ones(n), torch.ones(k)
        torch.testing.assert_close(torch.as_tensor(model(x, y)), pad(x, y))


def test_the_last_rows_of_a_named_axis_however_short() -> None:
    def written(begin: int | None, end: int | None, value: float) -> Any:
        def write(x: torch.Tensor) -> torch.Tensor:
            y = x.clone()
            y[begin:end] *= value
            y[begin:end, :2] = 0
            return y

        return write

    check_all(
        {
            "repeated": lambda x: x[-2:].repeat(2, 1),
            "tiled": lambda x: x[-2:].tile(2, 2).reshape(-1),
            "each twice": lambda x: x[-2:].repeat_interleave(2, 0),
            "written": written(-5, None, 2),
            "written but the last": written(-5, -2, 2),
            "written in front": written(None, 5, 3),
            "written but for two": written(None, -2, 3),
        },
        torch.randn(7, 3),
        dynamic_shapes=(({0: "n"},),),
        also=[(torch.randn(n, 3),) for n in (1, 2, 4, 5, 6, 12)],
    )
