"""Importing whole modules: the text, symbolic dims, structure, weights, and every refusal."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from torch import nn
from torch.export import Dim

import burnish
from burnish.frontend.imported import Imported
from burnish.frontend.torch import import_exported_program, import_module
from burnish.frontend.torch.registry import REGISTRY
from burnish.graphir.expr import Constant, Function
from burnish.graphir.module import constants_of
from burnish.graphir.verify import verify_module
from burnish.support.errors import (
    ArgumentError,
    BurnishError,
    FrontendError,
    ShapeMismatchError,
    UnsupportedOpError,
)
from burnish.tests.graphir.reference import run


class Tiny(nn.Module):
    """Two tied layers, a buffer that is saved and one that is not, and a plain tensor."""

    def __init__(self) -> None:
        super().__init__()
        self.factor: torch.Tensor
        self.offset: torch.Tensor
        self.first = nn.Linear(4, 4)
        with torch.no_grad():
            self.first.weight.copy_(torch.arange(-8, 8).reshape(4, 4) / 8)
            self.first.bias.copy_(torch.tensor([0.25, -0.5, 1.0, 0.0]))
        self.second = nn.Linear(4, 4, bias=False)
        self.second.weight = self.first.weight
        self.register_buffer("offset", torch.full((4,), 0.5))
        self.register_buffer("factor", torch.tensor(2.0), persistent=False)
        self.plain = torch.arange(4.0)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        hidden: torch.Tensor = self.second(F.relu(self.first(x)))
        return hidden * self.factor + self.offset - self.plain


def main_of(imported: Imported) -> Function:
    main = imported.module["main"]
    assert isinstance(main, Function)
    return main


@pytest.fixture(scope="module")
def tiny() -> tuple[Tiny, Imported]:
    module = Tiny().eval()
    return module, import_module(module, (torch.rand(1, 4),), ({0: "batch"},))


def test_the_text_of_a_small_model(
    tiny: tuple[Tiny, Imported], golden: Callable[..., None]
) -> None:
    golden(verify_module(tiny[1].module).script())


def test_what_a_driver_reads(tiny: tuple[Tiny, Imported]) -> None:
    imported = tiny[1]
    assert imported.dim_names == ("batch",)
    assert imported.input_names == ("x",)
    assert imported.source == "torch Tiny"
    assert imported.single_output
    assert imported.positional_only
    assert imported.notes == ()
    assert imported.variables["x"] == "x"
    assert imported.variables["linear_1"] == "lv_2"


def test_every_batch_is_that_of_eager(tiny: tuple[Tiny, Imported]) -> None:
    module, imported = tiny
    for batch in (0, 1, 2, 9):
        x = torch.rand(batch, 4)
        found = run(imported.module, "main", x.numpy())
        with torch.no_grad():
            np.testing.assert_allclose(found, module(x).numpy(), rtol=1e-5, atol=1e-6)


def test_weights_are_copies_and_tied_ones_are_one() -> None:
    module = Tiny().eval()
    imported = import_module(module, (torch.rand(2, 4),))
    constants = {c.name or c.bits: c for c in constants_of(main_of(imported))}
    shapes = sorted(c.shape for c in constants.values())
    assert shapes == [(), (4,), (4,), (4,), (4, 4)]
    before = run(imported.module, "main", np.ones((2, 4), np.float32))
    with torch.no_grad():
        module.first.weight.zero_()
        module.plain.zero_()
    assert np.array_equal(run(imported.module, "main", np.ones((2, 4), np.float32)), before)


# -- structure ---------------------------------------------------------------------------------
class Structured(nn.Module):
    def forward(self, x: Any, parts: Any, *, scale: float = 1.0) -> Any:
        return {"sum": x + parts["a"][0], "rest": (parts["b"] * scale, None, x), "n": 3}


def test_several_inputs_and_a_dict_of_outputs_keep_their_structure() -> None:
    x, a, b = torch.rand(1, 4), torch.rand(1, 4), torch.rand(3)
    imported = import_module(
        Structured().eval(),
        (x, {"a": [a], "b": b}),
        {"x": {0: "n"}, "parts": {"a": [{0: "n"}], "b": None}},
        example_kwargs={"scale": 2.0},
    )
    assert imported.dim_names == ("n",)
    assert imported.input_names == ("x", "parts_a_0", "parts_b")
    assert not imported.single_output
    assert not imported.positional_only
    x, a = torch.rand(5, 4), torch.rand(5, 4)
    flat = imported.flatten_inputs((x,), {"scale": 2.0, "parts": {"b": b, "a": [a]}})
    outputs = run(imported.module, "main", *[t.numpy() for t in flat])
    found = imported.unflatten_outputs(list(outputs))
    assert list(found) == ["sum", "rest", "n"]
    np.testing.assert_allclose(found["sum"], (x + a).numpy())
    np.testing.assert_allclose(found["rest"][0], (b * 2).numpy())
    assert found["rest"][1] is None
    assert np.array_equal(found["rest"][2], x.numpy())
    assert found["n"] == 3
    with pytest.raises(ArgumentError, match=r"input 'scale': 2\.0 at compilation"):
        imported.flatten_inputs((x, {"a": [a], "b": b}), {"scale": 1.0})


def test_a_tensor_passed_twice_is_two_inputs() -> None:
    class Difference(nn.Module):
        def forward(self, x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
            return x - y

    x = torch.ones(3)
    imported = import_module(Difference().eval(), (x, x))
    found = run(imported.module, "main", np.full(3, 5, np.float32), np.ones(3, np.float32))
    assert found.tolist() == [4, 4, 4]


# -- symbolic dims -----------------------------------------------------------------------------
class Joined(nn.Module):
    def forward(self, x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        return torch.cat([x, y, y])


def params_of(imported: Imported) -> str:
    return next(
        line.strip() for line in imported.module.script().splitlines() if "def main" in line
    )


def test_names_follow_the_places_they_were_given_not_their_order() -> None:
    imported = import_module(
        Joined().eval(), (torch.rand(1, 2), torch.rand(0, 2)), {"y": {0: "rows"}, "x": {0: "batch"}}
    )
    assert 'x: R.Tensor(("batch", 2), ' in params_of(imported)
    assert 'y: R.Tensor(("rows", 2), ' in params_of(imported)
    assert set(imported.dim_names) == {"batch", "rows"}
    found = run(imported.module, "main", np.ones((1, 2), np.float32), np.zeros((0, 2), np.float32))
    assert found.tolist() == [[1, 1]]


def test_two_dims_of_one_name_are_one_dim() -> None:
    class Sum(nn.Module):
        def forward(self, x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
            return x + y

    shapes = ({0: "n"}, {0: "n"})
    imported = import_module(Sum().eval(), (torch.rand(1, 2), torch.rand(1, 2)), shapes)
    assert params_of(imported).count('"n"') == 3
    assert imported.dim_names == ("n",)
    examples = (torch.rand(2, 2), torch.rand(2, 2))
    with pytest.raises(FrontendError, match="does not export"):
        import_module(Sum().eval(), examples, ({0: "n"}, {0: "m"}))


def test_a_square_of_one_symbolic_size() -> None:
    class Gram(nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return x @ x.T

    imported = import_module(Gram().eval(), (torch.rand(1, 3),), ({0: "n"},))
    assert params_of(imported).endswith('-> R.Tensor(("n", "n"), dtype="float32"):')


def test_dims_of_torch_keep_name_and_bounds() -> None:
    n = Dim("n", min=4, max=64)
    x, y = torch.rand(4, 2), torch.rand(8, 2)
    imported = import_module(Joined().eval(), (x, y), ({0: n}, {0: 2 * n}))
    assert 'y: R.Tensor(("n * 2", 2), ' in params_of(imported)
    assert imported.notes[0] == "dim n was exported for sizes of 4 to 64."
    assert not imported.positional_only
    assert len(imported.flatten_inputs((x, y), {})) == 2
    with pytest.raises(ShapeMismatchError, match=r"of n from 4 to 64, got 3"):
        imported.flatten_inputs((x[:3], y), {})


@pytest.mark.parametrize(
    ("dim", "low", "high"),
    [
        (Dim("n", min=1), 1, None),
        (Dim("n", min=2), 2, None),
        (Dim("n", min=2, max=8), 2, 8),
        (Dim("n", max=8), 0, 8),
        (Dim.DYNAMIC(min=2, max=8), 2, 8),
        (Dim("n"), 0, None),
        (Dim.AUTO, 0, None),
        ("n", 0, None),
    ],
)
def test_a_stated_range_is_held(dim: Any, low: int, high: int | None) -> None:
    x = torch.rand(9, 3)
    imported = import_module(nn.ReLU(), (x[:4],), ({0: dim},))
    for size in (0, 1, 2, 8, 9):
        if low <= size <= (high or size):
            assert len(imported.flatten_inputs((x[:size],), {})) == 1
            continue
        with pytest.raises(ShapeMismatchError, match=rf"dim 0: .* from {low} (to|and) .* {size}\."):
            imported.flatten_inputs((x[:size],), {})
    assert len(imported.notes) == (low > 0 or high is not None)


def test_a_range_stated_at_one_place_is_held_at_the_other() -> None:
    x = torch.rand(4, 3)
    imported = import_module(Joined().eval(), (x, x), ({0: "n"}, {0: Dim("n", min=2)}))
    with pytest.raises(ShapeMismatchError, match="of n from 2 and more, got 1"):
        imported.flatten_inputs((x[:1], x[:1]), {})


def test_an_exported_program_with_names_of_torch() -> None:
    program = torch.export.export(nn.ReLU(), (torch.rand(3, 2),), dynamic_shapes=({0: Dim.AUTO},))
    imported = import_exported_program(program)
    assert imported.source == "torch program"
    assert len(imported.dim_names) == 1
    assert imported.dim_names[0].startswith("s")
    assert imported.positional_only
    assert imported.notes == ()
    x = torch.rand(5, 2)
    assert imported.flatten_inputs((), {imported.input_names[0]: x})[0] is x


# -- refusals ----------------------------------------------------------------------------------
def refusal(function: Any, *inputs: Any, shapes: Any = None) -> str:
    class Refused(nn.Module):
        def forward(self, *args: Any) -> Any:
            return function(*args)

    with pytest.raises(BurnishError) as caught:
        import_module(Refused().eval(), inputs, shapes)
    return str(caught.value)


class Unsupported(nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y = torch.special.hermite_polynomial_h(x, x)
        z = torch.special.laguerre_polynomial_l(y, y)
        return torch.special.hermite_polynomial_h(z, z)


def test_unsupported_operators_are_reported_at_once_with_their_lines() -> None:
    with pytest.raises(UnsupportedOpError) as caught:
        import_module(Unsupported().eval(), (torch.rand(3),))
    first, second, third, *_ = str(caught.value).splitlines()
    assert first == "2 operators of this torch model cannot be imported:"
    assert second.startswith("  aten.special_hermite_polynomial_h.default (x2), first at ")
    assert second.endswith("y = torch.special.hermite_polynomial_h(x, x)")
    assert "test_importer.py:" in second
    assert third.startswith("  aten.special_laguerre_polynomial_l.default (x1), first at ")


def test_changed_buffers_and_inputs_are_inputs_that_calls_write() -> None:
    class Counter(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.count: torch.Tensor
            self.register_buffer("count", torch.zeros(1))

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            self.count += 1
            return x + self.count

    class InPlace(nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return x.add_(1)

    module = Counter().eval()
    imported = import_module(module, (torch.rand(3),))
    assert imported.state == ("count",)
    assert imported.written == (1,)
    assert not imported.positional_only
    x = torch.rand(3)
    given = imported.flatten_inputs((x,), {})
    assert given[0] is x
    assert given[1] is module.count
    changed, y = run(imported.module, "main", *[t.numpy() for t in given])
    assert changed == 1
    np.testing.assert_array_equal(y, x.numpy() + 1)
    assert import_module(InPlace().eval(), (torch.rand(3),)).written == (0,)


def test_arithmetic_on_sizes_that_an_operator_needs_to_be_one_is_checked() -> None:
    """A table of positions behind those of a cache, as decoders slice it."""

    class Positions(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.register_buffer("table", torch.rand(16, 4))
            self.register_buffer("mask", torch.ones(16, 16, dtype=torch.bool).tril())

        def forward(self, past: torch.Tensor, x: torch.Tensor) -> torch.Tensor:
            a, n = past.shape[1], x.shape[1]
            keys = torch.cat([past, x], 1)
            weights = (x + self.table[a : a + n]) @ keys.transpose(1, 2)
            mask = self.mask[keys.shape[1] - n : keys.shape[1], : keys.shape[1]]
            return weights.masked_fill(~mask, -1e9).softmax(-1) @ keys

    module = Positions().eval()
    dims = [{1: "a"}, {1: "n"}]
    model = burnish.compile(module, (torch.rand(2, 7, 4), torch.rand(2, 3, 4)), dynamic_shapes=dims)
    assert [n for n in model.report.notes if "must be equal" in n]
    for a, n in ((7, 3), (0, 5), (5, 1), (1, 1), (12, 4)):
        given = torch.rand(2, a, 4), torch.rand(2, n, 4)
        torch.testing.assert_close(model(*given), module(*given), rtol=1e-5, atol=1e-5)
    with pytest.raises(ShapeMismatchError, match="needs these sizes to be equal"):
        model(torch.rand(2, 12, 4), torch.rand(2, 7, 4))


def test_an_error_says_where_the_node_stands(monkeypatch: pytest.MonkeyPatch) -> None:
    class First(nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return x.relu()

    def fail(*args: object) -> None:
        raise BurnishError("no")

    monkeypatch.setitem(REGISTRY._table, "aten.relu.default", fail)
    with pytest.raises(BurnishError) as caught:
        import_module(First().eval(), (torch.rand(3, 2),))
    notes = "\n".join(getattr(caught.value, "__notes__", []))
    assert "while importing aten.relu.default at " in notes
    assert notes.endswith("return x.relu()")


def test_weights_without_values_are_refused() -> None:
    class Meta(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.weight = nn.Parameter(torch.ones(2, device="meta"))

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return x.relu()

    with pytest.raises(FrontendError, match="parameter 'weight' is on the meta device"):
        import_module(Meta().eval(), (torch.rand(1, 2),))


def test_constants_are_found() -> None:
    imported = import_module(Tiny().eval(), (torch.rand(2, 4),))
    constants = constants_of(main_of(imported))
    assert all(isinstance(c, Constant) for c in constants)


def test_several_threads_may_import_at_once() -> None:
    """torch.export has state of the process."""
    x = torch.rand(2, 4)
    with ThreadPoolExecutor(4) as pool:
        found = list(pool.map(lambda _: import_module(Tiny().eval(), (x,)), range(4)))
    assert all(f.input_names == found[0].input_names for f in found)


def test_a_size_that_is_1_for_all_but_an_empty_input_is_1() -> None:
    """As MPT slices its biases: one row, and of the columns as many as there are keys."""

    class Biases(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.register_buffer("bias", torch.rand(2, 1, 16))

        def forward(self, scores: torch.Tensor) -> torch.Tensor:
            rows, columns = scores.shape[2:]
            first = max(0, self.bias.shape[1] - rows), max(0, self.bias.shape[2] - columns)
            return scores + self.bias[:, first[0] :, first[1] :]

    module = Biases()
    model = burnish.compile(
        module, (torch.rand(3, 2, 7, 7),), dynamic_shapes=({0: "batch", 2: "n", 3: "n"},)
    )
    for n in (1, 2, 7, 15):
        x = torch.rand(2, 2, n, n)
        torch.testing.assert_close(model(x), module(x))


def test_sizes_that_an_operator_needs_to_be_one_are_checked() -> None:
    """torch's attention does not say that there are as many values as keys."""

    class Attention(torch.nn.Module):
        def forward(self, q: torch.Tensor, k: torch.Tensor, v: torch.Tensor) -> torch.Tensor:
            return torch.nn.functional.scaled_dot_product_attention(q, k, v)

    def inputs(keys: int, values: int) -> tuple[torch.Tensor, ...]:
        return torch.rand(1, 2, 3, 8), torch.rand(1, 2, keys, 8), torch.rand(1, 2, values, 8)

    any_size = {2: torch.export.Dim.DYNAMIC}
    module = Attention()
    model = burnish.compile(module, inputs(6, 6), dynamic_shapes=({}, any_size, any_size))
    assert [n for n in model.report.notes if "must be equal" in n]
    for count in (1, 6, 9):
        given = inputs(count, count)
        torch.testing.assert_close(model(*given), module(*given), rtol=1e-5, atol=1e-5)
    with pytest.raises(ShapeMismatchError, match="argument 'v'"):
        model(*inputs(6, 5))


def test_caches_that_grow_alike_are_of_one_size() -> None:
    """Keys and values of a step before, each with a row of this one."""

    class Step(torch.nn.Module):
        def forward(self, q: torch.Tensor, k: torch.Tensor, v: torch.Tensor) -> torch.Tensor:
            keys, values = (torch.cat([past, q], 2) for past in (k, v))
            return torch.nn.functional.scaled_dot_product_attention(q, keys, values)

    def inputs(keys: int, values: int) -> tuple[torch.Tensor, ...]:
        return torch.rand(1, 2, 1, 8), torch.rand(1, 2, keys, 8), torch.rand(1, 2, values, 8)

    any_size = {2: torch.export.Dim.DYNAMIC}
    model = burnish.compile(Step(), inputs(6, 6), dynamic_shapes=({}, any_size, any_size))
    for count in (1, 6, 9):
        given = inputs(count, count)
        torch.testing.assert_close(model(*given), Step()(*given), rtol=1e-5, atol=1e-5)
    with pytest.raises(ShapeMismatchError, match="argument 'v'"):
        model(*inputs(4, 5))


@pytest.mark.parametrize("bounds", [(3, 1), (1, 3), (2, 1), (2, 3)])
def test_of_the_least_sizes_of_one_symbol_the_largest_counts(bounds: tuple[int, int]) -> None:
    class Sum(nn.Module):
        def forward(self, x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
            return x + y

    dims = tuple({0: Dim.DYNAMIC(min=least)} for least in bounds)  # type: ignore[operator]
    x = torch.ones(4, 2)
    model = burnish.compile(Sum(), (x, x), dynamic_shapes=dims)
    least = max(bounds)
    assert torch.equal(model(x[:least], x[:least]), 2 * x[:least])
    with pytest.raises(ShapeMismatchError):
        model(x[: least - 1], x[: least - 1])


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("layer", [nn.Linear(4, 4), nn.LSTM(4, 4)])
def test_weights_packed_for_kernels_of_torch_are_refused_by_name(layer: nn.Module) -> None:
    class Net(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.inner = nn.Sequential(layer)

        def forward(self, x: torch.Tensor) -> Any:
            return self.inner(x)

    net = torch.ao.quantization.quantize_dynamic(Net().eval(), {type(layer)})
    with pytest.raises(FrontendError, match=r"'inner\.0' is a torch.*burnish\.quantize"):
        import_module(net, (torch.rand(2, 3, 4),))
