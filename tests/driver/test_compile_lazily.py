"""burnish.compile without example inputs, and weights that change after it."""

from __future__ import annotations

import gc
import inspect
import threading
import weakref
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest
import torch
from torch import nn

import burnish
from burnish import errors
from burnish.driver import stages
from burnish.driver.sources import import_torch_module
from burnish.tests.driver.programs import Add
from burnish.tests.models_of_others.libraries import transformers


def test_a_lazy_model_compiles_once_a_signature() -> None:
    model = burnish.compile(Add().eval())
    assert repr(model) == "<burnish model of Add: not compiled yet>"
    assert model.compilations == 0
    for _ in range(2):
        assert torch.equal(model(torch.zeros(3)), torch.ones(3))
        np.testing.assert_array_equal(model(np.zeros(3, np.float32)), np.ones(3))
    assert repr(model) == "<burnish model of Add: 1 signature>"
    assert model(torch.zeros(3, dtype=torch.float64)).dtype is torch.float64
    assert model(torch.zeros(3)).dtype is torch.float32
    assert model.compilations == 2
    with pytest.raises(errors.ArgumentError, match="found object"):
        model(object())


@dataclass
class Pair:
    x: torch.Tensor
    n: int


class OfPair(nn.Module):
    def forward(self, pair: Pair) -> Pair:
        return Pair(pair.x * pair.n, pair.n + 1)


def test_a_lazy_model_takes_objects_that_hold_tensors() -> None:
    model = burnish.compile(OfPair().eval())
    x = torch.arange(3.0)
    for n in (2, 2, 3):
        found = model(Pair(x, n))
        assert type(found) is Pair
        assert torch.equal(found.x, x * n)
        assert found.n == n + 1
    assert model.compilations == 2


# -- weights that change ---------------------------------------------------------------------------
class Held(nn.Module):
    """``x * w + b + c``: a parameter, a buffer, and a tensor that is neither."""

    def __init__(self) -> None:
        super().__init__()
        self.w = nn.Parameter(torch.tensor([2.0]))
        self.register_buffer("b", torch.tensor([10.0]))
        self.c = torch.tensor([100.0])

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x * self.w + self.b + self.c


def train(module: Held) -> None:
    with torch.no_grad():
        module.w.add_(1)


def write_through_data(module: Held) -> None:
    module.w.data.add_(1)


def write_through_numpy(module: Held) -> None:
    module.w.detach().numpy()[...] += 1


def write_a_buffer(module: Held) -> None:
    module.b.fill_(11)


def replace_a_parameter(module: Held) -> None:
    module.w = nn.Parameter(torch.tensor([3.0]))


def write_an_attribute(module: Held) -> None:
    module.c += 1


CHANGES = [
    train, write_through_data, write_through_numpy, write_a_buffer, replace_a_parameter,
    write_an_attribute,
]  # fmt: skip


class Appends(nn.Module):
    """Keeps what it was given in what it returns, as caches do."""

    def forward(self, x: torch.Tensor, before: list[torch.Tensor], scale: float = 1.0) -> Any:
        total = torch.cat([*before, x], 1) if before else x
        return (total * scale).sum(1), [total]


def test_named_dims_serve_every_structure() -> None:
    """Sizes of names compile nothing; another structure or plain value does, once."""
    model = burnish.compile(Appends(), dynamic_shapes={"x": {1: "new"}, "before": {1: "past"}})
    eager = Appends()
    expected: list[torch.Tensor] = []
    found: list[torch.Tensor] = []
    for length in (3, 1, 1, 4):
        x = torch.rand(2, length)
        total, expected = eager(x, expected)
        ours, found = model(x, found)
        torch.testing.assert_close(ours, total)
        torch.testing.assert_close(found, expected)
    assert model.compilations == 2
    torch.testing.assert_close(model(x, [], scale=2.0)[0], eager(x, [], 2.0)[0])
    torch.testing.assert_close(model(x, [], scale=2.0)[0], eager(x, [], 2.0)[0])
    assert model.compilations == 3
    torch.testing.assert_close(model(scale=2.0, before=[], x=x)[0], eager(x, [], 2.0)[0])
    assert model.compilations == 3


def test_generating_text_takes_two_programs() -> None:
    """One of the text that is given, and one of each token that follows it."""
    torch.manual_seed(0)
    config = transformers.LlamaConfig(
        vocab_size=99,
        hidden_size=32,
        intermediate_size=48,
        num_hidden_layers=2,
        num_attention_heads=4,
        num_key_value_heads=2,
        eos_token_id=None,
    )
    module = transformers.LlamaForCausalLM(config).eval()
    ids = torch.randint(3, 99, (2, 6))
    mask = torch.ones_like(ids)
    mask[0, :2] = 0
    options: dict[str, Any] = {"attention_mask": mask, "max_new_tokens": 8, "do_sample": False}
    expected = module.generate(ids, **options)
    sizes = {
        "input_ids": {0: "batch", 1: "new"},
        "attention_mask": {0: "batch", 1: "total"},
        "position_ids": {0: "batch", 1: "new"},
        "cache": {0: "batch", 2: "past"},
    }
    forward = module.forward
    model = burnish.compile(module, dynamic_shapes=sizes)
    module.forward = model
    assert torch.equal(module.generate(ids, **options), expected)
    assert model.compilations == 2
    module.forward = forward
    ids = torch.randint(3, 99, (3, 11))
    options["attention_mask"] = torch.ones_like(ids).triu(-1)
    expected = module.generate(ids, **options)
    module.forward = model
    assert torch.equal(module.generate(ids, **options), expected)
    assert model.compilations == 2


def test_a_compiled_model_is_the_forward_of_its_module() -> None:
    module = Add().eval()
    forward = module.forward
    model = burnish.compile(module, check="first-call")
    assert inspect.signature(model) == inspect.signature(forward)
    module.forward = model
    for size in (2, 3):
        assert torch.equal(module(torch.zeros(size)), torch.ones(size))
        assert module.forward is model
    assert model.compilations == 2
    assert model.verify(torch.zeros(2))
    assert any("agrees with" in note for note in model.report.notes)


@pytest.mark.parametrize("change", CHANGES)
def test_all_signatures_have_the_weights_of_the_first_compilation(
    change: Callable[[Held], None],
) -> None:
    module = Held().eval()
    model = burnish.compile(module)
    assert torch.equal(model(torch.ones(2)), torch.full((2,), 112.0))
    assert torch.equal(model(torch.ones(3)), torch.full((3,), 112.0))
    change(module)
    assert torch.equal(model(torch.ones(2)), torch.full((2,), 112.0))
    with pytest.raises(errors.FrontendError, match=r"changed .*\('[wbc]'\).* Call refresh\(\)"):
        model(torch.ones(4))
    assert torch.equal(model(torch.ones(3)), torch.full((3,), 112.0))
    model.refresh()
    assert model.compilations == 0
    for n in (2, 3, 4, 2):
        assert torch.equal(model(torch.ones(n)), torch.full((n,), 113.0))
    assert model.compilations == 3


def test_weights_that_did_not_change_stop_no_signature() -> None:
    module = Held().eval()
    model = burnish.compile(module)
    model(torch.ones(2))
    module.load_state_dict(module.state_dict())
    train(module)
    module.w.data.sub_(1)
    assert torch.equal(model(torch.ones(3)), torch.full((3,), 112.0))


def test_many_changes_are_counted() -> None:
    module = Held().eval()
    model = burnish.compile(module)
    model(torch.ones(2))
    for change in CHANGES[-3:]:
        change(module)
    with pytest.raises(errors.FrontendError, match=r"compilation \('\w' and 2 more\)"):
        model(torch.ones(3))


def test_a_fixed_signature_is_refreshed_at_once() -> None:
    module = Held().eval()
    model = burnish.compile(module, (torch.ones(2),))
    train(module)
    assert torch.equal(model(torch.ones(2)), torch.full((2,), 112.0))
    model.refresh()
    assert model.compilations == 1
    assert torch.equal(model(torch.ones(2)), torch.full((2,), 113.0))
    np.testing.assert_array_equal(model(np.ones(2, np.float32)), np.full(2, 113))
    with pytest.raises(errors.ShapeMismatchError):
        model(torch.ones(3))
    del module
    gc.collect()
    with pytest.raises(errors.FrontendError, match="Held that this model was compiled from"):
        model.refresh()
    assert torch.equal(model(torch.ones(2)), torch.full((2,), 113.0))


def test_a_refresh_does_not_hold_the_example_inputs() -> None:
    x = torch.ones(2)
    held = weakref.ref(x)
    model = burnish.compile(Held().eval(), (x,))
    del x
    gc.collect()
    assert held() is None
    assert model.compilations == 1


def test_a_model_of_no_module_has_nothing_to_refresh() -> None:
    module = burnish.compile(Held().eval(), (torch.ones(2),)).module
    with pytest.raises(errors.FrontendError, match="compiled from IRModule has the weights it was"):
        burnish.compile(module).refresh()


def test_many_signatures_are_noted_and_then_refused() -> None:
    model = burnish.compile(Add().eval())
    for n in range(1, 4):
        model(torch.zeros(n))
    with pytest.warns(UserWarning, match=r"fourth signature.*dynamic_shapes") as caught:
        model(torch.zeros(4))
    assert [w.filename for w in caught] == [__file__]
    for n in range(5, 17):
        model(torch.zeros(n))
    with pytest.raises(errors.VMError, match=r"16 different signatures.*dynamic_shapes"):
        model(torch.zeros(17))
    assert torch.equal(model(torch.zeros(4)), torch.ones(4))
    assert model.compilations == 16


def test_concurrent_first_calls_compile_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """The first compilation waits until another thread has begun one, or could have."""
    model = burnish.compile(Add().eval())
    found: list[Any] = []
    begun: list[int] = []
    another = threading.Event()

    def compile_module(*args: Any, **options: Any) -> Any:
        begun.append(threading.get_ident())
        if len(begun) > 1:
            another.set()
        another.wait(0.5)
        return stages.compile_module(*args, **options)

    monkeypatch.setattr("burnish.driver.compiled_model.compile_module", compile_module)
    # Exporting has a lock of its own: that it happens once proves nothing.
    imported = import_torch_module(Add().eval(), (torch.zeros(3),), {}, None)
    monkeypatch.setattr("burnish.driver.compiled_model.import_torch_module", lambda *_: imported)
    workers = [
        threading.Thread(target=lambda: found.append(model(torch.zeros(3)))) for _ in range(4)
    ]
    for w in workers:
        w.start()
    for w in workers:
        w.join()
    assert len(found) == 4
    assert all(torch.equal(y, torch.ones(3)) for y in found)
    assert len(begun) == 1
    assert model.compilations == 1


@pytest.mark.parametrize("what", ["module", "report", "executable"])
def test_before_the_first_call_there_is_nothing_to_see(what: str) -> None:
    model = burnish.compile(Add().eval())
    with pytest.raises(errors.NotCompiledError, match=f"^{what}: .*first call"):
        getattr(model, what)


def test_before_the_first_call_there_is_nothing_to_show_or_tune() -> None:
    model = burnish.compile(Add().eval())
    for call in (model.script, model.show, lambda: model.tune(trials=1)):
        with pytest.raises(errors.NotCompiledError):
            call()
