"""Loops over arrays around emitted functions, compiled and linked, for the tests of ``math*``."""

from __future__ import annotations

import ctypes
import itertools
from collections.abc import Callable, Sequence
from functools import cache

import llvmlite.binding as llvm
import llvmlite.ir as ir
import numpy as np
import pytest

from burnish.support.dtype import DType
from burnish.tensorir.codegen.math import MATH_FUNCTIONS, emit_math

Emit = Callable[[ir.IRBuilder, list[ir.Value]], ir.Value]
_SCALARS = {
    "float32": ir.FloatType(),
    "float64": ir.DoubleType(),
    "float16": ir.HalfType(),
    "bfloat16": ir.IntType(16),
}
_numbers = itertools.count()


def loop_function(module: ir.Module, symbol: str, dtype: DType, arity: int, emit: Emit) -> None:
    """``void symbol(in0, .., out, count)``: count is a multiple of the lanes and not 0."""
    scalar, ptr, i64 = _SCALARS[dtype.scalar], ir.PointerType(), ir.IntType(64)
    value_type = scalar if dtype.lanes == 1 else ir.VectorType(scalar, dtype.lanes)
    kind = ir.FunctionType(ir.VoidType(), [ptr] * (arity + 1) + [i64])
    function = ir.Function(module, kind, symbol)
    entry, body, done = (function.append_basic_block(n) for n in ("entry", "body", "done"))
    b = ir.IRBuilder(entry)
    b.branch(body)
    b.position_at_end(body)
    index = b.phi(i64)
    index.add_incoming(ir.Constant(i64, 0), entry)
    args = []
    for source in function.args[:arity]:
        loaded = b.load(b.gep(source, [index], source_etype=scalar), typ=value_type)
        loaded.align = dtype.itemsize
        args.append(loaded)
    stored = b.store(emit(b, args), b.gep(function.args[arity], [index], source_etype=scalar))
    stored.align = dtype.itemsize
    following = b.add(index, ir.Constant(i64, dtype.lanes))
    index.add_incoming(following, b.block)
    b.cbranch(b.icmp_signed("<", following, function.args[-1]), body, done)
    b.position_at_end(done)
    b.ret_void()


def target_machine(cpu: str) -> llvm.TargetMachine:
    """For ``host`` or a CPU's name, at its full vector width."""
    llvm.initialize_native_target()
    llvm.initialize_native_asmprinter()
    features = ""
    if cpu == "host":
        cpu = llvm.get_host_cpu_name()
        features = llvm.get_host_cpu_features().flatten()
    if "avx512" in cpu + features:
        features = f"{features},-prefer-256-bit".lstrip(",")
    return llvm.Target.from_default_triple().create_target_machine(
        cpu=cpu, features=features, opt=2, reloc="pic"
    )


def optimised(module: ir.Module, machine: llvm.TargetMachine) -> llvm.ModuleRef:
    parsed = llvm.parse_assembly(str(module))
    parsed.verify()
    # The optimiser's own vectoriser stays out: it would widen the scalar loops.
    options = llvm.create_pipeline_tuning_options(2)
    options.loop_vectorization = options.slp_vectorization = options.loop_unrolling = False
    passes = llvm.create_pass_builder(machine, options)
    passes.getModulePassManager().run(parsed, passes)
    return parsed


class Loop:
    """A linked loop function: arrays of the dtype in, an array out."""

    def __init__(self, jit: object, library: object, symbol: str, arity: int, lanes: int) -> None:
        self._alive = (jit, library)
        kind = ctypes.CFUNCTYPE(None, *[ctypes.c_void_p] * (arity + 1), ctypes.c_int64)
        self._call = kind(library[symbol])  # type: ignore[index]
        self._lanes = lanes

    def __call__(self, *arrays: np.ndarray) -> np.ndarray:
        count = len(arrays[0])
        padded = -(-count // self._lanes) * self._lanes
        arrays = tuple(np.pad(a, (0, padded - count), mode="edge") for a in arrays)
        out = np.empty_like(arrays[0])
        self._call(*[a.ctypes.data for a in arrays], out.ctypes.data, padded)
        return out[:count]


def link(module: ir.Module, cpu: str, symbols: Sequence[str]) -> tuple[object, object]:
    machine = target_machine(cpu)
    image = machine.emit_object(optimised(module, machine))
    jit = llvm.create_lljit_compiler()
    builder = llvm.JITLibraryBuilder().add_object_img(image)
    for symbol in symbols:
        builder.export_symbol(symbol)
    return jit, builder.link(jit, f"math.{next(_numbers)}")


def math_module(dtype: DType, *, has_scale: bool = False) -> ir.Module:
    """A loop for each function of the table."""
    module = ir.Module()
    module.triple = llvm.get_default_triple()
    for name, function in MATH_FUNCTIONS.items():
        loop_function(
            module,
            name,
            dtype,
            function.arity,
            lambda b, args, n=name: emit_math(b, n, args, dtype, has_scale=has_scale),
        )
    return module


@cache
def _linked(dtype: DType, cpu: str) -> tuple[object, object]:
    has_scale = cpu == "host" and llvm.get_host_cpu_features().get("avx512f", False)
    return link(math_module(dtype, has_scale=has_scale), cpu, list(MATH_FUNCTIONS))


@pytest.fixture(scope="session")
def math_loop() -> Callable[..., Loop]:
    """``math_loop("exp", "float32x16", cpu="host")`` gives a function of arrays."""

    def make(name: str, dtype: str, cpu: str = "host") -> Loop:
        jit, library = _linked(DType(dtype), cpu)
        return Loop(jit, library, name, MATH_FUNCTIONS[name].arity, DType(dtype).lanes)

    return make


@pytest.fixture(scope="session")
def emitted_loop() -> Callable[..., Loop]:
    """``emitted_loop(emit, "float64x4", arity)`` compiles any emitter ``emit(builder, args)``."""

    def make(emit: Emit, dtype: str, arity: int = 1, cpu: str = "host") -> Loop:
        module = ir.Module()
        module.triple = llvm.get_default_triple()
        loop_function(module, "loop", DType(dtype), arity, emit)
        return Loop(*link(module, cpu, ["loop"]), "loop", arity, DType(dtype).lanes)

    return make


@pytest.fixture(scope="session")
def math_assembly() -> Callable[[str, str], str]:
    """``math_assembly("float32x16", "haswell")``: the loops of all functions, as assembly."""

    def make(dtype: str, cpu: str) -> str:
        machine = target_machine(cpu)
        text: str = machine.emit_assembly(optimised(math_module(DType(dtype)), machine))
        return text

    return make
