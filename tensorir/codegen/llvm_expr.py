"""Expressions as LLVM instructions: one match, and the forms that are cheap on real machines.

``ExprEmitter`` holds what ``Frames`` holds and adds ``expr``. Values follow the semantics contract
of ``tensorir.expr``: float operations carry no fast-math flag, ``fma`` alone is contracted, Max
and Min propagate NaN by ordered compares that become one ``maxps`` each, integers wrap and only
index arithmetic is ``nsw``.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import NamedTuple, assert_never

from llvmlite import ir

from ...support.dtype import DType
from ...support.errors import CodegenError
from ...support.node import walk
from ..arith import expr_key
from ..buffer import Buffer
from ..expr import (
    EQ,
    FLOAT32,
    GE,
    GT,
    INDEX,
    LE,
    LT,
    NE,
    AccessPtr,
    Add,
    And,
    Broadcast,
    BufferLoad,
    Call,
    Cast,
    CompareOp,
    Div,
    Expr,
    ExternCall,
    FloatImm,
    FloorDiv,
    FloorMod,
    IntImm,
    Let,
    Max,
    Min,
    Mul,
    Not,
    Or,
    Ramp,
    Reduce,
    Select,
    StringImm,
    Sub,
    Var,
)
from . import intrinsics
from .chosen_loads import ChosenLoads
from .dot2 import PairUnit, emit_dot2
from .dot2_i16 import emit_dot2_i16
from .dot4 import DotUnit, emit_dot4, interleave
from .extern_calls import emit_extern_call, string_pointer
from .frames import Key
from .half_values import KEEP, Kept, has_plain_nan
from .llvm_types import (
    I32,
    call_intrinsic,
    constant,
    emit_cast,
    from_float32,
    int_vector,
    is_half,
    memory_type,
    register_type,
    round_float32,
    splat,
    to_float32,
)
from .math import SPLITS_BLOCK

_COMPARE = {EQ: "==", NE: "!=", LT: "<", LE: "<=", GT: ">", GE: ">="}
_BITWISE = ("reinterpret", "abs", "neg")
"""Of half precision, what is not computed in float32 where the operand is not."""
OF_THEIR_OWN = frozenset({"reinterpret", "if_then_else", "likely", "prefetch", "prefetch_l2"})
"""Calls that are no functions of numbers."""
_FLIPPED = {EQ: "==", NE: "!=", LT: ">", LE: ">=", GT: "<", GE: "<="}


class Single(NamedTuple):
    """A float32 that becomes half precision; ``fits`` and ``plain`` as ``half_values`` says."""

    value: ir.Value
    fits: bool = True
    plain: bool = True


class ExprEmitter(ChosenLoads):
    """Emits expressions at the builder's position; a value is emitted where it is asked for."""

    dot_unit: DotUnit = DotUnit()
    pair_unit: PairUnit = PairUnit()
    halves: Kept = Kept()
    singles: Mapping[int, ir.Value] = MappingProxyType({})
    """Variables of half precision whose values are there as float32."""
    has_scale: bool = False
    """Whether the CPU multiplies 512-bit vectors by powers of two in one instruction."""
    stepwise: int = 0
    """That of ``Lanes``: the bits of a register, where vectors of several go step by step."""

    def expr(self, e: Expr) -> ir.Value:
        """The value of ``e``. Raises CodegenError for an intrinsic no machine code is known for."""
        match e:
            case IntImm(value) | FloatImm(value):
                return constant(e.dtype, value)
            case Var():
                return self._narrow(e) if id(e) in self.singles else self.values[id(e)]
            case BufferLoad():
                return self.load(e)
            case Broadcast(value, lanes):
                return self.splat(self.expr(value), value, lanes)
            case Ramp():
                return self._ramp(e)
            case Add() | Sub() | Mul() | FloorDiv() | FloorMod() if (
                e.dtype is INDEX and self._is_index(e)
            ):
                return self.index(e)
            case _:
                return self.operation(e)

    def operation(self, e: Expr) -> ir.Value:  # noqa: C901 - one match over a closed set
        """The value of an operation on the values of its operands."""
        match e:
            case Add() | Sub() | Mul() | Div() | Min() | Max() if is_half(e.dtype):
                return self._narrow(e)
            case Add(a, b) | Sub(a, b) | Mul(a, b):
                return self._arithmetic(e, self.expr(a), self.expr(b))
            case Div(a, b):
                return self._divide(e, a, b)
            case FloorDiv(a, b) | FloorMod(a, b):
                return self._floor(e, a, b)
            case Min(a, b) | Max(a, b):
                return self._extreme(e, a, b)
            case EQ() | NE() | LT() | LE() | GT() | GE():
                return self._compare(e)
            case And(a, b):
                return self.builder.and_(self.expr(a), self.expr(b))
            case Or(a, b):
                return self.builder.or_(self.expr(a), self.expr(b))
            case Not(a):
                return self.builder.xor(self.expr(a), constant(e.dtype, 1))
            case Select(condition, a, b):
                return self.builder.select(self.expr(condition), self.expr(a), self.expr(b))
            case Cast():
                return self._cast(e)
            case Call():
                return self._call(e)
            case Let(var, value, body):
                self.bind(var, self.expr(value))
                return self.expr(body)
            case ExternCall():
                return self._extern(e)
            case AccessPtr():
                return self._pointer(e)
            case StringImm(text):
                return string_pointer(self.builder, text)
            case Reduce():
                raise CodegenError(f"{type(e).__name__} is no value that a kernel can compute.")
            case _:
                assert_never(e)  # type: ignore[arg-type]

    # -- half precision ---------------------------------------------------------------------------
    def wide(self, e: Expr) -> ir.Value:
        """A value of half precision as float32: of several operations in a row none but the last is
        made narrow, though each is rounded."""
        found = self.single(e)
        if found.fits:
            return found.value
        return round_float32(self.builder, found.value, e.dtype, plain=found.plain)

    def single(self, e: Expr) -> Single:
        """A value of half precision in float32 before it is rounded."""
        match e:
            case Var() if id(e) in self.singles:
                return Single(self.singles[id(e)])
            case Min(a, b) | Max(a, b):
                return Single(self._float_extreme(e, self.wide(a), self.wide(b)))
            case Add(a, b) | Sub(a, b) | Mul(a, b) | Div(a, b):
                found = self._float_op(e, self.wide(a), self.wide(b))
                return Single(found, fits=False)
            case Cast(_, value) if value.dtype.scalar == FLOAT32:
                fits = e.dtype.scalar == "bfloat16" and self.halves.has_fitting(value)
                return Single(self.expr(value), fits, self.halves.has_plain_nan(value))
            case Select(condition, a, b):
                chosen = self.expr(condition), self.wide(a), self.wide(b)
                return Single(self.builder.select(*chosen))
            case Call(op) if op not in OF_THEIR_OWN and op not in SPLITS_BLOCK:
                args = [self.wide(a) for a in e.args]
                found = intrinsics.emit_single(
                    self.builder, e, args, has_scale=self.has_scale, stepwise=self.stepwise
                )
                return Single(found, op in KEEP, has_plain_nan(op))
            case _:
                return Single(to_float32(self.builder, self.expr(e), e.dtype))

    def _narrow(self, e: Expr) -> ir.Value:
        found = self.single(e)
        return from_float32(self.builder, found.value, e.dtype, fits=found.fits, plain=found.plain)

    def _cast(self, e: Cast) -> ir.Value:
        source, single = e.value.dtype, FLOAT32.with_lanes(e.dtype.lanes)
        if source is e.dtype:
            return self.expr(e.value)
        if is_half(source):
            return emit_cast(self.builder, self.wide(e.value), single, e.dtype)
        if source is single and is_half(e.dtype):
            return self._narrow(e)
        return emit_cast(self.builder, self.expr(e.value), source, e.dtype)

    # -- pieces -----------------------------------------------------------------------------------
    def splat(self, value: ir.Value, source: Expr, lanes: int) -> ir.Value:
        """``value`` in every lane; the splat of one value is made once."""
        if isinstance(source, IntImm | FloatImm):
            return constant(source.dtype.with_lanes(lanes), source.value)
        key: Key = ("splat", id(value), lanes)
        known = self.recall(key)
        if known is not None:
            return known
        result = splat(self.builder, value, lanes)
        self.frames[-1].memo[key] = result
        # The value must outlive its id in the key.
        self.kept.append(value)
        return result

    def _ramp(self, e: Ramp) -> ir.Value:
        if not isinstance(e.stride, IntImm):
            base, stride = self.expr(e.base), self.expr(e.stride)
            steps = int_vector(e.base.dtype.bits, list(range(e.lanes)))
            scaled = self.builder.mul(self.splat(stride, e.stride, e.lanes), steps)
            return self.builder.add(self.splat(base, e.base, e.lanes), scaled)
        steps = int_vector(e.base.dtype.bits, [e.stride.value * k for k in range(e.lanes)])
        if isinstance(e.base, IntImm) and e.base.value == 0:
            return steps
        return self.builder.add(self.splat(self.expr(e.base), e.base, e.lanes), steps)

    def _is_index(self, e: Expr) -> bool:
        """Whether int64 arithmetic is on loop variables and dimensions, not on loaded data."""
        return not any(
            isinstance(n, BufferLoad | Cast | Call | ExternCall | Let | Select | Div)
            or (isinstance(n, Var) and n.dtype is not INDEX)
            for n in walk(e)
        )

    def _arithmetic(self, e: Add | Sub | Mul | Div, a: ir.Value, b: ir.Value) -> ir.Value:
        builder, dtype = self.builder, e.dtype
        if dtype.is_float:
            return self._float_op(e, a, b)
        match e:
            case Add():
                return builder.or_(a, b) if dtype.is_bool else builder.add(a, b)
            case Sub():
                return builder.sub(a, b)
            case Mul():
                return builder.and_(a, b) if dtype.is_bool else builder.mul(a, b)
            case Div():
                raise CodegenError("Integers are divided by _divide, which guards them.")

    def _float_op(self, e: Add | Sub | Mul | Div, a: ir.Value, b: ir.Value) -> ir.Value:
        match e:
            case Add():
                return self.builder.fadd(a, b)
            case Sub():
                return self.builder.fsub(a, b)
            case Mul():
                return self.builder.fmul(a, b)
            case Div():
                return self.builder.fdiv(a, b)

    # -- division ---------------------------------------------------------------------------------
    def _floor(self, e: FloorDiv | FloorMod, a: Expr, b: Expr) -> ir.Value:
        x, y = self.expr(a), self.expr(b)
        dtype, is_div = e.dtype, isinstance(e, FloorDiv)
        if dtype.is_float:
            return intrinsics.floor_divide(self.builder, x, y, dtype, is_div=is_div)
        divisor = b.value if isinstance(b, Broadcast) else b
        is_signed = dtype.kind == "int"
        if is_signed and isinstance(divisor, IntImm) and divisor.value > 0:
            c = divisor.value
            if c & (c - 1) == 0:
                if is_div:
                    return self.builder.ashr(x, constant(dtype, c.bit_length() - 1))
                return self.builder.and_(x, constant(dtype, c - 1))
        if dtype is INDEX and self._nonnegative(a) and self._nonnegative(b):
            is_signed = False
        return self._whole(x, y, b, is_signed=is_signed, is_floor=True, is_div=is_div)

    def _divide(self, e: Div, a: Expr, b: Expr) -> ir.Value:
        """True division of floats, truncating division of integers."""
        x, y = self.expr(a), self.expr(b)
        if e.dtype.is_float:
            return self._arithmetic(e, x, y)
        is_signed = e.dtype.kind == "int"
        return self._whole(x, y, b, is_signed=is_signed, is_floor=False, is_div=True)

    def _nonnegative(self, e: Expr) -> bool:
        low = self.scope.interval(self.linear(e))[0]
        return low is not None and low >= 0

    def _whole(
        self, x: ir.Value, y: ir.Value, b: Expr, *, is_signed: bool, is_floor: bool, is_div: bool
    ) -> ir.Value:
        """The quotient or the remainder of integers, as ``tensorir.expr`` defines them. The CPU
        stops the process where it divides by 0, and the least number by -1: it is given 1 instead
        where ``b`` may be one of them."""
        build, one = self.builder, constant(b.dtype, 1)
        at_least = self._least(b)
        if at_least < 1:
            y = build.select(build.icmp_signed("==", y, constant(b.dtype, 0)), one, y)
        if not is_signed:
            return build.udiv(x, y) if is_div else build.urem(x, y)
        negates = None
        if at_least < 0:
            negates = build.icmp_signed("==", y, constant(b.dtype, -1))
            y = build.select(negates, one, y)
        result = self._signed(x, y, b.dtype, is_floor=is_floor, is_div=is_div)
        if negates is None or not is_div:
            return result
        return build.select(negates, build.neg(result), result)

    def _least(self, divisor: Expr) -> int:
        """1 where ``divisor`` is neither 0 nor -1, 0 where it is not -1, else -1."""
        if isinstance(divisor, Broadcast):
            return self._least(divisor.value)
        if isinstance(divisor, IntImm):
            return divisor.value if divisor.value in (-1, 0) else 1
        if divisor.dtype is INDEX:
            low = self.scope.interval(self.linear(divisor))[0]
            return -1 if low is None else max(-1, min(low, 1))
        return -1 if divisor.dtype.kind == "int" else 0

    def _signed(
        self, x: ir.Value, y: ir.Value, dtype: DType, *, is_floor: bool, is_div: bool
    ) -> ir.Value:
        b, zero = self.builder, constant(dtype, 0)
        if not is_floor:
            return b.sdiv(x, y)
        rest = b.srem(x, y)
        signs_differ = b.icmp_signed("<", b.xor(rest, y), zero)
        inexact = b.and_(b.icmp_signed("!=", rest, zero), signs_differ)
        if is_div:
            return b.add(b.sdiv(x, y), b.sext(inexact, register_type(dtype)))
        return b.add(rest, b.select(inexact, y, zero))

    # -- min and max ------------------------------------------------------------------------------
    def _extreme(self, e: Min | Max, a: Expr, b: Expr) -> ir.Value:
        x, y = self.expr(a), self.expr(b)
        dtype = e.dtype
        is_max = isinstance(e, Max)
        if dtype.is_bool:
            return self.builder.or_(x, y) if is_max else self.builder.and_(x, y)
        if not dtype.is_float:
            name = ("s" if dtype.kind == "int" else "u") + ("max" if is_max else "min")
            return call_intrinsic(self.builder, name, x.type, [x, y])
        return self._float_extreme(e, x, y)

    def _float_extreme(self, e: Min | Max, x: ir.Value, y: ir.Value) -> ir.Value:
        """``select(p > q, p, q)`` is one ``maxps`` and gives ``q`` where either is NaN: exact
        where ``p`` is never NaN. Else NaN of ``p`` is put back, which takes a compare of ``p`` and
        a blend; ``p`` is the right operand, so that a running maximum on the left has the short
        way through. Which of two zeros is the result is not defined."""
        is_max = isinstance(e, Max)
        op = ">" if is_max else "<"
        p, q, p_never = (x, y, True) if _never_nan(e.a) else (y, x, _never_nan(e.b))
        if p_never:
            return self.builder.select(self.builder.fcmp_ordered(op, p, q), p, q)
        name = "maximum" if is_max else "minimum"
        return call_intrinsic(self.builder, name, p.type, [p, q], flags=("nsz",))

    # -- comparisons ------------------------------------------------------------------------------
    def _compare(self, e: CompareOp) -> ir.Value:
        narrow = self._narrow_compare(e)
        if narrow is not None:
            return narrow
        dtype = e.a.dtype
        of = self.wide if is_half(dtype) else self.expr
        a, b, op = of(e.a), of(e.b), _COMPARE[type(e)]
        if dtype.is_float:
            if op == "!=":
                return self.builder.fcmp_unordered(op, a, b)
            return self.builder.fcmp_ordered(op, a, b)
        if dtype.kind in ("uint", "bool"):
            return self.builder.icmp_unsigned(op, a, b)
        return self.builder.icmp_signed(op, a, b)

    def _narrow_compare(self, e: CompareOp) -> ir.Value | None:
        """Lane numbers against one index: clamp the index and compare in 32 bits."""
        for ramp, other, ops in ((e.a, e.b, _COMPARE), (e.b, e.a, _FLIPPED)):
            if (
                isinstance(ramp, Ramp)
                and isinstance(other, Broadcast)
                and ramp.dtype.scalar is INDEX
                and isinstance(ramp.base, IntImm)
                and ramp.base.value == 0
                and isinstance(ramp.stride, IntImm)
                and ramp.stride.value == 1
            ):
                form = self.linear(other.value)
                key: Key = ("lanes", ops[type(e)], ramp.lanes, self.form_key(form))
                if self._is_index(other.value):
                    known = self.recall(key)
                    if known is not None:
                        return known
                limit = self.expr(other.value)
                limit = call_intrinsic(
                    self.builder, "smin", limit.type, [limit, constant(INDEX, ramp.lanes)]
                )
                limit = call_intrinsic(
                    self.builder, "smax", limit.type, [limit, constant(INDEX, -1)]
                )
                low = self.builder.trunc(limit, I32)
                lanes = int_vector(32, list(range(ramp.lanes)))
                bound = self.splat(low, Var("", DType("int32")), ramp.lanes)
                result = self.builder.icmp_signed(ops[type(e)], lanes, bound)
                if self._is_index(other.value):
                    self.frames[-1].memo[key] = result
                return result
        return None

    # -- calls ------------------------------------------------------------------------------------
    def _call(self, e: Call) -> ir.Value:
        match e.op:
            case "if_then_else":
                return self._branch(e)
            case "likely":
                return self.expr(e.args[0])
            case "prefetch" | "prefetch_l2":
                return self.prefetch(e)
            case "dot4_u8i8" | "dot4_i8i8" | "dot4_u8u8":
                return self._dot4(e)
            case "dot2_bf16":
                total, pairs = self.expr(e.args[0]), (e.args[1:3], e.args[3:])
                first, second = [self._grouped(p) for p in pairs]
                return emit_dot2(
                    self.builder, total, (first, second), e.dtype.lanes, self.pair_unit
                )
            case "dot2_i16":
                total, pairs = self.expr(e.args[0]), (e.args[1:3], e.args[3:])
                first, second = [self._grouped(p) for p in pairs]
                return emit_dot2_i16(
                    self.builder, total, (first, second), e.dtype.lanes, self.dot_unit
                )
            case _ if e.op in SPLITS_BLOCK:
                return self._branching_call(e)
            case _:
                return self._intrinsic(e)

    def _pointer(self, e: AccessPtr) -> ir.Value:
        if id(e.buffer) in self.registers:
            raise CodegenError(
                f"The buffer {e.buffer.name!r} has the scope register and no address to call a "
                "function with: give it scope 'local'."
            )
        form = self.linear(e.element.indices[0])
        return self.address(e.buffer, form, memory_type(e.buffer.dtype))

    def _extern(self, e: ExternCall) -> ir.Value:
        """A call from outside; what it writes is forgotten."""
        result = emit_extern_call(self.builder, e, [self.expr(a) for a in e.args], self.imported)
        for a in e.args:
            if isinstance(a, AccessPtr) and a.is_written:
                self.stored(a.buffer)
        return result

    def _intrinsic(self, e: Call) -> ir.Value:
        halves = is_half(e.args[0].dtype) and e.op not in _BITWISE
        if halves and is_half(e.dtype) and e.op not in SPLITS_BLOCK:
            return self._narrow(e)
        args = [self.wide(a) if halves else self.expr(a) for a in e.args]
        emit = intrinsics.emit_single if halves else intrinsics.emit_intrinsic
        found = emit(self.builder, e, args, has_scale=self.has_scale, stepwise=self.stepwise)
        return from_float32(self.builder, found, e.dtype) if is_half(e.dtype) and halves else found

    def _branching_call(self, e: Call) -> ir.Value:
        """A call that ends a basic block, which LLVM would not find to be the same as another one;
        it is emitted once a statement."""
        key: Key = ("call", self.place, self.epoch, expr_key(e))
        known = self.calls.get(key)
        if known is None:
            known = self._intrinsic(e)
            self.calls[key] = known
        return known

    def _dot4(self, e: Call) -> ir.Value:
        total = self.expr(e.args[0])
        operands = self._grouped(e.args[1:5]), self._grouped(e.args[5:])
        signs = e.args[1].dtype.kind == "int", e.args[5].dtype.kind == "int"
        return emit_dot4(self.builder, total, operands, e.dtype.lanes, self.dot_unit, signs)

    def _grouped(self, parts: Sequence[Expr]) -> ir.Value:
        """Operands that are 32 bits together, four bytes or two halves, as one vector, each lane's
        side by side; one load where they are neighbours in memory."""
        lanes = parts[0].dtype.lanes
        first = self._neighbours(parts, lanes)
        if first is None:
            return interleave(self.builder, [self.expr(p) for p in parts], lanes)
        buffer, base, is_uniform = first
        count = len(parts) if is_uniform else len(parts) * lanes
        loaded = self.load(BufferLoad(buffer, (Ramp(base, IntImm(1), count),)))
        if not is_uniform or lanes == 1:
            return loaded
        word = self.builder.bitcast(loaded, I32)
        words = splat(self.builder, word, lanes)
        element = register_type(parts[0].dtype.with_lanes(1))
        return self.builder.bitcast(words, ir.VectorType(element, len(parts) * lanes))

    def _neighbours(self, parts: Sequence[Expr], lanes: int) -> tuple[Buffer, Expr, bool] | None:
        """The buffer and index that operands are loaded from on, if they are neighbours in memory;
        and whether all lanes load the same."""
        bases: list[Expr] = []
        uniform: set[bool] = set()
        buffers: dict[int, Buffer] = {}
        for p in parts:
            load = p.value if isinstance(p, Broadcast) else p
            if not isinstance(load, BufferLoad) or load.predicate is not None:
                return None
            index = load.indices[0]
            match index:
                case Ramp(base, IntImm(step), n) if n == lanes and step == len(parts):
                    bases.append(base)
                case Broadcast(value, _):
                    bases.append(value)
                case _ if index.dtype.lanes == 1:
                    bases.append(index)
                case _:
                    return None
            uniform.add(not isinstance(index, Ramp))
            buffers[id(load.buffer)] = load.buffer
        if len(buffers) != 1 or len(uniform) != 1 or next(iter(buffers)) in self.registers:
            return None
        start = self.linear(bases[0])
        for t, base in enumerate(bases):
            if self.linear(base).key != start.shift(t).key:
                return None
        return next(iter(buffers.values())), bases[0], uniform.pop()

    def _branch(self, e: Call) -> ir.Value:
        """Only the chosen side is evaluated; sides without loads and divisions are both cheap."""
        loaded = self.chosen_load(e)
        if loaded is not None:
            return loaded
        condition = self.expr(e.args[0])
        if condition.type != ir.IntType(1):
            return self.builder.select(condition, self.expr(e.args[1]), self.expr(e.args[2]))
        if not any(_costs(a) for a in e.args[1:]):
            return self.builder.select(condition, self.expr(e.args[1]), self.expr(e.args[2]))
        before = self.builder.block
        chosen, other, merge = [self.builder.append_basic_block() for _ in range(3)]
        self.builder.cbranch(condition, chosen, other)
        incoming = []
        for block, side in ((chosen, e.args[1]), (other, e.args[2])):
            self.builder.position_at_end(block)
            with self.frame(before):
                value = self.expr(side)
            incoming.append((value, self.builder.block))
            self.builder.branch(merge)
        self.builder.position_at_end(merge)
        result = self.builder.phi(incoming[0][0].type)
        for value, block in incoming:
            result.add_incoming(value, block)
        return result


def _never_nan(e: Expr) -> bool:
    """Whether a float expression is surely a number."""
    match e:
        case FloatImm(value):
            return value == value
        case Broadcast(value, _):
            return _never_nan(value)
        case Cast(_, value):
            return not value.dtype.is_float or _never_nan(value)
        case Max(a, b) | Min(a, b):
            return _never_nan(a) and _never_nan(b)
        case Call("abs", (a,)):
            return _never_nan(a)
        case _:
            return False


def _costs(e: Expr) -> bool:
    """Whether ``e`` loads, which may not be allowed, or divides integers or calls a function, which
    takes long."""
    return any(
        isinstance(n, BufferLoad | ExternCall)
        or (isinstance(n, Div | FloorDiv | FloorMod) and not n.dtype.is_float)
        for n in walk(e)
    )
