"""torch.compile with our backend: dynamic sizes, graph breaks, weights and state that change."""

from __future__ import annotations

import contextlib
import copy
from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from torch import nn

from burnish.driver import torch_backend
from burnish.driver.torch_backend import burnish_backend


@pytest.fixture(autouse=True)
def _fresh_dynamo() -> Iterator[None]:
    torch._dynamo.reset()
    yield
    torch._dynamo.reset()


class Counting(nn.Module):
    """A buffer that calls change, a branch on data (a graph break), a dict of outputs."""

    def __init__(self) -> None:
        super().__init__()
        self.seen: torch.Tensor
        self.linear = nn.Linear(3, 4)
        self.register_buffer("seen", torch.zeros(()))

    def forward(self, x: torch.Tensor, scale: float = 1.0) -> dict[str, torch.Tensor]:
        self.seen += 1
        y = self.linear(x) * scale
        if y.sum() > 0:
            y = y * x.shape[0]
        return {"y": y, "next": y + self.seen}


def pair(module: nn.Module) -> tuple[nn.Module, nn.Module]:
    """The module, and one like it that runs eagerly."""
    return module.eval(), copy.deepcopy(module).eval()


@pytest.mark.filterwarnings("ignore:burnish. a graph that gives its inputs")
@pytest.mark.parametrize("mode", [torch.no_grad, torch.inference_mode])
def test_sizes_that_vary_graph_breaks_and_state(mode) -> None:  # type: ignore[no-untyped-def]
    torch.manual_seed(0)
    module, eager = pair(Counting())
    compiled = torch.compile(module, backend=burnish_backend)
    with mode():
        for n in (2, 4, 5, 1):
            x = torch.randn(n, 3)
            torch.testing.assert_close(compiled(x), eager(x))
    assert module.seen == 4


def test_one_compilation_serves_all_sizes(monkeypatch: pytest.MonkeyPatch) -> None:
    shapes: list[object] = []
    original = torch_backend.compile

    def spy(model, *, dynamic_shapes=None, **options):  # type: ignore[no-untyped-def]
        shapes.append(dynamic_shapes)
        return original(model, dynamic_shapes=dynamic_shapes, **options)

    monkeypatch.setattr(torch_backend, "compile", spy)
    module, eager = pair(nn.Linear(3, 4))
    compiled = torch.compile(module, backend=burnish_backend, dynamic=True)
    with torch.no_grad():
        for n in (2, 4, 5):
            x = torch.randn(n, 3)
            torch.testing.assert_close(compiled(x), eager(x))
    assert len(shapes) == 1
    assert shapes[0] is not None


def test_a_weight_that_is_written_becomes_an_input() -> None:
    module, eager = pair(nn.Linear(3, 4))
    compiled = torch.compile(module, backend=burnish_backend)
    x = torch.randn(2, 3)
    with torch.no_grad():
        for _ in range(3):
            torch.testing.assert_close(compiled(x), eager(x))
            for m in (module, eager):
                m.weight.mul_(2)


def test_what_needs_gradients_runs_as_it_is() -> None:
    module, eager = pair(nn.Linear(3, 4))
    compiled = torch.compile(module, backend=burnish_backend)
    x = torch.randn(2, 3)
    with pytest.warns(UserWarning, match="burnish: a graph that needs gradients"):
        compiled(x).sum().backward()
    eager(x).sum().backward()
    torch.testing.assert_close(module.weight.grad, eager.weight.grad)


def test_views_of_inputs_stay_views() -> None:
    def first(x: torch.Tensor) -> torch.Tensor:
        return x[0]

    x = torch.zeros(2, 3)
    with pytest.warns(UserWarning, match="a graph that gives its inputs, views of them"):
        torch.compile(first, backend=burnish_backend)(x).add_(1)
    assert x[0].tolist() == [1, 1, 1]


def test_a_graph_that_is_not_compiled_runs_as_it_is_and_says_why_once(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def scaled(x: torch.Tensor, s: float) -> torch.Tensor:
        return x * s

    monkeypatch.setattr(torch_backend, "MOST_NUMBERS", 1)
    compiled = torch.compile(scaled, backend=burnish_backend)
    x = torch.ones(2)
    assert compiled(x, 0.5).tolist() == [0.5, 0.5]
    assert compiled(x, 0.75).tolist() == [0.75, 0.75]
    with pytest.warns(UserWarning, match=r"runs as PyTorch runs it: a number .* had 1 values"):
        assert compiled(x, 2.0).tolist() == [2.0, 2.0]
    assert compiled(x, 4.0).tolist() == [4.0, 4.0]  # a warning would be an error


def test_a_written_input_in_two_places_runs_as_it_is() -> None:
    def add(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        x.add_(1)
        return x + y

    compiled = torch.compile(add, backend=burnish_backend)
    with torch.no_grad():
        assert compiled(torch.ones(2), torch.ones(2)).tolist() == [3, 3]
        z = torch.ones(3)
        with pytest.warns(UserWarning, match="shares memory"):
            assert compiled(z[:2], z[1:]).tolist() == [4, 3]
        assert z.tolist() == [2, 2, 1]


def test_what_another_thread_compiled_meanwhile_is_taken() -> None:
    compiled: Any = torch_backend._Compiled(None, {})
    graph = SimpleNamespace(changed=lambda args: [], has_numbers=lambda args: True)
    made = (graph, print)

    @contextlib.contextmanager
    def held_by_another() -> Iterator[None]:
        compiled._made = [made]
        yield

    compiled._lock = held_by_another()
    assert compiled._current(()) is made


class Scaled(nn.Module):
    """A number of the module's that dropout wants to look at."""

    def __init__(self) -> None:
        super().__init__()
        self.rate = 0.25
        self.linear = nn.Linear(3, 4)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return nn.functional.dropout(self.linear(x) * self.rate, self.rate, self.training)


def test_numbers_are_those_of_the_call_where_everything_is_dynamic(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    compiled_for: list[Any] = []
    compile_graph = torch_backend._compiled

    def counting(graph: Any, *how: Any) -> Any:
        compiled_for.append(graph.numbers)
        return compile_graph(graph, *how)

    monkeypatch.setattr(torch_backend, "_compiled", counting)
    module, eager = pair(Scaled())
    compiled = torch.compile(module, backend=burnish_backend, dynamic=True)
    with torch.no_grad():
        for rate in (0.25, 0.5, 0.25, 0.0, -0.0, 0.5):
            module.rate = eager.rate = abs(rate)
            x = torch.randn(5, 3)
            torch.testing.assert_close(compiled(x), eager(x))
    assert [list(n.values()) for n in compiled_for] == [[0.25], [0.5], [0.0]]


def test_caches_of_one_size_grow_alike() -> None:
    def grown(k: torch.Tensor, v: torch.Tensor, p: torch.Tensor) -> torch.Tensor:
        return torch.cat([k, p]) * torch.cat([v, p])

    compiled = torch.compile(grown, backend=burnish_backend, dynamic=True)
    for rows in ((3, 3, 2), (5, 5, 1)):
        inputs = [torch.randn(n, 4) for n in rows]
        torch.testing.assert_close(compiled(*inputs), grown(*inputs))


class Stepwise(nn.Module):
    """Layers in two graphs, of a module that is not called ``self``."""

    def __init__(this) -> None:
        super().__init__()
        this.blocks = nn.ModuleList([nn.Linear(64, 64), nn.Linear(64, 64)])
        this.head = nn.Linear(64, 10)
        this.kept = [torch.ones(10)]

    def forward(this, x: torch.Tensor) -> torch.Tensor:
        for block in this.blocks:
            x = torch.relu(block(x))
        torch._dynamo.graph_break()
        return this.head(x) + this.kept[0]


def _precisions(monkeypatch: pytest.MonkeyPatch) -> list[object]:
    found: list[object] = []
    original = torch_backend.compile

    def spy(model, *args, **options):  # type: ignore[no-untyped-def]
        made = original(model, *args, **options)
        found.append(made.precision)
        return made

    monkeypatch.setattr(torch_backend, "compile", spy)
    return found


def _error_with(options: dict[str, object]) -> float:
    torch.manual_seed(0)
    module = Stepwise().eval()
    x = torch.randn(8, 64)
    with torch.no_grad():
        compiled = torch.compile(module, backend=burnish_backend, options=options)
        y = compiled(x).double()
        module.kept = [torch.ones(10, dtype=torch.float64)]
        exact = module.double()(x.double())
    return float((y - exact).abs().max() / exact.abs().max())


def test_options_are_those_of_compile(monkeypatch: pytest.MonkeyPatch) -> None:
    found = _precisions(monkeypatch)
    assert 1e-5 < _error_with({"precision": "bfloat16", "threads": 1}) < 1e-2
    assert found == ["bfloat16"] * 2


def test_layers_have_the_names_of_their_module(monkeypatch: pytest.MonkeyPatch) -> None:
    found = _precisions(monkeypatch)
    with pytest.warns(UserWarning, match=r"no weight of a graph fits 'head'; it has blocks\.0"):
        assert 1e-5 < _error_with({"precision": {"head": "int8", "*": "float32"}}) < 1e-2
    assert found == [{"*": "float32"}, {"head": "int8", "*": "float32"}]


def test_auto_bounds_each_graph(monkeypatch: pytest.MonkeyPatch) -> None:
    found = _precisions(monkeypatch)
    assert _error_with({"precision": "auto", "max_error": 1e-2}) < 2e-2
    assert len(found) == 2


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"precison": "int8"}, "found 'precison'. Did you mean 'precision'"),
        ({"precision": "bf16"}, "found 'bf16'"),
        ({"precision": "auto"}, "expected max_error to be a number above 0"),
        ({"fallback": "numpy"}, 'fallback is None, "torch" or "onnx"'),
    ],
)
def test_options_that_there_are_not(options: dict[str, object], message: str) -> None:
    with pytest.raises(Exception, match=message):
        _error_with(options)


def test_modes_are_refused() -> None:
    compiled = torch.compile(nn.Linear(3, 4), backend=burnish_backend, mode="max-autotune")
    with torch.no_grad(), pytest.raises(Exception, match="mode='max-autotune' chooses among"):
        compiled(torch.randn(2, 3))


def test_weights_of_two_modules_have_names_of_both(monkeypatch: pytest.MonkeyPatch) -> None:
    first, second = nn.Linear(64, 64).eval(), nn.Linear(64, 64).eval()
    found = _precisions(monkeypatch)
    words = {"first": "bfloat16", "second": "float32"}

    @torch.compile(backend=burnish_backend, options={"precision": words})
    def both(x: torch.Tensor) -> torch.Tensor:
        return first(x) + second(x)

    x = torch.randn(8, 64)
    with torch.no_grad():
        torch.testing.assert_close(both(x), first(x) + second(x), atol=0.05, rtol=0.05)
    assert found == [words]
