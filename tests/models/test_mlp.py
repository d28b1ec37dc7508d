"""The MLP: reproducible weights, weights from outside, and that it learns."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from burnish.models import fashion_mnist, mlp
from burnish.models.garments import draw_garments
from burnish.support.config import flag
from burnish.support.errors import DataError


def accuracy(module: torch.nn.Module, images: np.ndarray, labels: np.ndarray) -> float:
    x = torch.from_numpy(images.astype(np.float32) / 255).reshape(-1, 1, 28, 28)
    with torch.no_grad():
        return float((module(x).argmax(1).numpy() == labels).mean())


def test_build_gives_a_module_in_eval_mode_and_an_input() -> None:
    module, (x,) = mlp.build(batch=3)
    assert not module.training
    assert x.shape == (3, 1, 28, 28)
    assert x.dtype is torch.float32
    assert 0 <= float(x.min()) <= float(x.max()) <= 1
    assert module(x).shape == (3, 10)


def test_a_seed_gives_the_same_weights_and_leaves_torch_alone() -> None:
    torch.manual_seed(0)
    expected = torch.rand(3)
    torch.manual_seed(0)
    first, second, other = (mlp.weights_of(mlp.build(seed=s)[0]) for s in (5, 5, 6))
    assert torch.equal(torch.rand(3), expected)
    assert all(np.array_equal(first[k], second[k]) for k in first)
    assert not np.array_equal(first["w0"], other["w0"])


def test_weights_go_in_and_come_out() -> None:
    rng = np.random.default_rng(0)
    shapes = fashion_mnist.WEIGHT_SHAPES
    weights = {k: rng.standard_normal(s).astype(np.float32) for k, s in shapes.items()}
    module, (x,) = mlp.build(weights)
    found = mlp.weights_of(module)
    assert all(np.array_equal(found[k], weights[k]) for k in shapes)
    hidden = np.maximum(x.numpy().reshape(1, 784) @ weights["w0"].T + weights["b0"], 0)
    expected = hidden @ weights["w1"].T + weights["b1"]
    np.testing.assert_allclose(module(x).detach().numpy(), expected, rtol=1e-4, atol=1e-3)
    found["w0"][...] = 0
    assert not np.array_equal(mlp.weights_of(module)["w0"], found["w0"])


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"w0": None}, "weight 'w0': expected shape (128, 784), found nothing."),
        ({"b1": np.zeros(9)}, "weight 'b1': expected shape (10,), found shape (9,)."),
    ],
)
def test_wrong_weights_are_refused(change: dict[str, np.ndarray | None], message: str) -> None:
    weights = {k: np.zeros(s, np.float32) for k, s in fashion_mnist.WEIGHT_SHAPES.items()}
    given = {k: v for k, v in {**weights, **change}.items() if v is not None}
    with pytest.raises(DataError) as caught:
        mlp.build(given)
    assert str(caught.value) == message


@pytest.fixture(scope="module")
def drawn() -> tuple[np.ndarray, np.ndarray]:
    return draw_garments(800, seed=1)


def test_the_same_seed_learns_the_same(drawn: tuple[np.ndarray, np.ndarray]) -> None:
    images, labels = drawn[0][:128], drawn[1][:128]
    threads = torch.get_num_threads()
    first, again, other = (mlp.train(images, labels, seed=s, epochs=1) for s in (0, 0, 1))
    assert torch.get_num_threads() == threads
    assert not first.training
    weights = [mlp.weights_of(m) for m in (first, again, other)]
    assert all(np.array_equal(weights[0][k], weights[1][k]) for k in weights[0])
    assert not np.array_equal(weights[0]["w0"], weights[2]["w0"])


def test_it_classifies_what_it_is_known_to(drawn: tuple[np.ndarray, np.ndarray]) -> None:
    """Of the 900 images in BURNISH_DATA, 797. Without them: most garments, after one epoch."""
    folder = flag("BURNISH_DATA")
    data = fashion_mnist.load(folder) if folder is not None else None
    if data is not None and data.weights is not None and len(data.images) == 900:
        module, _ = mlp.build(data.weights)
        assert round(accuracy(module, data.images, data.labels) * 900) == 797
        return
    module = mlp.train(drawn[0][:600], drawn[1][:600], epochs=1)
    assert accuracy(module, drawn[0][600:], drawn[1][600:]) > 0.6
