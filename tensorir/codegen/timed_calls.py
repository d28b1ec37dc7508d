"""Object code that stands between callers and kernels, and writes down when each kernel ran.

For each kernel it defines a function of the kernel's own name, which calls the kernel by its
address and adds a record to a log: (number of the kernel, begin, end), in nanoseconds of the clock
that Python's ``perf_counter_ns`` reads. Linked with a segment in the kernels' place, the segment
runs as it is, and what is measured is the code that runs without measuring. A record costs some
50 ns.

    int64_t burnish_log[1 + 3 * LOG_RECORDS];   how many calls there were, then the records
"""

from __future__ import annotations

from collections.abc import Mapping

from llvmlite import binding, ir

from ...support.abi import WORK_SUFFIX
from ...support.host import resolve
from ...support.target import Target
from .frames import constant_index
from .function import KERNEL_TYPE, WORK_TYPE, declare
from .llvm_types import I32, I64, PTR, alloca
from .object import emit_module, new_module, parsed_module, run_scheduled_passes

LOG = "burnish_log"
LOG_RECORDS = 1 << 16
"""Calls that the log has room for; later ones are counted, and not written down."""
_MONOTONIC = 1
_NANOSECONDS = 1_000_000_000


def emit_timed_calls(addresses: Mapping[str, int], target: Target) -> bytes:
    """The object: ``addresses`` are those of the functions that it stands for, by their names.

    Names that end in ``support.abi.WORK_SUFFIX`` are called without a record. Kernels are numbered
    in the order of ``addresses``.
    """
    module = new_module(resolve(target))
    log_type = ir.ArrayType(I64, 1 + 3 * LOG_RECORDS)
    log = ir.GlobalVariable(module, log_type, LOG)
    log.initializer = ir.Constant(log_type, None)
    log.type = PTR
    clock = ir.Function(module, ir.FunctionType(I32, [I32, PTR]), "clock_gettime")
    for number, (name, address) in enumerate(addresses.items()):
        kind = WORK_TYPE if name.endswith(WORK_SUFFIX) else KERNEL_TYPE
        function = declare(module, name, kind, internal=False)
        b = ir.IRBuilder(function.append_basic_block("entry"))
        called = b.inttoptr(constant_index(address), kind.as_pointer())
        if kind is WORK_TYPE:
            b.ret(b.call(called, function.args))
            continue
        time = alloca(b, ir.ArrayType(I64, 2))
        begin = _read_clock(b, clock, time)
        b.call(called, function.args)
        end = _read_clock(b, clock, time)
        _record(b, log, [constant_index(number), begin, end])
        b.ret_void()
    parsed = parsed_module(module, binding.create_context())
    run_scheduled_passes(parsed, resolve(target))
    return emit_module(parsed, resolve(target)).image


def _read_clock(b: ir.IRBuilder, clock: ir.Function, time: ir.Value) -> ir.Value:
    b.call(clock, [ir.Constant(I32, _MONOTONIC), time])
    seconds, rest = [
        b.load(b.gep(time, [constant_index(k)], source_etype=I64), align=8, typ=I64) for k in (0, 1)
    ]
    return b.add(b.mul(seconds, constant_index(_NANOSECONDS)), rest)


def _record(b: ir.IRBuilder, log: ir.Value, values: list[ir.Value]) -> None:
    """Count the call, and write it down where there is room."""
    count = b.load(log, align=8, typ=I64)
    b.store(b.add(count, constant_index(1)), log, align=8)
    with b.if_then(b.icmp_unsigned("<", count, constant_index(LOG_RECORDS))):
        first = b.add(b.mul(count, constant_index(3)), constant_index(1))
        for k, value in enumerate(values):
            place = b.gep(log, [b.add(first, constant_index(k))], source_etype=I64)
            b.store(value, place, align=8)
