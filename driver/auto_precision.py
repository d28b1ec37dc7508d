"""``precision="auto"``: words for layers, the fastest that keep a bound on the model's error.

Every candidate is compiled and run: errors are those of the outputs on the samples, against the
module in float64. Layers of one kind (an operator and the shapes of its operands) are timed
together; errors are measured layer by layer, and then for all chosen layers at once. Where these
exceed the bound, the layers that cost most error for the time they gain go back, until it holds.
What is chosen is an ordinary mapping, which ``precision`` describes.
"""

from __future__ import annotations

import glob
import math
import operator
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np

from ..frontend.imported import Imported
from ..graphir.expr import Call
from ..graphir.module import IRModule, fork_module
from ..graphir.op import type_of
from ..graphir.passes.pass_list import PassList
from ..graphir.passes.to_mixed_precision import constant_name, takes_narrow_operands
from ..support.errors import ArgumentError
from ..support.node import walk
from ..support.target import Target
from ..tuner.analytic import schedule_analytically
from ..vm.tensor import Tensor
from .arrays import copied
from .console import format_seconds, progress, table_lines
from .executable import Executable
from .precision import OF_LAYERS, SPLIT, layer_name, splits
from .signature import CompiledSignature
from .sources import as_example, is_torch_module
from .stages import compile_again, compile_module
from .timing import Timing, time_interleaved
from .verification import difference

AUTO = "auto"
WORDS = tuple([word for word in OF_LAYERS if word != "float32" and ":" not in word])
"""What a layer may have in place of float32; of integer weights in groups of their own length."""
ROUNDS, SECONDS = 7, 0.01
"""How often two programs are timed in turns, and how long one turn of each lasts."""
LEAST_GAIN = 0.02
"""The part of a call that all of the choice has to gain: of many words that were timed the best
seem to gain a little even where none does, and each of them rounds."""
_TIMED_AGAIN = 3
"""How often all of the choice is timed once more where it seems to gain nothing: layer by layer it
did, and a moment in which the machine has other things to do says nothing."""
_MARGIN = 1.02
"""How much more than seen the error is expected to be when layers go back."""


def time_programs(runs: Mapping[str, Callable[[], Any]]) -> Mapping[str, Timing]:
    """The times of two programs, in turns."""
    return time_interleaved(runs, rounds=ROUNDS, seconds=SECONDS)


@dataclass(frozen=True)
class LayerChoice:
    """``word`` is what a layer computes in, ``alone`` the model's error where that is the only
    one, ``seconds`` what the layer takes less."""

    weight: str
    word: str = "float32"
    alone: float = 0.0
    seconds: float = 0.0

    @property
    def name(self) -> str:
        return layer_name(self.weight) or "products of activations"


@dataclass(frozen=True)
class PrecisionChoice:
    """What ``precision="auto"`` chose: ``error`` is that of the whole model, ``float32_error`` that
    of the model in float32. ``print`` it for a table."""

    layers: tuple[LayerChoice, ...]
    max_error: float
    error: float
    float32_error: float
    seconds: float
    float32_seconds: float
    samples: int

    @property
    def words(self) -> dict[str, str]:
        """The choice as ``precision=`` takes it."""
        return _mapping(self.layers)

    def __str__(self) -> str:
        narrow = [c for c in self.layers if c.word != "float32"]
        count = f"{self.samples} sample{'s' if self.samples != 1 else ''}"
        title = (
            f'precision="auto": {len(narrow)} of {len(self.layers)} layers are narrower than '
            f"float32; error {self.error:.1e} on {count}, at most {self.max_error:.1e} allowed "
            f"(float32: {self.float32_error:.1e}), {format_seconds(self.seconds)} a call in place "
            f"of {format_seconds(self.float32_seconds)}"
        )
        rows = [_row(c) for c in self.layers]
        gained = format_seconds(max(0.0, self.float32_seconds - self.seconds))
        rows.append(("the whole", "", f"{self.error:.1e}", gained))
        columns = ("layer", "type", "error alone", "time gained")
        return "\n    ".join(table_lines(title, columns, rows))


def _row(choice: LayerChoice) -> tuple[str, str, str, str]:
    if choice.word == "float32":
        return choice.name, choice.word, "", ""
    return choice.name, choice.word, f"{choice.alone:.1e}", format_seconds(choice.seconds)


def _mapping(layers: Iterable[LayerChoice]) -> dict[str, str]:
    return {glob.escape(c.weight): c.word for c in layers if c.word != "float32"}


def check_bound(precision: object, max_error: object, samples: object) -> None:
    """Refuse ``max_error`` and ``samples`` that do not go with a precision."""
    if precision != AUTO:
        name = "max_error" if max_error is not None else "samples"
        if max_error is not None or samples is not None:
            raise ArgumentError(
                f'{name} goes with precision="auto"; found precision={precision!r}. Leave {name} '
                'out, or write precision="auto".'
            )
        return
    is_number = isinstance(max_error, (int, float)) and not isinstance(max_error, bool)
    if not is_number or not 0 < float(str(max_error)) < math.inf:
        raise ArgumentError(
            'precision="auto": expected max_error to be a number above 0, the largest error of an '
            f"output relative to its largest element, such as 1e-2; found {max_error!r}."
        )
    if samples is not None and not (
        isinstance(samples, (list, tuple))
        and samples
        and all(isinstance(s, (list, tuple)) for s in samples)
    ):
        raise ArgumentError(
            "samples: expected a list of tuples of inputs, each like example_inputs; found "
            f"{type(samples).__name__}{' of nothing' if samples in ([], ()) else ''}."
        )


def choose_precision(
    source: Any,
    imported: Imported | None,
    calls: Sequence[Sequence[Any]],
    target: Target,
    threads: int,
    max_error: float,
    passes: PassList | None = None,
) -> PrecisionChoice:
    """The choice for a torch module imported at the signature of ``calls``, its samples.

    Raises ArgumentError for another source, one without example inputs, operators that torch runs
    and a bound that float32 does not keep, and what a call raises for a sample that does not fit.
    """
    if not is_torch_module(source):
        raise ArgumentError(
            'precision="auto" compares with the model in float64, and takes a torch.nn.Module; '
            f"found {type(source).__name__}. Name the layers: precision={{pattern: word}}."
        )
    if imported is None:
        raise ArgumentError(
            'precision="auto" runs the model to choose: pass example inputs, '
            'burnish.compile(module, (x,), precision="auto", max_error=...).'
        )
    if imported.functions:
        raise ArgumentError(
            'precision="auto" does not go with operators that torch runs (fallback="torch"); '
            f"found {len(imported.functions)}. Name the layers: precision={{pattern: word}}."
        )
    from ..frontend.torch.reference import exact_outputs

    samples = [
        [as_example(x, f"input {i} of a sample") for i, x in enumerate(call)] for call in calls
    ]
    flat = [imported.flatten_inputs(tuple(call), {}) for call in samples]
    expected: list[list[np.ndarray]] = []
    for number, call in enumerate(samples):
        try:
            outputs = exact_outputs(source, call, None, imported.numbers)
        except Exception as error:  # whatever the module's own code raises
            raise ArgumentError(
                f"samples[{number}]: the module raises {type(error).__name__} for it: {error}"
            ) from error
        if any(np.isnan(y).any() for y in outputs if y.dtype.kind == "f"):
            raise ArgumentError(
                f'precision="auto": with samples[{number}] an output has NaN, of which no error '
                "can be told. Leave that sample out, or mend it."
            )
        expected.append(outputs)
    return Search(imported, target, threads, flat, expected, max_error, passes).choose()


def with_choice(imported: Imported, choice: PrecisionChoice) -> Imported:
    """The import with the choice among what its user may want to know."""
    return replace(imported, notes=(*imported.notes, str(choice)))


@dataclass
class Search:
    """The choice for an imported model. ``samples`` are flat inputs of calls, ``expected`` the
    outputs of these in float64."""

    imported: Imported
    target: Target
    threads: int
    samples: Sequence[Sequence[Any]]
    expected: Sequence[Sequence[np.ndarray]]
    max_error: float
    passes: PassList | None = None

    def choose(self) -> PrecisionChoice:
        """The fastest words found that keep the bound.

        Raises ArgumentError where float32 itself does not, and where no output is of floats.
        """
        module = fork_module(self.imported.module)
        self._base = compile_module(module, self.target, threads=self.threads, passes=self.passes)
        self._float32 = self._signature(self._base)
        found = self._outputs(self._float32)
        own = self._error(found)
        if own > self.max_error:
            raise ArgumentError(
                f'precision="auto": max_error is {self.max_error:.2g}, but without any rounding '
                f"the model's error is {own:.2g}. Allow more than that, or use a wider model."
            )
        kinds = _kinds(self._base.stages["10-canonical"])
        options = self._options(kinds, found)
        weights = [w for kind in kinds for w in kind]
        return self._kept(weights, options, own)

    # -- candidates --------------------------------------------------------------------------------
    def _options(
        self, kinds: Sequence[Sequence[str]], found: Sequence[Sequence[np.ndarray]]
    ) -> dict[str, list[LayerChoice]]:
        """Of each layer the words that gain time and keep the bound alone, the fastest first."""
        options: dict[str, list[LayerChoice]] = {}
        words = [word for word in WORDS if word != SPLIT or splits(self.target)]
        with progress("precision", len(kinds)) as display:
            for done, kind in enumerate(kinds):
                display.update(done, layer_name(kind[0]))
                for word in words:
                    for choice in self._of_kind(kind, word, found):
                        options.setdefault(choice.weight, []).append(choice)
        for known in options.values():
            known.sort(key=lambda c: -c.seconds)
        return options

    def _of_kind(
        self, kind: Sequence[str], word: str, found: Sequence[Sequence[np.ndarray]]
    ) -> list[LayerChoice]:
        together = self._compiled([LayerChoice(w, word) for w in kind])
        outputs = self._outputs(together)
        if all(
            np.array_equal(a, b, equal_nan=a.dtype.kind == "f")
            for xs, ys in zip(outputs, found, strict=True)
            for a, b in zip(xs, ys, strict=True)
        ):
            return []  # the word does nothing to these layers
        gain = self._gain(together) / len(kind)
        if gain <= 0:
            return []
        if len(kind) == 1:
            alone = [self._error(outputs)]
        else:
            del together
            alone = [self._error_of([LayerChoice(w, word)]) for w in kind]
        pairs = zip(kind, alone, strict=True)
        return [LayerChoice(w, word, e, gain) for w, e in pairs if e <= self.max_error]

    def _gain(self, signature: CompiledSignature) -> float:
        """Seconds of a call less than float32 takes; 0 where that is not sure."""
        times = self._times(signature)
        if not times["narrow"].is_less_than(times["float32"]):
            return 0.0
        return times["float32"].minimum - times["narrow"].minimum

    def _times(self, signature: CompiledSignature) -> Mapping[str, Timing]:
        values = [copied(v) for v in self.samples[0]]
        return time_programs(
            {
                "float32": partial(self._float32.run, values),
                "narrow": partial(signature.run, values),
            }
        )

    # -- the whole ---------------------------------------------------------------------------------
    def _kept(
        self, weights: Sequence[str], options: Mapping[str, list[LayerChoice]], own: float
    ) -> PrecisionChoice:
        left = {w: list(known) for w, known in options.items()}
        scale = 1.0
        while True:
            _lower(left, self.max_error / scale)
            chosen = [left[w][0] for w in weights if left.get(w)]
            signature = self._compiled(chosen) if chosen else self._float32
            error = self._error(self._outputs(signature)) if chosen else own
            if error <= self.max_error:
                break
            # Errors add up otherwise than their squares: more of them go back, at least one.
            scale = max(scale, _MARGIN * error / _sum(left))
        times = self._times(signature)
        for _ in range(_TIMED_AGAIN if chosen else 0):
            if _gains(times):
                break
            again = self._times(signature)
            times = {name: min(t, again[name], key=_minimum) for name, t in times.items()}
        if chosen and not _gains(times):
            chosen, error = [], own
        known = {c.weight: c for c in chosen}
        return PrecisionChoice(
            layers=tuple([known.get(w, LayerChoice(w)) for w in weights]),
            max_error=self.max_error,
            error=error,
            float32_error=own,
            seconds=times["narrow" if chosen else "float32"].minimum,
            float32_seconds=times["float32"].minimum,
            samples=len(self.samples),
        )

    # -- running -----------------------------------------------------------------------------------
    def _compiled(self, layers: Iterable[LayerChoice]) -> CompiledSignature:
        made = compile_again(self._base, self.target, schedule_analytically, _mapping(layers))
        return self._signature(made)

    def _signature(self, executable: Executable) -> CompiledSignature:
        return CompiledSignature(self.imported, executable, self.threads)

    def _error_of(self, layers: Iterable[LayerChoice]) -> float:
        return self._error(self._outputs(self._compiled(layers)))

    def _outputs(self, signature: CompiledSignature) -> list[list[np.ndarray]]:
        results = [signature.run([copied(v) for v in values]) for values in self.samples]
        return [[_numbers(t) for t in result] for result in results]

    def _error(self, outputs: Sequence[Sequence[np.ndarray]]) -> float:
        """The largest error of an output of floats."""
        errors = [
            difference(found, expected)
            for xs, ys in zip(outputs, self.expected, strict=True)
            for found, expected in zip(xs, ys, strict=True)
            if expected.dtype.kind in "fc"
        ]
        if not errors:
            raise ArgumentError(
                'precision="auto": the model gives no output of floats, whose error could be '
                "bounded. Name the layers: precision={pattern: word}."
            )
        return max(errors)


_minimum = operator.attrgetter("minimum")


def _gains(times: Mapping[str, Timing]) -> bool:
    """Whether all that was chosen is worth it."""
    return times["narrow"].minimum <= (1 - LEAST_GAIN) * times["float32"].minimum


def _numbers(t: Tensor) -> np.ndarray:
    numbers: np.ndarray = t.float32() if t.dtype == "bfloat16" else t.data.copy()
    return numbers


def _sum(left: Mapping[str, list[LayerChoice]]) -> float:
    """The error expected of the first choices together."""
    return math.sqrt(sum([known[0].alone ** 2 for known in left.values() if known]))


def _lower(left: dict[str, list[LayerChoice]], bound: float) -> None:
    """Take choices away until the error expected is at most ``bound``: first those that have most
    error for the time that is lost."""

    def price(known: list[LayerChoice]) -> float:
        after = known[1] if len(known) > 1 else LayerChoice("")
        less = known[0].alone ** 2 - after.alone**2
        return less / max(known[0].seconds - after.seconds, 1e-12)

    while _sum(left) > bound:
        worst = max([w for w, known in left.items() if known], key=lambda w: price(left[w]))
        gone = left[worst].pop(0)
        left[worst] = [c for c in left[worst] if c.alone < gone.alone]


def _kinds(module: IRModule) -> list[list[str]]:
    """The layers whose operands may be narrower, by the name of the weight ("": those of products
    of activations), in order; those of one kind together."""
    kinds: dict[Any, list[str]] = {}
    seen: set[str] = set()
    for func in module.graph_functions.values():
        for call in walk(func):
            if not isinstance(call, Call) or not takes_narrow_operands(call):
                continue
            name = constant_name(call)
            if name in seen:
                continue
            seen.add(name)
            shapes = tuple([str(type_of(a)) for a in call.args])
            kinds.setdefault((name == "", call.op, shapes, str(call.attrs)), []).append(name)
    return list(kinds.values())
