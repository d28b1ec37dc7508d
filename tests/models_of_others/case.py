"""One model that somebody else wrote: how it is built, how it is called, how it is compared.

Weights are random and then disturbed, so that no layer is the identity or zero; statistics of batch
norms are those of the example. A model *agrees* when no element of an output is further from eager
PyTorch's than TOLERANCE times the largest element of that output, or where it is at most twice as
far from float64's as eager's own. Whether another input gives another output, by more than ten
times as much, is checked of eager first: a constant agrees with anything.
"""

from __future__ import annotations

import contextlib
import copy
import time
import warnings
import zlib
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import nn
from torch.utils import _pytree as pytree

import burnish
from burnish.support.errors import BurnishError

TOLERANCE = 1e-3
"""Of the largest element of an output: float32 sums in another order, Winograd, deep networks."""
SIZES = {"batch": 2, "length": 12}
OTHER_SIZES = ({"batch": 3, "length": 7}, {"batch": 1, "length": 16})
ROUNDS = 3
CALIBRATION = 8
"""Examples that statistics of batch norms come from: with two, other inputs lie so far off that a
deep network makes noise of them, in eager too."""

Inputs = tuple[torch.Tensor, ...] | Mapping[str, torch.Tensor]
"""By position or by keyword."""


@dataclass(frozen=True)
class Case:
    """``build()`` gives the module, ``inputs(generator, batch, length)`` its inputs.

    Dims that follow ``batch`` and ``length`` are found by drawing inputs of several sizes; those
    named in ``dynamic`` are named to the compiler.
    """

    name: str
    build: Callable[[], nn.Module]
    inputs: Callable[[torch.Generator, int, int], Inputs]
    dynamic: tuple[str, ...] = ("batch",)
    mode: str = field(init=False)
    """What surrounds the compilation and the calls: nothing, no_grad or inference_mode."""

    def __post_init__(self) -> None:
        modes = ("plain", "no_grad", "inference_mode")
        object.__setattr__(self, "mode", modes[zlib.crc32(self.name.encode()) % len(modes)])

    def draw(self, seed: int = 0, **sizes: int) -> Inputs:
        """Inputs of some sizes, those of SIZES where none is given."""
        wanted = {**SIZES, **sizes}
        generator = torch.Generator().manual_seed(seed)
        return self.inputs(generator, wanted["batch"], wanted["length"])

    def dynamic_shapes(self) -> Any:
        """The entry of each input: which of its dims follow which size."""
        base = self.draw()
        entries: dict[Any, dict[int, str]] = {key: {} for key in _keys(base)}
        for size in self.dynamic:
            other = self.draw(**{size: SIZES[size] + 1})
            for key, dims in entries.items():
                pairs = zip(base[key].shape, other[key].shape, strict=True)
                dims |= {i: size for i, (a, b) in enumerate(pairs) if a != b}
        found = {key: dims or None for key, dims in entries.items()}
        return tuple(found.values()) if isinstance(base, tuple) else found


def _keys(inputs: Inputs) -> list[Any]:
    return list(range(len(inputs)) if isinstance(inputs, tuple) else inputs)


def call(model: Callable[..., Any], inputs: Inputs) -> Any:
    """The model on its inputs."""
    return model(*inputs) if isinstance(inputs, tuple) else model(**inputs)


@dataclass
class Outcome:
    """What one case gave: seconds of compilation, milliseconds of a call, or the reason why not."""

    name: str
    static: str = ""
    """Empty where the model compiled for one shape agrees."""
    dynamic: str = ""
    frontend_seconds: float = 0.0
    compile_seconds: float = 0.0
    burnish_ms: float = 0.0
    eager_ms: float = 0.0
    kernels: int = 0
    parameters: int = 0
    train: str = ""
    """How the module with train() left on was taken."""


def disturb(module: nn.Module, inputs: Inputs) -> None:
    """Random weights where they are constant, statistics of batch norms where they are defaults."""
    noise = _noise(1)
    with torch.no_grad():
        for m in module.modules():
            scale = getattr(m, "weight", None) if "Norm" in type(m).__name__ else None
            if isinstance(scale, nn.Parameter) and abs(float(scale.mean())) < 0.2:
                scale.add_(1)  # A norm that multiplies by nearly zero hides what stands before it.
        for p in module.parameters():
            if p.is_floating_point() and (p.ndim < 2 or float(p.std()) < 1e-3):
                p.add_(0.1 * noise(p)) if p.ndim < 2 else p.add_(0.05 * noise(p))
        if not any("Norm" in type(m).__name__ for m in module.modules()):
            for p in module.parameters():
                if p.ndim > 1:
                    p.mul_(2)  # What no norm widens again would fade from layer to layer.
    settle_norms(module, inputs)


def _noise(seed: int) -> Callable[[torch.Tensor], torch.Tensor]:
    generator = torch.Generator().manual_seed(seed)
    return lambda like: torch.randn(like.shape, generator=generator).to(like.dtype)


def settle_norms(module: nn.Module, inputs: Inputs) -> None:
    """Statistics of batch norms near those of these inputs."""
    noise = _noise(2)

    def settle(norm: nn.Module, args: tuple[torch.Tensor, ...]) -> None:
        x = args[0].float()
        axes = [i for i in range(x.ndim) if i != 1]
        mean, variance = x.mean(axes), x.var(axes, correction=0)
        # A channel that hardly varies here may well do so for another input.
        least = 0.1 * mean.square() + 0.5 * variance.mean() + 1e-4
        spread = (variance + least).sqrt()
        norm.running_mean.copy_(mean + 0.1 * spread * noise(mean))
        norm.running_var.copy_(spread.square())

    with torch.no_grad():
        norms = [m for m in module.modules() if getattr(m, "running_mean", None) is not None]
        hooks = [norm.register_forward_pre_hook(settle) for norm in norms]
        call(module, inputs)
        for hook in hooks:
            hook.remove()


def tensors(result: Any) -> list[torch.Tensor]:
    """The tensors of an output, whatever holds them."""
    return [x for x in pytree.tree_leaves(result) if isinstance(x, torch.Tensor)]


def difference(found: Any, expected: Any, tolerance: float = TOLERANCE) -> str:
    """What differs, or nothing."""
    if type(found) is not type(expected):
        return f"a {type(found).__name__} where eager gives a {type(expected).__name__}"
    pairs = list(zip(tensors(found), tensors(expected), strict=False))
    if len(pairs) != len(tensors(expected)) or len(pairs) != len(tensors(found)):
        return f"{len(tensors(found))} outputs where eager gives {len(tensors(expected))}"
    for i, (a, b) in enumerate(pairs):
        if a.shape != b.shape or a.dtype != b.dtype:
            return f"output {i}: {a.dtype} {tuple(a.shape)}, eager {b.dtype} {tuple(b.shape)}"
        far = distance(a, b)
        if not far <= tolerance:
            return f"output {i} is {far:.1e} of its largest element from eager"
    return ""


def disagreement(module: nn.Module, inputs: Inputs, found: Any) -> str:
    """What differs from eager, or nothing. Where a deep network makes noise of its roundings, eager
    is no better than ours: then float64 judges, and ours may be twice as far from it as eager."""
    eager = run_eager(module, inputs)
    wrong = difference(found, eager)
    if "largest element from eager" not in wrong:
        return wrong
    exact = run_eager(copy.deepcopy(module).double(), _widened(inputs))
    pairs = list(zip(tensors(found), tensors(eager), tensors(exact), strict=True))
    noisy = all(distance(a, c) <= max(TOLERANCE, 2 * distance(b, c)) for a, b, c in pairs)
    return "" if noisy else wrong


def _widened(inputs: Inputs) -> Inputs:
    def wide(x: torch.Tensor) -> torch.Tensor:
        return x.double() if x.is_floating_point() else x

    if isinstance(inputs, tuple):
        return tuple([wide(x) for x in inputs])
    return {name: wide(x) for name, x in inputs.items()}


def distance(a: torch.Tensor, b: torch.Tensor) -> float:
    """The largest difference, in parts of the largest element of ``b``."""
    if not b.numel():
        return 0.0
    wide, wanted = a.double(), b.double()
    finite = wanted.isfinite()
    if not torch.equal(wide[~finite].nan_to_num(0.5), wanted[~finite].nan_to_num(0.5)):
        return float("inf")
    largest = wanted[finite].abs().max() if finite.any() else torch.ones(())
    return float((wide[finite] - wanted[finite]).abs().max() / largest.clamp(min=1e-30))


def varies(module: nn.Module, case: Case) -> bool:
    """Of eager: whether some output depends on the input."""
    with torch.no_grad():
        one, two = (tensors(call(module, case.draw(seed))) for seed in (0, 5))
    return any(
        a.shape == b.shape and distance(a, b) > 10 * TOLERANCE
        for a, b in zip(one, two, strict=True)
        if a.is_floating_point()
    )


def enliven(module: nn.Module, case: Case) -> None:
    """Larger weights where the outputs hardly depend on the input, or smaller ones where they are
    at the ends of their range."""
    for factor in (1.0, 2.0, 1.5, 1 / 6, 0.5):
        with torch.no_grad():
            for p in module.parameters():
                if p.ndim > 1 and p.is_floating_point():
                    p.mul_(factor)
        if factor != 1:
            settle_norms(module, case.draw(batch=CALIBRATION))
        if varies(module, case):
            return
    raise AssertionError(f"{case.name}: its outputs hardly depend on the input; disturb it more")


@contextlib.contextmanager
def surroundings(mode: str) -> Iterator[None]:
    """The mode of autograd that a user may have around calls; their library's warnings are not
    ours."""
    around = {"no_grad": torch.no_grad, "inference_mode": torch.inference_mode}
    with warnings.catch_warnings(), around.get(mode, contextlib.nullcontext)():
        warnings.simplefilter("ignore")
        yield


def prepared(case: Case) -> nn.Module:
    """The module of a case, ready to be compiled."""
    torch.manual_seed(0)
    with surroundings("plain"):
        module = case.build().eval()
        disturb(module, case.draw(batch=CALIBRATION))
        enliven(module, case)
    return module


def run_eager(module: nn.Module, inputs: Inputs) -> Any:
    with torch.no_grad():
        return call(module, inputs)


def compile_in_training(module: nn.Module, inputs: Inputs) -> tuple[Any, Any, str]:
    """With train() left on: refused by name where that changes the result, else compiled.

    Gives the model, its result and a word on how the module was taken. The module is in evaluation
    mode again, its statistics are as they were.
    """
    module.train()
    try:
        model = burnish.compile(module, threads=1)
        return model, call(model, inputs), "compiled"
    except BurnishError as error:
        by_name = "at random" in str(error) or "training mode" in str(error)
        word = "refused" if by_name else "does not export"
    finally:
        module.eval()
    model = burnish.compile(module, threads=1)
    return model, call(model, inputs), word


def check_static(case: Case, module: nn.Module, outcome: Outcome, *, timed: bool = True) -> None:
    """Compile for one shape and compare."""
    inputs = case.draw()
    with surroundings(case.mode):
        model, found, outcome.train = compile_in_training(module, inputs)
        report = model.report
        outcome.frontend_seconds = sum(report.frontend.values())
        outcome.compile_seconds = report.seconds
        outcome.kernels = len(report.kernels)
        outcome.static = disagreement(module, inputs, found)
        again = case.draw(7)
        outcome.static = outcome.static or disagreement(module, again, call(model, again))
        if timed:
            outcome.burnish_ms = best_ms(lambda: call(model, inputs))
            outcome.eager_ms = best_ms(lambda: run_eager(module, inputs))


def check_dynamic(case: Case, module: nn.Module, outcome: Outcome) -> None:
    """Compile for any size of the dynamic dims and compare at several."""
    with surroundings(case.mode):
        model = burnish.compile(module, dynamic_shapes=case.dynamic_shapes(), threads=1)
        for sizes in ({}, *OTHER_SIZES):
            inputs = case.draw(3, **{k: v for k, v in sizes.items() if k in case.dynamic})
            wrong = disagreement(module, inputs, call(model, inputs))
            outcome.dynamic = outcome.dynamic or (wrong and f"at {sizes or SIZES}: {wrong}")


def best_ms(call: Callable[[], Any]) -> float:
    """The best of ROUNDS calls in milliseconds; none where one takes a second."""
    best = float("inf")
    for _ in range(ROUNDS):
        begin = time.perf_counter()
        call()
        best = min(best, (time.perf_counter() - begin) * 1e3)
        if best > 1000:
            break
    return best
