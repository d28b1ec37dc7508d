"""Samples through ``burnish.compile``, and what comes out beside what PyTorch computes.

Results must have the same structure, dtypes, shapes and values. Integers and bools are equal.
Floats agree with eager PyTorch; or, where eager itself is uncertain, are as near as it is to what
float64 gives.
"""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any
from unittest.mock import patch

import torch
from torch import nn
from torch.utils import _pytree as pytree

import burnish
from burnish.support.errors import FrontendError, InternalError
from burnish.tests.frontend.torch.opinfo.database import Sample

TOLERANCE = {
    torch.float64: (1e-7, 1e-7),
    torch.float32: (1.3e-6, 1e-5),
    torch.float16: (1e-3, 1e-5),
    torch.bfloat16: (1.6e-2, 1e-5),
}
"""Relative and absolute, as in ``torch.testing``."""
UNCERTAIN = 2.0
"""How many times as far from float64 as eager a result may be."""
PASSED, SKIPPED = "passed", "skipped"
WRONG, FAILED, REFUSED = "wrong", "failed", "refused"
CRASHED = "crashed"


@dataclass(frozen=True)
class Outcome:
    """What became of a sample: one of the words above, and why."""

    kind: str
    why: str = ""


class Calls(nn.Module):
    """Each sample with its own tensors."""

    def __init__(self, samples: Sequence[Sample]) -> None:
        super().__init__()
        self.samples = list(samples)

    def forward(self, *inputs: torch.Tensor) -> tuple[Any, ...]:
        rest = iter(inputs)
        return tuple([s(*[next(rest) for _ in s.tensors]) for s in self.samples])


def check(samples: Sequence[Sample]) -> list[Outcome]:
    """The outcome of each: all in one program, or, where that fails, each in one of its own."""
    expected = [_eager(s) for s in samples]
    outcomes = [e if isinstance(e, Outcome) else Outcome(PASSED) for e in expected]
    asked = [i for i, e in enumerate(expected) if not isinstance(e, Outcome)]
    if not asked:
        return outcomes
    together = _outcomes([samples[i] for i in asked], [expected[i] for i in asked])
    for place, i in enumerate(asked):
        outcomes[i] = together[place]
        if len(asked) > 1 and together[place].kind != PASSED:
            (outcomes[i],) = _outcomes([samples[i]], [expected[i]])
    return outcomes


def _eager(sample: Sample) -> Any:
    """The leaves of the result; an outcome where there is nothing to compare with."""
    with warnings.catch_warnings(), torch.no_grad():
        warnings.simplefilter("ignore")
        try:
            result, again = (_call(sample, seed) for seed in (0, 1))
        except Exception as error:  # whatever PyTorch raises
            return Outcome(SKIPPED, f"eager: {_line(error)}")
    if not _same(result, again):
        return Outcome(SKIPPED, "random")
    leaves = pytree.tree_leaves(result)
    tensors = [x for x in (*leaves, *sample.leaves) if isinstance(x, torch.Tensor)]
    if any(t.is_complex() or t.layout is not torch.strided or t.is_quantized for t in tensors):
        return Outcome(SKIPPED, "complex or sparse")
    if not any(isinstance(x, torch.Tensor) for x in leaves):
        return Outcome(SKIPPED, "no tensor")
    return leaves


def _call(sample: Sample, seed: int) -> Any:
    """Some entries of the database set a seed of their own, which would hide what is random."""
    torch.manual_seed(seed)
    with patch.object(torch, "manual_seed"):
        return sample(*sample.tensors)


def _same(a: Any, b: Any) -> bool:
    """Whether the seed made no difference."""
    pairs = zip(pytree.tree_leaves(a), pytree.tree_leaves(b), strict=True)
    return all(
        x.layout is not torch.strided or torch.allclose(x, y, rtol=0, atol=0, equal_nan=True)
        for x, y in pairs
        if isinstance(x, torch.Tensor)
    )


def _outcomes(samples: Sequence[Sample], expected: Sequence[list[Any]]) -> list[Outcome]:
    inputs = tuple([t for s in samples for t in s.tensors])
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            model = burnish.compile(Calls(samples).eval(), inputs)
            results = model(*inputs)
        except FrontendError as error:
            return [Outcome(REFUSED, _line(error))] * len(samples)
        except (Exception, InternalError) as error:  # every one is a defect
            return [Outcome(FAILED, f"{type(error).__name__}: {_line(error)}")] * len(samples)
    return [
        _compare(s, pytree.tree_leaves(r), e)
        for s, r, e in zip(samples, results, expected, strict=True)
    ]


def _compare(sample: Sample, found: Sequence[Any], expected: Sequence[Any]) -> Outcome:
    if len(found) != len(expected):
        return Outcome(WRONG, f"{len(found)} results, PyTorch {len(expected)}")
    exact: list[Any] | None = None
    for i, (ours, theirs) in enumerate(zip(found, expected, strict=True)):
        if not isinstance(theirs, torch.Tensor):
            if ours != theirs:
                return Outcome(WRONG, f"result {i}: {ours!r}, PyTorch {theirs!r}")
            continue
        if ours.dtype != theirs.dtype or ours.shape != theirs.shape:
            here, there = ([str(x.dtype), list(x.shape)] for x in (ours, theirs))
            return Outcome(WRONG, f"result {i}: {here}, PyTorch {there}")
        if _agree(ours, theirs) or (i == 1 and _are_places(sample.leaves[0], ours, expected[0])):
            continue
        if sample.function is torch.argsort and _are_in_order(sample, ours, theirs):
            continue
        exact = _in_float64(sample, len(expected)) if exact is None else exact
        reference = exact[i] if exact else None
        if reference is None or not _near(ours, theirs, reference):
            return Outcome(WRONG, f"result {i}: {_difference(ours, theirs, reference)}")
    return Outcome(PASSED)


def _are_places(x: Any, places: torch.Tensor, values: Any) -> bool:
    """Whether the second result says where the first one's values stand along an axis: of equal
    elements PyTorch leaves open which it finds."""
    if places.dtype != torch.int64 or not isinstance(x, torch.Tensor) or not x.numel():
        return False
    for d in range(x.ndim):
        at, wanted = (t.unsqueeze(d) if t.ndim == x.ndim - 1 else t for t in (places, values))
        fits = at.ndim == x.ndim and all(
            a == b for e, (a, b) in enumerate(zip(at.shape, x.shape, strict=True)) if e != d
        )
        inside = fits and bool(((at >= 0) & (at < x.shape[d])).all())
        if inside and torch.allclose(x.gather(d, at), wanted, rtol=0, atol=0, equal_nan=True):
            return True
    return False


def _are_in_order(sample: Sample, ours: torch.Tensor, theirs: torch.Tensor) -> bool:
    """Whether the elements at two orders are the same: of equal ones PyTorch leaves open which
    comes first."""
    (x, *_) = sample.tensors
    return any(_are_places(x, ours, x.gather(d, theirs)) for d in range(x.ndim))


def _agree(ours: torch.Tensor, theirs: torch.Tensor) -> bool:
    relative, absolute = TOLERANCE.get(theirs.dtype, (0.0, 0.0))
    if not theirs.is_floating_point():
        return torch.equal(ours, theirs)
    return torch.allclose(
        ours.double(), theirs.double(), rtol=relative, atol=absolute, equal_nan=True
    )


def _in_float64(sample: Sample, count: int) -> list[Any]:
    """What PyTorch gives of the same numbers in float64; nothing where that is no such thing."""
    wide = [
        torch.float64
        if isinstance(x, torch.dtype) and x.is_floating_point
        else x.double()
        if isinstance(x, torch.Tensor) and x.is_floating_point()
        else x
        for x in sample.leaves
    ]
    again = Sample(sample.function, sample.tree, tuple(wide))
    result = _eager(again)
    return [] if isinstance(result, Outcome) or len(result) != count else result


def _near(ours: torch.Tensor, theirs: torch.Tensor, exact: torch.Tensor) -> bool:
    if not theirs.is_floating_point() or exact.shape != ours.shape:
        return False
    if _agree(ours, exact.to(ours.dtype)):
        return True
    wanted = exact.double()
    own, eager = ((x.double() - wanted).abs().nan_to_num(0.0) for x in (ours, theirs))
    same = (ours.isnan() == wanted.isnan()) | (ours.isnan() == theirs.isnan())
    relative, absolute = TOLERANCE[theirs.dtype]
    allowed = UNCERTAIN * eager.max() + absolute + relative * wanted.abs().nan_to_num(0.0)
    return bool((same & (own <= allowed)).all())


def _difference(ours: torch.Tensor, theirs: torch.Tensor, exact: torch.Tensor | None) -> str:
    apart = (ours.double() - theirs.double()).abs()
    unlike = apart.nan_to_num(float("inf")) * ~(ours.isnan() & theirs.isnan())
    at = int(unlike.nan_to_num(0.0).argmax())
    wanted = (
        "" if exact is None or exact.shape != ours.shape else f", exactly {exact.flatten()[at]}"
    )
    return f"{ours.flatten()[at]}, PyTorch {theirs.flatten()[at]}{wanted}"


def _line(error: BaseException) -> str:
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    return " | ".join(lines[:3])[:400] or type(error).__name__
