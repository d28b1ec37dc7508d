"""Functions of torch that torch.export cannot trace, written so that it can.

They look at values, to warn or to raise or for the size of a result that nobody asks for. Where a
model does not export for that reason, it is exported once more with these in their place. Where
torch raises, the results here are what the formula gives.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import torch
from torch import Tensor, nn
from torch.fx.experimental.symbolic_shapes import (
    GuardOnDataDependentSymNode,
    PendingUnbackedSymbolNotFound,
    free_unbacked_symbols,
)
from torch.nn.modules import transformer
from torch.overrides import TorchFunctionMode

from .checks_of_data import ChecksOfData, may_be_caught
from .known_values import KnownValues
from .loops_of_hits import Turns

_ATTENTION: Any = nn.functional.scaled_dot_product_attention
LOOKS = (
    GuardOnDataDependentSymNode,
    torch._subclasses.fake_tensor.DataDependentOutputException,
    torch._subclasses.fake_tensor.DynamicOutputShapeException,
    PendingUnbackedSymbolNotFound,
)
"""What export raises where a branch or a size depends on data."""


class ExportableFunctions(TorchFunctionMode):
    """Calls of the functions in the table are calls of those here; values that are known are
    told, and where a wrong one raises the right one."""

    def __init__(self, module: nn.Module, *, tell_sizes: bool = True) -> None:
        super().__init__()
        self.known = KnownValues(module, tell_sizes=tell_sizes)
        self.checks = ChecksOfData()
        self.turns = Turns()

    def __enter__(self) -> ExportableFunctions:
        self._held = transformer._detect_is_causal_mask
        self._attention: Any = nn.functional.scaled_dot_product_attention
        transformer._detect_is_causal_mask = is_causal_mask
        # Functions of torch that are asked for as wholes call it without asking again.
        nn.functional.scaled_dot_product_attention = attention
        self._truth: Any = torch.SymBool.__bool__
        torch.SymBool.__bool__ = lambda number: self._truth_of(number)  # type: ignore[method-assign]
        super().__enter__()
        return self

    def __exit__(self, *raised: Any) -> None:
        transformer._detect_is_causal_mask = self._held
        nn.functional.scaled_dot_product_attention = self._attention
        torch.SymBool.__bool__ = self._truth  # type: ignore[method-assign]
        super().__exit__(*raised)

    def __torch_function__(
        self,
        func: Any,
        types: Sequence[Any],
        args: Sequence[Any] = (),
        kwargs: Mapping[str, Any] | None = None,
    ) -> Any:
        if func in _TABLE:
            return _TABLE[func](*args, **(kwargs or {}))
        if func in _TRUTHS and not self.known.tells(args[0]):
            truth = self.checks.answer(args[0])
            if truth is not None:
                return truth
        rows = self.turns.call(func, args)
        if rows is not None:
            return rows
        result = self.known.call(func, args, kwargs or {})
        self.turns.remember(func, args, result)
        return result

    def _truth_of(self, number: torch.SymBool) -> bool:
        """That of a condition on numbers out of data too."""
        try:
            return bool(self._truth(number))
        except GuardOnDataDependentSymNode:
            truth = self.checks.answer(number)
            if truth is None:
                raise
            return truth


def cov(
    x: Tensor,
    *,
    correction: int = 1,
    fweights: Tensor | None = None,
    aweights: Tensor | None = None,
) -> Tensor:
    """Covariances of the rows. torch looks whether weights are negative, and warns where there are
    too few observations, of which it divides by 0."""
    rows = x.reshape(1, -1) if x.ndim < 2 else x
    weight = fweights
    if aweights is not None:
        weight = aweights if fweights is None else fweights * aweights
    if weight is None:
        total: Any = rows.shape[1]
        mean = rows.sum(1) / total
        norm = torch.full((), max(total - correction, 0), dtype=torch.float64)
    else:
        total = weight.sum()
        mean = (rows * weight).sum(1) / total
        norm = total - correction
        if aweights is not None and correction:
            norm = total - correction * (weight * aweights).sum() / total
        norm = norm.clamp(min=0)
    apart = rows - mean.unsqueeze(1)
    weighted = apart if weight is None else apart * weight
    return (torch.mm(apart.to(weighted.dtype), weighted.t()) / norm.to(weighted.dtype)).squeeze()


def corrcoef(x: Tensor) -> Tensor:
    """Correlations of the rows."""
    found = cov(x)
    if not found.ndim:
        return found / found
    deviation = found.diagonal().sqrt()
    return found / deviation.unsqueeze(1) / deviation.unsqueeze(0)


def gaussian_nll_loss(
    x: Tensor,
    target: Tensor,
    var: Tensor | float,
    full: bool = False,
    eps: float = 1e-6,
    reduction: str = "mean",
) -> Tensor:
    """torch looks whether variances are negative."""
    spread = var if isinstance(var, Tensor) else torch.full_like(x, var)
    if spread.shape != x.shape and x.shape[:-1] == spread.shape:
        spread = spread.unsqueeze(-1)
    spread = spread.clamp(min=eps)
    loss = 0.5 * (spread.log() + (x - target) ** 2 / spread)
    if full:
        loss = loss + 0.5 * math.log(2 * math.pi)
    if reduction == "mean":
        return loss.mean()
    return loss.sum() if reduction == "sum" else loss


_REDUCTIONS = {0: "none", 1: "mean", 2: "sum"}


def ctc_loss(
    log_probs: Tensor,
    targets: Tensor,
    input_lengths: Sequence[int] | Tensor,
    target_lengths: Sequence[int] | Tensor,
    blank: int = 0,
    reduction: str = "mean",
    zero_infinity: bool = False,
) -> Tensor:
    """The loss of sequences whose alignment with their labels is not known. torch checks lengths
    and gives a second result, whose size they say. ``targets`` are rows, or all of them in one."""
    is_batch = log_probs.ndim == 3
    inputs, sizes = (
        x.reshape(-1).to(torch.int64)
        if isinstance(x, Tensor)
        else torch.tensor(list(x), dtype=torch.int64)
        for x in (input_lengths, target_lengths)
    )
    labels = _label_rows(targets, target_lengths, sizes)
    batch = log_probs if is_batch else log_probs.unsqueeze(1)
    loss = _unlikelihood(batch, labels, inputs, sizes, blank)
    if zero_infinity:
        loss = torch.where(loss == math.inf, 0.0, loss)
    if reduction == "mean":
        return (loss / sizes.clamp(min=1).to(loss.dtype)).mean()
    if reduction == "sum":
        return loss.sum()
    return loss if is_batch else loss.squeeze(0)


def numbered_ctc_loss(
    log_probs: Tensor,
    targets: Tensor,
    input_lengths: Sequence[int] | Tensor,
    target_lengths: Sequence[int] | Tensor,
    blank: int = 0,
    reduction: int = 0,
    zero_infinity: bool = False,
) -> Tensor:
    """``torch.ctc_loss``, whose reductions are numbers and which by default has none."""
    lengths = (input_lengths, target_lengths)
    return ctc_loss(log_probs, targets, *lengths, blank, _REDUCTIONS[reduction], zero_infinity)


def _unlikelihood(
    log_probs: Tensor, labels: Tensor, inputs: Tensor, sizes: Tensor, blank: int
) -> Tensor:
    """The negative logarithm of the probability of all alignments, by the forward algorithm.

    Graves et al., "Connectionist Temporal Classification", ICML 2006: the labels stand between
    blanks, and a step stays, goes on by one, or leaps over a blank between different labels.
    """
    steps, batch, _ = log_probs.shape
    longest = labels.shape[1]
    between = torch.full_like(labels, blank)
    path = torch.stack([between, labels], 2).reshape(batch, 2 * longest)
    path = torch.cat([path, torch.full_like(path[:, :1], blank)], 1)
    said = log_probs.gather(2, path.unsqueeze(0).expand(steps, -1, -1))
    leaps = torch.full_like(said[0], -math.inf)
    if longest > 1:
        differs = (path[:, 2:] != blank) & (path[:, 2:] != path[:, :-2])
        leaps = torch.cat([leaps[:, :2], torch.where(differs, 0.0, leaps[:, 2:])], 1)
    place = torch.arange(2 * longest + 1)
    never = torch.full_like(said[0], -math.inf)
    alpha = torch.where((place < 2) & (place <= 2 * sizes.unsqueeze(1)), said[0], never)
    for t in range(1, steps):
        one = torch.cat([never[:, :1], alpha[:, :-1]], 1)
        two = torch.cat([never[:, :2], alpha[:, :-2]], 1)[:, : alpha.shape[1]] + leaps
        moved = torch.logaddexp(torch.logaddexp(alpha, one), two) + said[t]
        alpha = torch.where((t < inputs).unsqueeze(1), moved, alpha)
    last = (2 * sizes).unsqueeze(1)
    end = alpha.gather(1, last)
    before = torch.where(last > 0, alpha.gather(1, (last - 1).clamp(min=0)), -math.inf)
    return -torch.logaddexp(end, before).squeeze(1)


def _label_rows(targets: Tensor, given: Sequence[int] | Tensor, sizes: Tensor) -> Tensor:
    """Of each sequence its labels; behind them are any."""
    if targets.ndim == 2:
        return targets.to(torch.int64)
    longest = int(targets.shape[0])
    if not isinstance(given, Tensor):
        longest = max(given, default=0)
    places = (sizes.cumsum(0) - sizes).unsqueeze(1) + torch.arange(longest)
    if not targets.shape[0]:
        return torch.zeros_like(places)
    flat = places.clamp(max=targets.shape[0] - 1).reshape(-1)
    return targets.to(torch.int64).index_select(0, flat).reshape(places.shape)


def is_causal_mask(mask: Tensor | None, is_causal: bool | None = None, size: Any = None) -> bool:
    """The layers of ``nn.Transformer`` look whether a mask is that of causal attention. They hand
    on the mask too, which alone says what is attended to."""
    return bool(is_causal)


def is_all_true(valid: Tensor) -> bool:
    """What ``torch.distributions`` asks of its parameters and values, to raise."""
    return True


def one_hot(x: Tensor, num_classes: int = -1) -> Tensor:
    """torch looks at indices for their number, and whether they are in range."""
    is_open = isinstance(num_classes, int) and num_classes == -1
    classes = x.max().item() + 1 if is_open else num_classes
    return (x.unsqueeze(-1) == torch.arange(classes)).to(torch.int64)


def attention(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    attn_mask: Tensor | None = None,
    dropout_p: float = 0.0,
    is_causal: bool = False,
    scale: float | None = None,
    enable_gqa: bool = False,
) -> Tensor:
    """Where data tell a size, as torch documents it: its own asks whether that is 0, or 1."""
    sizes = [s for x in (query, key) for s in x.shape]
    if not free_unbacked_symbols(sizes) or dropout_p:
        whole: Tensor = _ATTENTION(
            query, key, value, attn_mask, dropout_p, is_causal, scale=scale, enable_gqa=enable_gqa
        )
        return whole
    if enable_gqa:
        times = query.shape[-3] // key.shape[-3]
        key, value = (x.repeat_interleave(times, -3) for x in (key, value))
    factor = query.shape[-1] ** -0.5 if scale is None else scale
    scores = (query * factor) @ key.transpose(-2, -1)
    if is_causal:
        attn_mask = torch.ones(scores.shape[-2:], dtype=torch.bool).tril()
    if attn_mask is not None:
        is_flag = attn_mask.dtype is torch.bool
        scores = scores.masked_fill(~attn_mask, -math.inf) if is_flag else scores + attn_mask
    masked = (scores == -math.inf).all(-1, keepdim=True)
    return torch.where(masked, 0.0, torch.softmax(scores, -1)) @ value


def combinations(input: Tensor, r: int = 2, with_replacement: bool = False) -> Tensor:
    """``torch.combinations`` of a vector of a known length, which makes it of a mask of all
    tuples."""
    if input.ndim != 1 or not isinstance(input.shape[0], int) or r < 1:
        return torch.combinations(input, r, with_replacement)
    choose: Any = itertools.combinations
    if with_replacement:
        choose = itertools.combinations_with_replacement
    places = torch.tensor(list(choose(range(input.shape[0]), r)), dtype=torch.int64)
    return input[places.reshape(-1, r)]


def assert_(condition: Any, message: str = "") -> None:
    """``torch._assert``, of what data tell when the program runs."""
    if isinstance(condition, Tensor) and not may_be_caught():
        torch.ops.aten._assert_async.msg(condition.reshape(()) != 0, message)
    elif not condition:
        raise AssertionError(message)


_TRUTHS = (Tensor.__bool__, torch.is_nonzero)
_TABLE: dict[Any, Callable[..., Any]] = {
    torch._assert: assert_,
    torch._is_all_true: is_all_true,
    torch.cov: cov,
    Tensor.cov: cov,
    torch.combinations: combinations,
    torch.corrcoef: corrcoef,
    Tensor.corrcoef: corrcoef,
    nn.functional.gaussian_nll_loss: gaussian_nll_loss,
    nn.functional.ctc_loss: ctc_loss,
    nn.functional.one_hot: one_hot,
    _ATTENTION: attention,
    torch.ctc_loss: numbered_ctc_loss,
}
