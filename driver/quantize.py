"""``burnish.quantize``: post-training quantisation to bytes, by what activations were on samples.

samples -> the operands of every product with constant weights (main, with these as results)
        -> a range for each: all of it, most of it, or that whose rounding errs least
        -> main with products of bytes (``passes.quantize_products``)
        -> where an error is given: layers go back to float32, the worst ones first, until it holds
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from ..frontend.imported import Imported
from ..graphir.dim import static_shape
from ..graphir.expose_values import expose_values
from ..graphir.expr import Call, Constant, Function, Var
from ..graphir.module import IRModule, fork_module
from ..graphir.op import attr, tensor_type_of
from ..graphir.passes.canonicalize import Canonicalize
from ..graphir.passes.dead_code_elimination import DeadCodeElimination
from ..graphir.passes.fold_constant import FoldConstant
from ..graphir.passes.fold_scale import FoldScale
from ..graphir.passes.quantize_products import (
    MOST,
    QuantizeProducts,
    Range,
    left_wide,
    outputs_axis,
    quantizable,
    rounded_weight,
    why_wide,
)
from ..support.errors import ArgumentError, nearest
from ..support.keywords import hinted
from ..support.passes import Pipeline
from ..support.target import Target
from ..vm.tensor import Tensor
from .arrays import copied
from .compiled_model import CompiledModel
from .console import table_lines
from .evaluate import evaluate_prim_func
from .kernels import resolve_target
from .precision import NARROW, layer_name
from .signature import CompiledSignature
from .sources import as_example, import_source, import_torch_module, is_torch_module
from .stages import compile_module
from .threads import thread_count
from .verification import difference

RANGES = ("minmax", "percentile", "mse")
PERCENTILE = 99.99
"""What part of an activation's values lies in its range."""
KEPT = 1 << 16
"""Values of an activation that are looked at in each sample, evenly drawn."""
SHRUNK = np.linspace(1.0, 0.4, 25)
"""Parts of the whole range that are tried for the least error."""


_EXACT = ("float32", "fast", "strict")
"""Precisions that round no operand."""


@dataclass(frozen=True)
class QuantizedLayer:
    """``error`` is that of the model where this layer alone is of bytes; None: not measured."""

    name: str
    range: Range
    is_bytes: bool = True
    error: float | None = None


@hinted
def quantize(
    model: Any,
    samples: Sequence[Sequence[Any]],
    *,
    ranges: str = "mse",
    symmetric: bool = False,
    per_channel: bool = True,
    max_error: float | None = None,
    bias_correction: bool = True,
    precision: str = "float32",
    dynamic_shapes: Any = None,
    target: Target | str = "native",
    threads: int | None = None,
) -> CompiledModel:
    """Compile a model whose products with constant weights are of bytes, after training.

    ``model`` is a torch ``nn.Module``, an ``ExportedProgram``, an IRModule or an ONNX model, and
    ``samples`` are tuples of inputs as it will get them; the first one gives a module its
    signature, with ``dynamic_shapes`` as ``burnish.compile`` takes it. Weights are int8, symmetric,
    with a scale for each output, or one for all (``per_channel=False``); activations uint8, with a
    scale and a zero point for each product, or int8 about zero (``symmetric=True``).
    Their range is that of the samples: all of it (``ranges="minmax"``), all but one in ten thousand
    at either end (``"percentile"``), or the part of it with the least mean square error
    (``"mse"``). ``bias_correction`` adds to each layer what rounding its weights takes from its
    mean result (M. Nagel et al., "Data-free quantization through weight equalization and bias
    correction", ICCV 2019). Sums are int32 and exact; everything else is as ``precision`` says of
    ``compile``: products that are not of bytes, attention's for instance, stay float32, or take
    operands rounded to ``"bfloat16"`` or ``"float16"``.

    With ``max_error`` the largest difference of an output of floats to the model in float32,
    relative to its largest element, is at most that on the samples: layers stay float32 for it,
    those first that cost most by themselves. ``report.notes`` has the table. The result is a
    compiled model as any: it prints, saves, tunes.

    Raises ArgumentError where no product can be of bytes, for samples that are none or not finite,
    and for other words; what a call raises, for a sample that does not fit; what ``compile``
    raises.
    """
    _check(samples, ranges, max_error)
    _check_precision(precision)
    resolved = resolve_target(target)
    count = thread_count(resolved, threads)
    imported = _imported(model, samples, dynamic_shapes)
    way = _Way(ranges, symmetric, per_channel, bias_correction)
    made = _Quantization(imported, resolved, count, way, precision)
    return made.model(model, samples, max_error)


def _check(samples: object, ranges: object, max_error: object) -> None:
    if ranges not in RANGES:
        raise ArgumentError(
            f"ranges: expected one of {', '.join(RANGES)}; found {ranges!r}."
            f"{nearest(str(ranges), RANGES)}"
        )
    is_list = isinstance(samples, (list, tuple))
    given = list(samples) if isinstance(samples, (list, tuple)) else []
    if not given or not all(isinstance(s, (list, tuple)) for s in given):
        raise ArgumentError(
            "samples: expected a list of tuples of inputs, at least one; found "
            f"{type(samples).__name__}{' of nothing' if is_list and not given else ''}."
        )
    if max_error is None:
        return
    is_number = isinstance(max_error, (int, float)) and not isinstance(max_error, bool)
    if not is_number or not 0 < float(str(max_error)) < math.inf:
        raise ArgumentError(f"max_error: expected a number above 0; found {max_error!r}.")


def _check_precision(precision: object) -> None:
    known = (*_EXACT, *NARROW)
    if precision not in known:
        raise ArgumentError(
            f"precision: expected what products that are not of bytes compute in, one of "
            f"{', '.join(known)}; found {precision!r}.{nearest(str(precision), known)}"
        )


def _imported(model: Any, samples: Sequence[Sequence[Any]], dynamic_shapes: Any) -> Imported:
    if is_torch_module(model):
        return import_torch_module(model, samples[0], None, dynamic_shapes)
    if dynamic_shapes is not None:
        raise ArgumentError(
            "dynamic_shapes goes with a torch.nn.Module; other models name their dims themselves."
        )
    imported = import_source(model)
    if imported.question is not None:
        raise ArgumentError(
            "quantize: this model's program depends on values of its inputs "
            f"({imported.question.reason}), and would be quantised for one of them only."
        )
    return imported


@dataclass(frozen=True)
class _Way:
    """How products are quantised, as ``quantize`` is told."""

    ranges: str
    symmetric: bool
    per_channel: bool
    bias_correction: bool

    @property
    def activations(self) -> str:
        return "int8" if self.symmetric else "uint8"


@dataclass
class _Quantization:
    imported: Imported
    target: Target
    threads: int
    way: _Way
    precision: str

    def model(
        self, source: Any, samples: Sequence[Sequence[Any]], max_error: float | None
    ) -> CompiledModel:
        self.module = _prepared(self.imported.module)
        calls = quantizable(self.module)
        flat = [
            self.imported.flatten_inputs(
                tuple([as_example(x, f"input {i} of a sample") for i, x in enumerate(call)]), {}
            )
            for call in samples
        ]
        layers = self._observed(calls, flat)
        if not layers:
            raise ArgumentError(
                "quantize: no product of this model can be of bytes: it needs linear layers, or "
                "convolutions of one group with channels enough, with constant weights in "
                "float32."
            )
        error = None
        if max_error is not None:
            layers, error = self._within(layers, flat, max_error)
        made = self._quantised({n: x.range for n, x in layers.items() if x.is_bytes})
        table = _table(list(layers.values()), self.way, error, len(flat))
        left = Counter([why_wide(c) for c in left_wide(self.module)])
        named = {n for n, x in layers.items() if x.is_bytes}
        slow = slow_note([c for n, c in calls.items() if n in named], self.target)
        wide = [f"{n} products stay float32: {why}." for why, n in sorted(left.items())]
        notes = (*self.imported.notes, table, *wide, *([slow] if slow else []))
        imported = replace(self.imported, module=made, notes=notes, is_quantized=True)
        return CompiledModel(
            source, imported, None, self.target, self.threads, precision=self.precision
        )

    # -- ranges ------------------------------------------------------------------------------------
    def _observed(
        self, calls: Mapping[str, Call], samples: Sequence[Sequence[Any]]
    ) -> dict[str, QuantizedLayer]:
        """A range for each product; none for those whose activations are all zero."""
        main = self.module["main"]
        assert isinstance(main, Function)
        inputs = {p.name: i for i, p in enumerate(main.params)}
        operands = [_operand(c).name for c in calls.values()]
        names = [n for n in dict.fromkeys(operands) if n not in inputs]
        values: dict[str, list[np.ndarray]] = {n: [] for n in operands}
        means: dict[str, list[np.ndarray]] = {n: [] for n in calls}
        signature = (
            self._signature(expose_values(fork_module(self.module), names)) if names else None
        )
        for number, sample in enumerate(samples):
            found = [] if signature is None else _results(signature, sample)
            known = dict(zip(names, found, strict=True))
            known |= {n: _array(sample[i]) for n, i in inputs.items() if n in values}
            for n, x in known.items():
                if not np.isfinite(x).all():
                    weight = next(c.args[1] for c in calls.values() if _operand(c).name == n)
                    assert isinstance(weight, Constant)
                    layer = layer_name(weight.name)
                    raise ArgumentError(
                        f"quantize: with samples[{number}] the input of layer {layer!r} has "
                        "infinities or NaN, which no range has. Leave that sample out, or mend it."
                    )
                values[n].append(_drawn(x))
            for n, call in calls.items():
                means[n].append(_mean(known[_operand(call).name], call))
        layers = {}
        for n, call in calls.items():
            w = call.args[1]
            assert isinstance(w, Constant)
            way = self.way
            seen = np.concatenate(values[_operand(call).name])
            low, high = range_of(seen, way.ranges, symmetric=way.symmetric)
            if high > low:
                correction = self._correction(call, np.mean(means[n], axis=0))
                limits = Range(low, high, correction, way.symmetric)
                layers[n] = QuantizedLayer(layer_name(w.name), limits)
        return layers

    def _correction(self, call: Call, mean: np.ndarray) -> np.ndarray | None:
        """What rounded weights make of a mean activation less than the weights do."""
        if not self.way.bias_correction:
            return None
        assert isinstance(call.args[1], Constant)
        array, axis = self.module.weights.array(call.args[1]), outputs_axis(call)
        numbers, scale = rounded_weight(array, axis if self.way.per_channel else None)
        lost = np.moveaxis(array.astype(np.float64) - numbers * scale.astype(np.float64), axis, 0)
        return np.asarray(lost.reshape(*lost.shape[:2], -1).sum(-1) @ mean)

    # -- errors ------------------------------------------------------------------------------------
    def _within(
        self, layers: dict[str, QuantizedLayer], samples: Sequence[Sequence[Any]], bound: float
    ) -> tuple[dict[str, QuantizedLayer], float]:
        """As many layers of bytes as the bound allows, those that cost least."""
        plain = self._signature(fork_module(self.module))
        # The state of the module stays as it is: what a call makes of it is a result like others.
        own = len(self.imported.written)
        expected = [_results(plain, s)[own:] for s in samples]

        def error(names: Sequence[str]) -> float:
            if not names and self.precision in _EXACT:
                return 0.0
            made = self._quantised({n: layers[n].range for n in names})
            signature = self._signature(made, self.precision)
            pairs = [
                zip(_results(signature, s)[own:], e, strict=True)
                for s, e in zip(samples, expected, strict=True)
            ]
            return max(
                [difference(a, b) for p in pairs for a, b in p if b.dtype.kind == "f"], default=0.0
            )

        whole = error(list(layers))
        if whole <= bound:
            return layers, whole
        least = error([])
        if least > bound:
            raise ArgumentError(
                f"max_error: with precision={self.precision!r} alone the results are off by "
                f"{least:.1e} of the largest, more than {bound:.1e}. Give a larger bound, or "
                "precision='float32'."
            )
        alone = {n: error([n]) for n in layers}
        order = sorted(layers, key=alone.__getitem__)
        fits, fails, found = 0, len(order), 0.0
        while fails - fits > 1:
            half = (fits + fails) // 2
            of_half = error(order[:half])
            fits, fails, found = (half, fails, of_half) if of_half <= bound else (fits, half, found)
        kept = set(order[:fits])
        return {n: replace(x, is_bytes=n in kept, error=alone[n]) for n, x in layers.items()}, found

    # -- programs ----------------------------------------------------------------------------------
    def _quantised(self, ranges: Mapping[str, Range]) -> IRModule:
        rounding = QuantizeProducts(ranges, self.way.per_channel)
        made: IRModule = rounding(fork_module(self.module))
        return made

    def _signature(self, module: IRModule, precision: str = "float32") -> CompiledSignature:
        executable = compile_module(module, self.target, threads=self.threads, precision=precision)
        imported = replace(self.imported, module=module, written=())
        return CompiledSignature(imported, executable, self.threads)


def is_winograds(call: Call) -> bool:
    """Whether a convolution is one that Winograd's algorithm is for."""
    if call.op != "conv" or {1} != {*attr(call, "strides"), *attr(call, "dilation")}:
        return False
    return static_shape(tensor_type_of(call.args[1]).shape)[2:] == (3, 3)  # type: ignore[index]


def slow_note(calls: Sequence[Call], target: Target) -> str:
    """What the report says of convolutions of bytes that Winograd's algorithm is for, where the CPU
    does them neither fast nor by that algorithm."""
    known, count = target.instructions, sum(map(is_winograds, calls))
    if not count or known.multiplies_bytes or known.widens_bytes:
        return ""
    return (
        f"{count} convolutions of 3 x 3 are of bytes and would be faster in float32 on this CPU, "
        "by Winograd's algorithm: it has no dot products of bytes."
    )


def _prepared(module: IRModule) -> IRModule:
    """The module with scales and norms folded into the weights that are to be rounded."""
    passes = (Canonicalize(), FoldConstant(evaluate_prim_func), FoldScale(), Canonicalize())
    made: IRModule = Pipeline([*passes, DeadCodeElimination()])(fork_module(module))
    return made


def _results(signature: CompiledSignature, sample: Sequence[Any]) -> list[np.ndarray]:
    return [_array(t) for t in signature.run([copied(v) for v in sample])]


def _array(value: Any) -> np.ndarray:
    if isinstance(value, Tensor):
        return value.float32() if value.dtype == "bfloat16" else value.data.copy()
    return np.asarray(value)


def _drawn(x: np.ndarray) -> np.ndarray:
    """Some of the values, the largest and least among them."""
    flat = x.reshape(-1)
    if flat.size <= KEPT:
        return np.array(flat)
    places = np.linspace(0, flat.size - 1, KEPT - 2).astype(np.int64)
    return np.concatenate([flat[places], [flat.min(), flat.max()]])


def _mean(x: np.ndarray, call: Call) -> np.ndarray:
    """The mean of each channel of an operand."""
    axis = 1 if call.op == "conv" else x.ndim - 1
    others = tuple([d for d in range(x.ndim) if d != axis])
    return np.asarray(x.mean(others, dtype=np.float64)) if x.size else np.zeros(x.shape[axis])


def range_of(values: np.ndarray, how: str, *, symmetric: bool = False) -> tuple[float, float]:
    """The range of some values, zero included; (0, 0) where there is nothing else. One that is
    ``symmetric`` is as long on either side."""
    if not values.size:
        return 0.0, 0.0
    low, high = min(0.0, float(values.min())), max(0.0, float(values.max()))
    if how == "percentile":
        ends = np.percentile(values, [100 - PERCENTILE, PERCENTILE])
        low, high = min(0.0, float(ends[0])), max(0.0, float(ends[1]))
    if symmetric:
        low, high = -max(-low, high), max(-low, high)
    if how != "mse" or low == high:
        return low, high
    wide = values.astype(np.float64)

    def error(part: float) -> float:
        trial = Range(part * low, part * high, symmetric=symmetric)
        step, zero, (first, last) = float(trial.step), trial.zero, trial.ends
        rounded = np.clip(np.rint(wide / step) + zero, first, last) - zero
        return float(np.square(rounded * step - wide).sum())

    best = min(SHRUNK, key=error)
    return best * low, best * high


def _operand(call: Call) -> Var:
    """The activations of a product."""
    operand = call.args[0]
    assert isinstance(operand, Var)
    return operand


def _table(layers: Sequence[QuantizedLayer], way: _Way, error: float | None, samples: int) -> str:
    done = [x for x in layers if x.is_bytes]
    whole = "an output's largest" if way.per_channel else "a layer's largest"
    title = (
        f"quantize: {len(done)} of {len(layers)} products are of bytes, ranges {way.ranges!r} of "
        f"{samples} sample{'s' if samples != 1 else ''}; weights int8 (1 part in {MOST} of {whole}"
        f"), activations {way.activations}"
    )
    if error is not None:
        title += f"; error {error:.1e} beside float32"
    rows = [
        (
            x.name,
            way.activations if x.is_bytes else "float32",
            f"{x.range.low:.4g} to {x.range.high:.4g}",
            "" if x.error is None else f"{x.error:.1e}",
        )
        for x in layers
    ]
    columns = ("layer", "type", "range", "error alone")
    shown = len(columns) if any(x.error is not None for x in layers) else len(columns) - 1
    return "\n    ".join(table_lines(title, columns[:shown], [row[:shown] for row in rows]))
