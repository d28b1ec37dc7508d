"""Small programs over the whole table of operators, in which a search looks for cliffs: shapes,
dtypes, layouts and fusions for which the schedule is many times slower than it need be.

A case is a line of torch over operands ``a``, ``b``, ..., drawn from a row of ``ROWS`` by a seed:
the same seed gives the same case. A row says which expression it is, over which shapes, for which
dtypes; the draw adds sizes (odd, long, thin), axes, layouts (transposed, strided, broadcast and
shared operands), what is fused before and after, and whether the sizes have names.
"""

from __future__ import annotations

import random
import re
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import torch
from torch import nn

from burnish.frontend.elementwise_names import TORCH
from burnish.tensorir.operators.elementwise import ELEMENTWISE

FLOATS = ("float32", "float64", "float16", "bfloat16")
INTEGERS = ("int64", "int32", "int16", "int8", "uint8")
NUMBERS = (*FLOATS, *INTEGERS)
ANY = (*NUMBERS, "bool")
MOST_ELEMENTS = 1 << 20
"""Of an operand: larger ones tell nothing more, and take longer."""
_NAMES = "abcdefgh"


@dataclass(frozen=True)
class Operand:
    """An input: ``fill`` is ``normal``, ``positive`` (0.1 to 1.1), ``unit`` (-0.9 to 0.9) or the
    bound of random integers. One that is ``constant`` is a weight of the model."""

    shape: tuple[int, ...]
    dtype: str
    fill: str | int = "normal"
    constant: bool = False

    def make(self, generator: torch.Generator) -> torch.Tensor:
        dtype = getattr(torch, self.dtype)
        if self.dtype == "bool":
            return torch.rand(self.shape, generator=generator) < 0.5
        if isinstance(self.fill, int):
            return torch.randint(0, self.fill, self.shape, generator=generator).to(dtype)
        if not dtype.is_floating_point:
            low = 1 if self.fill != "normal" or self.dtype == "uint8" else -7
            return torch.randint(low, 8, self.shape, generator=generator).to(dtype)
        if self.fill == "normal":
            return torch.randn(self.shape, generator=generator).to(dtype)
        values = torch.rand(self.shape, generator=generator)
        return (values + 0.1 if self.fill == "positive" else values * 1.8 - 0.9).to(dtype)


@dataclass(frozen=True)
class Case:
    """``text`` is a Python expression over the operands by their letters, ``torch`` and ``F``;
    ``named`` says that the first axis of the first operand has a name instead of a size."""

    row: str
    text: str
    operands: tuple[Operand, ...]
    named: bool = False
    tags: tuple[str, ...] = ()

    def __str__(self) -> str:
        shown = ", ".join(
            f"{letter}: {'x'.join(map(str, o.shape)) or '1'} {o.dtype}"
            + (" constant" if o.constant else "")
            for letter, o in zip(_NAMES, self.operands, strict=False)
        )
        return f"{self.text}   [{shown}]{' named' if self.named else ''}"

    def module(self) -> nn.Module:
        """The case as a module; its constants are buffers."""
        return _Program(self).eval()

    def inputs(self) -> tuple[torch.Tensor, ...]:
        """The same random inputs at every call."""
        made = _make(self)
        return tuple([x for x, o in zip(made, self.operands, strict=True) if not o.constant])

    @property
    def dynamic_shapes(self) -> tuple[Any, ...] | None:
        """What ``burnish.compile`` is told: the named size, wherever an input has it first."""
        if not self.named:
            return None
        size = self.operands[0].shape[0]
        free = [o for o in self.operands if not o.constant]
        return tuple([{0: "n"} if o.shape[:1] == (size,) else {} for o in free])

    def export_shapes(self) -> Any:
        """The same for torch.export."""
        size = torch.export.Dim("n")
        return {"inputs": tuple([{0: size} if d else {} for d in self.dynamic_shapes or ()])}


class _Program(nn.Module):
    def __init__(self, case: Case) -> None:
        super().__init__()
        self.letters = _NAMES[: len(case.operands)]
        self.constant = [o.constant for o in case.operands]
        for letter, held, o in zip(self.letters, _make(case), case.operands, strict=True):
            if o.constant:
                self.register_buffer(f"weight_{letter}", held)
        self.code = compile(case.text, case.row, "eval")

    def forward(self, *inputs: torch.Tensor) -> Any:
        values = iter(inputs)
        scope = {
            letter: getattr(self, f"weight_{letter}") if constant else next(values)
            for letter, constant in zip(self.letters, self.constant, strict=True)
        }
        return eval(self.code, {"torch": torch, "F": nn.functional, **scope})


def _make(case: Case) -> list[torch.Tensor]:
    generator = torch.Generator().manual_seed(0)
    return [o.make(generator) for o in case.operands]


# -- rows ------------------------------------------------------------------------------------------
@dataclass(frozen=True)
class Row:
    """``text`` is a template: ``{a}``, ``{b}`` are operands as laid out, ``{d}`` an axis, ``{n}``
    its size, ``{i}`` integers below it. ``kind`` names the function that draws the operands."""

    name: str
    text: str
    kind: str = "plane"
    dtypes: tuple[str, ...] = FLOATS
    fill: str | int = "normal"
    options: dict[str, Any] = field(default_factory=dict)


def _unary() -> list[Row]:
    anywhere = "abs neg floor ceil trunc round sign exp exp2 expm1 sin cos tan tanh sinh cosh "
    anywhere += "erf erfc atan asinh sigmoid relu isnan isinf isfinite square"
    rows = [Row(n, f"torch.{n}({{a}})") for n in anywhere.split()]
    for n in ["log", "log2", "log10", "log1p", "sqrt", "rsqrt", "reciprocal"]:
        rows.append(Row(n, f"torch.{n}({{a}})", fill="positive"))
    rows += [Row(n, f"torch.{n}({{a}})", fill="unit") for n in ["asin", "acos", "atanh"]]
    rows.append(Row("acosh", "torch.acosh({a} + 1)", fill="positive"))
    activations = "gelu silu mish elu hardswish hardsigmoid leaky_relu softplus logsigmoid"
    rows += [Row(n, f"F.{n}({{a}})") for n in activations.split()]
    rows.append(Row("gelu tanh", "F.gelu({a}, approximate='tanh')"))
    rows.append(Row("clamp", "{a}.clamp(-1, 2)", dtypes=NUMBERS))
    rows += [Row(f"integer {n}", f"torch.{n}({{a}})", dtypes=INTEGERS) for n in ("abs", "neg")]
    rows.append(Row("bitwise_not", "torch.bitwise_not({a})", dtypes=(*INTEGERS, "bool")))
    rows.append(Row("logical_not", "torch.logical_not({a})", dtypes=ANY))
    for to in ("float32", "float64", "float16", "bfloat16", "int64", "int32", "uint8", "bool"):
        rows.append(Row(f"to {to}", f"{{a}}.to(torch.{to})", dtypes=ANY, fill="positive"))
    return rows


def _binary() -> list[Row]:
    rows = []
    for n in ("add", "sub", "mul", "maximum", "minimum"):
        rows.append(Row(n, f"torch.{n}({{a}}, {{b}})", "pair", NUMBERS))
    for n in ("atan2", "fmod", "remainder", "hypot", "copysign", "div"):
        rows.append(Row(n, f"torch.{n}({{a}}, {{b}})", "pair", fill="positive"))
    for n in ("lt", "le", "eq", "ne", "logical_and", "logical_xor"):
        rows.append(Row(n, f"torch.{n}({{a}}, {{b}})", "pair", ANY))
    rows.append(Row("pow", "torch.pow({a}, {b})", "pair", fill="positive"))
    rows += [
        Row(n, f"{{a}} {op} {{b}}", "pair", INTEGERS, "positive")
        for n, op in (("floor_divide", "//"), ("integer remainder", "%"), ("shift_left", "<<"))
    ]
    rows.append(Row("gcd", "torch.gcd({a}, {b})", "pair", INTEGERS))
    for n in ("bitwise_and", "bitwise_or", "bitwise_xor"):
        rows.append(Row(n, f"torch.{n}({{a}}, {{b}})", "pair", (*INTEGERS, "bool")))
    rows.append(Row("where", "torch.where({a} > 0, {a}, {b})", "pair", NUMBERS))
    rows.append(Row("masked_fill", "{a}.masked_fill({b} > 0, 0)", "pair", NUMBERS))
    rows.append(Row("chain", "({a} * {b} + {a}).relu() - {b} * 0.5", "pair"))
    return rows


def _reductions() -> list[Row]:
    rows = []
    for n in ("sum", "amax", "amin", "prod", "argmax", "argmin"):
        rows.append(Row(n, f"torch.{n}({{a}}, {{d}})", dtypes=NUMBERS))
    for n in ("mean", "std", "var", "logsumexp"):
        rows.append(Row(n, f"torch.{n}({{a}}, {{d}})"))
    rows.append(Row("norm", "torch.linalg.vector_norm({a}, dim={d})"))
    rows.append(Row("any", "({a} > 3).any({d})", dtypes=NUMBERS))
    rows.append(Row("all", "torch.all({a}, {d})", dtypes=("bool", "float32", "int64")))
    rows.append(Row("count_nonzero", "torch.count_nonzero({a}, {d})", dtypes=ANY))
    rows += [Row(f"{n} of all", f"torch.{n}({{a}})", dtypes=NUMBERS) for n in ("sum", "amax")]
    rows.append(Row("mean of all", "torch.mean({a})"))
    rows.append(Row("dot", "({a} * {b}).sum({d})", "pair"))
    rows += [Row(n, f"torch.{n}({{a}}, {{d}})") for n in ("softmax", "log_softmax")]
    rows.append(Row("softmin", "F.softmin({a}, {d})"))
    rows.append(Row("layer_norm", "F.layer_norm({a}, {a}.shape[-1:])"))
    rows.append(Row("layer_norm both", "F.layer_norm({a}, {a}.shape[-1:], {v}, {w})", "scaled"))
    rows.append(Row("rms_norm", "F.rms_norm({a}, {a}.shape[-1:], {v})", "scaled"))
    rows.append(Row("normalize", "F.normalize({a}, dim={d})"))
    return rows


def _rows_whole() -> list[Row]:
    """Operators that see an axis as a whole."""
    rows = [Row(n, f"torch.{n}({{a}}, {{d}})", dtypes=NUMBERS) for n in ("cumsum", "cumprod")]
    rows.append(Row("logcumsumexp", "torch.logcumsumexp({a}, {d})", dtypes=FLOATS[:2]))
    rows += [Row(n, f"torch.{n}({{a}}, {{d}})[0]", dtypes=NUMBERS) for n in ("cummax", "cummin")]
    rows.append(Row("sort", "torch.sort({a}, {d})[0]", "rows", ANY))
    rows.append(
        Row("sort both", "torch.sort({a}, stable=True, dim={d}, descending=True)", "rows", NUMBERS)
    )
    rows.append(Row("argsort", "torch.argsort({a}, {d}, stable=True)", "rows", NUMBERS))
    rows.append(Row("topk", "torch.topk({a}, min(10, {n}), {d})[0]", "rows", NUMBERS))
    rows.append(Row("topk 1", "torch.topk({a}, 1, {d})[0]", "rows", NUMBERS))
    rows.append(Row("topk half", "torch.topk({a}, {n} // 2, {d})[0]", "rows", NUMBERS))
    rows.append(Row("kthvalue", "torch.kthvalue({a}, ({n} + 1) // 2, {d})[0]", "rows", NUMBERS))
    rows.append(Row("median", "torch.median({a}, {d})[0]", "rows", NUMBERS))
    rows.append(Row("searchsorted", "torch.searchsorted({a}.sort(-1)[0], {b})", "rows pair"))
    return rows


def _moves() -> list[Row]:
    rows = [Row("transpose", "{a}.mT.contiguous()", dtypes=ANY)]
    rows.append(Row("permute 0231", "{a}.permute(0, 2, 3, 1).contiguous()", "image", ANY))
    rows.append(Row("permute 0312", "{a}.permute(0, 3, 1, 2).contiguous()", "image", ANY))
    rows.append(Row("permute 0213", "{a}.permute(0, 2, 1, 3).contiguous()", "image", ANY))
    rows.append(Row("flip", "{a}.flip({d})", dtypes=ANY))
    rows.append(Row("flip all", "{a}.flip(0, -1)", dtypes=ANY))
    rows.append(Row("roll", "{a}.roll(3, {d})", dtypes=ANY))
    rows.append(Row("roll both", "{a}.roll((2, -5), (0, -1))", dtypes=ANY))
    rows.append(Row("cat", "torch.cat([{a}, {b}], {d})", "pair", ANY))
    rows.append(Row("cat three", "torch.cat([{a}, {b}, {a}], {d})", "pair", ANY))
    rows.append(Row("stack", "torch.stack([{a}, {b}], {d})", "pair", ANY))
    rows.append(Row("repeat", "{a}.repeat(2, *[1] * ({a}.dim() - 2), 3)", dtypes=ANY))
    rows.append(Row("repeat_interleave", "{a}.repeat_interleave(3, {d})", dtypes=ANY))
    rows.append(Row("split", "[t + 1 for t in torch.chunk({a}, 3, {d})]", dtypes=NUMBERS))
    rows.append(Row("slice", "{a}[1:, 2:] * 2", dtypes=NUMBERS))
    rows.append(Row("strided slice", "{a}[::3, 1::2] * 2", dtypes=NUMBERS))
    rows.append(Row("select", "{a}.select({d}, 2) + 1", dtypes=NUMBERS))
    rows.append(Row("tril", "torch.tril({a})", dtypes=ANY))
    rows.append(Row("triu", "torch.triu({a}, 2)", dtypes=ANY))
    rows.append(Row("diagonal", "torch.diagonal({a}, 0, -2, -1) * 2", dtypes=NUMBERS))
    rows.append(Row("unfold", "{a}.unfold({d}, 3, 2).contiguous()", dtypes=ANY))
    rows.append(Row("outer", "{a}[..., None] * {a}[..., None, :]", "rows", NUMBERS))
    rows.append(Row("expand", "{a}.unsqueeze(0).expand(3, *{a}.shape) * 1", dtypes=NUMBERS))
    rows.append(Row("slice_scatter", "torch.slice_scatter({a}, {a}[2:] * 2, 0, 2)", dtypes=NUMBERS))
    rows.append(Row("pad", "F.pad({a}, (1, 2, 3, 1))", dtypes=ANY))
    for mode in ("reflect", "replicate", "circular"):
        rows.append(Row(f"pad {mode}", f"F.pad({{a}}, (1, 2, 2, 1), mode='{mode}')", "image"))
    rows.append(Row("pixel_shuffle", "F.pixel_shuffle({a}, 2)", "image", FLOATS))
    rows.append(Row("pixel_unshuffle", "F.pixel_unshuffle({a}, 2)", "even image", FLOATS))
    return rows


def _lookups() -> list[Row]:
    rows = [
        Row("gather", "torch.gather({a}, {d}, {i})", "lookup", ANY),
        Row("take_along_dim", "torch.take_along_dim({a}, {j}, {d})", "lookup", NUMBERS),
        Row("index_select", "torch.index_select({a}, {d}, {j1})", "lookup", ANY),
        Row("index", "{a}[{j1}]", "first lookup", ANY),
        Row("index both", "{a}[{j1}, {k1}]", "both lookup", ANY),
        Row("embedding", "F.embedding({j1}, {a})", "first lookup"),
        Row("one_hot", "F.one_hot({j1} % 100, 100)", "first lookup", ("int64",)),
        Row("scatter", "{a}.scatter({d}, {i}, {b})", "lookup", ANY),
        Row("scatter value", "{a}.scatter({d}, {i}, 1)", "lookup", NUMBERS),
        Row("index_copy", "{a}.index_copy({d}, {p1}, {b})", "lookup", NUMBERS),
        Row("index_add", "{a}.index_add({d}, {j1}, {b})", "lookup", NUMBERS),
        Row("index_fill", "{a}.index_fill({d}, {j1}, 1)", "lookup", NUMBERS),
        Row("index_put", "{a}.index_put(({j1},), {b}[: {j1}.numel()])", "first lookup", NUMBERS),
        Row(
            "index_put add", "{a}.index_put(({j1},), {b}, accumulate=True)", "first lookup",
            NUMBERS,
        ),
        Row("masked_scatter", "{a}.masked_scatter({a} > 0, {b})", "lookup", NUMBERS),
        Row("bincount by scatter", "torch.zeros(64).scatter_add(0, {m}, {v})", "bins", FLOATS[:1]),
    ]  # fmt: skip
    for reduce in ("sum", "amax", "prod", "mean"):
        text = f"{{a}}.scatter_reduce({{d}}, {{i}}, {{b}}, '{reduce}')"
        rows.append(Row(f"scatter_reduce {reduce}", text, "lookup", NUMBERS))
    rows.append(Row("scatter_add", "{a}.scatter_add({d}, {i}, {b})", "lookup", NUMBERS))
    return rows


def _windows() -> list[Row]:
    rows = []
    for n in ("max", "avg"):
        rows.append(Row(f"{n}_pool2d", f"F.{n}_pool2d({{a}}, {{k}}, {{s}}, {{k}} // 2)", "window"))
        rows.append(Row(f"{n}_pool1d", f"F.{n}_pool1d({{a}}, {{k}}, {{s}})", "line"))
        rows.append(Row(f"{n}_pool3d", f"F.{n}_pool3d({{a}}, 2)", "volume"))
        rows.append(Row(f"adaptive_{n}", f"F.adaptive_{n}_pool2d({{a}}, (5, 3))", "image"))
        rows.append(Row(f"global {n}", f"F.adaptive_{n}_pool2d({{a}}, 1)", "image"))
    rows.append(Row("max_pool2d both", "F.max_pool2d({a}, 3, 2, return_indices=True)", "image"))
    for mode in ("nearest", "bilinear", "bicubic", "area"):
        text = f"F.interpolate({{a}}, scale_factor={{z}}, mode='{mode}')"
        rows.append(Row(f"interpolate {mode}", text, "scaled image", FLOATS))
    rows.append(
        Row("interpolate corners",
            "F.interpolate({a}, size=(17, 29), mode='bilinear', align_corners=True)", "image"),
    )  # fmt: skip
    for mode in ("bilinear", "nearest"):
        text = f"F.grid_sample({{a}}, {{g}}, mode='{mode}', align_corners=False)"
        rows.append(Row(f"grid_sample {mode}", text, "grid", FLOATS[:2]))
    rows.append(Row("batch_norm", "F.batch_norm({a}, {v}, {w}.abs(), {v}, {w})", "channels"))
    rows.append(Row("group_norm", "F.group_norm({a}, 4)", "image"))
    rows.append(Row("instance_norm", "F.instance_norm({a})", "image"))
    rows.append(Row("lrn", "F.local_response_norm({a}, 5)", "image", FLOATS[:2]))
    return rows


def _products() -> list[Row]:
    """Products of matrices; the options say how their operands are shared or turned."""
    rows = [Row("matmul", "{a} @ {b}", "product")]
    rows.append(Row("matmul turned", "{a} @ {bt}.mT", "product"))
    rows.append(Row("matmul both turned", "{at}.mT @ {bt}.mT", "product"))
    rows.append(Row("product with itself", "{q} @ {q}", "product"))
    rows.append(Row("gram", "{a} @ {a}.mT / 8", "product"))
    rows.append(Row("gram columns", "{at}.mT @ {at}", "product"))
    rows.append(Row("product plus operand", "{q} @ {r} + {r}", "product"))
    rows.append(Row("product softmax", "torch.softmax({a} @ {b}, -1)", "product"))
    rows.append(Row("product sum", "({a} @ {b}).sum(-1)", "product"))
    rows.append(Row("product of halves", "{a}[:, ::2] @ {b}[::2]", "product"))
    rows.append(Row("matvec", "{a} @ {b}[:, 0]", "product"))
    rows.append(Row("vecmat", "{a}[0] @ {b}", "product"))
    rows.append(Row("linear", "F.linear({a}, {wt}, {wb})", "product"))
    rows.append(Row("linear no bias", "F.relu(F.linear({a}, {wt}))", "product"))
    rows.append(Row("linear free", "F.linear({a}, {bt})", "product"))
    rows.append(Row("bmm", "torch.bmm({a3}, {b3})", "batched"))
    rows.append(Row("bmm turned", "torch.bmm({a3}, {c3}.mT)", "batched"))
    rows.append(Row("bmm gram", "torch.softmax({a3} @ {a3}.mT, -1) @ {a3}", "batched"))
    rows.append(Row("einsum", "torch.einsum('bij,bjk->ik', {a3}, {b3})", "batched"))
    rows.append(Row("attention", "F.scaled_dot_product_attention({a3}, {c3}, {c3})", "batched"))
    rows.append(Row("cdist", "torch.cdist({a3}, {c3})", "batched", FLOATS[:2]))
    return rows


def _convolutions() -> list[Row]:
    call = "F.conv2d({x}, {f}, {fb}, {s}, {p}, {l}, {u})"
    return [
        Row("conv2d", call, "conv"),
        Row("conv2d relu", f"F.relu({call})", "conv"),
        Row("conv2d residual", "F.conv2d({x}, {e}, None, 1, 1) + {x}", "conv"),
        Row("conv1d", "F.conv1d({x1}, {f1}, None, {s})", "conv"),
        Row("conv_transpose2d", "F.conv_transpose2d({x}, {ft}, None, {s})", "conv"),
    ]


def _named_alike(rows: Sequence[Row]) -> list[Row]:
    """The elementwise operators that torch has under one name and that no row is about."""
    written = " ".join([row.text for row in rows])
    made = []
    for name, ours in TORCH.items():
        binary = len(ELEMENTWISE[ours].params) == 2
        text = f"torch.ops.aten.{name}({'{a}, {b}' if binary else '{a}'})"
        if name not in written:
            made.append(Row(name, text, "pair" if binary else "plane"))
    return made


_FAMILIES = (
    _unary, _binary, _reductions, _rows_whole, _moves, _lookups, _windows, _products, _convolutions,
)  # fmt: skip
ROWS: tuple[Row, ...] = tuple([row for family in _FAMILIES for row in family()])
ROWS += tuple(_named_alike(ROWS))

# -- drawing ---------------------------------------------------------------------------------------
_PLANES: tuple[tuple[int, ...], ...] = (
    (5, 7), (64, 64), (127, 509), (512, 512), (1000, 1000), (3, 100_003), (40_009, 7), (20_011, 3),
    (1, 300_007), (17, 33, 65), (8, 3, 1009), (2, 16, 31, 33), (31, 32, 32, 5), (6, 1, 5, 3001),
)  # fmt: skip
_ROW_PLANES = ((64, 1000), (1000, 64), (7, 20_011), (300, 33), (5000, 5), (3, 31, 65), (1, 100_003))
_IMAGES = ((1, 64, 56, 56), (2, 12, 31, 33), (1, 4, 200, 213), (16, 8, 7, 7), (1, 256, 14, 14))
_BEFORE = ("{}", "{}", "{}", "({} * 2)", "({} + 1)", "torch.relu({})")
_AFTER = (
    "{}", "{}", "{}", "torch.relu({})", "({} * 2 + 1)", "{}.sum(-1)", "{}.sum(0)", "({} + {r})",
    "torch.cat([{}, {}], 0)", "{}.amax(-1, keepdim=True)",
)  # fmt: skip


class _Draw:
    """One case in the making: operands get their letters as the text asks for them."""

    def __init__(self, row: Row, rng: random.Random) -> None:
        self.row, self.rng = row, rng
        weights = [4 if d == "float32" else 1 for d in row.dtypes]
        self.dtype = rng.choices(row.dtypes, weights)[0]
        self.operands: list[Operand] = []
        self.values: dict[str, str] = {}
        self.tags: list[str] = []

    def add(
        self, shape: Sequence[int], dtype: str = "", fill: str | int = "", *, constant: bool = False
    ) -> str:
        """A new operand; its letter."""
        shape, dtype = tuple(shape), dtype or self.dtype
        fill = self.row.fill if fill == "" else fill
        self.operands.append(Operand(shape, dtype, fill, constant))
        return _NAMES[len(self.operands) - 1]

    def laid_out(self, shape: Sequence[int]) -> str:
        """A new operand that the program sees with this shape, in some layout."""
        layout = self.rng.choice(("plain",) * 5 + tuple(_LAYOUTS))
        if layout == "plain" or len(shape) < 2 or (layout == "row" and shape[0] == 1):
            return self.add(shape)
        self.tags.append(layout)
        inner, text = _LAYOUTS[layout]
        sizes = ", ".join(map(str, shape))
        return text.format(self.add(inner(tuple(shape))), shape=sizes)

    def axis(self, shape: Sequence[int]) -> None:
        d = self.rng.randrange(len(shape))
        self.values.update(d=str(d - len(shape) if self.rng.random() < 0.5 else d), n=str(shape[d]))
        self.along = d


_LAYOUTS: dict[str, Any] = {
    "transposed": (lambda s: (*s[:-2], s[-1], s[-2]), "{}.mT"),
    "turned": (lambda s: tuple(reversed(s)), "{}.permute(*reversed(range({}.dim())))"),
    "strided": (lambda s: (*s[:-1], 2 * s[-1]), "{}[..., ::2]"),
    "sliced": (lambda s: (s[0] + 2, *s[1:-1], s[-1] + 3), "{}[2:, ..., 3:]"),
    "row": (lambda s: (1, *s[1:]), "{}.expand({shape})"),
    "column": (lambda s: (*s[:-1], 1), "{}.expand({shape})"),
}
_LAYOUTS = {k: (f, t.replace("{}", "{0}")) for k, (f, t) in _LAYOUTS.items()}


def _plane(d: _Draw) -> None:
    shape = d.rng.choice(_PLANES)
    d.axis(shape)
    d.values["a"] = d.laid_out(shape)


def _pair(d: _Draw) -> None:
    shape = d.rng.choice(_PLANES)
    d.axis(shape)
    d.values["a"] = d.laid_out(shape)
    if d.rng.random() < 0.15:
        d.tags.append("shared")
        d.values["b"] = d.values["a"]
    else:
        d.values["b"] = d.laid_out(shape)


def _rows(d: _Draw) -> None:
    shape = d.rng.choice(_ROW_PLANES)
    d.axis(shape)
    if "None" in d.row.text:
        shape = shape if len(shape) == 2 and max(shape) * shape[-1] <= 1 << 16 else (64, 100)
    d.values["a"] = d.laid_out(shape)


def _rows_pair(d: _Draw) -> None:
    shape = d.rng.choice(_ROW_PLANES)
    d.axis(shape)
    d.values.update(a=d.laid_out(shape), b=d.laid_out(shape))


def _scaled(d: _Draw) -> None:
    shape = d.rng.choice(_PLANES)
    d.values["a"] = d.laid_out(shape)
    d.values.update({k: d.add(shape[-1:], constant=True) for k in "vw"})


def _image(d: _Draw) -> None:
    shape = d.rng.choice(_IMAGES)
    d.values["a"] = d.laid_out(shape)


def _even_image(d: _Draw) -> None:
    d.values["a"] = d.laid_out(d.rng.choice([s for s in _IMAGES if not (s[2] % 2 or s[3] % 2)]))


def _channels(d: _Draw) -> None:
    shape = d.rng.choice(_IMAGES)
    d.values["a"] = d.laid_out(shape)
    d.values.update({k: d.add(shape[1:2], fill="positive", constant=True) for k in "vw"})


def _window(d: _Draw) -> None:
    _image(d)
    d.values.update(k=str(d.rng.choice((2, 3, 5))), s=str(d.rng.choice((1, 2, 3))))


def _line(d: _Draw) -> None:
    d.values["a"] = d.laid_out(d.rng.choice(((8, 64, 1000), (1, 3, 100_003), (64, 5, 77))))
    d.values.update(k=str(d.rng.choice((2, 3, 7))), s=str(d.rng.choice((1, 2, 3))))


def _volume(d: _Draw) -> None:
    d.values["a"] = d.laid_out(d.rng.choice(((1, 16, 16, 28, 28), (2, 3, 9, 31, 33))))


def _scaled_image(d: _Draw) -> None:
    _image(d)
    d.values["z"] = str(d.rng.choice((2, 0.5, 1.7)))


def _grid(d: _Draw) -> None:
    n, c, h, w = d.rng.choice(_IMAGES)
    d.values.update(a=d.laid_out((n, c, h, w)), g=d.add((n, h + 3, w - 2, 2), fill="unit"))


def _lookup(d: _Draw) -> None:
    shape = d.rng.choice([s for s in _PLANES if s != (1, 300_007)])
    d.axis(shape)
    _indices(d, shape, d.along)


def _first_lookup(d: _Draw) -> None:
    shape = d.rng.choice(((512, 512), (40_009, 7), (1000, 1), (300, 17, 33), (5, 100_003)))
    d.values["n"] = str(shape[0])
    _indices(d, shape, 0)


def _indices(d: _Draw, shape: tuple[int, ...], axis: int) -> None:
    """Only what the row asks for becomes an operand."""
    size, kind = shape[axis], "int64" if d.rng.random() < 0.7 else "int32"
    kind = kind if d.row.name in ("gather", "index_select", "index", "embedding") else "int64"
    asked, text = d.values, d.row.text
    makers: dict[str, Any] = {
        "a": lambda: d.laid_out(shape),
        "i": lambda: d.add(shape, "int64", size),
        "j": lambda: d.add(shape, "int64", size),
        "j1": lambda: d.add((size,), kind, size),
        "p1": lambda: f"torch.arange({size}).flip(0)",
        "k1": lambda: d.add((size,), kind, shape[-1]),
        "b": lambda: d.laid_out(shape),
    }
    for key, make in makers.items():
        if "{" + key + "}" in text:
            asked[key] = make()


def _both_lookup(d: _Draw) -> None:
    shape = d.rng.choice(((512, 512), (40_009, 7), (1000, 3)))
    _indices(d, shape, 0)


def _bins(d: _Draw) -> None:
    count = d.rng.choice((100, 10_007, 300_007))
    d.values.update(m=d.add((count,), "int64", 64), v=d.add((count,)))


def _product(d: _Draw) -> None:
    m, k, n = d.rng.choice(
        ((64, 64, 64), (127, 65, 33), (500, 500, 500), (16, 4096, 16), (1, 1024, 1024),
         (3, 768, 768), (1000, 7, 1000), (2000, 300, 1), (1, 5000, 3), (256, 768, 256))
    )  # fmt: skip
    shapes = {
        "a": (m, k), "b": (k, n), "at": (k, m), "bt": (n, k), "q": (k, k), "r": (k, k),
    }  # fmt: skip
    if k > 1100 and ("{q}" in d.row.text):
        shapes.update(q=(m, m), r=(m, m))
    for key, shape in shapes.items():
        if "{" + key + "}" in d.row.text:
            d.values[key] = d.laid_out(shape)
    if "{wt}" in d.row.text:
        d.values["wt"] = d.add((n, k), constant=True)
    if "{wb}" in d.row.text:
        d.values["wb"] = d.add((n,), constant=True)


def _batched(d: _Draw) -> None:
    g, m, k, n = d.rng.choice(
        ((12, 128, 64, 128), (3, 65, 33, 17), (100, 7, 9, 5), (1, 300, 64, 70))
    )
    for key, shape in {"a3": (g, m, k), "b3": (g, k, n), "c3": (g, n, k)}.items():
        if "{" + key + "}" in d.row.text:
            d.values[key] = d.laid_out(shape)


def _conv(d: _Draw) -> None:
    batch, channels, h, w = d.rng.choice(
        ((1, 64, 56, 56), (1, 100, 33, 33), (2, 3, 64, 65), (1, 256, 14, 14), (3, 17, 21, 9))
    )
    size, out = d.rng.choice((1, 3, 3, 5)), d.rng.choice((channels, 2 * channels, 32))
    groups = d.rng.choice((1, 1, 1, channels))
    out = channels * 2 if groups > 1 else out
    dilation = d.rng.choice((1, 1, 1, 2, 6))
    while (size - 1) * dilation >= min(h, w):
        dilation = 1
    sizes = {"x": (batch, channels, h, w), "x1": (batch, channels, h * w)}
    weights = {
        "f": (out, channels // groups, size, size),
        "fb": (out,),
        "e": (channels, channels, 3, 3),
        "f1": (out, channels, size),
        "ft": (channels, out, size, size),
    }
    for key, shape in {**sizes, **weights}.items():
        if "{" + key + "}" in d.row.text:
            d.values[key] = d.laid_out(shape) if key in sizes else d.add(shape, constant=True)
    d.values.update(
        s=str(d.rng.choice((1, 1, 2))), p=str(size // 2), l=str(dilation), u=str(groups)
    )


_KINDS: dict[str, Any] = {
    "plane": _plane, "pair": _pair, "rows": _rows, "rows pair": _rows_pair, "scaled": _scaled,
    "image": _image, "even image": _even_image, "channels": _channels, "window": _window,
    "line": _line, "volume": _volume, "scaled image": _scaled_image, "grid": _grid,
    "lookup": _lookup, "first lookup": _first_lookup, "both lookup": _both_lookup, "bins": _bins,
    "product": _product, "batched": _batched, "conv": _conv,
}  # fmt: skip


def draw_case(seed: int, rows: Sequence[Row] = ROWS) -> Case | None:
    """The case of a seed; rows take turns, so that as many seeds as rows see each once. None where
    eager PyTorch has no such program (a dtype that it lacks, an axis that is too short)."""
    row = rows[seed % len(rows)]
    rng = random.Random(f"{seed} {row.name}")
    d = _Draw(row, rng)
    _KINDS[row.kind](d)
    text = row.text.format(**d.values)
    case = _fused(Case(row.name, text, tuple(d.operands), tags=tuple(d.tags)), d, rng)
    if case is None or rng.random() > 0.15:
        return case
    return _named(case)


def _fused(case: Case, d: _Draw, rng: random.Random) -> Case | None:
    """The case with something before and after it, as far as eager PyTorch takes it."""
    result = _result(case)
    if result is None:
        return None
    before, after = rng.choice(_BEFORE), rng.choice(_AFTER)
    if isinstance(result, torch.Tensor) and result.ndim and d.dtype != "bool" and after != "{}":
        extra = case.operands
        if "{r}" in after:
            extra = (*extra, Operand(tuple(result.shape), str(result.dtype).split(".")[1]))
            after = after.replace("{r}", _NAMES[len(extra) - 1])
        made = Case(
            case.row,
            after.replace("{}", f"({case.text})"),
            extra,
            case.named,
            (*case.tags, "after"),
        )
        if len(extra) <= len(_NAMES) and _result(made) is not None:
            case = made
    if before != "{}" and not case.operands[0].constant and "a" in d.values:
        inner = d.values["a"]
        whole = rf"\b{inner}\b" if len(inner) == 1 else re.escape(inner)
        text = re.sub(whole, before.format(inner), case.text)
        made = Case(case.row, text, case.operands, case.named, (*case.tags, "before"))
        if _result(made) is not None:
            case = made
    return case


def _named(case: Case) -> Case:
    """The case with a name for its first size, where the program holds for any size."""
    named = replace(case, named=True)
    try:
        torch.export.export(named.module(), named.inputs(), dynamic_shapes=named.export_shapes())
    except (RuntimeError, ValueError, TypeError, AssertionError, torch._dynamo.exc.UserError):
        return case
    return named


def _result(case: Case) -> Any:
    """What eager PyTorch gives; None where it refuses."""
    try:
        with torch.inference_mode():
            return case.module()(*case.inputs())
    except (RuntimeError, IndexError, ValueError, NotImplementedError, TypeError):
        return None
