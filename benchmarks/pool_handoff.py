"""What it costs to hand a launch to the pool: an empty body, on 1, 2, 3 ... threads.

    python benchmarks/pool_handoff.py [threads]

Printed are the best and the median of many launches in a row (workers spin) and of launches after a
pause that lets the workers sleep (a futex wakes them). Nothing is asserted: on a shared machine the
figures say more about its other tenants.
"""

from __future__ import annotations

import ctypes
import statistics
import sys
import time

import llvmlite.binding as llvm

from burnish.support.target import Target
from burnish.tensorir.codegen.thread_pool import emit_thread_pool
from burnish.vm import parallel
from burnish.vm.binding import Runtime
from burnish.vm.native import load_objects

# The launches are counted in native code, so that ctypes is not what is measured.
BENCH = """
define void @nothing(ptr %context, i64 %begin, i64 %end, i64 %thread) {
  ret void
}
define void @launches(ptr %rt, i64 %rounds, i64 %extent) {
entry:
  %at = getelementptr i8, ptr %rt, i64 16
  %launch = load ptr, ptr %at
  br label %loop
loop:
  %i = phi i64 [ 0, %entry ], [ %next, %loop ]
  call void %launch(ptr %rt, ptr @nothing, ptr null, i64 %extent, i64 1)
  %next = add i64 %i, 1
  %more = icmp slt i64 %next, %rounds
  br i1 %more, label %loop, label %done
done:
  ret void
}
"""


def main(most: int) -> None:
    llvm.initialize_native_target()
    llvm.initialize_native_asmprinter()
    machine = llvm.Target.from_default_triple().create_target_machine(reloc="pic")
    bench = machine.emit_object(llvm.parse_assembly(BENCH))
    library = load_objects([emit_thread_pool(Target("llvm -mcpu=x86-64")), bench])
    parallel.install(library)
    kind = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_int64, ctypes.c_int64)
    launches = kind(library.address("launches"))
    rounds = 1000
    print("threads   hot best   hot median   asleep median   (microseconds a launch)")
    for threads in range(1, most + 1):
        own = Runtime.from_address(parallel.pool(threads))
        address = ctypes.addressof(own)
        if threads == 1:
            # The serial record has no launch function: give this one the pool's.
            own = Runtime(own.abi_version, 1, library.address("burnish_pool_launch"), None)
            address = ctypes.addressof(own)
        hot = []
        for _ in range(30):
            start = time.perf_counter()
            launches(address, rounds, threads)
            hot.append((time.perf_counter() - start) / rounds * 1e6)
        cold = []
        for _ in range(100):
            time.sleep(0.001)
            start = time.perf_counter()
            launches(address, 1, threads)
            cold.append((time.perf_counter() - start) * 1e6)
        figures = (min(hot), statistics.median(hot), statistics.median(cold))
        print(f"{threads:7d} {figures[0]:10.3f} {figures[1]:12.3f} {figures[2]:15.2f}")


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else parallel.default_threads())
