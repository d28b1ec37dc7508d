"""One lowered function as LLVM functions under the kernel ABI.

    define void @kernel(ptr %args, ptr %dims, ptr %workspace, ptr %rt)    entry: unpacks
    define internal void @kernel.impl(ptr noalias %a, ...)                the loops
    define internal void @kernel.body0(ptr noalias %a, ..., %begin, %end) a parallel loop's body
    define internal void @kernel.task0(ptr %context, %begin, %end, %thread)   what the pool calls
    define internal void @kernel.stream(...)         as impl, where results go past the caches
    define i64 @kernel.work(ptr %dims)                    how long a call may take

Buffers arrive as ``noalias`` parameters of a function that is never inlined, the plainest way to
tell LLVM that no two overlap (functions marked ``inplace`` leave it out). The entry never
allocates: what does not fit registers or a little stack lives in the caller's workspace.

Stores past the caches (``non_temporal`` parameters) want whole aligned vectors, and callers may
hand over any memory: the entry looks at the addresses and takes ``stream`` or ``impl``, which does
without. Such a kernel is compiled twice, then.

Where a call may take long (``work``), ``impl`` and the bodies look now and then whether they should
stop; the bodies are handed the runtime record for that.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from llvmlite import ir

from ...support.abi import ALIGNMENT, RUNTIME_FIELDS, STACK_LIMIT, WORK_SUFFIX
from ...support.errors import CodegenError, InternalError
from ...support.node import Node, children
from ...support.target import Target
from ..buffer import Buffer
from ..expr import AccessPtr, BufferLoad, Call, Cast, Expr, IntImm, Let, Var
from ..function import PrimFunc
from ..intrinsics import DOTS
from ..lowering.lower_blocks import NON_TEMPORAL
from ..lowering.pipeline import LoweredFunc
from ..lowering.plan_allocations import STORAGE
from ..lowering.vectorize_loops import keeps_constants
from ..stmt import Allocate, BufferStore, For, LetStmt, Stmt, annotation
from ..text.printer import print_expr
from ..visitor import free_vars
from .dot2 import pair_unit
from .dot4 import dot_unit
from .extern_calls import Imported
from .frames import Memory, constant_index
from .half_values import Kept, kept_of
from .held_constants import KernelBuilder
from .llvm_stmt import StmtEmitter
from .llvm_types import I8, I32, I64, PTR, VOID, alloca, call_intrinsic, memory_type, register_type
from .loads import Registers, Slot, column_elements, slot_elements
from .work import Work

KERNEL_TYPE = ir.FunctionType(VOID, [PTR, PTR, PTR, PTR])
WORK_TYPE = ir.FunctionType(I64, [PTR])
_TASK_TYPE = ir.FunctionType(VOID, [PTR, I64, I64, I64])
_LAUNCH_TYPE = ir.FunctionType(VOID, [PTR, PTR, PTR, I64, I64])


class KernelAttributes(ir.FunctionAttributes):
    """Function attributes with those of LLVM that llvmlite has no name for."""

    _known = ir.FunctionAttributes._known | {
        '"no-builtins"',
        '"no-stack-arg-probe"',
        "mustprogress",
    }


def declare(module: ir.Module, name: str, kind: ir.FunctionType, *, internal: bool) -> ir.Function:
    """A function of ours: no exceptions, no library calls made up by the optimiser."""
    function = ir.Function(module, kind, name)
    function.attributes = KernelAttributes(["nounwind", '"no-builtins"'])
    if internal:
        function.linkage = "internal"
        function.attributes.add("noinline")
    return function


@dataclass(slots=True)
class _Region:
    """A piece of a function that becomes an LLVM function: what it uses and what it allocates."""

    body: Stmt
    buffers: list[Buffer] = field(default_factory=list)
    """Buffers in memory it is handed pointers to, in order of first use."""
    local: dict[int, tuple[Buffer, str]] = field(default_factory=dict)
    """Buffers on its own stack or in its registers, with their storage."""
    scalars: list[Var] = field(default_factory=list)
    """Variables it is handed."""
    written: set[int] = field(default_factory=set)
    storage: dict[int, str] = field(default_factory=dict)
    """Storage of the buffers allocated inside."""
    indices: dict[int, dict[int, Expr]] = field(default_factory=dict)
    """The indices of the accesses of each register buffer."""
    parallel: dict[int, _Region] = field(default_factory=dict)
    """The bodies of the parallel loops inside."""
    calls: set[str] = field(default_factory=set)
    """The intrinsics that are called inside, by name."""
    casts: set[str] = field(default_factory=set)
    """What elements are made of others, by dtype."""


_NOTED = frozenset({AccessPtr, BufferLoad, BufferStore, Call, Cast, For, LetStmt, Let, Allocate})
"""The nodes, besides Vars, that a scan notes something of; of the others, which are most, it wants
the nodes below."""


class _Scan:
    """Finds what a region uses, in one walk; what unrolled copies share is seen once."""

    def __init__(self, body: Stmt, bound: Var | None = None) -> None:
        self.region = _Region(body)
        self.inside = set() if bound is None else {id(bound)}
        self.used: dict[int, Var] = {}
        self.accesses: dict[int, Buffer] = {}
        seen: set[int] = set()
        stack: list[Node] = [body]
        while stack:
            n = stack.pop()
            kind = type(n)
            if kind is IntImm or kind is Buffer:
                continue
            if isinstance(n, Expr):
                if id(n) in seen:
                    continue
                seen.add(id(n))
            is_noted = kind in _NOTED or isinstance(n, Var)
            below = self._below(n) if is_noted else children(n)
            stack += below[::-1]
        self.region.buffers = [b for k, b in self.accesses.items() if k not in self.region.local]
        self.region.scalars = [v for k, v in self.used.items() if k not in self.inside]

    def _below(self, n: Node) -> list[Node]:  # noqa: C901 - one match over a closed set
        """Note what ``n`` itself uses; the nodes to look at next."""
        match n:
            case Var():
                self.used[id(n)] = n
                return []
            case BufferLoad(buffer, indices) | BufferStore(buffer, _, indices):
                self.accesses.setdefault(id(buffer), buffer)
                if type(n) is BufferStore:
                    self.region.written.add(id(buffer))
                if buffer.scope == "register":
                    self.region.indices.setdefault(id(buffer), {})[id(indices[0])] = indices[0]
            case AccessPtr():
                if n.is_written:
                    self.region.written.add(id(n.buffer))
            case Call(op):
                self.region.calls.add(op)
            case Cast():
                self.region.casts.add(n.dtype.scalar)
            case For():
                self.inside.add(id(n.var))
                if n.kind == "parallel":
                    return self._parallel(n)
            case LetStmt() | Let():
                self.inside.add(id(n.var))
            case Allocate(buffer):
                storage = str(annotation(n, STORAGE))
                self.region.storage[id(buffer)] = storage
                if storage in ("stack", "register"):
                    self.region.local[id(buffer)] = (buffer, storage)
                elif storage == "thread":
                    self.used |= {id(v): v for v in free_vars([buffer.elem_offset])}
        return children(n)

    def _parallel(self, loop: For) -> list[Node]:
        """A parallel loop is a region of its own; this one needs what it is handed."""
        body = _Scan(loop.body, loop.var).region
        self.region.parallel[id(loop)] = body
        self.region.written |= body.written
        self.region.storage |= body.storage
        self.region.calls |= body.calls
        self.region.casts |= body.casts
        self.used |= {id(v): v for v in body.scalars}
        for buffer in body.buffers:
            if body.storage.get(id(buffer)) != "thread":
                self.accesses.setdefault(id(buffer), buffer)
        return [loop.min, loop.extent]


class FunctionEmitter:
    """Emits one LoweredFunc into a module."""

    def __init__(
        self,
        module: ir.Module,
        lowered: LoweredFunc,
        target: Target,
        imported: Imported | None = None,
    ) -> None:
        self.module = module
        self.lowered = lowered
        self.imported: Imported = imported or {}
        self.func: PrimFunc = lowered.func
        self.symbol = str(self.func.attr("global_symbol", self.func.name))
        self.target = target
        self.may_alias = bool(self.func.attr("inplace", False))
        self.storage: dict[int, str] = {}
        self.halves = Kept()
        self.bodies = 0
        self.streamed: set[int] = set()
        """Aligned parameters, while the function that writes them past the caches is emitted."""
        self.accumulating: list[str] = []
        """LLVM functions with a loop that accumulates in memory."""
        self.overwrites = False
        """Whether some store is overwritten by one behind it."""
        self.work = Work(self.func.body, lowered.dims, target.vector_bits)

    # -- entry ------------------------------------------------------------------------------------
    def emit(self) -> None:
        """Emit the kernel and all it consists of."""
        region = _Scan(self.func.body).region
        self.storage = region.storage
        if "bfloat16" in region.casts:
            self.halves = kept_of(self.func.body)
        self._check_buffers(region)
        entry = declare(self.module, self.symbol, KERNEL_TYPE, internal=False)
        for arg, name in zip(entry.args, ("args", "dims", "workspace", "rt"), strict=True):
            arg.name = name
        args, dims, workspace, rt = entry.args
        b = ir.IRBuilder(entry.append_basic_block("entry"))
        emitter = StmtEmitter(b, self._no_parallel)
        for n, var in enumerate(self.lowered.dims):
            emitter.scope.declare_dim(var)
            emitter.bind(var, b.load(_element(b, dims, n), align=8, typ=I64))
        pointers: dict[int, ir.Value] = {}
        for n, param in enumerate(self.func.params):
            if isinstance(param, Buffer):
                if any(param is x for x in region.buffers):
                    pointers[id(param)] = b.load(_element(b, args, n), align=8, typ=PTR)
            else:
                where = b.load(_element(b, args, n), align=8, typ=PTR)
                value = b.load(where, align=param.dtype.itemsize, typ=memory_type(param.dtype))
                emitter.bind(param, emitter._from_memory(value, param.dtype))
        for buffer in region.buffers:
            if self.storage.get(id(buffer)) == "shared":
                offset = emitter.index(buffer.elem_offset)
                pointers[id(buffer)] = b.gep(
                    workspace, [offset], source_etype=memory_type(buffer.dtype)
                )
        operands = [pointers[id(x)] for x in region.buffers] + [
            self._bound(emitter, v) for v in region.scalars
        ]
        shared_bytes = emitter.index(self.lowered.shared_bytes)
        threads_at = b.gep(workspace, [shared_bytes], source_etype=I8)
        operands += [threads_at, emitter.index(self.lowered.thread_bytes), rt]
        impl = self._implement(f"{self.symbol}.impl", region, outermost=True)
        given = [id(self.func.params[n]) for n in self.func.attr(NON_TEMPORAL, ())]
        self.streamed = region.written.intersection(given)
        if self.streamed:
            stream = self._implement(f"{self.symbol}.stream", region, outermost=True)
            whole = _are_aligned(b, [pointers[x] for x in given if x in self.streamed])
            with b.if_then(whole):
                b.call(stream, operands, tail=True)
                b.ret_void()
        b.call(impl, operands, tail=True)
        b.ret_void()
        self._emit_work()

    def _bound(self, emitter: StmtEmitter, scalar: Var) -> ir.Value:
        if id(scalar) not in emitter.values:
            raise InternalError(
                f"The variable {scalar.name} of {self.symbol} is unbound: it is no parameter, and "
                "stands in the shape of none."
            )
        return emitter.values[id(scalar)]

    def _emit_work(self) -> None:
        """The function that says how long a call with some sizes may take."""
        name = self.symbol + WORK_SUFFIX
        function = declare(self.module, name, WORK_TYPE, internal=False)
        b = ir.IRBuilder(function.append_basic_block("entry"))
        emitter = StmtEmitter(b, self._no_parallel)
        for n, var in enumerate(self.lowered.dims):
            emitter.scope.declare_dim(var)
            emitter.bind(var, b.load(_element(b, function.args[0], n), align=8, typ=I64))
        b.ret(emitter.index(self.work.total))

    def _check_buffers(self, region: _Region) -> None:
        """Raises CodegenError for a buffer from nowhere, or of a dtype the CPU cannot convert."""
        params = {id(p) for p in self.func.params}
        has_half = self.target.instructions.half
        for buffer in region.buffers:
            if id(buffer) not in self.storage and id(buffer) not in params:
                raise CodegenError(
                    f"Buffer {buffer.name} of {self.symbol} is neither a parameter nor allocated."
                )
            if buffer.dtype == "float16" and not has_half:
                raise CodegenError(
                    f"Buffer {buffer.name} of {self.symbol} is float16, which {self.target.cpu} "
                    "cannot convert. Compile for x86-64-v3 or later, or use float32."
                )

    def _no_parallel(self, s: For) -> None:
        raise AssertionError("no loop stands in the entry")

    # -- bodies -----------------------------------------------------------------------------------
    def _implement(  # noqa: C901 - a list of what may be asked for
        self, name: str, region: _Region, *, outermost: bool, loop: For | None = None
    ) -> ir.Function:
        """The function that runs ``region.body``; with ``loop``, for the iterations it is
        handed."""
        kinds = [PTR] * len(region.buffers) + [register_type(v.dtype) for v in region.scalars]
        kinds += [PTR, I64, PTR] if outermost else [I64, I64]
        if self.work.is_polled and not outermost:
            kinds.append(PTR)
        function = declare(self.module, name, ir.FunctionType(VOID, kinds), internal=True)
        b = KernelBuilder(function.append_basic_block("entry"))
        emitter = StmtEmitter(b, self._no_parallel, may_alias=self.may_alias)
        known = self.target.instructions
        emitter.has_gather = emitter.has_scatter = emitter.has_scale = known.masks
        if self.target.is_x86 and not (keeps_constants(known) or known.fma):
            emitter.stepwise = self.target.vector_bits
        emitter.holds_constants = (
            self.target.is_x86 and keeps_constants(known) and bool(region.calls & DOTS.keys())
        )
        emitter.imported = self.imported
        emitter.dot_unit = dot_unit(self.target)
        emitter.pair_unit = pair_unit(self.target)
        emitter.halves = self.halves
        emitter.apart_lanes = self.target.apart_lanes
        emitter.tiles, emitter.hoists_config = known.tiles, not region.parallel
        for arg, buffer in zip(function.args, region.buffers, strict=False):
            arg.name = buffer.name
            planned, streamed = id(buffer) in self.storage, id(buffer) in self.streamed
            alignment = ALIGNMENT if planned or streamed else buffer.dtype.itemsize
            if not self.may_alias:
                arg.add_attribute("noalias")
            arg.attributes.align = alignment
            written = id(buffer) in region.written or (self.may_alias and not planned)
            emitter.memory[id(buffer)] = Memory(arg, alignment, written, streamed)
        rest = function.args[len(region.buffers) :]
        for arg, var in zip(rest, region.scalars, strict=False):
            arg.name = var.name
            emitter.bind(var, arg)
            if any(var is d for d in self.lowered.dims):
                emitter.scope.declare_dim(var)
        rest = rest[len(region.scalars) :]
        self._allocate(emitter, region)
        if any(buffer.dtype == "bfloat16" for buffer in region.buffers) and not self.may_alias:
            emitter.keep_apart(region.body)
        if self.work.is_polled:
            emitter.looks, emitter.cancel = self.work, _field(b, rest[-1], "cancel")
        if loop is not None:
            begin, end, *_ = rest
            with emitter.scope.loop(loop.var, loop.min, loop.extent):
                emitter.counted(loop, begin, end, None)
        else:
            context = _Launch(self, emitter, region, *rest)
            emitter.on_parallel = context.launch
            emitter.stmt(region.body)
        if emitter.accumulates:
            self.accumulating.append(name)
        self.overwrites |= emitter.overwrites
        if self.streamed and self.target.is_x86:
            # Such stores wait in buffers of their own; other threads see what is behind a fence.
            call_intrinsic(b, "x86.sse.sfence", VOID, [], "")
        b.ret_void()
        emitter.release_tiles()
        return function

    def _allocate(self, emitter: StmtEmitter, region: _Region) -> None:
        """The stack and the register slots of a region, at entry."""
        b, used = emitter.builder, 0
        for buffer, storage in region.local.values():
            size = buffer.shape[0]
            assert isinstance(size, IntImm) or storage == "register"
            if storage == "stack" and isinstance(size, IntImm):
                kind = ir.ArrayType(memory_type(buffer.dtype), size.value)
                memory = alloca(b, kind, buffer.name, ALIGNMENT)
                emitter.memory[id(buffer)] = Memory(memory, ALIGNMENT)
                used += size.value * buffer.dtype.itemsize
                continue
            emitter.registers[id(buffer)] = registers = Registers()
            for first, count in _components(
                self.symbol, buffer, list(region.indices.get(id(buffer), {}).values())
            ):
                t = memory_type(buffer.dtype.with_lanes(count))
                slot = Slot(first, count, alloca(b, t, buffer.name))
                for k in range(first, first + count):
                    registers.slots[k] = slot
                used += count * buffer.dtype.itemsize
        if used > STACK_LIMIT:
            raise CodegenError(
                f"{self.symbol} needs {used} bytes of registers and stack; a kernel has "
                f"{STACK_LIMIT}. Use smaller register tiles."
            )

    def body_of(self, loop: For, region: _Region) -> tuple[ir.Function, str]:
        """The outlined body of a parallel loop."""
        name = f"{self.symbol}.body{self.bodies}"
        self.bodies += 1
        return self._implement(name, region, outermost=False, loop=loop), name


class _Launch:
    """Runs the parallel loops of one function: by the pool, or directly where that is not worth
    it."""

    def __init__(
        self,
        parent: FunctionEmitter,
        emitter: StmtEmitter,
        region: _Region,
        threads_at: ir.Value,
        thread_bytes: ir.Value,
        rt: ir.Value,
    ) -> None:
        self.parent, self.emitter, self.region = parent, emitter, region
        self.threads_at, self.thread_bytes, self.rt = threads_at, thread_bytes, rt

    def launch(self, loop: For) -> None:
        """Emit a parallel loop."""
        e, b = self.emitter, self.emitter.builder
        region = self.region.parallel[id(loop)]
        for buffer in region.buffers:
            if self.parent.storage.get(id(buffer)) == "register":
                raise CodegenError(
                    f"Register buffer {buffer.name} is used inside the parallel loop "
                    f"{loop.var.name} but allocated outside of it. Compute it inside, or give it "
                    "scope 'local'."
                )
        body, name = self.parent.body_of(loop, region)
        start, extent = e.index(loop.min), e.index(loop.extent)
        end = b.add(start, extent, flags=("nsw",))
        captured = [e.memory[id(x)].pointer if self._is_shared(x) else None for x in region.buffers]
        scalars = [e.values[id(v)] for v in region.scalars]
        task = self._task(name.replace(".body", ".task"), body, region)

        threads = b.load(_field(b, self.rt, "threads"), align=8, typ=I64)
        grain = self.parent.work.grain(loop)
        alone = b.icmp_signed("==", threads, constant_index(1))
        few = b.icmp_signed("<=", extent, constant_index(grain))
        direct, pooled, after = [b.append_basic_block() for _ in range(3)]
        some = b.append_basic_block()
        b.cbranch(b.icmp_signed(">", extent, constant_index(0)), some, after)
        b.position_at_end(some)
        b.cbranch(b.or_(alone, few), direct, pooled)
        b.position_at_end(direct)
        here = [
            p if p is not None else self._thread_pointer(e, x, self.threads_at)
            for p, x in zip(captured, region.buffers, strict=True)
        ]
        asked = [self.rt] if self.parent.work.is_polled else []
        b.call(body, [*here, *scalars, start, end, *asked])
        b.branch(after)
        b.position_at_end(pooled)
        with b.goto_entry_block():
            words = 3 + len(captured) + len(scalars) + len(asked)
            context = alloca(b, ir.ArrayType(I64, words))
        saved: list[ir.Value] = [self.threads_at, self.thread_bytes, start]
        saved += [p if p is not None else self.threads_at for p in captured] + scalars + asked
        for n, value in enumerate(saved):
            b.store(value, _element(b, context, n), align=8)
        launch = b.load(_field(b, self.rt, "launch"), align=8, typ=_LAUNCH_TYPE.as_pointer())
        b.call(launch, [self.rt, task, context, extent, constant_index(grain)])
        b.branch(after)
        b.position_at_end(after)
        e.epoch += 1

    def _is_shared(self, buffer: Buffer) -> bool:
        return self.parent.storage.get(id(buffer)) != "thread"

    def _thread_pointer(self, e: StmtEmitter, buffer: Buffer, base: ir.Value) -> ir.Value:
        offset = e.index(buffer.elem_offset)
        return e.builder.gep(base, [offset], source_etype=memory_type(buffer.dtype))

    def _task(self, name: str, body: ir.Function, region: _Region) -> ir.Function:
        """What the pool calls: unpacks the context and runs the body on its range."""
        task = declare(self.parent.module, name, _TASK_TYPE, internal=True)
        context, begin, end, thread = task.args
        b = ir.IRBuilder(task.append_basic_block("entry"))
        threads_at = b.load(_element(b, context, 0), align=8, typ=PTR)
        thread_bytes = b.load(_element(b, context, 1), align=8, typ=I64)
        start = b.load(_element(b, context, 2), align=8, typ=I64)
        mine = b.gep(threads_at, [b.mul(thread, thread_bytes, flags=("nsw",))], source_etype=I8)
        emitter = StmtEmitter(b, self.parent._no_parallel)
        first = 3 + len(region.buffers)
        for n, var in enumerate(region.scalars):
            t = register_type(var.dtype)
            emitter.bind(var, b.load(_element(b, context, first + n), align=8, typ=t))
        operands: list[ir.Value] = []
        for n, buffer in enumerate(region.buffers):
            if self._is_shared(buffer):
                operands.append(b.load(_element(b, context, 3 + n), align=8, typ=PTR))
            else:
                operands.append(self._thread_pointer(emitter, buffer, mine))
        operands += [emitter.values[id(v)] for v in region.scalars]
        operands += [b.add(start, begin, flags=("nsw",)), b.add(start, end, flags=("nsw",))]
        if self.parent.work.is_polled:
            last = first + len(region.scalars)
            operands.append(b.load(_element(b, context, last), align=8, typ=PTR))
        b.call(body, operands)
        b.ret_void()
        return task


def _are_aligned(b: ir.IRBuilder, pointers: list[ir.Value]) -> ir.Value:
    """Whether all pointers lie on ``ALIGNMENT`` boundaries."""
    bits: ir.Value = constant_index(0)
    for pointer in pointers:
        bits = b.or_(bits, b.ptrtoint(pointer, I64))
    return b.icmp_signed("==", b.and_(bits, constant_index(ALIGNMENT - 1)), constant_index(0))


def _element(b: ir.IRBuilder, pointer: ir.Value, n: int) -> ir.Value:
    """A pointer to the n-th 8-byte word."""
    return b.gep(pointer, [ir.Constant(I32, n)], source_etype=I64)


def _field(b: ir.IRBuilder, rt: ir.Value, name: str) -> ir.Value:
    return _element(b, rt, RUNTIME_FIELDS.index(name))


def _components(symbol: str, buffer: Buffer, indices: list[Expr]) -> list[tuple[int, int]]:
    """The runs of elements (first, count) that accesses of a register buffer touch together."""
    spans: set[tuple[int, int]] = set()
    for index in indices:
        elements, column = slot_elements(index), column_elements(index)
        if column is not None:
            spans.update([(k, 1) for k in column])
        elif elements is not None:
            spans.add(elements)
        else:
            raise CodegenError(
                f"Register buffer {buffer.name} of {symbol} is indexed by {print_expr(index)}, "
                "which is not constant after unrolling. Unroll or vectorize every loop that "
                "indexes it, or give it scope 'local'."
            )
    runs: list[tuple[int, int]] = []
    for first, lanes in sorted(spans):
        if runs and first < runs[-1][0] + runs[-1][1]:
            start, count = runs[-1]
            runs[-1] = (start, max(count, first + lanes - start))
        else:
            runs.append((first, lanes))
    return runs
