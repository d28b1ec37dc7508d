"""Programs of given sizes beside that of all: which call takes which, and what keeps them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

import burnish
from burnish.driver.specialize import check_sizes, describe, fits, specialised
from burnish.support.errors import ArgumentError

NET = torch.nn.Sequential(torch.nn.Linear(8, 6), torch.nn.ReLU(), torch.nn.Linear(6, 3)).eval()
BATCH = ({0: "batch"},)


def compiled(**options: Any) -> Any:
    options = {"specialize": [{"batch": 1}, {"batch": 4}], **options}
    return burnish.compile(NET, (torch.rand(2, 8),), dynamic_shapes=BATCH, **options)


def agrees(model: Any, batch: int) -> None:
    x = torch.rand(batch, 8)
    expected = NET(x).detach()
    torch.testing.assert_close(model(x), expected, rtol=1e-5, atol=1e-6)
    np.testing.assert_allclose(model(x.numpy()), expected.numpy(), rtol=1e-5, atol=1e-6)


def input_shape(model: Any) -> str:
    """The parameter's shape of the program that the last dispatched call took."""
    (param,) = model.executable.program.functions["main"].params
    return ", ".join(param.spec.shape)


def test_a_call_takes_the_program_of_its_sizes() -> None:
    model = compiled()
    assert model.compilations == 3
    assert "programs of their own: batch = 1; batch = 4." in model.report.notes
    for batch in (1, 4, 2, 0, 1, 7, 4):
        agrees(model, batch)
        model.run(torch.rand(batch, 8))
        assert input_shape(model) == (f"{batch}, 8" if batch in (1, 4) else "batch, 8")
    assert model.compilations == 3
    model.run(torch.rand(1, 8))
    assert "specialised: this program is for batch = 1 alone." in model.report.notes


def test_every_kind_of_call_finds_it_whichever_came_first() -> None:
    for first in (1, 5):
        model = compiled()
        agrees(model, first)
        entry = model._entry
        assert entry != model._dispatch
        for batch in (1, 4, 5):
            agrees(model, batch)
        x = torch.rand(1, 8)
        torch.testing.assert_close(model(input=x), NET(x), rtol=1e-5, atol=1e-6)


def test_several_names_and_some_of_them() -> None:
    class Product(torch.nn.Module):
        def forward(self, x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
            return torch.relu(x) @ y

    model = burnish.compile(
        Product(),
        (torch.rand(3, 5), torch.rand(5, 7)),
        dynamic_shapes=({0: "n", 1: "k"}, {0: "k", 1: "m"}),
        specialize=[{"n": 1, "m": 2}, {"k": 4}],
    )
    for n, k, m in ((1, 3, 2), (1, 4, 3), (2, 4, 2), (5, 6, 7), (0, 4, 1)):
        x, y = torch.randn(n, k), torch.randn(k, m)
        torch.testing.assert_close(model(x, y), torch.relu(x) @ y, rtol=1e-5, atol=1e-5)


def test_a_module_that_is_compiled_at_its_first_call() -> None:
    model = burnish.compile(NET, dynamic_shapes=BATCH, specialize={"batch": 1})
    for batch in (3, 1, 2):
        agrees(model, batch)
    assert model.compilations == 2


def test_a_saved_model_has_them(tmp_path: Path) -> None:
    compiled().save(tmp_path / "m.burnish")
    loaded = burnish.load(tmp_path / "m.burnish")
    assert len(loaded.signatures) == 3
    for batch in (1, 2, 4, 0):
        agrees(loaded, batch)


def test_refresh_compiles_them_anew() -> None:
    model = compiled()
    agrees(model, 1)
    kept = NET[0].bias.detach().clone()
    try:
        with torch.no_grad():
            NET[0].bias.add_(1)
        model.refresh()
        for batch in (1, 3, 4):
            agrees(model, batch)
    finally:
        with torch.no_grad():
            NET[0].bias.copy_(kept)
    assert model.compilations == 3


def test_verify_is_of_the_program_of_the_sizes() -> None:
    assert compiled().verify(torch.rand(1, 8))


@pytest.mark.parametrize(
    ("specialize", "said"),
    [
        ([{"bath": 1}], "no input has a size 'bath'; there are batch. Did you mean 'batch'?"),
        ([{"batch": -1}], "batch cannot be -1"),
        ([{"batch": True}], "batch cannot be True"),
        ([1], "specialize takes sizes by name"),
        ("batch", "specialize takes sizes by name"),
        ([{"batch": i} for i in range(9)], "up to 8 sets of sizes"),
    ],
)
def test_errors(specialize: Any, said: str) -> None:
    with pytest.raises(ArgumentError) as error:
        compiled(specialize=specialize)
    assert said in str(error.value)


def test_parts() -> None:
    assert check_sizes({"n": 1}) == ({"n": 1},)
    assert check_sizes([{}]) == ()
    assert describe({"n": 1, "m": 2}) == "n = 1, m = 2"
    model = compiled()
    one = model._special[id(model._fixed)][0]
    assert fits(one, [np.zeros((1, 8))])
    assert not fits(one, [np.zeros((2, 8))])
    assert not fits(one, [np.zeros((1, 8, 1))])
    assert not fits(one, [])
    with pytest.raises(ArgumentError, match="there are none"):
        specialised(one.imported, {"batch": 2})
