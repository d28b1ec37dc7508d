"""checked=True: indices that are out of range raise, and say where."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from onnx.reference import ReferenceEvaluator
from torch import nn

import burnish
from burnish import errors
from burnish.tests.frontend.onnx.oracle import model as onnx_model

HERE = Path(__file__).name


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


class Calls(nn.Module):
    def __init__(self, function: Any) -> None:
        super().__init__()
        self.function = function

    def forward(self, x: torch.Tensor, i: torch.Tensor) -> Any:
        return self.function(x, i)


def written(x: torch.Tensor, i: torch.Tensor) -> torch.Tensor:
    x = x.clone()
    x[:, i] = 1
    return x


TENSOR, ROW, TABLE = torch.rand(5, 6), torch.tensor([0, 2, 1]), torch.tensor([[0, 2, 1], [1, 1, 0]])
FORMS: dict[str, tuple[Any, torch.Tensor, int]] = {
    "embedding": (lambda x, i: F.embedding(i, x), TABLE, 5),
    "embedding_bag": (lambda x, i: F.embedding_bag(i, x, mode="mean"), TABLE, 5),
    "gather": (lambda x, i: x.gather(1, i), TABLE, 6),
    "scatter": (lambda x, i: x.scatter(0, i, x[:2, :3]), TABLE, 5),
    "scatter value": (lambda x, i: x.scatter(1, i, 1.5), TABLE, 6),
    "scatter_add": (lambda x, i: x.scatter_add(0, i, x[:2, :3]), TABLE, 5),
    "scatter_reduce": (
        lambda x, i: x.scatter_reduce(0, i, x[:2, :3], "mean", include_self=False), TABLE, 5,
    ),
    "index_select": (lambda x, i: x.index_select(1, i), ROW, 6),
    "index_add": (lambda x, i: x.index_add(0, i, x[:3], alpha=2), ROW, 5),
    "index_copy": (lambda x, i: x.index_copy(1, i, x[:, 1:4]), ROW, 6),
    "index_fill": (lambda x, i: x.index_fill(0, i, 2.0), ROW, 5),
    "index_reduce": (lambda x, i: x.index_reduce(0, i, x[:3], "amax"), ROW, 5),
    "x[i]": (lambda x, i: x[i], TABLE, 5),
    "x[:, i]": (lambda x, i: x[:, i], ROW, 6),
    "x[i, i]": (lambda x, i: x[i, i], ROW, 5),
    "x[:, i] = 1": (written, ROW, 6),
    "index_put": (lambda x, i: x.index_put((i, i), x[0, :3], accumulate=True), ROW, 5),
    "take": (lambda x, i: x.take(i), TABLE, 30),
    "put": (lambda x, i: x.put(i, x[0, :3]), ROW, 30),
    "take_along_dim": (lambda x, i: x.take_along_dim(i, 0), torch.tensor([[0] * 6, [2] * 6]), 5),
    "take_along_dim of all": (lambda x, i: x.take_along_dim(i), ROW, 30),
    "max_unpool": (lambda x, i: F.max_unpool1d(x[:2, :3], i, 2), TABLE, 6),
    "one_hot": (lambda x, i: F.one_hot(i, 7), ROW, 7),
    "nll_loss": (lambda x, i: F.nll_loss(x[:3].log(), i, reduction="none"), ROW, 6),
    "cross_entropy": (lambda x, i: F.cross_entropy(x[:3], i, label_smoothing=0.1), ROW, 6),
}  # fmt: skip


@pytest.mark.filterwarnings("ignore:index_reduce")
@pytest.mark.parametrize("form", FORMS)
def test_what_eager_refuses_is_refused(form: str) -> None:
    """Negative indices too, which some operators count from the end; take_along_dim takes the
    remainder of any."""
    function, given, size = FORMS[form]
    model = burnish.compile(Calls(function), (TENSOR, given), checked=True)
    for index in (-1, -size, -size - 1, size - 1, size, size + 3):
        i = given.clone()
        i.view(-1)[1] = index
        try:
            expected = function(TENSOR, i)
        except (IndexError, RuntimeError):
            with pytest.raises(errors.IndexRangeError, match=rf"^\w+ at .*{HERE}:\d+.*: expected"):
                model(TENSOR, i)
        else:
            torch.testing.assert_close(model(TENSOR, i), expected)


@pytest.mark.parametrize(
    ("kind", "slices"),
    [((), ()), ((5,), (3,)), ((5,), (1,)), ((5, 4), (3, 4)), ((2, 5, 4), (2, 3, 4))],
)
@pytest.mark.parametrize("dtype", [torch.float32, torch.int64, torch.bool])
def test_slices_at_places_are_as_they_were(kind: Any, slices: Any, dtype: torch.dtype) -> None:
    axis = 1 if len(kind) > 2 else 0
    x, source = (torch.arange(math.prod(s)).reshape(s).to(dtype) for s in (kind, slices))
    source = source + 1 if dtype is not torch.bool else source
    places = torch.tensor([2, 0, 4][: slices[axis]] if slices else 0)

    def function(x: torch.Tensor, i: torch.Tensor) -> Any:
        scale = False if dtype is torch.bool else 3
        added = x.index_add(axis, i, source), x.index_add(axis, i, source, alpha=scale)
        return *added, x.index_copy(axis, i, source), x.index_fill(axis, i, 1)

    model = burnish.compile(Calls(function), (x, places), checked=True)
    for ours, theirs in zip(model(x, places), function(x, places), strict=True):
        assert ours.dtype == theirs.dtype
        torch.testing.assert_close(ours, theirs)


@pytest.mark.parametrize(
    ("text", "given", "size"),
    [
        ("y = Gather<axis = 1>(x, i)", [0, 1], 4),
        ("y = GatherElements<axis = 0>(x, i)", [[0, 1, 1, 0]], 3),
        ("y = GatherND(x, i)", [[0], [1]], 3),
        ("y = GatherND(x, i)", [[0, 1]], 4),
        ("u = CastLike(i, x)\n y = ScatterElements<axis = 1>(x, i, u)", [[0, 1]], 4),
        ("y = ScatterND(x, i, x)", [[0], [1], [2]], 3),
        ('y = NegativeLogLikelihoodLoss<reduction = "none">(x, i)', [0, 1, 2], 4),
    ],
)
def test_onnx_counts_from_the_end(text: str, given: Any, size: int) -> None:
    shape = ", ".join(map(str, np.shape(given)))
    made = onnx_model(text, f"float[3, 4] x, int64[{shape}] i")
    model = burnish.compile(made, checked=True)
    x = np.arange(12, dtype=np.float32).reshape(3, 4)
    for index in (-1, -size, -size - 1, size - 1, size):
        i = np.array(given)
        i.reshape(-1)[-1] = index
        if -size <= index < size:
            (expected,) = ReferenceEvaluator(made).run(None, {"x": x, "i": i})
            np.testing.assert_array_equal(model(x, i), expected)
        else:
            with pytest.raises(errors.IndexRangeError, match=rf"at y, axis \d: .* found {index} "):
                model(x, i)


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
