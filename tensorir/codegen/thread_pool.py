"""The thread pool, as LLVM IR over pthreads and futexes: what ``Runtime.launch`` points at.

No compiler, no OpenMP and no shared library is needed: the object travels in each artifact, and the
first one loaded serves the process (``vm.parallel``).

    ptr  burnish_pool_create(i64 capacity)     a pool for at most that many threads; starts none
    void burnish_pool_launch(rt, body, context, extent, grain)     ``launch_t`` of ``support.abi``
    void burnish_pool_destroy(ptr pool)        joins the workers; later launches run serially
    i64  burnish_pool_abi_version()

How it works
------------
A launch cuts its range into *parts*, one a thread, and each part into ``turns`` chunks of equal
length; there is one turn where the parts are short. A thread takes the chunks of its own part one
by one, in their order, so that what a thread worked on in one launch is what it works on in the
next. Then it takes what others have left: a thread that the system has set aside, that has not
woken yet or that runs on a slower core keeps the rest waiting for a chunk and not for a part (work
stealing: Blumofe and Leiserson, 1999).

A *ticket* is ``generation << 16 | turns << 12 | parts``, where parts of 2^12 and more do not exist.
The caller writes the job, then publishes a new ticket. A part's *mark* is ``generation << 8 |
chunks taken``; nobody clears it, for a mark of an older generation is one of no chunks. Taking is
one compare-and-swap of the mark. The job may be read by who has taken a chunk of its generation:
it is rewritten only when all chunks are done: ``pending`` is the number of those that no worker has
done. Who comes late finds marks that are used up, or newer, and has looked at nothing else.

    caller                                       worker i < parts
    job = ...; pending = parts * turns           spin on ticket for some 50 us
    ticket = new                                 asleep = 1; if ticket is still old: futex wait
    for i in parts: if asleep[i]: wake it        run the chunks of part i
    run the chunks of part 0                     pending -= them; if the caller waits: wake it
    run chunks of other parts                    if turns > 1: run chunks of other parts,
    until pending is what the caller has run,      pending -= 1 after each, until the ticket is new
      spin, then waiting = 1, futex wait

Both hand-overs have the shape "write mine, then read yours" with sequentially consistent accesses,
so that one side always sees the other and no wake-up is lost. Workers are started by the first
launch that wants them, with all signals blocked and without flush-to-zero. A launch while another
one runs, be it nested in a body or from another thread, runs its whole range in the calling thread
as thread 0. Where chunks begin and end depends on extent, grain and the number of threads alone;
which thread runs one does not. A pool does not survive a fork: the child makes its own.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass

import llvmlite.binding as llvm
import llvmlite.ir as ir

from ...support.abi import ABI_VERSION, LINE_BYTES
from ...support.errors import CodegenError
from ...support.target import Target

CREATE, LAUNCH = "burnish_pool_create", "burnish_pool_launch"
DESTROY, ABI_SYMBOL = "burnish_pool_destroy", "burnish_pool_abi_version"
SYMBOLS = (CREATE, LAUNCH, DESTROY, ABI_SYMBOL)

I32, I64, PTR, VOID = ir.IntType(32), ir.IntType(64), ir.PointerType(), ir.VoidType()
BODY = ir.FunctionType(VOID, [PTR, I64, I64, I64]).as_pointer()

_PARTS_BITS, _TURNS_BITS, _MARK_BITS = 12, 4, 8
_MOST_TURNS = 4
"""Chunks of a part, where they are long enough: as many as a delay of one of them is shared by."""
_CHUNK_GRAINS = 16
"""The fewest grains of a chunk that is not a whole part: what a chunk costs, with memory that may
be in the cache of another core, is little beside that."""
# The pool record: offsets in bytes, what different threads write on lines of their own.
_CAPACITY, _STARTED, _BUSY, _STOP = 0, 8, 16, 20
_TICKET = 1 * LINE_BYTES
_PENDING, _WAITING = 2 * LINE_BYTES, 2 * LINE_BYTES + 4
_BODY, _CONTEXT, _EXTENT, _CHUNKS = (3 * LINE_BYTES + 8 * i for i in range(4))
_SLOTS = 4 * LINE_BYTES
"""One of two lines a thread: the worker's slot, and the mark of its part. The caller has the first,
of which only the mark is used."""
_MARK = LINE_BYTES
_MOMENT = 6
"""The shift of 50 us to the microsecond that a caller waits before it helps."""
# A worker's slot.
_THREAD, _POOL, _INDEX, _SEEN, _ASLEEP = 0, 8, 16, 24, 32
# The Runtime record of the ABI.
_RT_THREADS, _RT_POOL = 8, 24

_FUTEX_WAIT_PRIVATE, _FUTEX_WAKE_PRIVATE = 128, 129
_SIG_SETMASK = 2
_SIGSET_BYTES = 128


@dataclass(frozen=True, slots=True)
class _Machine:
    """What differs between instruction sets: the pause, a cheap clock, the default float mode."""

    futex: int
    pause: Callable[[ir.IRBuilder], object]
    clock: Callable[[ir.IRBuilder], ir.Value]
    spin: Callable[[ir.IRBuilder], ir.Value]
    reset_float_mode: Callable[[ir.IRBuilder], None]


def _intrinsic(builder: ir.IRBuilder, name: str, result: ir.Type, args: list[ir.Value]) -> ir.Value:
    """Call an LLVM intrinsic; instead of inline assembly, which needs a parser for the target."""
    known = builder.module.globals.get(name)
    kind = ir.FunctionType(result, [a.type for a in args])
    return builder.call(known or ir.Function(builder.module, kind, name), args)


def _x86_float_mode(builder: ir.IRBuilder) -> None:
    """MXCSR as the ABI has it at program start: no FTZ, no DAZ, round to nearest."""
    word = builder.alloca(I32)
    builder.store(ir.Constant(I32, 0x1F80), word)
    _intrinsic(builder, "llvm.x86.sse.ldmxcsr", VOID, [word])


def _arm_spin(builder: ir.IRBuilder) -> ir.Value:
    register = builder.module.add_metadata(["cntfrq_el0"])
    frequency = _intrinsic(builder, "llvm.read_volatile_register.i64", I64, [register])
    return builder.udiv(frequency, ir.Constant(I64, 20_000))


def _arm_float_mode(builder: ir.IRBuilder) -> None:
    _intrinsic(builder, "llvm.aarch64.set.fpcr", VOID, [ir.Constant(I64, 0)])


_MACHINES = {
    "x86_64": _Machine(
        futex=202,
        pause=lambda builder: _intrinsic(builder, "llvm.x86.sse2.pause", VOID, []),
        clock=lambda builder: _intrinsic(builder, "llvm.readcyclecounter", I64, []),
        # 50 us at 3 GHz; the time stamp counter of current CPUs runs at 2 to 4 GHz.
        spin=lambda builder: ir.Constant(I64, 150_000),
        reset_float_mode=_x86_float_mode,
    ),
    "aarch64": _Machine(
        futex=98,
        # The hint 1 is YIELD.
        pause=lambda builder: _intrinsic(builder, "llvm.aarch64.hint", VOID, [ir.Constant(I32, 1)]),
        clock=lambda builder: _intrinsic(builder, "llvm.readsteadycounter", I64, []),
        spin=_arm_spin,
        reset_float_mode=_arm_float_mode,
    ),
}


def emit_thread_pool(target: Target) -> bytes:
    """The pool as an object file for the target's triple and that architecture's baseline CPU.

    Raises CodegenError for anything but Linux on x86-64 and AArch64.
    """
    triple = target.triple or llvm.get_default_triple()
    module = build_thread_pool(triple)
    llvm.initialize_all_targets()
    llvm.initialize_all_asmprinters()
    machine = llvm.Target.from_triple(triple).create_target_machine(opt=2, reloc="pic")
    parsed = llvm.parse_assembly(str(module))
    parsed.verify()
    passes = llvm.create_pass_builder(machine, llvm.create_pipeline_tuning_options(2))
    passes.getModulePassManager().run(parsed, passes)
    image: bytes = machine.emit_object(parsed)
    return image


def build_thread_pool(triple: str) -> ir.Module:
    """The pool as a module of LLVM IR. Raises CodegenError as ``emit_thread_pool`` does."""
    machine = _MACHINES.get(triple.split("-", 1)[0])
    if machine is None or "linux" not in triple:
        raise CodegenError(
            f"The thread pool needs Linux on x86-64 or AArch64, found the triple {triple!r}. "
            "Compile with threads=1."
        )
    module = ir.Module("burnish_thread_pool")
    module.triple = triple
    pool = _Pool(module, machine)
    pool.emit_abi_version()
    pool.emit_create()
    worker = pool.emit_worker()
    start = pool.emit_start_workers(worker)
    pool.emit_launch(start)
    pool.emit_destroy()
    return module


class _Code:
    """A function under construction: an IRBuilder with the pool's loads, stores and loops."""

    def __init__(self, module: ir.Module, machine: _Machine, function: ir.Function) -> None:
        self.module, self.machine, self.function = module, machine, function
        self.b = ir.IRBuilder(function.append_basic_block("entry"))

    def at(self, base: ir.Value, offset: int | ir.Value) -> ir.Value:
        """The address ``base + offset`` bytes."""
        if isinstance(offset, int):
            offset = ir.Constant(I64, offset)
        return self.b.gep(base, [offset], source_etype=ir.IntType(8))

    def load(self, base: ir.Value, offset: int, kind: ir.Type) -> ir.Value:
        return self.b.load(self.at(base, offset), typ=kind)

    def store(self, value: ir.Value, base: ir.Value, offset: int) -> None:
        self.b.store(value, self.at(base, offset))

    def atomic_load(self, base: ir.Value, offset: int, kind: ir.IntType) -> ir.Value:
        return self.b.load_atomic(self.at(base, offset), "seq_cst", kind.width // 8, typ=kind)

    def atomic_store(self, value: ir.Value, base: ir.Value, offset: int) -> None:
        # An exchange: what x86 makes of such a store, and llvmlite's own wants typed pointers.
        self.b.atomic_rmw("xchg", self.at(base, offset), value, "seq_cst")

    def call(
        self, name: str, result: ir.Type, args: list[ir.Value], *, var_arg: int = 0
    ) -> ir.Value:
        """Call a function of libc; ``var_arg`` is the number of fixed parameters of a variadic
        one."""
        fixed = [a.type for a in (args[:var_arg] if var_arg else args)]
        kind = ir.FunctionType(result, fixed, var_arg=bool(var_arg))
        function = self.module.globals.get(name) or ir.Function(self.module, kind, name)
        return self.b.call(function, args)

    def futex(self, word: ir.Value, operation: int, value: ir.Value) -> None:
        """``syscall(SYS_futex, word, operation, value, NULL)``."""
        null = ir.Constant(PTR, None)
        args = [ir.Constant(I64, self.machine.futex), word]
        args += [ir.Constant(I64, operation), self.b.zext(value, I64), null]
        self.call("syscall", I64, args, var_arg=1)

    def wake(self, word: ir.Value) -> None:
        self.futex(word, _FUTEX_WAKE_PRIVATE, ir.Constant(I32, 1))

    @contextmanager
    def loop(self, name: str) -> Iterator[tuple[ir.Block, ir.Block]]:
        """``while (true) { ... }``: yields the blocks to continue and to leave at."""
        head = self.function.append_basic_block(name)
        done = self.function.append_basic_block(f"{name}.done")
        self.b.branch(head)
        self.b.position_at_end(head)
        yield head, done
        if not self.b.block.is_terminated:
            self.b.branch(head)
        self.b.position_at_end(done)

    @contextmanager
    def count(self, first: ir.Value, end: ir.Value) -> Iterator[tuple[ir.Value, ir.Block]]:
        """``for (i = first; i < end; i++)``; yields i and the block to break to. The body must
        leave the builder where the next round may follow."""
        before = self.b.block
        head = self.function.append_basic_block("count")
        body = self.function.append_basic_block("count.body")
        done = self.function.append_basic_block("count.done")
        self.b.branch(head)
        self.b.position_at_end(head)
        index = self.b.phi(I64)
        index.add_incoming(first, before)
        self.b.cbranch(self.b.icmp_signed("<", index, end), body, done)
        self.b.position_at_end(body)
        yield index, done
        index.add_incoming(self.b.add(index, ir.Constant(I64, 1)), self.b.block)
        self.b.branch(head)
        self.b.position_at_end(done)

    def spin(self, news: Callable[[], ir.Value], found: ir.Block, shift: int = 0) -> None:
        """Go to ``found`` as soon as ``news()``; go on here after some 50 us without, or a
        ``2**shift``-th of that.

        After half of that the CPU is offered to others at every round: should the thread that is
        waited for stand in the same CPU's queue, it would otherwise not run before we sleep. Not
        sooner, for who takes the offer keeps the CPU for milliseconds, be it the least of all.
        """
        limit, start = self.machine.spin(self.b), self.machine.clock(self.b)
        patience = self.b.lshr(limit, ir.Constant(I64, 1))
        if shift:
            limit = self.b.lshr(limit, ir.Constant(I64, shift))
            patience = limit
        with self.loop("spin") as (head, done):
            idle, again, offer = (
                self.function.append_basic_block(f"spin.{n}") for n in ("idle", "again", "offer")
            )
            self.b.cbranch(news(), found, idle)
            self.b.position_at_end(idle)
            self.machine.pause(self.b)
            waited = self.b.sub(self.machine.clock(self.b), start)
            self.b.cbranch(self.b.icmp_unsigned("<", waited, patience), head, again)
            self.b.position_at_end(again)
            self.b.cbranch(self.b.icmp_unsigned("<", waited, limit), offer, done)
            self.b.position_at_end(offer)
            self.call("sched_yield", I32, [])

    def take(self, pool: ir.Value, part: ir.Value, ticket: ir.Value) -> tuple[ir.Value, ir.Value]:
        """Take a chunk of a part in the generation of ``ticket``: whether there was one, and its
        number in the job."""
        b, mark_at = self.b, self.at(pool, _slot_offset(self.b, part))
        mark_at = self.at(mark_at, _MARK)
        generation = b.lshr(ticket, ir.Constant(I64, _PARTS_BITS + _TURNS_BITS))
        turns = _turns(b, ticket)
        fresh = b.shl(generation, ir.Constant(I64, _MARK_BITS))
        failed, tried = (self.function.append_basic_block(f"take.{n}") for n in ("none", "tried"))
        with self.loop("take") as (head, taken):
            seen = b.load_atomic(mark_at, "seq_cst", 8, typ=I64)
            # A mark of an older generation counts as one of this in which nothing is taken.
            mark = b.select(b.icmp_unsigned("<", seen, fresh), fresh, seen)
            some = b.icmp_unsigned("<", b.sub(mark, fresh), turns)
            swap = self.function.append_basic_block("take.swap")
            b.cbranch(some, swap, failed)
            b.position_at_end(swap)
            after = b.add(mark, ir.Constant(I64, 1))
            done = b.extract_value(b.cmpxchg(mark_at, seen, after, "seq_cst"), 1)
            b.cbranch(done, taken, head)
        number = b.add(b.mul(part, turns), b.sub(mark, fresh))
        b.branch(tried)
        b.position_at_end(failed)
        b.branch(tried)
        b.position_at_end(tried)
        found, chunk = b.phi(ir.IntType(1)), b.phi(I64)
        for block, one, value in ((taken, 1, number), (failed, 0, ir.Constant(I64, 0))):
            found.add_incoming(ir.Constant(ir.IntType(1), one), block)
            chunk.add_incoming(value, block)
        return found, chunk

    def run_chunk(self, pool: ir.Value, chunk: ir.Value, thread: ir.Value) -> None:
        """Call the job's body on a chunk: the first ``extent % chunks`` are one longer."""
        b = self.b
        extent, chunks = self.load(pool, _EXTENT, I64), self.load(pool, _CHUNKS, I64)
        base, extra = b.udiv(extent, chunks), b.urem(extent, chunks)
        begin = b.add(b.mul(chunk, base), _minimum(b, chunk, extra))
        longer = b.zext(b.icmp_unsigned("<", chunk, extra), I64)
        end = b.add(begin, b.add(base, longer))
        self.run_body(
            self.load(pool, _BODY, BODY), self.load(pool, _CONTEXT, PTR), begin, end, thread
        )

    def run_own(self, pool: ir.Value, own: ir.Value, ticket: ir.Value, done: ir.Value) -> None:
        """Run the chunks of part ``own`` that nobody has taken, and leave their number in memory
        at ``done``."""
        b = self.b
        b.store(ir.Constant(I64, 0), done)
        with self.loop("own") as (head, finished):
            run = self.function.append_basic_block("own.run")
            found, chunk = self.take(pool, own, ticket)
            b.cbranch(found, run, finished)
            b.position_at_end(run)
            self.run_chunk(pool, chunk, own)
            self.add_to(done)
            b.branch(head)

    def help(
        self,
        pool: ir.Value,
        own: ir.Value,
        ticket: ir.Value,
        is_over: Callable[[], ir.Value],
        tell: Callable[[], None],
    ) -> None:
        """Run what the other parts have left, one part after the other, unless ``is_over()``;
        ``tell()`` follows each chunk."""
        b, one = self.b, ir.Constant(I64, 1)
        parts = b.and_(ticket, ir.Constant(I64, (1 << _PARTS_BITS) - 1))
        with self.count(one, parts) as (i, out):
            look, run, on = (
                self.function.append_basic_block(f"help.{n}") for n in ("", "run", "on")
            )
            b.cbranch(is_over(), out, look)
            b.position_at_end(look)
            other = b.add(own, i)
            other = b.select(b.icmp_unsigned("<", other, parts), other, b.sub(other, parts))
            found, chunk = self.take(pool, other, ticket)
            b.cbranch(found, run, on)
            b.position_at_end(run)
            self.run_chunk(pool, chunk, own)
            tell()
            b.branch(look)
            b.position_at_end(on)

    def add_to(self, number: ir.Value) -> None:
        self.b.store(self.b.add(self.b.load(number, typ=I64), ir.Constant(I64, 1)), number)

    def report(self, pool: ir.Value, chunks: ir.Value) -> None:
        """A worker says that so many chunks are done; the caller may wait for that."""
        b, zero = self.b, ir.Constant(I32, 0)
        number = b.trunc(chunks, I32)
        with b.if_then(b.icmp_unsigned("!=", number, zero)):
            b.atomic_rmw("sub", self.at(pool, _PENDING), number, "seq_cst")
            waiting = self.atomic_load(pool, _WAITING, I32)
            with b.if_then(b.icmp_unsigned("!=", waiting, zero)):
                self.wake(self.at(pool, _PENDING))

    def run_body(
        self, body: ir.Value, context: ir.Value, begin: ir.Value, end: ir.Value, thread: ir.Value
    ) -> None:
        args = [context, begin, end, thread]
        self.b.call(body, args)


def _turns(b: ir.IRBuilder, ticket: ir.Value) -> ir.Value:
    shifted = b.lshr(ticket, ir.Constant(I64, _PARTS_BITS))
    return b.and_(shifted, ir.Constant(I64, (1 << _TURNS_BITS) - 1))


def _minimum(b: ir.IRBuilder, a: ir.Value, c: ir.Value) -> ir.Value:
    return b.select(b.icmp_signed("<", a, c), a, c)


class _Pool:
    """Emits the pool's functions into one module."""

    def __init__(self, module: ir.Module, machine: _Machine) -> None:
        self.module, self.machine = module, machine

    def _function(
        self, name: str, result: ir.Type, params: list[ir.Type], *, private: bool = False
    ) -> _Code:
        function = ir.Function(self.module, ir.FunctionType(result, params), name)
        function.attributes.add("nounwind")
        if private:
            function.linkage = "internal"
        return _Code(self.module, self.machine, function)

    def emit_abi_version(self) -> None:
        code = self._function(ABI_SYMBOL, I64, [])
        code.b.ret(ir.Constant(I64, ABI_VERSION))

    def emit_create(self) -> None:
        """Zeroed memory, aligned to a cache line; null where there is none."""
        code = self._function(CREATE, PTR, [I64])
        b, capacity = code.b, code.function.args[0]
        slots = b.mul(capacity, ir.Constant(I64, 2 * LINE_BYTES))
        size = b.add(slots, ir.Constant(I64, _SLOTS))
        pool = code.call("aligned_alloc", PTR, [ir.Constant(I64, LINE_BYTES), size])
        failed = b.icmp_unsigned("==", b.ptrtoint(pool, I64), ir.Constant(I64, 0))
        with b.if_then(failed, likely=False):
            b.ret(pool)
        code.call("memset", PTR, [pool, ir.Constant(I32, 0), size])
        code.store(capacity, pool, _CAPACITY)
        b.ret(pool)

    def emit_worker(self) -> ir.Function:
        """``void *worker(slot)``: wait for a ticket that names us, run our part, again."""
        code = self._function("worker", PTR, [PTR], private=True)
        b, slot = code.b, code.function.args[0]
        self.machine.reset_float_mode(b)
        pool, index = code.load(slot, _POOL, PTR), code.load(slot, _INDEX, I64)
        seen, done = b.alloca(I64), b.alloca(I64)
        b.store(code.load(slot, _SEEN, I64), seen)
        woken, work = (code.function.append_basic_block(n) for n in ("woken", "work"))
        leave = code.function.append_basic_block("leave")
        one = ir.Constant(I32, 1)

        def is_ours() -> ir.Value:
            """Whether a new ticket has a part for us; other new tickets are only noted."""
            ticket = code.atomic_load(pool, _TICKET, I64)
            fresh = b.icmp_unsigned("!=", ticket, b.load(seen, typ=I64))
            b.store(ticket, seen)
            parts = b.and_(ticket, ir.Constant(I64, (1 << _PARTS_BITS) - 1))
            return b.and_(fresh, b.icmp_unsigned("<", index, parts))

        with code.loop("wait"):
            code.spin(is_ours, work)
            with code.loop("sleep") as (_, unreachable):
                code.atomic_store(one, slot, _ASLEEP)
                doze = code.function.append_basic_block("doze")
                b.cbranch(is_ours(), woken, doze)
                b.position_at_end(doze)
                code.futex(code.at(slot, _ASLEEP), _FUTEX_WAIT_PRIVATE, one)
            b.position_at_end(unreachable)
            b.unreachable()
            # Only here, so that while workers spin the caller reads a line that nobody writes.
            b.position_at_end(woken)
            code.atomic_store(ir.Constant(I32, 0), slot, _ASLEEP)
            b.branch(work)
            b.position_at_end(work)
            go = code.function.append_basic_block("go")
            stop = code.atomic_load(pool, _STOP, I32)
            b.cbranch(b.icmp_unsigned("!=", stop, ir.Constant(I32, 0)), leave, go)
            b.position_at_end(go)
            ticket = b.load(seen, typ=I64)
            code.run_own(pool, index, ticket, done)
            code.report(pool, b.load(done, typ=I64))
            # Where there is one turn, the caller is enough to help: it has begun for certain.
            several = b.icmp_unsigned(">", _turns(b, ticket), ir.Constant(I64, 1))
            with b.if_then(several):
                code.help(
                    *(pool, index, ticket),
                    lambda: b.icmp_unsigned("!=", code.atomic_load(pool, _TICKET, I64), ticket),
                    lambda: code.report(pool, ir.Constant(I64, 1)),
                )
        b.unreachable()
        b.position_at_end(leave)
        b.ret(ir.Constant(PTR, None))
        return code.function

    def emit_start_workers(self, worker: ir.Function) -> ir.Function:
        """``i64 start(pool, wanted)``: start workers up to that many; returns how many there
        are."""
        code = self._function("start_workers", I64, [PTR, I64], private=True)
        b, (pool, wanted) = code.b, code.function.args
        # Signals of the process are for the threads that Python knows.
        mask, old = (b.alloca(ir.ArrayType(ir.IntType(8), _SIGSET_BYTES)) for _ in range(2))
        for word in (mask, old):
            word.align = 8
        code.call("sigfillset", I32, [mask])
        set_mask = ir.Constant(I32, _SIG_SETMASK)
        code.call("pthread_sigmask", I32, [set_mask, mask, old])
        started = code.load(pool, _STARTED, I64)
        with code.count(started, wanted) as (i, done):
            index = b.add(i, ir.Constant(I64, 1))
            slot = code.at(pool, _slot_offset(b, index))
            code.store(pool, slot, _POOL)
            code.store(index, slot, _INDEX)
            code.store(code.load(pool, _TICKET, I64), slot, _SEEN)
            thread, null = code.at(slot, _THREAD), ir.Constant(PTR, None)
            status = code.call("pthread_create", I32, [thread, null, worker.bitcast(PTR), slot])
            created = code.function.append_basic_block("created")
            b.cbranch(b.icmp_signed("==", status, ir.Constant(I32, 0)), created, done)
            b.position_at_end(created)
            code.store(index, pool, _STARTED)
        code.call("pthread_sigmask", I32, [set_mask, old, ir.Constant(PTR, None)])
        b.ret(code.load(pool, _STARTED, I64))
        return code.function

    def emit_launch(self, start: ir.Function) -> None:
        code = self._function(LAUNCH, VOID, [PTR, BODY, PTR, I64, I64])
        b, (rt, body, context, extent, grain) = code.b, code.function.args
        zero, one = ir.Constant(I64, 0), ir.Constant(I64, 1)
        done = b.alloca(I64)
        serial = code.function.append_basic_block("serial")
        claim, parallel = (code.function.append_basic_block(n) for n in ("claim", "parallel"))
        with b.if_then(b.icmp_signed("<=", extent, zero), likely=False):
            b.ret_void()
        pool = code.load(rt, _RT_POOL, PTR)
        at_least = b.select(b.icmp_signed("<", grain, one), one, grain)
        wanted = _minimum(b, b.sdiv(extent, at_least), code.load(rt, _RT_THREADS, I64))
        useless = b.icmp_unsigned("==", b.ptrtoint(pool, I64), zero)
        useless = b.or_(useless, b.icmp_signed("<", wanted, ir.Constant(I64, 2)))
        b.cbranch(useless, serial, claim)

        b.position_at_end(claim)
        wanted = _minimum(b, wanted, code.load(pool, _CAPACITY, I64))
        busy = code.at(pool, _BUSY)
        off, on = ir.Constant(I32, 0), ir.Constant(I32, 1)
        swapped = b.extract_value(b.cmpxchg(busy, off, on, "seq_cst"), 1)
        b.cbranch(swapped, parallel, serial)

        b.position_at_end(serial)
        code.run_body(body, context, zero, extent, zero)
        b.ret_void()

        b.position_at_end(parallel)
        workers = b.sub(wanted, one)
        started = code.load(pool, _STARTED, I64)
        missing = b.icmp_signed("<", started, workers)
        before = b.block
        with b.if_then(missing, likely=False):
            grown = b.call(start, [pool, workers])
            inside = b.block
        have = b.phi(I64)
        have.add_incoming(started, before)
        have.add_incoming(grown, inside)
        parts = b.add(_minimum(b, workers, have), one)
        longest = b.udiv(extent, b.mul(parts, b.mul(at_least, ir.Constant(I64, _CHUNK_GRAINS))))
        turns = _minimum(b, longest, ir.Constant(I64, _MOST_TURNS))
        turns = b.select(b.icmp_unsigned("<", turns, one), one, turns)
        chunks = b.mul(parts, turns)
        for value, offset in (
            (body, _BODY),
            (context, _CONTEXT),
            (extent, _EXTENT),
            (chunks, _CHUNKS),
        ):
            code.store(value, pool, offset)
        code.atomic_store(b.trunc(chunks, I32), pool, _PENDING)
        ticket = self._publish(code, pool, parts, turns)
        code.run_own(pool, zero, ticket, done)
        self._await_chunks(code, pool, ticket, done)
        code.atomic_store(off, pool, _BUSY)
        b.ret_void()

    def _publish(self, code: _Code, pool: ir.Value, parts: ir.Value, turns: ir.Value) -> ir.Value:
        """A new ticket for ``parts`` parts of ``turns`` chunks; wakes those of its workers that
        sleep."""
        b, one = code.b, ir.Constant(I64, 1)
        old = code.load(pool, _TICKET, I64)
        bits = ir.Constant(I64, _PARTS_BITS + _TURNS_BITS)
        generation = b.add(b.lshr(old, bits), one)
        sizes = b.or_(b.shl(turns, ir.Constant(I64, _PARTS_BITS)), parts)
        ticket = b.or_(b.shl(generation, bits), sizes)
        code.atomic_store(ticket, pool, _TICKET)
        with code.count(one, parts) as (i, _):
            slot = code.at(pool, _slot_offset(b, i))
            asleep = code.atomic_load(slot, _ASLEEP, I32)
            with b.if_then(b.icmp_unsigned("!=", asleep, ir.Constant(I32, 0))):
                code.atomic_store(ir.Constant(I32, 0), slot, _ASLEEP)
                code.wake(code.at(slot, _ASLEEP))
        return ticket

    def _await_chunks(self, code: _Code, pool: ir.Value, ticket: ir.Value, done: ir.Value) -> None:
        """Help, and wait until no chunk is pending but those that the caller has done."""
        b, zero = code.b, ir.Constant(I32, 0)
        finished = code.function.append_basic_block("finished")

        def pending() -> ir.Value:
            return code.atomic_load(pool, _PENDING, I32)

        def is_over() -> ir.Value:
            return b.icmp_unsigned("==", pending(), b.trunc(b.load(done, typ=I64), I32))

        # A look at a mark takes its line from the worker, who mostly is about to end.
        code.spin(is_over, finished, shift=_MOMENT)
        code.help(pool, ir.Constant(I64, 0), ticket, is_over, lambda: code.add_to(done))
        code.spin(is_over, finished)
        code.atomic_store(ir.Constant(I32, 1), pool, _WAITING)
        with code.loop("drain") as (_, drained):
            left = pending()
            more = code.function.append_basic_block("more")
            own = b.trunc(b.load(done, typ=I64), I32)
            b.cbranch(b.icmp_unsigned("==", left, own), drained, more)
            b.position_at_end(more)
            code.futex(code.at(pool, _PENDING), _FUTEX_WAIT_PRIVATE, left)
        code.atomic_store(zero, pool, _WAITING)
        b.branch(finished)
        b.position_at_end(finished)

    def emit_destroy(self) -> None:
        """Stop and join the workers. The pool stays claimed and its memory in place, so that a
        launch that comes too late finds it busy and runs serially."""
        code = self._function(DESTROY, VOID, [PTR])
        b, pool = code.b, code.function.args[0]
        off, on = ir.Constant(I32, 0), ir.Constant(I32, 1)
        with code.loop("claim") as (_, claimed):
            wait = code.function.append_basic_block("claim.wait")
            swapped = b.cmpxchg(code.at(pool, _BUSY), off, on, "seq_cst")
            b.cbranch(b.extract_value(swapped, 1), claimed, wait)
            b.position_at_end(wait)
            code.call("sched_yield", I32, [])
        code.atomic_store(on, pool, _STOP)
        started = code.load(pool, _STARTED, I64)
        all_parts = b.add(started, ir.Constant(I64, 1))
        self._publish(code, pool, all_parts, ir.Constant(I64, 0))
        with code.count(ir.Constant(I64, 1), all_parts) as (i, _):
            slot = code.at(pool, _slot_offset(b, i))
            code.call("pthread_join", I32, [code.load(slot, _THREAD, I64), ir.Constant(PTR, None)])
        code.store(ir.Constant(I64, 0), pool, _STARTED)
        b.ret_void()


def _slot_offset(b: ir.IRBuilder, index: ir.Value) -> ir.Value:
    """Byte offset of the slot of thread ``index``; 0 is the caller."""
    scaled = b.mul(index, ir.Constant(I64, 2 * LINE_BYTES))
    return b.add(scaled, ir.Constant(I64, _SLOTS))
