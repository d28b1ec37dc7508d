"""Random small programs of operators, from a seed: a product, a convolution, a reduction, an
elementwise operator or a permutation, with something before and behind it.

Every dtype that the operators take, odd sizes, sizes 1 and 0, sizes with names, operands that are
shared, turned, broadcast or constant. ``draw_program(seed, wide=True)`` is the same program in
float64, which says what its results are. Inputs are multiples of a quarter, so that each dtype has
them exactly; what errors could flip (a comparison, a rounding) is only done to inputs.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from random import Random
from typing import Any

import numpy as np

from burnish.graphir.builder import BlockBuilder, call_op
from burnish.graphir.dim import static_value
from burnish.graphir.expr import Atom, Var, constant
from burnish.graphir.module import IRModule
from burnish.graphir.op import all_ops, type_of
from burnish.graphir.type import TensorType, tensor_type
from burnish.support.errors import TypeInferenceError
from burnish.tensorir.expr import Expr
from burnish.tensorir.expr import Var as DimVar

FAMILIES = ("product", "convolution", "reduction", "elementwise", "permutation")
SIZES = (2, 3, 4, 5, 7, 8, 13, 16, 17, 31, 32, 33, 64, 65, 100)
FLOATS = ("float32", "float32", "float32", "float64", "float16", "bfloat16")
INTEGERS = ("int8", "uint8", "int16", "uint16", "int32", "uint32", "int64", "uint64")
ERRORS = {"float64": 1e-9, "float32": 1e-4, "float16": 2e-2, "bfloat16": 1e-1}
"""How far results may be off, of the largest; loose, since whole programs are compared."""

Size = int | DimVar


@dataclass
class OperatorProgram:
    """A module whose ``main`` takes tensors of ``shapes`` and ``dtypes``; ``sizes`` are those that
    its named dims were drawn with, ``growth`` bounds the elements that it works on."""

    seed: int
    family: str
    module: IRModule
    shapes: list[tuple[int | str, ...]]
    dtypes: list[str]
    sizes: dict[str, int]
    growth: float

    def inputs(self, sizes: dict[str, int] | None = None) -> list[np.ndarray]:
        """Arrays of floats (float64), integers and bools, for these sizes of named dims."""
        rng = np.random.default_rng(self.seed)
        known = self.sizes if sizes is None else sizes
        shapes = [[known[n] if isinstance(n, str) else n for n in shape] for shape in self.shapes]
        return [
            _values(rng.random(shape), dtype)
            for shape, dtype in zip(shapes, self.dtypes, strict=True)
        ]

    def __str__(self) -> str:
        return f"seed {self.seed} ({self.family})\n{self.module.script().strip()}"


def _values(unit: np.ndarray, dtype: str) -> np.ndarray:
    """Values of a dtype, made of numbers from 0 to 1."""
    if dtype == "bool":
        return unit < 0.5
    if dtype.startswith("uint"):
        return (unit * 5).astype(dtype)
    if dtype.startswith("int"):
        return (unit * 9 - 4).astype(dtype)
    return np.round(unit * 16 - 8) / 4


@dataclass
class _Draw:
    """A program in the making; every choice is the seed's, whether it is wide or not."""

    rng: Random
    dtype: str
    wide: bool
    named: bool
    builder: BlockBuilder = field(default_factory=BlockBuilder)
    params: list[Var] = field(default_factory=list)
    shapes: list[tuple[int | str, ...]] = field(default_factory=list)
    dtypes: list[str] = field(default_factory=list)
    dims: dict[str, DimVar] = field(default_factory=dict)
    sizes: dict[str, int] = field(default_factory=dict)
    growth: float = 2.0

    def chance(self, p: float) -> bool:
        return self.rng.random() < p

    def held(self, dtype: str) -> str:
        """The dtype that stands for ``dtype`` here."""
        return "float64" if self.wide and "float" in dtype else dtype

    @property
    def is_float(self) -> bool:
        return "float" in self.dtype

    # -- sizes and operands --------------------------------------------------------------------
    def size(self, *, named: bool = True) -> Size:
        """A size, now and then 1 or 0, in programs of named sizes often with a name."""
        n = self.rng.choice(SIZES)
        n = 1 if self.chance(0.12) else 0 if self.chance(0.02) else n
        if not (named and self.named and self.chance(0.6)):
            return n
        name = f"n{len(self.dims)}"
        self.sizes[name] = n
        self.dims[name] = DimVar(name)
        return self.dims[name]

    def value(self, size: Any) -> int:
        """How large a size is where the program runs."""
        number = static_value(size) if isinstance(size, Expr) else size
        return self.sizes[size.name] if number is None else number

    def param(self, shape: Sequence[Any], dtype: str = "") -> Var:
        """An input."""
        dtype = dtype or self.dtype
        sizes = [static_value(n) if isinstance(n, Expr) else n for n in shape]
        dims = [d if n is None else n for n, d in zip(sizes, shape, strict=True)]
        var = Var(f"x{len(self.params)}", tensor_type(tuple(dims), self.held(dtype)))
        self.params.append(var)
        self.shapes.append(tuple([d.name if isinstance(d, DimVar) else d for d in dims]))
        self.dtypes.append(dtype)
        return var

    def weight(self, shape: Sequence[Size]) -> Atom:
        """A constant, or where it cannot be (and now and then) an input."""
        if self.chance(0.3) or not all(isinstance(n, int) for n in shape):
            return self.param(shape)
        count = math.prod(map(self.value, shape))
        unit = np.random.default_rng(self.rng.randrange(1 << 30)).random(count)
        data = _values(unit, self.dtype).reshape([self.value(n) for n in shape])
        return constant(data, self.held(self.dtype))

    def laid_out(self, shape: Sequence[Size]) -> Atom:
        """An operand of this shape: as it stands, permuted, of another dtype, or computed."""
        kind = self.rng.choice(("plain",) * 5 + ("turned", "turned", "cast", "relu", "double"))
        if kind == "turned" and len(shape) > 1:
            axes = list(range(len(shape)))
            self.rng.shuffle(axes)
            stored = [shape[axes.index(i)] for i in range(len(shape))]
            return self.op("permute_dims", self.param(stored), axes=tuple(axes))
        if kind == "cast" and self.is_float:
            x = self.param(shape, self.rng.choice(("int8", "float32", "float16", "int32")))
            return self.op("astype", x, dtype=self.held(self.dtype))
        x = self.param(shape)
        if kind == "relu" and self.dtype != "bool":
            return self.op("relu", x)
        return self.op("add", x, x) if kind == "double" and self.dtype != "bool" else x

    # -- operators -----------------------------------------------------------------------------
    def op(self, name: str, *args: Any, **attrs: Any) -> Var:
        return self.builder.emit(call_op(name, *args, **attrs))

    def type(self, x: Atom) -> TensorType:
        kind = type_of(x)
        assert isinstance(kind, TensorType)
        return kind

    def operand_like(self, x: Atom) -> Atom:
        """An operand that broadcasts with ``x``, of its dtype."""
        shape: list[Any] = list(self.type(x).shape)
        shape = shape[self.rng.choice((0, 0, len(shape) // 2, max(0, len(shape) - 1))) :]
        shape = [1 if self.chance(0.2) else n for n in shape]
        if not all(isinstance(n, (int, DimVar)) or static_value(n) is not None for n in shape):
            shape = []
        return self.param(shape, self.narrow(x))

    def narrow(self, x: Atom) -> str:
        """The dtype that a value has where the program is not wide."""
        dtype = str(self.type(x).dtype)
        return self.dtype if dtype.startswith(("float", "bfloat")) else dtype

    def behind(self, x: Atom) -> Atom:
        """Up to three operators that fuse with what made ``x``."""
        for _ in range(self.rng.choice((0, 0, 1, 1, 2, 3))):
            dtype = self.narrow(x)
            if dtype == "bool":
                return x
            steps: list[Callable[[Atom], Atom]] = [
                lambda x: self.op("relu", x),
                lambda x: self.op("add", x, self.operand_like(x)),
                lambda x: self.op("maximum", x, self.operand_like(x)),
                lambda x: self.op("subtract", self.operand_like(x), x),
            ]
            if dtype in ("float32", "float64"):
                steps += [
                    lambda x: self.op(self.rng.choice(("tanh", "sigmoid", "gelu", "silu")), x),
                    lambda x: self.op("multiply", x, 0.5),
                ]
            if self.type(x).ndim > 1:
                steps.append(self.permuted)
            x = self.rng.choice(steps)(x)
        return x

    def permuted(self, x: Atom) -> Atom:
        axes = list(range(self.type(x).ndim))
        self.rng.shuffle(axes)
        return self.op("permute_dims", x, axes=tuple(axes))

    # -- families ------------------------------------------------------------------------------
    def product(self) -> Atom:
        m, n, k = self.size(), self.size(), self.size()
        batches: tuple[list[Size], ...] = ([], [], [], [self.size()], [self.size(), 1])
        batch = self.rng.choice(batches)
        kinds = ["two", "two", "linear", "linear", "square", "gram", "across", "vector", "shared"]
        kind = self.rng.choice([*kinds, "bytes"] if "int8" in self.dtype else kinds)
        self.growth *= 2 * max(1, self.value(k if kind != "across" else m)) ** 0.5
        if kind == "linear":
            m, n = (self.size(), self.size(named=False))
            k = self.size(named=False)
            x, bias = self.laid_out([*batch, m, k]), self.chance(0.5)
            return self.op("linear", x, self.weight([n, k]), *([self.param([n])] if bias else []))
        if kind == "square":
            x = self.laid_out([*batch, k, k])
            return self.op("matmul", x, x, transpose_b=self.chance(0.3))
        if kind in ("gram", "across"):
            x = self.laid_out([*batch, m, k])
            turned = "transpose_b" if kind == "gram" else "transpose_a"
            return self.op("matmul", x, x, **{turned: True})
        if kind == "vector":
            return self.op("matmul", self.laid_out([m, k]), self.laid_out([k]))
        if kind == "bytes":
            return self.op("integer_matmul", self.param([m, k]), self.weight([k, n]))
        a, b = self.chance(0.2), self.chance(0.3)
        x = self.laid_out([*batch, k, m] if a else [*batch, m, k])
        shape = [n, k] if b else [k, n]
        w = self.weight(shape) if self.chance(0.5) else self.laid_out([*batch, *shape])
        y = self.op("matmul", x, w, transpose_a=a, transpose_b=b)
        return self.op("add", y, y) if kind == "shared" else y

    def convolution(self) -> Atom:
        rank, last = self.rng.choice((1, 2, 2, 2, 3)), self.chance(0.4)
        groups = self.rng.choice((1, 1, 1, 2, 4))
        per = self.rng.choice((1, 2, 3, 4, 8, 16))
        each, own = (self.rng.choice((1, 1, 2)), 1) if self.chance(0.25) else (per, per)
        if own == 1:
            groups = self.rng.choice((3, 8, 16, 17))
        out = groups * each if own == 1 else groups * self.rng.choice((1, 3, 4, 8, 16))
        kernel = [self.rng.choice((1, 2, 3, 3, 5)) for _ in range(rank)]
        strides = tuple([self.rng.choice((1, 1, 2, 3)) for _ in range(rank)])
        dilation = tuple([self.rng.choice((1, 1, 1, 2)) for _ in range(rank)])
        padding = tuple([self.rng.choice((0, 0, 1, 2)) for _ in range(2 * rank)])
        batch: Size = self.size() if self.named else self.rng.choice((0, 1, 1, 1, 2, 3))
        spatial = [
            (k - 1) * d + self.rng.choice((1, 2, 7, 8, 17, 30) if rank < 3 else (1, 4, 9))
            for k, d in zip(kernel, dilation, strict=True)
        ]
        channels = groups * own
        shape = [batch, *spatial, channels] if last else [batch, channels, *spatial]
        self.growth *= 2 * (own * math.prod(kernel)) ** 0.5
        kind = self.rng.choice(("conv",) * 6 + ("transpose", "max", "avg", "adaptive"))
        x = self.laid_out(shape)
        small = tuple([min(p, (kernel[i // 2] - 1) // 2) for i, p in enumerate(padding)])
        where: dict[str, Any] = {"strides": strides, "channels_last": last}
        if kind == "conv":
            w = self.weight([out, own, *kernel])
            bias = [self.param([out])] if self.chance(0.4) else []
            where |= {"padding": padding, "dilation": dilation, "groups": groups}
            return self.op("conv", x, w, *bias, **where)
        if kind == "transpose":
            w = self.weight([channels, each, *kernel])
            where |= {"padding": small, "dilation": dilation, "groups": groups}
            return self.op("conv_transpose", x, w, output_padding=(0,) * rank, **where)
        if kind == "adaptive":
            mode = self.rng.choice(("avg", "max"))
            out_size = tuple([self.rng.choice((1, 2, 3)) for _ in range(rank)])
            return self.op("adaptive_pool", x, output_size=out_size, mode=mode, channels_last=last)
        where |= {"kernel": tuple(kernel), "padding": small}
        if kind == "max":
            return self.op("max_pool", x, dilation=dilation, **where)
        return self.op("avg_pool", x, count_include_pad=self.chance(0.5), **where)

    def reduction(self) -> Atom:
        rank = self.rng.choice((1, 2, 2, 3, 4))
        shape = [self.size() if i < 2 else self.rng.choice((1, 2, 3, 8, 17)) for i in range(rank)]
        x = self.laid_out(shape)
        axes = [a for a in range(rank) if self.chance(0.5)] or [self.rng.randrange(rank)]
        counted = math.prod([self.value(shape[a]) for a in axes])
        names = ["sum", "sum", "max", "min", "cumsum", "argmax"]
        if self.is_float:
            names += ["mean", "variance", "softmax", "log_softmax", "layer_norm"]
        name = self.rng.choice(names)
        if not counted or not all(map(self.value, shape)):
            name = "sum"  # the others have no value over nothing
        self.growth *= max(1, counted) ** 0.5 * (2 if name != "variance" else 4)
        axis = self.rng.choice(axes)
        if name in ("softmax", "log_softmax"):
            return self.op(name, x, axis=axis)
        if name == "layer_norm":
            static = isinstance(shape[-1], int)
            scale = [self.param([shape[-1]]) for _ in range(2)] if static else []
            return self.op(name, x, *scale, axes=(-1,), epsilon=0.5)
        if name in ("cumsum", "argmax"):
            return self.op(name, self.param(shape), axis=axis)
        if self.chance(0.3):
            x = self.op("multiply", x, x)
        return self.op(name, x, axis=tuple(axes), keepdims=self.chance(0.4))

    def elementwise(self) -> Atom:
        shape = [self.size() for _ in range(self.rng.choice((0, 1, 2, 2, 3)))]
        x: Atom = self.param(shape)
        for _ in range(20):
            name = self.rng.choice(_ELEMENTWISE)
            row = all_ops()[name]
            if name in _DIVISIONS and not self.is_float:
                continue
            other = self.operand_like(x) if self.chance(0.7) else x
            condition = self.param(shape, "bool") if name == "where" else None
            operands = [x, other][: len(row.params)] if condition is None else [condition, x, other]
            attrs: dict[str, Any] = {"min": -0.75, "max": 1.5} if name == "clip" else {}
            if name == "astype":
                attrs["dtype"] = self.held(self.rng.choice((*INTEGERS[4:], self.dtype, "bool")))
            try:
                return self.op(name, *operands, **attrs)
            except TypeInferenceError:  # a dtype that the operator does not take
                continue
        return x

    def permutation(self) -> Atom:
        rank = self.rng.choice((2, 2, 3, 4, 5))
        shape = [self.size() if i < 2 else self.rng.choice((1, 2, 5, 8, 17)) for i in range(rank)]
        x = self.permuted(self.laid_out(shape))
        kind = self.rng.choice(("", "", "concat", "slice", "pad", "sum"))
        if kind == "concat":
            return self.op("concat", x, x, axis=self.rng.randrange(rank))
        if kind == "slice":
            axis, step = self.rng.randrange(rank), self.rng.choice((1, 2, -1))
            step = 1 if static_value(self.type(x).shape[axis]) is None else step
            bounds = {"begin": (None,), "end": (None,), "strides": (step,)}
            return self.op("strided_slice", x, axes=(axis,), **bounds)
        if kind == "pad":
            return self.op("pad", x, pad_width=(1, 0) * rank, pad_value=1.0)
        return self.op("add", x, x) if kind == "sum" and self.dtype != "bool" else x


_ELEMENTWISE = tuple(sorted([name for name, op in all_ops().items() if op.is_elementwise]))
_DIVISIONS = ("divide", "floor_divide", "floor_mod")
"""Of integers these are defined where the divisor is not 0."""


def draw_program(seed: int, *, wide: bool = False) -> OperatorProgram:
    """The program of a seed; families take turns."""
    rng = Random(f"operators/{seed}")
    family = FAMILIES[seed % len(FAMILIES)]
    only_floats = family == "convolution" or rng.random() < 0.65
    others = (*INTEGERS, "bool") if family in ("elementwise", "permutation") else INTEGERS
    dtype = rng.choice(FLOATS if only_floats else others)
    draw = _Draw(rng, dtype, wide, rng.random() < 0.35)
    builder = draw.builder
    with builder.function("main"):
        with builder.dataflow():
            result = getattr(draw, family)()
            result = draw.behind(result)
            if not isinstance(result, Var) or result in draw.params:
                result = draw.op("where", draw.op("equal", result, result), result, result)
        builder.emit_func_output(result, params=draw.params)
    made = builder.get(), draw.shapes, draw.dtypes, draw.sizes, draw.growth
    return OperatorProgram(seed, family, *made)
