"""Random graph modules: DAGs of imported operators over small odd shapes, from a seed.

``build_random(seed)`` gives the same graph for every dtype, so that one graph can be compiled in
float32 and understood in float64. What is compared, or cast to an integer, was computed without
rounding: there the two agree exactly.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from random import Random
from typing import Any

import numpy as np

from burnish.graphir.builder import BlockBuilder, call_op
from burnish.graphir.dim import DimError, broadcast_shapes, product, shape_equal, static_value
from burnish.graphir.expr import (
    Atom,
    CallDPSPacked,
    CallFunction,
    Constant,
    Function,
    GlobalVar,
    If,
    SeqExpr,
    ShapeExpr,
    Tuple,
    TupleGetItem,
    Var,
    constant,
)
from burnish.graphir.module import IRModule
from burnish.graphir.type import TensorType, TupleType, tensor_type
from burnish.tensorir.expr import Expr, IntImm
from burnish.tensorir.expr import Var as DimVar

SIZES = (1, 1, 2, 3, 3, 4, 5, 7)
DYNAMIC_SIZES = (0, 1, 3, 6)
MAX_ELEMENTS = 4000


@dataclass
class RandomModule:
    """A module, the shapes of its inputs (names for dynamic dims), and its number of values."""

    module: IRModule
    shapes: list[tuple[int | str, ...]]
    depth: int

    @property
    def is_dynamic(self) -> bool:
        return any(isinstance(n, str) for shape in self.shapes for n in shape)

    def inputs(self, seed: int, batch: int = 2) -> list[np.ndarray]:
        """Multiples of a quarter, so that sums and comparisons of few are exact."""
        rng = np.random.default_rng(seed)
        named = {"batch": batch, "steps": int(rng.integers(0, 5))}
        made = []
        for shape in self.shapes:
            sizes = [named[n] if isinstance(n, str) else n for n in shape]
            made.append(np.asarray(rng.integers(-12, 13, sizes) / 4, np.float32))
        return made


@dataclass
class Held:
    """A value under construction: ``exact`` if no rounding made it, ``bound`` on its elements."""

    atom: Atom
    exact: bool
    bound: float

    @property
    def shape(self) -> tuple[Expr, ...]:
        kind = self.atom.type  # type: ignore[union-attr]
        assert isinstance(kind, TensorType)
        return kind.shape

    @property
    def sizes(self) -> list[int | None]:
        return [static_value(d) for d in self.shape]

    @property
    def elements(self) -> int:
        return math.prod([6 if n is None else n for n in self.sizes])

    @property
    def is_empty(self) -> bool:
        return 0 in self.sizes


@dataclass
class Generator:
    """Adds random operators to a function; every choice is the seed's."""

    rng: Random
    dtype: str
    builder: BlockBuilder = field(default_factory=BlockBuilder)
    values: list[Held] = field(default_factory=list)
    predicates: list[Held] = field(default_factory=list)

    def pick(self, *, rank: int = 0) -> Held:
        """A value, rather a late one, of at least ``rank`` axes."""
        found = [v for v in self.values if len(v.shape) >= rank]
        if not found:
            return self.fresh_constant([self.rng.choice(SIZES) for _ in range(rank)])
        return found[max(self.rng.randrange(len(found)), self.rng.randrange(len(found)))]

    def fresh_constant(self, shape: list[int]) -> Held:
        data = [self.rng.randint(-8, 8) / 4 for _ in range(math.prod(shape))]
        return Held(constant(np.array(data).reshape(shape), self.dtype), True, 2.0)

    def emit(self, op: str, *args: Any, exact: bool, bound: float, **attrs: Any) -> Held:
        atoms = [a.atom if isinstance(a, Held) else a for a in args]
        var = self.builder.emit(call_op(op, *atoms, **attrs))
        return Held(var, exact and bound < 1e4, min(bound, 1e30))

    def squashed(self, x: Held, limit: float = 6.0) -> Held:
        """The value, or its tanh where it may be large."""
        return x if x.bound <= limit else self.emit("tanh", x, exact=False, bound=1.0)

    # -- operators -----------------------------------------------------------------------------
    def unary(self) -> Held:
        x, op = self.pick(), self.rng.choice(("relu", "abs", "negative", "gelu", "tanh", "exp"))
        if self.rng.random() < 0.3:
            op = self.rng.choice(("sigmoid", "silu", "square", "sqrt", "softplus", "clip", "erf"))
        match op:
            case "relu" | "abs" | "negative":
                return self.emit(op, x, exact=x.exact, bound=x.bound)
            case "square":
                return self.emit(
                    op, self.squashed(x, 100), exact=False, bound=min(x.bound, 100) ** 2
                )
            case "clip":
                low, high = (-1.5, None) if self.rng.random() < 0.5 else (None, 0.75)
                return self.emit(op, x, exact=x.exact, bound=max(x.bound, 2), min=low, max=high)
            case "sqrt":
                positive = self.emit("abs", x, exact=x.exact, bound=x.bound)
                one = Held(constant(1.0, self.dtype), True, 1)
                shifted = self.emit("add", positive, one, exact=x.exact, bound=x.bound + 1)
                return self.emit(op, shifted, exact=False, bound=x.bound + 1)
            case "exp":
                small = self.squashed(x)
                return self.emit(op, small, exact=False, bound=math.exp(min(small.bound, 6)))
            case "gelu":
                attrs = {"approximate": self.rng.choice(("none", "tanh"))}
                return self.emit(op, x, exact=False, bound=x.bound, **attrs)
        return self.emit(op, x, exact=False, bound=max(1.0, x.bound))

    def partner(self, x: Held) -> Held:
        """A value or constant that broadcasts with ``x``."""
        if self.rng.random() < 0.6:
            fitting = [v for v in self.values if v is not x and _broadcasts(v, x)]
            if self.rng.random() < 0.2:
                fitting.append(x)
            if fitting:
                return self.rng.choice(fitting)
        rank = self.rng.randint(0, len(x.shape))
        shape = [
            1 if n is None or self.rng.random() < 0.3 else n for n in x.sizes[len(x.shape) - rank :]
        ]
        if self.rng.random() < 0.2 and rank == len(x.shape) and x.elements < 500:
            shape = [self.rng.choice((1, 2)), *shape]
        return self.fresh_constant(shape)

    def binary(self) -> Held:
        a = self.pick()
        b = self.partner(a)
        if self.rng.random() < 0.5:
            a, b = b, a
        op = self.rng.choice(("add", "subtract", "multiply", "divide", "maximum", "minimum"))
        both, top = a.exact and b.exact, max(a.bound, b.bound)
        match op:
            case "multiply":
                a, b = self.squashed(a, 1e4), self.squashed(b, 1e4)
                both = both and a.bound <= 16 and b.bound <= 16
                return self.emit(op, a, b, exact=both, bound=a.bound * b.bound)
            case "divide":
                one = Held(constant(1.0, self.dtype), True, 1)
                size = self.emit("abs", b, exact=b.exact, bound=b.bound)
                below = self.emit("add", size, one, exact=b.exact, bound=b.bound + 1)
                return self.emit(op, a, below, exact=False, bound=a.bound)
            case "maximum" | "minimum":
                return self.emit(op, a, b, exact=both, bound=top)
        return self.emit(op, a, b, exact=both, bound=a.bound + b.bound)

    def linear(self) -> Held:
        x = self.pick(rank=1)
        inner = x.sizes[-1]
        if inner is None:
            return self.unary()
        x = self.squashed(x, 100)
        out = self.rng.choice((*SIZES, 16, 17))
        args = [x, self.fresh_constant([out, inner])]
        if self.rng.random() < 0.6:
            args.append(self.fresh_constant([out]))
        return self.emit("linear", *args, exact=False, bound=2 * inner * x.bound + 2)

    def matmul(self) -> Held:
        a = self.pick(rank=1)
        inner = a.sizes[-1]
        if inner is None:
            return self.unary()
        a = self.squashed(a, 100)
        kind = self.rng.random()
        bound = inner * a.bound * max(a.bound, 2)
        if kind < 0.3 and len(a.shape) >= 2:
            swapped = list(range(len(a.shape)))
            swapped[-2:] = swapped[-1], swapped[-2]
            b = self.emit("permute_dims", a, exact=a.exact, bound=a.bound, axes=swapped)
            return self.emit("matmul", a, b, exact=False, bound=bound)
        if kind < 0.5:
            weights = self.fresh_constant([self.rng.choice(SIZES), inner])
            b = self.emit("permute_dims", weights, exact=True, bound=2, axes=(1, 0))
        elif kind < 0.6:
            b = self.fresh_constant([inner])
        elif kind < 0.75 and None not in a.sizes:
            batch = [self.rng.choice((1, n)) for n in a.sizes[:-2]]
            b = self.fresh_constant([*[n or 0 for n in batch], inner, self.rng.choice(SIZES)])
        else:
            b = self.fresh_constant([inner, self.rng.choice(SIZES)])
        return self.emit("matmul", a, b, exact=False, bound=bound)

    def reduce(self) -> Held:
        x = self.pick()
        rank = len(x.shape)
        op = self.rng.choice(("sum", "mean", "max", "min", "variance"))
        axes = [a for a in range(rank) if self.rng.random() < 0.5]
        symbolic = any(x.sizes[a] is None for a in axes)
        empty = any(x.sizes[a] in (0, None) for a in axes)
        if op != "sum" and (empty or (x.is_empty and not axes)):
            op = "sum"  # the others have no value over nothing
        x = self.squashed(x, 1e4)
        count = math.prod([x.sizes[a] or 6 for a in axes])
        named: Any = axes if axes or self.rng.random() < 0.3 else None
        if named is None and (symbolic or None in x.sizes or x.is_empty):
            op = "sum"
        if named is None:
            count = x.elements
        attrs = {"axis": named, "keepdims": self.rng.random() < 0.4}
        exact = x.exact and op in ("max", "min", "sum")
        bound = (
            x.bound * max(count, 1) if op == "sum" else x.bound**2 if op == "variance" else x.bound
        )
        return self.emit(op, x, exact=exact, bound=bound, **attrs)

    def normalise(self) -> Held:
        x = self.pick(rank=1)
        rank = len(x.shape)
        if self.rng.random() < 0.6:
            axis = self.rng.randrange(-rank, rank)
            if x.sizes[axis] in (0, None):
                return self.unary()
            op = self.rng.choice(("softmax", "softmax", "log_softmax"))
            return self.emit(op, self.squashed(x, 50), exact=False, bound=200.0, axis=axis)
        count = self.rng.randint(1, min(2, rank))
        inner = x.sizes[-count:]
        if None in inner or 0 in inner:
            return self.unary()
        shape = [n or 0 for n in inner]
        args = [self.squashed(x, 1e3)]
        args += [self.fresh_constant(shape) for _ in range(self.rng.randint(0, 2))]
        # A large epsilon: rows of one value would otherwise be divided by nearly nothing.
        axes = tuple(range(-count, 0))
        return self.emit("layer_norm", *args, exact=False, bound=2e3, axes=axes, epsilon=0.5)

    def move(self) -> Held:
        x = self.pick()
        kept: dict[str, Any] = {"exact": x.exact, "bound": x.bound}
        rank = len(x.shape)
        kind = self.rng.choice(
            ("reshape", "permute", "slice", "concat", "expand", "squeeze", "pad")
        )
        if kind == "reshape" and x.elements:
            return self.reshape(x, kept)
        if kind == "permute":
            axes = list(range(rank))
            self.rng.shuffle(axes)
            return self.emit("permute_dims", x, axes=axes, **kept)
        if kind == "expand" and rank < 5:
            return self.emit("expand_dims", x, axis=self.rng.randint(-rank - 1, rank), **kept)
        if kind == "squeeze":
            ones = [a for a in range(rank) if x.sizes[a] == 1]
            return self.emit("squeeze", x, axis=ones if None in x.sizes else None, **kept)
        if kind == "pad" and rank and x.elements < 300:
            widths = [self.rng.choice((0, 0, 1, 2)) for _ in range(2 * rank)]
            return self.emit("pad", x, pad_width=widths, pad_value=0.5, **kept)
        if kind == "concat" and rank:
            return self.concat(x, kept)
        static = [a for a in range(rank) if x.sizes[a] is not None]
        if not static:
            return self.unary()
        axis = self.rng.choice(static)
        size = x.sizes[axis] or 0
        step = self.rng.choice((1, 1, 2, -1)) if size else 1
        begin = self.rng.choice((None, 0, 1, -1)) if step > 0 else None
        end = None if step < 0 else self.rng.choice((None, size, max(size - 1, 0), -1))
        attrs = {"axes": [axis], "begin": [begin], "end": [end], "strides": [step]}
        return self.emit("strided_slice", x, **attrs, **kept)

    def reshape(self, x: Held, kept: dict[str, Any]) -> Held:
        if self.rng.random() < 0.4 and x.shape:
            start = self.rng.randrange(len(x.shape))
            return self.emit("flatten", x, start_dim=start, end_dim=-1, **kept)
        symbols = [d for d, n in zip(x.shape, x.sizes, strict=True) if n is None]
        count = math.prod([n for n in x.sizes if n is not None])
        dims: list[Expr] = [product(symbols)] if symbols else []
        while count > 1 and len(dims) < 4:
            factor = self.rng.choice([n for n in range(1, count + 1) if count % n == 0])
            dims.append(IntImm(factor))
            count //= factor
        dims.append(IntImm(count))
        self.rng.shuffle(dims)
        return self.emit("reshape", x, ShapeExpr(tuple(dims)), **kept)

    def concat(self, x: Held, kept: dict[str, Any]) -> Held:
        axis = self.rng.randrange(len(x.shape))

        def fits(v: Held) -> bool:
            rest = [*v.shape[:axis], *v.shape[axis + 1 :]]
            own = [*x.shape[:axis], *x.shape[axis + 1 :]]
            return len(v.shape) == len(x.shape) and shape_equal(rest, own)

        others = [v for v in self.values if fits(v)]
        parts = [x, *[self.rng.choice(others) for _ in range(self.rng.randint(0, 2)) if others]]
        if sum(p.elements for p in parts) > MAX_ELEMENTS:
            parts = [x]
        exact, bound = all(p.exact for p in parts), max(p.bound for p in parts)
        return self.emit("concat", *parts, axis=axis, exact=exact, bound=bound)

    def choose(self) -> Held:
        """Comparison and selection: on exact values only, where rounding cannot flip it."""
        exact = [v for v in self.values if v.exact]
        a = self.rng.choice(exact) if exact else self.fresh_constant([1])
        b = self.rng.choice([v for v in (*exact, self.fresh_constant([])) if _broadcasts(v, a)])
        op = self.rng.choice(("less", "less_equal", "greater", "equal", "not_equal"))
        condition = self.emit(op, a, b, exact=True, bound=1)
        if self.rng.random() < 0.3:
            condition = self.emit("logical_not", condition, exact=True, bound=1)
        self.predicates.append(condition)
        if self.rng.random() < 0.25:
            return self.emit("astype", condition, dtype=self.dtype, exact=True, bound=1)
        fitting = [v for v in self.values if _broadcasts(v, condition)]
        x = self.rng.choice([*fitting, self.fresh_constant([])])
        both = [v for v in fitting if _broadcasts(v, x)]
        y = self.rng.choice([*both, self.fresh_constant([])])
        kept = {"exact": x.exact and y.exact, "bound": max(x.bound, y.bound)}
        try:
            return self.emit("where", condition, x, y, **kept)
        except Exception:  # three shapes of which each pair fits
            return self.unary()

    def cast(self) -> Held:
        exact = [v for v in self.values if v.exact and v.bound < 1e4]
        if not exact:
            return self.unary()
        x = self.rng.choice(exact)
        kept: dict[str, Any] = {"exact": True, "bound": x.bound + 1}
        whole = self.emit("astype", x, dtype=self.rng.choice(("int32", "int64", "int16")), **kept)
        if self.rng.random() < 0.4:
            whole = self.emit("add", whole, whole, exact=True, bound=2 * x.bound + 2)
            kept["bound"] = 2 * x.bound + 2
        return self.emit("astype", whole, dtype=self.dtype, **kept)

    def grow(self, count: int) -> None:
        """One dataflow block of so many operators."""
        steps = (
            *(self.unary, self.unary, self.binary, self.binary, self.binary, self.linear),
            *(self.matmul, self.reduce, self.normalise, self.move, self.move, self.choose),
            self.cast,
        )
        with self.builder.dataflow():
            for _ in range(count):
                self.keep(self.rng.choice(steps)())

    def keep(self, made: Held) -> None:
        if made.elements <= MAX_ELEMENTS and len(made.shape) <= 6:
            self.values.append(made)

    # -- what is no operator ---------------------------------------------------------------------
    def environment(self) -> None:
        """A call of an environment function: one output, or two."""
        x = self.pick()
        kind = x.atom.type  # type: ignore[union-attr]
        if self.rng.random() < 0.5:
            var = self.builder.emit(CallDPSPacked("random.negate", (x.atom,), kind))
            self.values.append(Held(var, x.exact, x.bound))
            return
        both = CallDPSPacked("random.both", (x.atom, self.pick().atom), TupleType((kind, kind)))
        pair = self.builder.emit(both)
        for index in (0, 1):
            var = self.builder.emit(TupleGetItem(pair, index))
            self.values.append(Held(var, x.exact, x.bound + 1))

    def branch(self) -> None:
        """An If on an input, whose branches give a value, or two."""
        scalars = [v for v in self.predicates if not v.shape]
        if not scalars:
            exact = [v for v in self.values if v.exact and not v.is_empty and None not in v.sizes]
            if not exact:
                return
            top = self.emit("max", self.rng.choice(exact), axis=None, exact=True, bound=1)
            half = Held(constant(0.5, self.dtype), True, 1)
            scalars = [self.emit("less", top, half, exact=True, bound=1)]
        x, count = self.pick(), self.rng.randint(1, 2)
        condition = self.rng.choice(scalars).atom
        branches = [self.arm(x, count) for _ in (True, False)]
        made = self.builder.emit(If(condition, branches[0][0], branches[1][0]))
        exact = x.exact and all(b[1] for b in branches)
        for index in range(count):
            var = made if count == 1 else self.builder.emit(TupleGetItem(made, index))
            self.values.append(Held(var, exact, max(x.bound, 1.0)))

    def arm(self, x: Held, count: int) -> tuple[SeqExpr, bool]:
        """A branch that gives values like ``x``, and whether they are exact."""
        exact, results = True, []
        with self.builder.sequence() as blocks:
            with self.builder.dataflow():
                for _ in range(count):
                    op = self.rng.choice(("relu", "negative", "tanh", None))
                    exact = exact and op != "tanh"
                    made = x
                    if op is not None:
                        made = self.emit(op, x, exact=True, bound=x.bound)
                    if self.rng.random() < 0.3:
                        kind = x.atom.type  # type: ignore[union-attr]
                        negated = CallDPSPacked("random.negate", (made.atom,), kind)
                        made = Held(self.builder.emit(negated), True, x.bound)
                    results.append(made.atom)
            result = results[0] if count == 1 else Tuple(tuple(results))
        return SeqExpr(tuple(blocks), result), exact

    def call(self, helper: Function) -> None:
        """A call of another graph function on values of its parameters' type."""
        kind = helper.params[0].type
        assert isinstance(kind, TensorType)
        fitting = [v for v in self.values if shape_equal(v.shape, kind.shape)]
        args = tuple([self.squashed(self.rng.choice(fitting)).atom for _ in helper.params])
        made = self.builder.emit(CallFunction(GlobalVar("helper"), args, helper.ret_type))
        self.keep(Held(self.builder.emit(TupleGetItem(made, 0)), False, 100.0))
        self.keep(Held(self.builder.emit(TupleGetItem(made, 1)), False, 100.0))

    def helper(self, shape: list[int]) -> Function:
        """A function of two tensors of this shape, that gives two: of which one may be given."""
        params = [Var(n, tensor_type(tuple(shape), self.dtype)) for n in ("a", "b")]
        with self.builder.function("helper", params):
            self.values = [Held(p, True, 6.0) for p in params]
            with self.builder.dataflow():
                for _ in range(self.rng.randint(1, 3)):
                    self.keep(self.rng.choice((self.unary, self.binary))())
            results = [self.squashed(self.values[-1], 100), self.rng.choice(self.values[:2])]
            self.builder.emit_func_output([r.atom for r in results])
        found = self.builder.get()["helper"]
        assert isinstance(found, Function)
        return found


def _broadcasts(a: Held, b: Held) -> bool:
    try:
        shape = broadcast_shapes(a.shape, b.shape)
    except DimError:
        return False
    return math.prod([static_value(d) or 6 for d in shape]) <= MAX_ELEMENTS


def build_random(  # noqa: C901
    seed: int, dtype: str = "float32", *, dynamic: bool | None = None, control: bool = False
) -> RandomModule:
    """The module of a seed. ``dynamic`` (by default the seed's choice) makes the first axis of
    some inputs a symbolic batch. With ``control`` there are environment functions, branches and a
    second graph function among the operators."""
    rng = Random(seed)
    generator = Generator(rng, dtype)
    chosen = rng.random() < 0.35
    is_dynamic = chosen if dynamic is None else dynamic
    symbols = {name: DimVar(name) for name in ("batch", "steps")}
    sizes = (*SIZES, 0) if rng.random() < 0.15 else SIZES
    shapes: list[tuple[int | str, ...]] = []
    params: list[Var] = []
    for index in range(rng.randint(1, 3)):
        shape: list[int | str] = [rng.choice(sizes) for _ in range(rng.randint(0, 4))]
        if index and rng.random() < 0.5:
            shape = list(shapes[0])
        elif is_dynamic and (index == 0 or rng.random() < 0.5):
            shape = ["batch", *(["steps"] if rng.random() < 0.3 else []), *shape[:2]]
        shapes.append(tuple(shape))
        dims = tuple([symbols[n] if isinstance(n, str) else n for n in shape])
        params.append(Var(f"x{index}", tensor_type(dims, dtype)))
    helper = None
    static = [n for n in shapes[0] if isinstance(n, int)]
    if control and len(static) == len(shapes[0]):
        helper = generator.helper(static)
    generator.values = [Held(p, True, 3.0) for p in params]
    builder = generator.builder
    with builder.function("main", params):
        generator.grow(rng.randint(3, 12) if not control else 3)
        for _ in range(rng.randint(1, 4) if control else 0):
            kind = rng.choice(("environment", "branch", "call"))
            if kind == "environment" or (kind == "call" and helper is None):
                generator.environment()
            elif kind == "branch":
                generator.branch()
            elif helper is not None:
                generator.call(helper)
            generator.grow(rng.randint(0, 4))
        outputs: list[Atom] = [generator.values[-1].atom]
        while rng.random() < 0.4 and len(outputs) < 4:
            outputs.append(rng.choice([*generator.values, *generator.predicates]).atom)
        if rng.random() < 0.05:
            outputs.append(generator.fresh_constant([3]).atom)
        bare = len(outputs) == 1 and not isinstance(outputs[0], Constant)
        builder.emit_func_output(outputs[0] if bare else outputs)
    return RandomModule(builder.get(), shapes, len(generator.values))
