"""``precision=``: the passes that a word stands for, and what the report says of them.

A word goes for the whole model. A mapping gives words to layers, by name or pattern; each product
has the word of the first entry that fits it, and is float32 where none does.
"""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from functools import cache, partial
from typing import TypeAlias

from ..graphir.expr import Call, Constant, Var
from ..graphir.module import IRModule
from ..graphir.op import all_ops, attr, get_op, tensor_type_of, type_of
from ..graphir.passes.dead_code_elimination import DeadCodeElimination
from ..graphir.passes.eliminate_common_subexpr import EliminateCommonSubexpr
from ..graphir.passes.narrow_attention import why_whole_attention
from ..graphir.passes.select_winograd import SelectWinograd
from ..graphir.passes.split_float32 import SplitFloat32, why_whole
from ..graphir.passes.to_dynamic_bytes import ToDynamicBytes, why_no_bytes
from ..graphir.passes.to_integer_weights import (
    FLOATS,
    GROUPS,
    RoundedLayer,
    ToIntegerWeights,
    weight_of,
)
from ..graphir.passes.to_mixed_precision import (
    PRODUCTS,
    ToMixedPrecision,
    constant_name,
    takes_narrow_operands,
    why_wide,
)
from ..graphir.passes.widen_bytes import WidenBytes
from ..graphir.passes.widen_convs import WidenConvs
from ..graphir.passes.window_products import WindowProducts
from ..graphir.type import TensorType
from ..support.errors import ArgumentError, nearest
from ..support.host import native_target, why_no_tiles
from ..support.node import walk
from ..support.passes import Pass
from ..support.target import Target
from ..support.wording import spoken
from ..tensorir.expr import IntImm

SPLIT = "float32-split"
NARROW = {"bfloat16": 256, "float16": 2048}
"""Precisions whose products take narrow operands: the part of a number that rounding changes at
most is one in so many."""

BYTES = "int8"

INTEGERS = {
    **{f"int{bits}-weights": (bits, GROUPS[bits]) for bits in (8, 4)},
    **{f"int{bits}-weights:{group}": (bits, group) for bits in (8, 4) for group in (32, 64, 128)},
}
"""Precisions whose linear layers have integer weights: their bits, and how many have one scale."""

PRECISIONS = ("strict", "fast", "float32", SPLIT, *NARROW, BYTES, *INTEGERS)
"""``strict``: every operator is computed as it is defined. ``fast``, which ``float32`` is another
word for: convolutions may be Winograd's, whose errors are several times those of sums of products.
``bfloat16``, ``float16``: matrix products and convolutions take operands rounded to that type, and
are summed in float32.
``int8``: products with constant weights are of bytes, with a scale for each row of activations.
``float32-split``: as ``fast``, but products of at least 5 rows with constant weights are summed of
three bfloat16 terms a number, where the CPU has tile registers for these.
``int8-weights`` and ``int4-weights``: nothing is rounded but the constant weights of linear layers,
to integers with scales, one for each 128 or 32, or for as many as follow a colon."""

WORTH_SAYING = 1 << 28
"""Multiply-adds of a call's products from which on the report says that they could be faster."""

OF_LAYERS = ("float32", SPLIT, *NARROW, BYTES, *INTEGERS)
"""Words that a layer may have for itself."""

Precision: TypeAlias = str | Mapping[str, str]


def words_of(precision: Precision) -> tuple[str, ...]:
    """The words of a precision, each once."""
    given = precision
    return (given,) if isinstance(given, str) else tuple(dict.fromkeys(given.values()))


def splits(target: Target) -> bool:
    """Whether a CPU multiplies bfloat16 in tile registers, so that three terms a number pay."""
    tiles = target.instructions.tiles
    return tiles is not None and tiles.multiplies("bfloat16", "bfloat16", "float32")


def has_fast_products(target: Target, dtype: str) -> bool:
    """Whether a CPU multiplies a type of half precision faster than float32."""
    known = target.instructions
    tiles = known.tiles is not None and known.tiles.multiplies(dtype, dtype, "float32")
    return tiles or (dtype == "bfloat16" and known.has_fast_pairs)


_DERIVED = frozenset(
    {"combined", "matrix", "moved", "repeated", "reshaped", "row", "scaled", "scales", "wide",
     "windows", "words", "zeros"}
)  # fmt: skip
"""Words of passes for what they make of constants, beside the names of operators."""


def layer_name(weight: str) -> str:
    """The name of the layer that a weight belongs to: ``blocks.0.fc`` of ``blocks.0.fc.weight`` and
    what was derived of it; that of the weight, where it has no layer's form."""
    return _held_by_module(weight).removesuffix(".weight")


def _held_by_module(weight: str) -> str:
    """The name that a module has for what operators made a constant of: ``in_proj_weight`` of
    ``in_proj_weight.strided_slice_1``."""
    *path, last = weight.split(".")
    while path and last != "weight" and _derivation(last):
        *path, last = path
    return ".".join([*path, last])


def _derivation(part: str) -> bool:
    operator = re.sub(r"_\d+$", "", part)
    return operator in _DERIVED or operator in all_ops()


def fits(pattern: str, weights: Iterable[str]) -> bool:
    """Whether a pattern means one of some layers, by what their weights call these."""
    return any(fnmatchcase(name, pattern) for weight in weights for name in _names_of(weight))


@cache
def _names_of(weight: str) -> set[str]:
    held = _held_by_module(weight)
    return {layer_name(weight), weight, held, held.rpartition(".")[0] or held}


@dataclass
class Selection:
    """What a precision asks for: ``passes`` choose algorithms for a target, ``notes`` says what
    they did. Raises ArgumentError for words that there are not."""

    target: Target
    precision: Precision
    layers: list[RoundedLayer] = field(default_factory=list)

    def __post_init__(self) -> None:
        given: object = self.precision
        patterns = given.keys() if isinstance(given, Mapping) else ()
        is_word = isinstance(given, (str, Mapping))
        if not is_word or not all(isinstance(p, str) for p in patterns):
            found = given if not is_word else next(p for p in patterns if not isinstance(p, str))
            raise ArgumentError(
                "precision: expected a word (one of "
                f"{', '.join((*PRECISIONS, 'auto'))}), or a mapping of names or patterns of layers "
                f'to words, {{"head": "float32", "*": "bfloat16"}}; found {found!r}.'
            )
        by_layer = not isinstance(self.precision, str)
        known = OF_LAYERS if by_layer else (*PRECISIONS, "auto")
        for word in self.words:
            if word not in known:
                where = spoken("precision", "--precision") + " of a layer" * by_layer
                raise ArgumentError(
                    f"{where}: expected one of {', '.join(known)}; found {word!r}."
                    f"{nearest(str(word), known)}"
                )

    @property
    def words(self) -> tuple[str, ...]:
        return words_of(self.precision)

    def word_of(self, weight: str) -> str:
        """The word of the layer with a weight of this name; "" is a product without one."""
        if isinstance(self.precision, str):
            return self.precision
        for pattern, word in self.precision.items():
            if fits(pattern, (weight,)):
                return word
        return "float32"

    def _has(self, word: str, weight: str) -> bool:
        return self.word_of(weight) == word

    @property
    def passes(self) -> tuple[Pass, ...]:
        """None that enlarges errors where precision is strict."""
        is_fast = partial(has_fast_products, self.target)
        widen: list[Pass] = [WindowProducts(is_fast), WidenConvs(is_fast)]
        if self.target.instructions.widens_bytes:
            lanes = self.target.vector_bits // 32
            widen += [WidenBytes(lanes), EliminateCommonSubexpr(), DeadCodeElimination()]
        if self.precision == "strict":
            return tuple(widen)
        made: list[Pass] = [
            ToIntegerWeights(bits, group, self.layers.append, partial(self._has, word))
            for word, (bits, group) in INTEGERS.items()
            if word in self.words
        ]
        if BYTES in self.words:
            made.append(ToDynamicBytes(partial(self._has, BYTES)))
        for word in NARROW:
            if word in self.words:
                fast = has_fast_products(self.target, word)
                rounding = ToMixedPrecision(word, partial(self._has, word), attention=fast)
                made += [rounding, EliminateCommonSubexpr()]
        if SPLIT in self.words and splits(self.target):
            split = SplitFloat32(chosen=partial(self._has, SPLIT))
            made += [split, EliminateCommonSubexpr()]
        return (*made, *widen, SelectWinograd(str(self.target)))

    def notes(self, module: IRModule) -> list[str]:
        """Sentences for the report on what became of the products of a module, as it was before the
        passes. Raises ArgumentError for a layer that there is not."""
        calls = [
            n
            for f in module.graph_functions.values()
            for n in walk(f)
            if isinstance(n, Call) and n.op in (*PRODUCTS, "scaled_linear")
        ]
        products = [c for c in calls if c.op in PRODUCTS]
        self._check_layers(products)
        made = [_kept([c for c in calls if c.op == "scaled_linear"]), *products_of_bytes(module)]
        attentions = [
            n
            for f in module.graph_functions.values()
            for n in walk(f)
            if isinstance(n, Call) and n.op == "attention"
        ]
        for word in NARROW:
            if word in self.words:
                if products or not attentions:
                    is_part = bool(attentions) or len(self.words) > 1
                    told = "" if is_part else "; nothing else is rounded"
                    made.append(self._rounded(products, word, told))
                made.append(self._attention(attentions, word))
        made += self._halves(module)
        made += [self._integers(products, w) for w in INTEGERS if w in self.words]
        if BYTES in self.words:
            made.append(self._bytes(products))
        if SPLIT in self.words:
            made.append(self._split(products))
        if {*NARROW, SPLIT}.intersection(self.words):
            made.append(self._refused())
        if self.precision in ("fast", "float32"):
            made.append(self._offer(products))
        return [note for note in made if note]

    def _offer(self, products: list[Call]) -> str:
        """What the CPU could do more, where the products are worth it."""
        name, times = self.target.instructions.fastest("bfloat16", "bfloat16")
        wide = [c for c in products if takes_narrow_operands(c)]
        if times <= 1 or sum(map(_multiply_adds, wide)) < WORTH_SAYING:
            return ""
        bound = 'precision="auto" with max_error= those that a bound on the error allows'
        how = spoken(
            f'burnish.compile(..., precision="bfloat16") rounds their operands, {bound}',
            "--precision bfloat16 rounds their operands",
        )
        return (
            f"{_counted(wide)} are float32; {name} of this CPU multiplies bfloat16 "
            f"at {times:.2g} times that rate: {how}."
        )

    def _check_layers(self, products: list[Call]) -> None:
        if isinstance(self.precision, str) or not products:
            return
        weights = [constant_name(c) for c in products]
        for pattern in self.precision:
            if not fits(pattern, weights):
                layers = sorted({layer_name(w) for w in weights if w})
                raise ArgumentError(
                    f"precision: no layer fits {pattern!r}; there are "
                    f"{', '.join(layers) or 'none with constant weights'}."
                    f"{nearest(pattern, layers)}"
                )

    def _rounded(self, products: list[Call], word: str, alone: str) -> str:
        chosen = [c for c in products if self.word_of(constant_name(c)) == word]
        rounded = [c for c in chosen if takes_narrow_operands(c)]
        wide = [c for c in chosen if why_wide(c)]
        left = {
            f"{layer_name(constant_name(c)) or 'a convolution'} stays {_dtype(c)}: {why_wide(c)}. "
            for c in wide
            if c.op == "conv"
        }
        others = Counter([(_dtype(c), why_wide(c)) for c in wide if c.op != "conv"])
        left |= {
            f"{count} matrix products stay {dtype}: {why}. "
            for (dtype, why), count in others.items()
        }
        beyond = " (those above 65504 become infinite)" if word == "float16" else ""
        return (
            f"precision={word!r}: {_counted(rounded, products)} take operands "
            f"rounded to {word}, by at most 1 part in {NARROW[word]}{beyond}, and are summed in "
            f"float32{alone}. {''.join(sorted(left))}{self._slower(word)}"
            f"{spoken('burnish.compile without precision=', 'Compiling without --precision')} "
            "rounds nothing."
        )

    def _slower(self, word: str) -> str:
        """What a type of half precision costs where the CPU does not multiply it faster."""
        if has_fast_products(self.target, word):
            return ""
        return (
            f"This CPU multiplies {word} no faster than float32: products of few rows gain by its "
            "bytes, all others take as long as in float32 and conversions come on top. "
        )

    def _halves(self, module: IRModule) -> list[str]:
        """What a model that is of half precision itself costs where the CPU has nothing for it."""
        found = {
            str(b.var.type.dtype)
            for f in module.graph_functions.values()
            for block in f.body.blocks
            for b in block.bindings
            if isinstance(b.var.type, TensorType)
        }
        costs = {
            "bfloat16": "by eight instructions for eight numbers: element-wise functions, norms "
            "and pooling in the caches take up to 1.8 times as long as in float32",
            "float16": "by one instruction for eight numbers each way",
        }
        return [
            f"The model computes in {word}, for which this CPU has no arithmetic: numbers are "
            f"converted {cost}. Products are multiplied in float32, at its speed."
            for word, cost in costs.items()
            if word in found and not has_fast_products(self.target, word)
        ]

    def _attention(self, calls: list[Call], word: str) -> str:
        """What became of attention's own products."""
        if not calls or self.word_of("") != word:
            return ""
        slow = f"this CPU does not multiply {word} faster, and scores stay in its caches"
        fast = has_fast_products(self.target, word)
        found = [why_whole_attention(c) if fast else slow for c in calls]
        whole = Counter([why for why in found if why])
        reasons = "".join([f" {n} stay float32: {why}." for why, n in sorted(whole.items())])
        return (
            f"precision={word!r}: the two products of {len(calls) - whole.total()} of {len(calls)} "
            f"attentions take rounded operands; softmax is float32.{reasons}"
        )

    def _refused(self) -> str:
        """Why the tile registers of this machine are not used, where it has some."""
        reason = why_no_tiles() if self.target.cpu == native_target().cpu else ""
        return f"the CPU has registers that are tiles (AMX), but {reason}." if reason else ""

    def _split(self, products: list[Call]) -> str:
        if not splits(self.target):
            return (
                f"precision={SPLIT!r}: this CPU has no tile registers for bfloat16, which make "
                "three terms a number faster than float32; everything is as with 'fast'."
            )
        chosen = [c for c in products if self.word_of(constant_name(c)) == SPLIT]
        split = [c for c in chosen if not why_whole(c)]
        left = Counter([why_whole(c) for c in chosen if why_whole(c)])
        reasons = "".join([f" {count} stay whole: {why}." for why, count in sorted(left.items())])
        return (
            f"precision={SPLIT!r}: {_counted(split, chosen)} sum six products of bfloat16 for each "
            f"of float32, and are as exact.{reasons}"
        )

    def _bytes(self, products: list[Call]) -> str:
        """What became of products of bytes with ranges of each call."""
        chosen = [c for c in products if self.word_of(constant_name(c)) == BYTES]
        left = Counter([why_no_bytes(c) for c in chosen if why_no_bytes(c)])
        reasons = "".join([f" {n} stay float32: {why}." for why, n in sorted(left.items())])
        done = [c for c in chosen if not why_no_bytes(c)]
        return (
            f"precision={BYTES!r}: {_counted(done, chosen)} are of bytes, summed in int32 and "
            "exact: weights are off by at most 1 part in 254 of an output's largest, activations "
            f"by 1 in 254 of their row's.{reasons}"
        )

    def _integers(self, products: list[Call], word: str) -> str:
        bits, group = INTEGERS[word]
        layers = [x for x in self.layers if (x.bits, x.group) == (bits, group)]
        done, left = [x for x in layers if not x.reason], [x for x in layers if x.reason]
        convs = [] if isinstance(self.precision, str) else _convs(products)
        weights = {n for c in convs if self.word_of(n := constant_name(c)) == word}
        named = sorted([layer_name(n) for n in weights])
        others = "".join([f"{n} stays float32: it is a convolution's. " for n in named])
        if not layers and others:
            return f"precision={word!r}: {others.rstrip()}"
        if not layers:
            return f"precision={word!r}: there is no linear layer of constant weights of floats."
        count = len({w.name for c in products if (w := weight_of(c, FLOATS)) is not None})
        text = (
            f"precision={word!r}: the weights of {len(done)} of {count} linear layers are "
            f"integers of {bits} bits, groups of up to {group}"
        )
        if done:
            worst = max(done, key=lambda x: x.error)
            before, after = (sum(getattr(x, f) for x in done) / 1e6 for f in ("before", "after"))
            text += (
                f", {after:.2f} MB in place of {before:.2f}; they are off by {worst.error:.2%} of "
                f"the weights' root mean square at most ({worst.weight})"
            )
        kept = "; ".join([f"{x.weight} stays float32: {x.reason}" for x in left])
        rest = (
            "Sums are float32; inputs are not rounded. Products of fewer than 6 rows gain by the "
            "bytes; others take as long as in float32, and up to a tenth longer, as integers are "
            "taken out of their words."
        )
        return f"{text}. {kept + '. ' if kept else ''}{others}{rest}"


def _convs(calls: list[Call]) -> list[Call]:
    return [c for c in calls if c.op == "conv"]


def _dtype(call: Call) -> str:
    """The type of a product's activations."""
    return str(tensor_type_of(call.args[0]).dtype)


def _counted(calls: list[Call], of: list[Call] | None = None) -> str:
    """How many matrix products and convolutions are among calls, and among those that they are a
    part ``of``."""
    every = calls if of is None else of
    texts = []
    for name, is_conv in (("matrix products", False), ("convolutions", True)):
        count, total = (sum([(c.op == "conv") is is_conv for c in x]) for x in (calls, every))
        if total or not (every or is_conv):
            texts.append(f"{count} {name}" if of is None else f"{count} of {total} {name}")
    return " and ".join(texts)


def _multiply_adds(call: Call) -> int:
    """Those of a product, where its sizes are known; else 0."""
    first, result = type_of(call.args[0]), type_of(call)
    assert isinstance(first, TensorType)
    assert isinstance(result, TensorType)
    if call.op == "conv":
        weight = tensor_type_of(call.args[1])
        terms = weight.shape[1:]
    else:
        turned = dict(call.attrs).get("transpose_a") and first.ndim > 1
        terms = (first.shape[-2 if turned else -1],)
    dims = (*result.shape, *terms)
    return math.prod([d.value if isinstance(d, IntImm) else 0 for d in dims])


def products_of_bytes(module: IRModule) -> list[str]:
    """What notes say of products of a quantised model: those of bytes, and those whose operand is
    computed of bytes but that take it in float32."""
    known = {
        b.var: b.value
        for f in module.graph_functions.values()
        for block in f.body.blocks
        for b in block.bindings
    }

    def is_dequantised(atom: object) -> bool:
        call = known.get(atom) if isinstance(atom, Var) else None
        while isinstance(call, Call) and (
            call.op in ("multiply", "subtract", "astype", "permute_dims") or get_op(call.op).is_view
        ):
            kind = type_of(call.args[0])
            if isinstance(kind, TensorType) and kind.dtype in ("int8", "uint8"):
                return call.op == "astype"
            call = known.get(call.args[0]) if isinstance(call.args[0], Var) else None
        return False

    calls = [c for c in known.values() if isinstance(c, Call)]
    count = sum(c.op == "integer_matmul" for c in calls)
    wide = sum(c.op in ("linear", "matmul", "conv") and is_dequantised(c.args[0]) for c in calls)
    made = [f"{count} products are of bytes, summed in int32 and exact."] if count else []
    if wide:
        made.append(
            f"{wide} products of activations that are bytes are computed in float32: their weights "
            "are not bytes, or they are convolutions of groups or of few channels."
        )
    return made


def _kept(calls: list[Call]) -> str:
    """What a note says of products that read weights of integers, as the model has them."""
    words = {c.args[1].name: c.args[1] for c in calls if isinstance(c.args[1], Constant)}
    if not words:
        return ""
    size = sum([math.prod(c.shape) * 4 for c in words.values()]) / 1e6
    widths = sorted({int(attr(c, "bits")) for c in calls})
    return (
        f"{len(calls)} products read the model's weights as integers of "
        f"{' and '.join(map(str, widths))} bits ({size:.2f} MB); they are multiplied and summed in "
        "float32."
    )
