"""Functions that would make a constant of a named size: the same as torch's, at every size."""

from __future__ import annotations

import math
from typing import Any

import pytest
import torch

from burnish import compile as compile_model
from burnish.frontend.torch import import_module
from burnish.frontend.torch.size_functions import tensor
from burnish.support.errors import FrontendError, ShapeMismatchError
from burnish.tests.frontend.torch.oracle import One, check_all

X = torch.linspace(-1, 1, 10).reshape(2, 5)
NAMED: Any = (({1: "n"},),)
OTHERS = tuple([(torch.linspace(-2, 3, 2 * n).reshape(2, n),) for n in (1, 3, 4, 8)])


def test_tensors_of_sizes() -> None:
    check_all(
        {
            "new": lambda x: x / x.new_tensor(x.shape[1]),
            "new, of a type": lambda x: x.new_tensor(x.shape[1], dtype=torch.int32),
            "new, a list": lambda x: x.new_tensor([x.shape[1], 0.5, x.shape[0]]),
            "as": lambda x: x / torch.as_tensor(x.shape[1]),
            "as, of a type": lambda x: torch.as_tensor(x.shape[1] / 2, dtype=torch.float16),
            "as an array": lambda x: x * torch.asarray(x.shape[1]),
            "as an array of its own": lambda x: x * torch.asarray([x.shape[1]], copy=True),
            "of": lambda x: x / torch.tensor(x.shape[1]),
            "of the shape": lambda x: torch.tensor(x.shape),
            "of rows": lambda x: torch.tensor([[0, x.shape[1]], [x.shape[0], 1]]),
            "of a quotient": lambda x: torch.tensor(x.shape[1] / 3).sqrt(),
        },
        X,
        dynamic_shapes=NAMED,
        also=OTHERS,
    )


def test_sequences_of_as_many_steps() -> None:
    check_all(
        {
            "linspace": lambda x: torch.linspace(0, 1, x.shape[1]),
            "to the size": lambda x: torch.linspace(0.5, x.shape[1] - 1, x.shape[1]),
            "of a type": lambda x: torch.linspace(-1, 1, x.shape[1], dtype=torch.float64),
            "of integers": lambda x: torch.linspace(0, 1, x.shape[1] * 10, dtype=torch.int64),
            "of integers, from parts": lambda x: torch.linspace(
                0.5, 7.75, x.shape[1] + 1, dtype=torch.int32
            ),
            "logspace": lambda x: torch.logspace(0, 2, x.shape[1], base=2.0),
        },
        X,
        dynamic_shapes=NAMED,
        also=OTHERS,
    )


def test_maths_of_python() -> None:
    check_all(
        {
            "sqrt": lambda x: x / math.sqrt(x.shape[1]),
            "log": lambda x: x * math.log(x.shape[1] + 1),
            "log of a base": lambda x: x * math.log(x.shape[1] + 1, 512),
            "log2 and a constant": lambda x: x * math.log2(x.shape[1]) / math.log(7),
            "log10": lambda x: x * math.log10(x.shape[1]),
            "exp": lambda x: x * math.exp(-x.shape[1]),
            "beside no axes": lambda x: x.sum() * math.log(x.shape[1] + 1),
            "beside integers": lambda x: (x * 8).int() * math.exp(1 / x.shape[1]),
            "the larger": lambda x: x.half() * (2.0 + math.log2(x.shape[1]) ** 0.5),
        },
        X,
        dynamic_shapes=NAMED,
        also=OTHERS,
    )
    assert math.sqrt.__module__ == "math"


def test_numbers_beside_tensors() -> None:
    def attended(x: torch.Tensor) -> torch.Tensor:
        y = x.unsqueeze(-1)
        return torch.nn.functional.scaled_dot_product_attention(y, y, y, scale=1 / x.shape[1])

    check_all(
        {
            "padding": lambda x: torch.nn.functional.pad(x, (1, 2), value=x.shape[1]),
            "padding by sizes": lambda x: torch.nn.functional.pad(x, (x.shape[0], 0), value=2.5),
            "attention": attended,
        },
        X,
        dynamic_shapes=NAMED,
        also=OTHERS,
    )


def test_dtypes_are_those_of_torch() -> None:
    for data in (1, 1.5, True, [1, 2.5], [True, 3], [[1], [2]], [torch.tensor(1), 2.0]):
        torch.testing.assert_close(tensor(data), torch.tensor(data))


def test_where_python_asks_for_a_value_is_told() -> None:
    def scaled(x: torch.Tensor) -> torch.Tensor:
        return sum([x * i for i in range(x.shape[1])])  # here

    with pytest.raises(FrontendError) as caught:
        import_module(One(scaled).eval(), (X,), ({1: "n"},))
    assert str(caught.value).splitlines()[-1].endswith("for i in range(x.shape[1])])  # here")
    assert "torch.arange(n)" in str(caught.value)
    assert not hasattr(torch.SymInt.__index__, "__wrapped__")


def test_parts_of_axes() -> None:
    def halves(x: torch.Tensor) -> torch.Tensor:
        one, other = torch.cat([x, x * x], 1).chunk(2, dim=1)
        return one - 2 * other

    def parts(x: torch.Tensor) -> torch.Tensor:
        first, second, third = torch.chunk(torch.cat([x, x * x, -x], 1), 3, 1)
        return first - second * third

    check_all(
        {
            "halves": halves,
            "thirds": parts,
            "of a size": lambda x: torch.cat([x, x + 1], 1).split(x.shape[1], 1)[1],
            "of half of the size": lambda x: torch.split(
                torch.cat([x, x + 1], 1), 2 * x.shape[1] // 2, dim=1
            )[1],
            "of sizes": lambda x: torch.cat([x, x + 1], 1).split([x.shape[1]] * 2, 1)[1],
            "the larger half": lambda x: x.chunk(2, 1)[0],
            "halves joined": lambda x: torch.cat(x.chunk(2, 1)[::-1], 1),
            "of another axis": lambda x: x.chunk(2)[1] * float(x.shape[1]),
        },
        X,
        dynamic_shapes=NAMED,
        also=OTHERS,
    )


@pytest.mark.parametrize(
    ("count", "expr"),
    [(2, "n"), (4, "n"), (7, "n"), (3, "2*n"), (4, "2*n"), (4, "n + 1"), (5, "3*n + 2")],
)
def test_chunks_are_as_many_as_torch_makes(count: int, expr: str) -> None:
    factor, more = {"n": (1, 0), "2*n": (2, 0), "n + 1": (1, 1), "3*n + 2": (3, 2)}[expr]

    def chunks(x: torch.Tensor) -> tuple[torch.Tensor, ...]:
        return tuple([part * 2 for part in x.chunk(count)])

    def of(n: int) -> torch.Tensor:
        return torch.arange(1.0, factor * n + more + 1)

    model = compile_model(One(chunks).eval(), (of(8),), dynamic_shapes=({0: expr},))
    refused = []
    for n in range(61):
        try:
            found = model(of(n))
        except ShapeMismatchError:
            refused.append(n)
            continue
        torch.testing.assert_close(tuple(map(torch.as_tensor, found)), chunks(of(n)))
    assert refused == list(range(len(refused)))
    assert len(refused) < 61


@pytest.mark.parametrize("count", [2, 3])
def test_chunks_of_an_axis_of_several_names(count: int) -> None:
    def chunks(x: torch.Tensor, y: torch.Tensor) -> tuple[torch.Tensor, ...]:
        return tuple([part * 2 for part in torch.cat([x, y]).chunk(count)])

    names = ({0: "n"}, {0: "m"})
    model = compile_model(One(chunks).eval(), (X[0], X[1, :4]), dynamic_shapes=names)
    called = 0
    for n in range(1, 7):
        for m in range(1, 7):
            given = torch.arange(1.0, n + 1), torch.arange(50.0, 50 + m)
            try:
                found = model(*given)
            except ShapeMismatchError:
                continue
            torch.testing.assert_close(tuple(map(torch.as_tensor, found)), chunks(*given))
            called += 1
    assert called >= 12


def test_chunks_of_several_names_are_counted_where_the_last_is_not_used() -> None:
    """Of 5 elements there are three of four chunks, and the third has one."""
    third = One(lambda x, y: torch.cat([x, y]).chunk(4)[2] * 2).eval()
    names = ({0: "n"}, {0: "m"})
    model = compile_model(third, (X[0], X[1, :4]), dynamic_shapes=names)
    with pytest.raises(ShapeMismatchError):
        model(X[0, :3], X[1, :2])
    given = X[0], X[1, :2]
    torch.testing.assert_close(torch.as_tensor(model(*given)), third(*given))


def test_parts_of_any_axis() -> None:
    check_all(
        {
            "of three": lambda x: torch.cat(x.tensor_split(3, dim=1)[::-1], 1),
            "the second of four": lambda x: torch.tensor_split(x, 4, -1)[1],
            "at places": lambda x: torch.tensor_split(x, [2, 4], -1)[1],
        },
        X,
        dynamic_shapes=NAMED,
        also=OTHERS,
    )


def test_thirds_of_an_axis_that_is_long_enough() -> None:
    """Of 4 elements there are two chunks."""

    def thirds(x: torch.Tensor) -> torch.Tensor:
        return torch.stack([part.sum(0) for part in x.chunk(3)])

    x = torch.randn(7, 2)
    imported = check_all(
        {"thirds": thirds},
        x,
        dynamic_shapes=(({0: "n"},),),
        also=[(torch.randn(n, 2),) for n in (5, 6, 8, 9, 10, 11)],
    )
    assert "dim n was exported for sizes of 5 and more." in imported.notes
    with pytest.raises(ShapeMismatchError, match="n from 5 and more, got 4"):
        imported.flatten_inputs((torch.randn(4, 2),), {})


def test_distances_of_any_number_of_rows() -> None:
    """torch takes products for more than 25 rows."""
    check_all(
        {
            "of named rows": torch.cdist,
            "p": lambda x, y: torch.cdist(x, y, p=1.0),
        },
        torch.randn(7, 3),
        torch.randn(30, 3),
        dynamic_shapes=(({0: "n"}, {0: "m"}),),
        also=[(torch.randn(n, 3), torch.randn(m, 3)) for n, m in ((1, 1), (26, 25), (40, 31))],
    )


def test_halves_that_there_are_not() -> None:
    """Of a single element ``torch.chunk`` makes one chunk."""
    imported = import_module(One(lambda x: x.chunk(2, 1)[-1]).eval(), (X,), ({1: "n"},))
    assert "dim n was exported for sizes of 2 and more." in imported.notes


def test_layers_of_torch_that_ask_are_told_by_the_models_line() -> None:
    class Forwards(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.layer = torch.nn.Linear(5, 2)

        def forward(self, x: torch.Tensor) -> Any:
            return torch.func.jvp(self.layer, (x,), (x,))

    with pytest.raises(FrontendError) as caught:
        import_module(Forwards().eval(), (X,), ({0: "n"},))
    assert str(caught.value).endswith("return torch.func.jvp(self.layer, (x,), (x,))")
    assert "export.py" not in str(caught.value), "what this front end puts between"


def test_maxima_of_rows() -> None:
    x = torch.linspace(-3, 3, 48).sin().reshape(2, 3, 8)
    check_all(
        {
            "layer": torch.nn.MaxPool1d(2),
            "padded": lambda x: torch.nn.functional.max_pool1d(x, 3, 2, 1),
            "dilated": lambda x: torch.max_pool1d(x, (3,), (1,), (1,), (2,)),
            "without a batch": lambda x: torch.nn.functional.max_pool1d(x[0], 2),
        },
        x,
        dynamic_shapes=(({0: "b", 2: "n"},),),
        also=[(x.repeat(1, 1, 3)[:1, :, :n],) for n in (5, 6, 17)],
    )


@pytest.mark.parametrize("corners", [False, True])
def test_maps_of_images(corners: bool) -> None:
    def places(x: torch.Tensor, theta: torch.Tensor) -> torch.Tensor:
        return torch.nn.functional.affine_grid(theta, x.size(), align_corners=corners)

    def given(*sizes: int) -> tuple[torch.Tensor, torch.Tensor]:
        axes = len(sizes) - 2
        return torch.zeros(sizes), torch.linspace(-1, 1, sizes[0] * axes * (axes + 1)).reshape(
            sizes[0], axes, axes + 1
        )

    check_all(
        {"of two axes": places},
        *given(2, 1, 4, 5),
        dynamic_shapes=(({0: "b", 2: "h", 3: "w"}, {0: "b"}),),
        also=[given(1, 1, 3, 2), given(3, 1, 7, 4)],
    )
    check_all(
        {"of three axes": places},
        *given(2, 1, 4, 5, 3),
        dynamic_shapes=(({0: "b", 2: "d", 3: "h", 4: "w"}, {0: "b"}),),
        also=[given(1, 1, 2, 3, 6)],
    )
