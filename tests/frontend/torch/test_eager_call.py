"""A call in eager leaves everything as it was, and takes no copy of the weights."""

from __future__ import annotations

import threading
import warnings
from collections import defaultdict
from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import nn
from torch._subclasses.fake_tensor import FakeTensorMode

import burnish
from burnish.frontend.torch.derivatives import takes_derivatives
from burnish.frontend.torch.dynamic_shapes import plan_export
from burnish.frontend.torch.eager_call import copied, eager_call, unchanged


class Energy(nn.Module):
    """Writes what a module can write, and needs gradients."""

    calls: torch.Tensor

    def __init__(self) -> None:
        super().__init__()
        self.net = nn.Linear(4, 1)
        self.register_buffer("calls", torch.zeros(()))
        self.table: Any = None

    def __deepcopy__(self, memo: Any) -> Any:
        raise AssertionError("the weights are copied")

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        self.calls += 1
        self.table = torch.rand(3)
        self.net.last = x
        energy = self.net(x.requires_grad_()).sum()
        energy.backward(retain_graph=True)
        (found,) = torch.autograd.grad(energy, x)
        return found


def test_a_module_that_takes_derivatives_is_called_with_gradients() -> None:
    module = Energy()
    torch.testing.assert_close(
        eager_call(module, (torch.rand(2, 4),), {}), module.net.weight.expand(2, 4)
    )


def test_what_the_second_call_raises_is_raised() -> None:
    with pytest.raises(RuntimeError, match="shapes cannot be multiplied"):
        eager_call(nn.Linear(4, 1), (torch.rand(2, 3),), {})


def test_nothing_is_changed() -> None:
    module = Energy()
    module.net.weight.grad = given = torch.ones(1, 4)
    calls, attributes, state = module.calls, dict(vars(module.net)), torch.get_rng_state()
    with unchanged(module):
        eager_call(module, (torch.rand(2, 4),), {})
        assert module.table is not None
        assert module.net.weight.grad is not None
        assert module.calls == 2
    assert module.table is None
    assert vars(module.net) == attributes
    assert module.net.weight.grad is given
    assert torch.equal(given, torch.ones(1, 4))
    assert module.net.bias.grad is None
    assert module.calls is calls
    assert calls == 0
    assert torch.equal(torch.get_rng_state(), state)


def test_lists_and_dicts_hold_what_they_held() -> None:
    class Frozen(dict[str, int]):
        def clear(self) -> None:
            raise TypeError("frozen")

    class Remembers(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.seen: list[Any] = [1]
            self.options = Frozen(depth=2)
            self.cache: Any = defaultdict(list, {"sizes": [2, ({3},)]})
            self.cache["self"] = self.cache

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            self.seen.append(x)
            self.cache["sizes"][1][0].add(4)
            self.cache["sizes"].pop(0)
            self.cache["more"].append(x)
            del self.cache["self"]
            return x

    module = Remembers()
    seen, cache = module.seen, module.cache
    with unchanged(module):
        eager_call(module, (torch.rand(2),), {})
        assert len(seen) == 2
    assert module.seen is seen
    assert module.cache is cache
    assert seen == [1]
    assert list(cache) == ["sizes", "self"]
    assert cache["sizes"] == [2, ({3},)]
    assert cache["self"] is cache


def test_derivatives_are_found_without_a_copy_of_the_module() -> None:
    module, x = Energy().eval(), torch.rand(2, 4)
    assert takes_derivatives(module, plan_export(module, (x,)))
    assert not x.requires_grad
    assert module.calls == 0
    assert module.table is None


def test_inputs_are_copied_as_far_as_they_can_be() -> None:
    lock, x = threading.Lock(), torch.rand(2, requires_grad=True)
    tensors, options = copied(((x, x * 2), {"lock": lock, "sizes": {3, 4}}))
    assert [t.requires_grad for t in tensors] == [True, True]
    assert all(t.is_leaf and t.data_ptr() != x.data_ptr() for t in tensors)
    assert options == {"lock": lock, "sizes": {3, 4}}


KINDS: dict[str, Callable[[], torch.Tensor]] = {
    "of a trace": lambda: FakeTensorMode().from_tensor(torch.ones(3)),
    "without values": lambda: torch.empty(3, device="meta"),
    "of a lazy module": nn.parameter.UninitializedBuffer,
    "sparse": lambda: torch.eye(3).to_sparse(),
    "sparse rows": lambda: torch.eye(3).to_sparse_csr(),
    "nested": lambda: torch.nested.nested_tensor([torch.ones(2)], layout=torch.jagged),
    "of another library": lambda: torch.eye(3).to_mkldnn(),
    "expanded": lambda: torch.tensor(float("nan")).expand(3),
}


@pytest.mark.parametrize("kind", KINDS)
def test_tensors_of_any_kind_may_be_held(kind: str) -> None:
    module: Any = nn.Identity()
    with warnings.catch_warnings(action="ignore"):  # torch's, of what is in beta state
        module.kept = {"other": KINDS[kind]()}
        with unchanged(module):
            module(torch.ones(2))


def test_written_elements_are_restored_in_sparse_and_expanded_tensors() -> None:
    sparse, single = torch.eye(3).to_sparse(), torch.ones(1)
    module: Any = nn.Identity()
    module.kept = [sparse, single.expand(3)]
    with unchanged(module):
        sparse.mul_(2)
        single.add_(1)
        assert sparse.to_dense().trace() == 6
    assert sparse.to_dense().equal(torch.eye(3))
    assert single.item() == 1


class Bytes(torch.Tensor):
    """A weight as integers and scales, as torchao's are: a tensor around two others."""

    numbers: torch.Tensor
    scale: torch.Tensor

    @staticmethod
    def __new__(cls, numbers: torch.Tensor, scale: torch.Tensor) -> Bytes:
        return torch.Tensor._make_wrapper_subclass(  # type: ignore[attr-defined, no-any-return]
            cls, numbers.shape, dtype=torch.float32
        )

    def __init__(self, numbers: torch.Tensor, scale: torch.Tensor) -> None:
        self.numbers, self.scale = numbers, scale

    def __tensor_flatten__(self) -> tuple[list[str], None]:
        return ["numbers", "scale"], None

    @staticmethod
    def __tensor_unflatten__(inner: Any, meta: None, size: Any, stride: Any) -> Bytes:
        return Bytes(inner["numbers"], inner["scale"])

    @classmethod
    def __torch_function__(cls, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        if func is torch.nn.functional.linear:
            x, weight, bias = (*args, None)[:3]
            y = (x @ weight.numbers.float().t()) * weight.scale
            return y if bias is None else y + bias
        with torch._C.DisableTorchFunctionSubclass():
            return func(*args, **(kwargs or {}))

    @classmethod
    def __torch_dispatch__(cls, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        if func in (torch.ops.aten.detach.default, torch.ops.aten.alias.default):
            return Bytes(func(args[0].numbers), func(args[0].scale))
        raise NotImplementedError(str(func))


@pytest.mark.parametrize("lazily", [False, True])
def test_weights_that_are_tensors_around_others(lazily: bool) -> None:
    module = torch.nn.Sequential(torch.nn.Linear(16, 8), torch.nn.ReLU()).eval()
    numbers = torch.randint(-127, 127, (8, 16), dtype=torch.int8)
    weight = Bytes(numbers, torch.rand(8) / 127)
    module[0].weight = torch.nn.Parameter(weight, requires_grad=False)
    x = torch.randn(3, 16)
    model = burnish.compile(module) if lazily else burnish.compile(module, (x,))
    torch.testing.assert_close(model(x), module(x))
    assert "weights as integers of 8 bits" in " ".join(model.report.notes)
    assert type(module[0]) is torch.nn.Linear
    assert [n for n, _ in module.named_parameters()] == ["0.weight", "0.bias"]
    assert isinstance(module[0].weight, Bytes)
