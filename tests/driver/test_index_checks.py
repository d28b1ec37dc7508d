"""checked=True: indices that are out of range raise, and say where."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from torch import nn

import burnish
from burnish import errors
from burnish.tests.frontend.onnx.oracle import model as onnx_model


class LookUps(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.table = nn.Embedding(10, 4)

    def forward(self, i: torch.Tensor, x: torch.Tensor) -> Any:
        rows = self.table(i).sum(1)
        return rows, torch.gather(x, 1, i), x[i[:, 0], i[:, 1]]


PLACES, X = torch.tensor([[0, 1], [4, 2], [3, 3]]), torch.rand(5, 5)
MODULE = LookUps()


@pytest.fixture(scope="module", params=[False, True], ids=["static", "dynamic"])
def checked(request: pytest.FixtureRequest) -> Any:
    shapes = ({0: "n"}, {0: "r", 1: "c"}) if request.param else None
    return burnish.compile(MODULE, (PLACES, X), dynamic_shapes=shapes, checked=True)


def test_indices_in_range_give_what_they_gave(checked: Any) -> None:
    for ours, theirs in zip(checked(PLACES, X), MODULE(PLACES, X), strict=True):
        torch.testing.assert_close(ours, theirs)
    (note,) = [n for n in checked.report.notes if n.startswith("checked=True")]
    assert "4 times" in note


@pytest.mark.parametrize(
    ("bad", "what"),
    [(11, "take at "), (-11, "take at "), (7, "gather_elements at ")],
)
def test_an_index_out_of_range_names_the_operator_and_the_line(
    checked: Any, bad: int, what: str
) -> None:
    i = PLACES.clone()
    i[1, 1] = bad
    with pytest.raises(errors.IndexRangeError) as caught:
        checked(i, X)
    assert isinstance(caught.value, IndexError)
    assert str(caught.value).startswith(what)
    assert "test_index_checks.py:" in str(caught.value)
    assert f"found {bad} at place [1, 1] of the indices" in str(caught.value)
    torch.testing.assert_close(checked(PLACES, X)[0], MODULE(PLACES, X)[0])


def test_without_it_the_nearest_element_is_taken() -> None:
    model = burnish.compile(nn.Embedding.from_pretrained(torch.eye(3)), (torch.tensor([1]),))
    torch.testing.assert_close(model(torch.tensor([5])), torch.eye(3)[2:])
    assert not [n for n in model.report.notes if "checked" in n]


def test_places_that_are_written_are_checked() -> None:
    class Scatter(nn.Module):
        def forward(self, x: torch.Tensor, i: torch.Tensor) -> Any:
            return x.scatter_add(0, i, x[:3, :2]), x.index_put((i[:, 0],), x[:3])

    model = burnish.compile(Scatter(), (X, PLACES), checked=True)
    for ours, theirs in zip(model(X, PLACES), Scatter()(X, PLACES), strict=True):
        torch.testing.assert_close(ours, theirs)
    with pytest.raises(errors.IndexRangeError, match=r"scatter_elements at .*, axis 0: expected"):
        model(X, PLACES + 1)


def test_models_of_onnx_are_checked_too() -> None:
    made = onnx_model("y = Gather<axis = 1>(x, i)", "float[2, 3] x, int64[2] i")
    model = burnish.compile(made, checked=True)
    x = np.arange(6, dtype=np.float32).reshape(2, 3)
    np.testing.assert_array_equal(model(x, np.array([-1, 0])), x[:, [-1, 0]])
    with pytest.raises(errors.IndexRangeError, match=r"take at y, axis 1: expected .* to 2, found"):
        model(x, np.array([0, 3]))


def test_a_model_without_look_ups_is_as_it_was() -> None:
    model = burnish.compile(nn.ReLU(), (X,), checked=True)
    assert "index_check" not in model.script()
    assert not model.report.notes


def test_it_is_not_saved(tmp_path: Any) -> None:
    model = burnish.compile(nn.Embedding(3, 2), (torch.tensor([1]),), checked=True)
    with pytest.raises(errors.ArtifactError, match="checked=True"):
        model.save(tmp_path / "m.burnish")
