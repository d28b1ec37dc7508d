"""Lowered functions to object code: one image, one exported symbol a function.

Functions whose schedule made vectors go through a short list of passes that keeps their shape:
memory to registers, simplification, nothing that unrolls or vectorises. Scalar functions, scheduled
or not, get LLVM's whole O3: it keeps the order of their loops, and there is no tile to spoil. Where
somebody's own schedule made vectors in one loop and left another alone, both follow: the vectoriser
leaves loops with vectors as they are and takes the others.
Nothing here runs the code or links it.
"""

from __future__ import annotations

import re
import time
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from functools import cache

from llvmlite import binding, ir

from ...support.errors import CodegenError, InternalError
from ...support.host import resolve
from ...support.instructions import EMULATED_TILES
from ...support.node import Node, walk
from ...support.target import Target
from ..expr import Broadcast, IntImm, Ramp
from ..lowering.pipeline import LoweredFunc
from ..stmt import BufferStore, For
from .extern_calls import Imported
from .foreign_ir import import_llvm, link_imported, signatures
from .function import FunctionEmitter

_SIGN_BITS = re.compile(
    rb"(?:\xc5[\x78\x79\x7c\x7d\xf8\xf9\xfc\xfd]"
    rb"|\xc4[\x01\x21\x41\x61\x81\xa1\xc1\xe1][\x78\x79\x7c\x7d])[\x50\xd7][\xc0-\xff]"
)
"""``vmovmskps``, ``vmovmskpd`` and ``vpmovmskb``: the signs of a vector's lanes as an integer."""

_SHORTEST = 16
"""The least extent of a loop that LLVM's vectoriser is asked to look at."""

FENCE, OPEN_FENCE = "llvm.arithmetic.fence.", "llvm.canonicalize."
"""What stands behind scalars of float16 (``to_float32``), and what LLVM's vectoriser, which makes
no vectors of that, sees instead: an operation that changes nothing of them either. LLVM has no
machine code for all of its vectors, so each is made the other again before."""


@dataclass(frozen=True, slots=True)
class ObjectCode:
    """A relocatable object file in memory; ``ir`` and ``assembly`` are empty unless asked for.

    ``llvm_seconds`` is what LLVM took of the emission: parsing, optimising, machine code.
    """

    image: bytes
    ir: str = ""
    assembly: str = ""
    llvm_seconds: float = 0.0


def emit_object(
    lowered: Sequence[LoweredFunc], target: Target, *, keep_text: bool = False
) -> ObjectCode:
    """Machine code for ``lowered``, each under its ``global_symbol`` and the kernel ABI.

    LLVM 22 can lose a mask of AVX-512 (``may_lack_masks``). Code that it may have happened to is
    made again without 128-bit and 256-bit masks; dot products of these widths go with them.

    Raises CodegenError for two functions of one name, a register buffer with an index that is not
    constant, or an operation that has no machine code.
    """
    names = [str(f.func.attr("global_symbol", f.func.name)) for f in lowered]
    for name in names:
        if names.count(name) > 1:
            raise CodegenError(
                f"Two functions are called {name}. Give each a global_symbol of its own."
            )
    target = resolve(target)
    code = _emit(lowered, target, keep_text=keep_text)
    if not may_lack_masks(code.image, target):
        return code
    features = (*target.features, "-avx512vl", "-avx512vnni")
    again = _emit(lowered, target.with_options(features=features), keep_text=keep_text)
    return replace(again, llvm_seconds=code.llvm_seconds + again.llvm_seconds)


def emit_foreign_ir(text: str, target: Target) -> bytes:
    """Object code of LLVM IR that a user writes, optimised; raises CodegenError for what is
    none."""
    target = resolve(target)
    module = import_llvm(text, new_module(target), binding.create_context())
    run_default_passes(module, target)
    return emit_module(module, target).image


def defined_in(text: str) -> Imported:
    """The functions that LLVM IR defines, and their types; raises CodegenError for what is none."""
    module = import_llvm(text, ir.Module("names", context=ir.Context()), binding.create_context())
    return signatures(module)


def may_lack_masks(image: bytes, target: Target) -> bool:
    """Whether code may use a mask register that nothing has written.

    LLVM 22 makes one ``vmovmskps`` of a ``vpmovd2m`` to a mask and the ``kmov`` of that mask, also
    where a ``kshift`` in place reads the mask afterwards, and where the vector is one of the upper
    sixteen, which ``vmovmskps`` cannot name (LLVM's issues 198197 and 191304). On CPUs with masks
    it has hardly another use for that instruction.
    """
    has_masks = target.is_x86 and target.instructions.masks
    return has_masks and _SIGN_BITS.search(image) is not None


def _emit(lowered: Sequence[LoweredFunc], target: Target, *, keep_text: bool) -> ObjectCode:
    context = binding.create_context()
    parts: list[binding.ModuleRef] = []
    seconds = 0.0
    kinds = [_kind(f) for f in lowered]
    for kind in ("shaped", "open", "scalar"):
        chosen = [f for f, k in zip(lowered, kinds, strict=True) if k == kind]
        if chosen or (kind == "shaped" and not lowered):
            module = new_module(target)
            accumulating: list[str] = []
            overwrites = False
            texts = dict.fromkeys([text for f in chosen for text in f.imports])
            foreign = [import_llvm(text, module, context) for text in texts]
            imported = {name: kind for m in foreign for name, kind in signatures(m).items()}
            for f in chosen:
                emitter = FunctionEmitter(module, f, target, imported)
                emitter.emit()
                accumulating += emitter.accumulating
                overwrites |= emitter.overwrites
            text = str(module)
            if kind == "scalar" and not any(OPEN_FENCE in t for t in texts):
                text = text.replace(FENCE, OPEN_FENCE)
            start = time.perf_counter()
            parsed = parsed_text(text, module, context)
            for m in foreign:
                run_default_passes(m, target)
                link_imported(parsed, m)
            if kind == "shaped":
                run_scheduled_passes(parsed, target, accumulating, overwrites=overwrites)
            elif kind == "open":
                run_scheduled_passes(parsed, target)
                run_default_passes(parsed, target, slp_vectorization=False, unrolling=False)
            else:
                parsed = _optimised_scalars(parsed, text, texts, module, context, target)
            parts.append(parsed)
            seconds += time.perf_counter() - start
    start = time.perf_counter()
    for other in parts[1:]:
        parts[0].link_in(other)
    code = emit_module(parts[0], target, keep_text=keep_text)
    return replace(code, llvm_seconds=seconds + time.perf_counter() - start)


def _optimised_scalars(
    parsed: binding.ModuleRef,
    text: str,
    foreign: Iterable[str],
    module: ir.Module,
    context: binding.ContextRef,
    target: Target,
) -> binding.ModuleRef:
    """A module (``parsed``, of ``text``, with foreign code) after LLVM's O3, which may vectorise
    all of it."""
    run_default_passes(parsed, target)
    if not _is_valid(parsed):
        parsed = parsed_text(text, module, context)
        for other in foreign:
            link_imported(parsed, import_llvm(other, module, context))
        run_default_passes(parsed, target, slp_vectorization=False)
    if OPEN_FENCE in text:
        parsed = parsed_text(str(parsed).replace(OPEN_FENCE, FENCE), module, context)
    return parsed


def _kind(lowered: LoweredFunc) -> str:
    """What LLVM does with a function: "shaped" ones have vectors of a schedule, which it leaves as
    they are; "open" ones such vectors and loops that nobody shaped; all else is "scalar".

    What operators became is shaped by rules, which mean the loops that they leave alone."""
    func = lowered.func
    if not func.attr("is_scheduled", False) or not any(map(_is_vector, walk(func))):
        return "scalar"
    if func.attr("legalized") is None and any(map(_is_open, walk(func.body))):
        return "open"
    return "shaped"


def _is_vector(n: Node) -> bool:
    return isinstance(n, (Ramp, Broadcast))


def _is_open(n: Node) -> bool:
    """Whether a loop stores scalars, one after another, often enough for vectors."""
    if not isinstance(n, For):
        return False
    if isinstance(n.extent, IntImm) and n.extent.value < _SHORTEST:
        return False
    below = list(walk(n.body))
    return any(isinstance(m, BufferStore) for m in below) and not any(
        isinstance(m, For) or _is_vector(m) for m in below
    )


def _is_valid(module: binding.ModuleRef) -> bool:
    try:
        module.verify()
    except RuntimeError:
        return False
    return True


def new_module(target: Target) -> ir.Module:
    """An empty module for ``target``."""
    module = ir.Module("burnish", context=ir.Context())
    module.triple = target.triple
    module.data_layout = _data_layout(target)
    return module


def parsed_module(module: ir.Module, context: binding.ContextRef) -> binding.ModuleRef:
    """``module`` as LLVM reads it."""
    return parsed_text(str(module), module, context)


def parsed_text(text: str, module: ir.Module, context: binding.ContextRef) -> binding.ModuleRef:
    """``text``, which is that of ``module``, as LLVM reads it."""
    try:
        return binding.parse_assembly(text, context)
    except RuntimeError as error:
        names = ", ".join([f.name for f in module.functions])
        raise InternalError(f"LLVM refuses the IR of {names}: {error}") from error


def emit_module(
    module: binding.ModuleRef, target: Target, *, keep_text: bool = False
) -> ObjectCode:
    """The object code of an optimised module."""
    machine = target_machine(target)
    if not keep_text:
        return ObjectCode(machine.emit_object(module))
    text = str(module)
    return ObjectCode(machine.emit_object(module), text, machine.emit_assembly(module))


@cache
def target_machine(target: Target) -> binding.TargetMachine:
    """LLVM's machine for ``target``; raises CodegenError where this LLVM has none."""
    _initialize()
    try:
        llvm_target = binding.Target.from_triple(target.triple)
    except RuntimeError as error:
        raise CodegenError(f"LLVM has no backend for {target.triple}: {error}") from None
    features = [f for f in target.features if f[1:] != EMULATED_TILES]
    if target.is_x86 and target.vector_bits >= 512 and "-prefer-256-bit" not in features:
        features.append("-prefer-256-bit")
    if target.is_x86 and target.vector_bits >= 256:
        # AMD's insertq and extrq have no form for AVX: beside registers of 256 bits each waits for
        # some hundred cycles on Zen 3, and LLVM shuffles 16 bits by them.
        features.append("-sse4a")
    machine = llvm_target.create_target_machine(
        cpu=target.cpu, features=",".join(features), opt=3, reloc="pic", codemodel="default"
    )
    machine.set_asm_verbosity(True)
    return machine


@cache
def _data_layout(target: Target) -> str:
    return str(target_machine(target).target_data)


@cache
def _initialize() -> None:
    binding.initialize_all_targets()
    binding.initialize_all_asmprinters()


def run_scheduled_passes(
    module: binding.ModuleRef,
    target: Target,
    accumulating: Sequence[str] = (),
    *,
    overwrites: bool = False,
) -> None:
    """The short list that keeps the shape a schedule gave; index arithmetic is already where it
    belongs. Functions that accumulate in memory also get LLVM's loop-invariant motion, which comes
    with its function simplification pipeline; a module that overwrites its stores loses them."""
    options = binding.create_pipeline_tuning_options(1)
    options.loop_unrolling = False
    options.loop_vectorization = False
    options.slp_vectorization = False
    builder = binding.create_pass_builder(target_machine(target), options)
    passes = binding.create_new_module_pass_manager()
    passes.add_sroa_pass()
    passes.add_instruction_combine_pass()
    passes.add_simplify_cfg_pass()
    passes.add_new_gvn_pass()
    if overwrites:
        passes.add_dead_store_elimination_pass()
    passes.add_aggressive_dce_pass()
    passes.run(module, builder)
    if accumulating:
        pipeline = builder.getFunctionPassManager()
        for name in accumulating:
            pipeline.run(module.get_function(name), builder)


def run_default_passes(
    module: binding.ModuleRef,
    target: Target,
    *,
    slp_vectorization: bool = True,
    unrolling: bool = True,
) -> None:
    """LLVM's O3; ``unrolling=False`` leaves out the unrolling of loops.

    LLVM 22 can join vectors of unrolled loops into shuffles that stand before what they shuffle;
    emitting such a module stops the process. Whoever runs this checks the result, and without
    ``slp_vectorization`` the fault does not arise.
    """
    options = binding.create_pipeline_tuning_options(3)
    options.loop_vectorization = True
    options.loop_unrolling = unrolling
    options.slp_vectorization = slp_vectorization
    builder = binding.create_pass_builder(target_machine(target), options)
    builder.getModulePassManager().run(module, builder)
