"""What forward() sets: written back as eager does, or refused where the results depend on it."""

from __future__ import annotations

import copy
import functools
import itertools
import random
import types
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn

import burnish
from burnish.frontend.torch.assignments import followed, names_of_tensors, written_in_place
from burnish.support.errors import FrontendError


class Held(nn.Module):
    """Tensors of every kind that a module can hold."""

    buffer: Tensor
    other: Tensor

    def __init__(self) -> None:
        super().__init__()
        self.last = torch.zeros(3)
        self.many = [torch.zeros(3), torch.ones(3)]
        self.named = {"a": torch.zeros(3)}
        self.calls = 0
        self.seen: Any = None
        self.register_buffer("buffer", torch.zeros(3))
        self.register_buffer("other", torch.ones(3))
        self.weight = nn.Parameter(torch.ones(3), requires_grad=False)


class InPlace(Held):
    def forward(self, x: Tensor) -> Tensor:
        self.last += 1
        self.last[0] = x.sum()
        self.many[1].add_(x[0])
        self.named["a"].mul_(0.5).add_(self.last)
        self.weight += x[0]
        return x + self.last + self.many[1] + self.named["a"] + self.weight


class Sets(Held):
    def forward(self, x: Tensor) -> Any:
        before = self.last, self.buffer[1:]
        self.last = self.last + x.sum(0)
        self.named["a"] = self.named["a"] * 0.5 + x[0]
        self.many[0], self.many[1] = self.many[1], self.many[0] + x[0]
        self.buffer = self.buffer + self.last
        self.last.mul_(2)
        return *before, x + self.last


class Swaps(Held):
    def forward(self, x: Tensor) -> Tensor:
        self.buffer, self.other = self.other, self.buffer
        self.last = self.buffer
        return x + 2 * self.buffer + 3 * self.other


class Inside(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.parts = nn.ModuleList([Sets(), InPlace()])

    def forward(self, x: Tensor) -> Any:
        return self.parts[0](x), self.parts[1](x)


@pytest.mark.parametrize("kind", [InPlace, Sets, Swaps, Inside])
@pytest.mark.parametrize("dims", [None, ({0: "n"},)])
def test_tensors_are_written_back(kind: type[nn.Module], dims: Any) -> None:
    module = kind().eval()
    eager = copy.deepcopy(module)
    before = {n: x.clone() for n, x in _tensors(module).items()}
    with torch.no_grad():
        model = burnish.compile(module, (torch.ones(2, 3),), dynamic_shapes=dims)
        assert all(torch.equal(x, before[n]) for n, x in _tensors(module).items())
        for i in range(3):
            x = torch.rand(2 if dims is None else 2 + i, 3)
            torch.testing.assert_close(model(x), eager(x))
            torch.testing.assert_close(_tensors(module), _tensors(eager))


def _tensors(module: nn.Module) -> dict[str, Tensor]:
    """The values of all tensors that a module holds."""
    found: dict[str, Tensor] = dict(module.named_parameters())
    for part in module.modules():
        for name, value in (*vars(part).items(), *part._buffers.items()):
            key = f"{id(type(part))} {name}"
            if isinstance(value, Tensor):
                found[key] = value
            elif name in ("many", "named"):
                items = value.items() if isinstance(value, dict) else enumerate(value)
                found |= {f"{key} {k}": x for k, x in items}
    return found


class Counts(Held):
    def forward(self, x: Tensor) -> Tensor:
        self.calls += 1
        return x * self.calls


class Grows(Held):
    def forward(self, x: Tensor) -> Tensor:
        self.last = torch.cat([self.last, x[0]])
        return self.last


class Remembers(Held):
    def forward(self, x: Tensor) -> Tensor:
        y = x if self.seen is None else x - self.seen
        self.seen = x
        return y


@pytest.mark.parametrize(
    ("kind", "name"), [(Counts, "calls"), (Grows, "last"), (Remembers, "seen")]
)
@pytest.mark.parametrize("dims", [None, ({0: "n"},)])
def test_results_that_depend_on_what_cannot_be_kept(kind: Any, name: str, dims: Any) -> None:
    module = kind()
    with pytest.raises(FrontendError, match=rf"{kind.__name__} sets self.{name}.* called again"):
        burnish.compile(module, (torch.rand(2, 3),), dynamic_shapes=dims)
    assert module.calls == 0
    assert module.seen is None
    assert module.last.shape == (3,)


class Notes(Held):
    def forward(self, x: Tensor) -> Tensor:
        self.calls += 1
        self.seen = x * 2
        self.many.append(x)
        self.buffer = x.sum()
        return x + self.last


@pytest.mark.parametrize("dims", [None, ({0: "n"},)])
def test_what_no_result_depends_on_is_told(dims: Any) -> None:
    module = Notes()
    model = burnish.compile(module, (torch.rand(2, 3),), dynamic_shapes=dims)
    told = str(model.report)
    assert all(name in told for name in ("buffer", "calls", "seen", "many[2]"))
    x = torch.rand(2, 3)
    torch.testing.assert_close(model(x), x)
    assert (module.calls, module.seen, len(module.many)) == (0, None, 2)


class Same(Held):
    """Sets what it finds."""

    def forward(self, x: Tensor) -> Tensor:
        self.calls = int("0")
        self.many = [*self.many]
        self.last = self.last
        return x + self.last


def test_setting_the_same_is_nothing() -> None:
    with followed(module := Same()) as found:
        module(torch.rand(2, 3))
    assert found.tensors == []
    assert found.others == []


def test_names_of_places() -> None:
    module = nn.Sequential(Held())
    names = set(names_of_tensors(module).values())
    assert {"0.last", "0.many[1]", "0.named['a']", "0.buffer"} <= names


def test_copies_meanwhile() -> None:
    module = Sets()
    held, order = module.buffer, list(module._buffers)
    with written_in_place(module, ["buffer", "last"]) as lost:
        module(torch.ones(2, 3))
    assert lost == []
    assert module.buffer is held
    assert list(module._buffers) == order
    torch.testing.assert_close(held, torch.full((3,), 2.0))


class Biased(nn.Module):
    """A cache that is a buffer: None at first, and registered anew by ``forward()``."""

    def __init__(self, *, registers: bool) -> None:
        super().__init__()
        self.bias: torch.Tensor | None
        self.registers = registers
        self.register_buffer("bias", None, persistent=False)
        self.register_buffer("slopes", torch.full((1, 1), 0.5))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        if self.bias is None or self.bias.shape[-1] < x.shape[-1]:
            places = torch.arange(x.shape[-1])
            bias = -(places[None] - places[:, None]).abs() * self.slopes
            if self.registers:
                self.register_buffer("bias", bias, persistent=False)
                self.register_buffer("places", places)
            else:
                self.bias = bias
        return x + self.bias[: x.shape[-1], : x.shape[-1]]


@pytest.mark.parametrize("registers", [True, False])
@pytest.mark.parametrize("shapes", [None, ({1: "n", 2: "n"},)])
def test_buffers_that_are_none_until_the_first_call(registers: bool, shapes: Any) -> None:
    module = Biased(registers=registers).eval()
    model = burnish.compile(module, (torch.randn(3, 6, 6),), dynamic_shapes=shapes)
    assert module.bias is None
    assert list(module._buffers) == ["bias", "slopes"]
    for n in (6,) if shapes is None else (6, 2, 9):
        x = torch.randn(3, n, n)
        torch.testing.assert_close(model(x), Biased(registers=registers)(x))


def test_a_buffer_that_is_registered_at_each_call() -> None:
    class Last(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.last: torch.Tensor
            self.register_buffer("last", torch.zeros(3))

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            self.register_buffer("last", self.last + x)
            return self.last * 2

    module = Last().eval()
    model, eager = burnish.compile(module, (torch.ones(3),)), Last()
    for x in (torch.ones(3), torch.full((3,), 2.0)):
        torch.testing.assert_close(model(x), eager(x))


def test_a_buffer_in_the_place_of_a_layer_is_what_the_module_raises() -> None:
    class Twice(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.layer = nn.ReLU()

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            self.register_buffer("layer", x)
            return x

    with pytest.raises(FrontendError, match="attribute 'layer' already exists"):
        burnish.compile(Twice(), (torch.ones(3),))
    assert nn.Module.register_buffer.__module__ == "torch.nn.modules.module"


class Counts(nn.Module):
    """A factor that nothing but the thing itself tells of."""

    def __init__(self, take: Any) -> None:
        super().__init__()
        self.take = take

    def forward(self, x: Tensor) -> Tensor:
        return x * float(self.take())


def _counting_array() -> Any:
    numbers = np.zeros(2)

    def take() -> float:
        numbers[1] += 1
        return float(numbers[1])

    return take


def _python_random() -> float:
    return random.random()


def _numpy_random() -> float:
    return float(np.random.rand())


def _of_a_module() -> float:
    colorsys_like.steps += 1
    return float(colorsys_like.steps)


colorsys_like = types.ModuleType("a_module_of_a_user")
colorsys_like.steps = 0  # type: ignore[attr-defined]


@pytest.mark.parametrize(
    ("take", "name"),
    [
        (functools.partial(next, itertools.count(1)), "uses self.take"),
        (random.Random(0).random, "uses self.take"),
        (np.random.default_rng(0).random, "uses self.take"),
        (_python_random, "uses global random"),
        (_numpy_random, "uses global numpy.random"),
        (_counting_array(), "sets numbers of"),
        (_of_a_module, "sets global a_module_of_a_user.steps"),
    ],
)
def test_what_gives_something_else_each_time_is_refused(take: Any, name: str) -> None:
    with pytest.raises(FrontendError, match=f"{name}.*gives something else when it is called"):
        burnish.compile(Counts(take).eval(), (torch.ones(3),))
    assert colorsys_like.steps == 0


def test_hooks_of_the_module_itself_are_looked_at() -> None:
    calls: list[int] = []

    def counted(module: nn.Module, args: Any, result: Tensor) -> Tensor:
        calls.append(1)
        return result * len(calls)

    module = nn.Linear(3, 3).eval()
    module.register_forward_hook(counted)
    with pytest.raises(FrontendError, match=r"calls.*gives something else when it is called"):
        burnish.compile(module, (torch.ones(2, 3),))
    assert calls == []


def test_arrays_and_iterators_that_change_nothing_are_compiled() -> None:
    class Quiet(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.scale, self.names = np.array([2.0, 3.0]), iter("abc")
            self.noise = random.Random(0)

        def forward(self, x: Tensor) -> Tensor:
            return x * float(self.scale[1]) if self.noise is not None else x

    model = burnish.compile(Quiet().eval(), (torch.ones(3),))
    assert model(torch.ones(3)).tolist() == [3, 3, 3]
    assert model.report.notes == []


def test_results_that_are_no_numbers_are_compared() -> None:
    class Odd(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.calls, self.rate = 0, float("nan")

        def forward(self, x: Tensor) -> Any:
            self.calls += 1
            self.rate = float("nan")
            return torch.fft.fft(x * self.rate), x * self.rate

    x = torch.ones(4)
    model = burnish.compile(Odd().eval(), (x,))
    for found, wanted in zip(model(x), Odd()(x), strict=True):
        torch.testing.assert_close(found, wanted, equal_nan=True)
    (note,) = model.report.notes
    assert "writes calls:" in note


def test_buffers_that_stay_none_are_buffers_while_they_are_traced() -> None:
    class Counted(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.register_buffer("absent", None)
            self.register_buffer("there", torch.ones(3))

        def forward(self, x: Tensor) -> Tensor:
            if self._buffers["absent"] is not None:
                return x
            return x * len(list(self.buffers())) + len(self._buffers)

    x = torch.ones(3)
    assert burnish.compile(Counted().eval(), (x,))(x).tolist() == [3, 3, 3]


def test_hooks_that_only_count_are_compiled() -> None:
    class Counters:
        calls = 0

    counters = Counters()

    def counted(module: nn.Module, args: Any, result: Tensor) -> None:
        counters.calls = counters.calls + 1

    module = nn.Linear(3, 3).eval()
    module.register_forward_hook(counted)
    x = torch.ones(2, 3)
    torch.testing.assert_close(burnish.compile(module, (x,))(x), module(x))
