"""The fast entry: one Python function, generated for one VM function, around one kernel call.

At batch 1 a small model's kernels take a few microseconds, as long as a careless call of them.
Where a function's body is

    match_shape, allocate outputs, one kernel call, views, return

the interpreter has nothing to interpret, and ``fast_entry`` writes the call out instead: checks of
the arguments specialised to the signature, an output array, data pointers into argument slots that
are kept from call to call, the foreign call. Whatever is unusual (another type, a strided array, a
wrong shape) goes to ``slow``, the checked path with the same meaning, which also raises the errors.

Argument slots, dim slots and workspace form a *frame*. Calls take a frame from a queue and put it
back (both atomic), so concurrent calls never share one.

Small outputs of fixed shape live in memory that the frames keep: the caller gets a view, and the
memory is written again only when its reference count (of a torch tensor, that of its storage) says
that no view of it is left. Two frames
take turns, so that ``y = call(x)`` in a loop allocates nothing. That saves the allocation and the
reading of a pointer. Measured on one core: a call costs about 1 us beyond the kernel, a third of it
ctypes.
"""

from __future__ import annotations

import ctypes
import math
import sys
import sysconfig
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeAlias

import numpy as np

from ..support.aligned import aligned_empty
from ..support.dtype import DType
from .binding import BoundKernel, Runtime
from .program import (
    Arg,
    Call,
    Const,
    Imm,
    Instruction,
    Param,
    Reg,
    Ret,
    TensorSpec,
    VMFunction,
)
from .shape_text import compile_shapes, python_source, static_value
from .storage import WORDS, Storage, data_pointer
from .tensor import Tensor


@dataclass(frozen=True)
class ArrayKind:
    """A library's arrays, as the generated source speaks of them.

    ``usable`` and ``pointer`` are Python expressions with ``{x}`` for the array: whether its memory
    is C-contiguous and aligned (and on the CPU), and its address. ``unwrap`` is a statement run
    first on each argument, ``wrap`` an expression over ``{x}`` and ``{dtype}`` around each result.
    ``empty(shape, dtype)`` makes an output. Where outputs may be kept, ``keep`` makes of one what a
    frame holds, and three expressions tell of that, ``{x}``: ``view``, a new array over its memory;
    ``busy``, whether such an array may still be there, or the memory is another; ``kept_pointer``,
    its address. ``view`` is empty where they may not. ``large`` names what makes large outputs, as
    ``empty`` does. ``names`` adds to the names the sources may use. ``argument`` is the address of
    an argument after the checks, where ``usable`` has read it into a name (by default ``pointer``).
    With ``may_raise`` the checks raise RuntimeError for some arrays of the type, which are not
    usable then.
    """

    type: type
    dtypes: Mapping[str, Any]
    usable: str
    pointer: str
    empty: Callable[..., Any]
    unwrap: str = ""
    wrap: str = "{x}"
    view: str = ""
    busy: str = "count({x}) != idle"
    keep: Callable[[Any], Any] | None = None
    kept_pointer: str = ""
    large: str = "empty"
    names: Mapping[str, Any] = field(default_factory=dict)
    argument: str = ""
    may_raise: bool = False


_KNOWN_SHAPES = 256
"""Combinations of shapes a symbolic entry remembers at a time."""
_KEPT_WORKSPACE = 1 << 26
"""Bytes of workspace in the frames of all shapes together, beyond which all are forgotten."""
_FRAMES = 16
"""Frames kept for one combination of shapes: as many calls may run at once without allocating."""
_KEPT_BYTES = 1 << 16
"""Outputs up to this size may live in the frames; allocating larger ones costs less than their
use."""
_LARGE_BYTES = 1 << 20
"""From this size, an output's alignment is worth what asking for it costs: of vectors written
across two cache lines each, the processor writes half as many."""


def _count_idle(frames: deque[tuple[int, np.ndarray]]) -> int:
    """The reference count of an array that only a frame holds, counted as a generated entry
    does."""
    frame = frames.popleft()
    _, base = frame
    return sys.getrefcount(base)


def _try_counting() -> tuple[int, bool]:
    idle = _count_idle(deque([(0, np.empty(1))]))
    frame = (0, np.empty(1))
    view = frame[1].view()
    frames = deque([frame])
    del frame
    exact = sysconfig.get_config_var("Py_GIL_DISABLED") != 1
    return idle, exact and _count_idle(frames) == idle + (view is not None)


_IDLE, _COUNTS_REFERENCES = _try_counting()

_NUMPY_DTYPES = {
    name: np.dtype(name)
    for name in (
        *("float64", "float32", "float16", "int64", "int32", "int16", "int8"),
        *("uint64", "uint32", "uint16", "uint8", "bool"),
    )
}
_POINTER = "words[id({x}) >> 3]" if WORDS is not None else "data_pointer({x})"
# carray is C-contiguous, aligned and writeable, in one cheap attribute; 257 is the first two.
NUMPY = ArrayKind(
    np.ndarray, _NUMPY_DTYPES, "{x}.flags.carray or {x}.flags.num & 257 == 257", _POINTER, np.empty,
    view="{x}.view()", large="aligned_empty",
    names={"words": WORDS, "data_pointer": data_pointer, "aligned_empty": aligned_empty},
)  # fmt: skip
"""NumPy arrays in, NumPy arrays out."""

Value: TypeAlias = "tuple[str, int] | list[Value]"
"""What a register holds: ("param" | "out" | "const", index), or a list for a tuple."""


@dataclass(frozen=True)
class CallBody:
    """An eligible function: one kernel call on ``operands``; ``result`` is made of outputs
    alone."""

    kernel: str
    operands: tuple[tuple[str, int], ...]
    dims: tuple[str, ...]
    outputs: tuple[TensorSpec, ...]
    result: Value
    conditions: tuple[str, ...] = ()
    """What must hold of the dims."""


@dataclass(frozen=True)
class FastEntry:
    """``call(*arrays)`` runs the function; ``call_pointers`` does so on raw memory.

    ``source`` is the generated Python, ``outputs`` the results' types in the order of allocation.
    """

    call: Callable[..., Any]
    source: str
    outputs: tuple[TensorSpec, ...]
    kernel: BoundKernel
    _operands: tuple[tuple[str, int], ...]
    _constants: Sequence[Tensor]

    def call_pointers(
        self, inputs: Sequence[int], outputs: Sequence[int], dims: Sequence[int] = ()
    ) -> None:
        """Run the kernel on raw addresses: of the function's parameters, and of its outputs in the
        order of ``outputs``; ``dims`` are the kernel's. Nothing is checked."""
        given = {"param": inputs, "out": outputs, "const": [c.pointer for c in self._constants]}
        self.kernel.run_pointers([given[kind][i] for kind, i in self._operands], dims)


def fast_entry(
    function: VMFunction,
    kernels: Mapping[str, BoundKernel],
    constants: Sequence[Tensor],
    slow: Callable[..., Any],
    *,
    kind: ArrayKind = NUMPY,
) -> FastEntry | None:
    """The fast entry of a function, or None where its body or its dtypes are not eligible.

    ``slow`` takes the same arguments and gives the same result in the same kind of array.
    """
    body = analyse_body(function)
    if body is None:
        return None
    specs = [p.spec for p in function.params] + list(body.outputs)
    if any(spec.dtype not in kind.dtypes for spec in specs):
        return None
    kernel = kernels[body.kernel]
    lines = _write(function, kernel, body, kind)
    if lines is None:
        return None
    source = "\n".join(lines)
    names = _names(function, kernel, body, constants, slow, kind)
    # The source has nothing from outside but shape texts, which passed shape_text's whitelist.
    exec(compile(source, f"<fast entry of {function.name}>", "exec"), names)
    return FastEntry(names["entry"], source, body.outputs, kernel, body.operands, constants)


def analyse_body(function: VMFunction) -> CallBody | None:
    """What the function does, where that is one kernel call and nothing but views beside."""
    analysis = _Analysis(function)
    *body, last = function.instructions
    if not all(analysis.accepts(i, position) for position, i in enumerate(body)):
        return None
    call = analysis.call
    if call is None or not isinstance(last, Ret):
        return None
    result = analysis.value(last.value)
    # Each output stands once in the result, so that each has one shape.
    expected = [("out", i) for i in range(len(analysis.outputs))]
    if result is None or sorted(_leaves(result)) != expected:
        return None
    name = call.func.split(":", 1)[1]
    outputs, conditions = tuple(analysis.outputs), tuple(analysis.conditions)
    return CallBody(name, analysis.operands, call.dims, outputs, result, conditions)


class _Analysis:
    """Follows what registers hold, instruction by instruction."""

    def __init__(self, function: VMFunction) -> None:
        self.function = function
        self.registers: dict[int, Value] = {i: ("param", i) for i in range(len(function.params))}
        self.outputs: list[TensorSpec] = []
        self.call: Call | None = None
        self.operands: tuple[tuple[str, int], ...] = ()
        self.conditions: list[str] = []
        """What must hold of the dims."""

    def value(self, arg: Arg) -> Value | None:
        match arg:
            case Reg(index):
                return self.registers.get(index)
            case Const(index):
                return ("const", index)
            case Imm():
                return None

    def accepts(self, instruction: Instruction, position: int) -> bool:
        """Whether the instruction leaves the function eligible."""
        match instruction:
            case Call(func="builtin:match_shape"):
                checked = [a.index for a in instruction.args if isinstance(a, Reg)]
                return position == 0 and checked == list(range(len(self.function.params)))
            case Call(func="builtin:check", args=(Imm(condition), Imm())):
                self.conditions.append(str(condition))
                return self.call is None
            case Call(dst, "builtin:alloc_tensor", (Imm(shape), Imm(dtype))):
                self.registers[dst] = ("out", len(self.outputs))
                self.outputs.append(TensorSpec(_texts(shape), str(dtype)))
                return True
            case Call(dst, "builtin:reshape", (source, Imm(shape))):
                return self.accepts_view(dst, self.value(source), _texts(shape))
            case Call(dst, "builtin:make_tuple", args):
                fields = [self.value(a) for a in args]
                self.registers[dst] = [f for f in fields if f is not None]
                return None not in fields
            case Call(-1, func, args) if func.startswith("kernel:") and self.call is None:
                held = [self.value(a) for a in args]
                self.operands = tuple([h for h in held if isinstance(h, tuple)])
                self.call = instruction
                return len(self.operands) == len(args)
            case _:
                return False

    def accepts_view(self, dst: int, held: Value | None, shape: tuple[str, ...]) -> bool:
        if not isinstance(held, tuple):
            return False
        self.registers[dst] = held
        # A view of an output is allocated in the view's shape: the memory is the same.
        if held[0] == "out":
            self.outputs[held[1]] = TensorSpec(shape, self.outputs[held[1]].dtype)
        return True


def _texts(shape: object) -> tuple[str, ...]:
    return tuple(map(str, shape)) if isinstance(shape, tuple) else ()


def _leaves(value: Value) -> list[tuple[str, int]]:
    if isinstance(value, tuple):
        return [value]
    return [leaf for v in value for leaf in _leaves(v)]


def _write(
    function: VMFunction, kernel: BoundKernel, body: CallBody, kind: ArrayKind
) -> list[str] | None:
    """The lines of the entry, or None where an argument's shape does not give some dim.

    A function of fixed shapes has one queue of frames. Where dims are symbolic, each combination of
    shapes that was seen has a queue of its own, in which dims, sizes and outputs are settled: a
    call that repeats one pays for a dictionary lookup instead of binding the dims anew.
    """
    count = len(function.params)
    arguments = [f"x{i}" for i in range(count)]
    symbolic = bool(function.dim_names)
    if symbolic and not _gives_all_dims(function):
        return None
    # What is refused goes on as it was given: bfloat16 is uint16 once it is unwrapped.
    given = [f"g{i}" if kind.unwrap else x for i, x in enumerate(arguments)]
    lines = [f"{g} = {x}" for g, x in zip(given, arguments, strict=True) if g != x]
    lines += [kind.unwrap.format(x=x) for x in arguments if kind.unwrap]
    refused = [c for i, p in enumerate(function.params) for c in _check(i, p, kind, symbolic)]
    # A parameter that was not given has the default `absent`, and is refused for its type.
    refusal = f"return refuse({', '.join(given)}{', ' * bool(count)}*rest)"
    condition = " or ".join(["rest", *refused])
    if kind.may_raise:
        lines += ["try:", f"    odd = {condition}", "except RuntimeError:", "    odd = True"]
        condition = "odd"
    lines += [f"if {condition}:", f"    {refusal}"]
    kept = [symbolic or _is_kept(body, spec, kind) for spec in body.outputs]
    bases = "".join([f", b{i}" for i, is_kept in enumerate(kept) if is_kept])
    if symbolic:
        shapes = ", ".join([f"{x}.shape" for x in arguments])
        lines += [
            "try:",
            f"    frame = known[{shapes}].popleft()",
            "except (KeyError, IndexError):",
            f"    frame = bind({shapes})",
            "    if frame is None:",
            f"        {refusal}",
        ]
        sizes = "".join([f", o{i}" for i in range(len(kept))])
        parts = f"slots, a, n, w, push, kernel{sizes}{bases}"
    else:
        lines += ["try:", "    frame = pop()", "except IndexError:", "    frame = make()"]
        parts = f"slots, a, n, w{bases}"
    lines.append(f"{parts} = frame")
    for i, spec in enumerate(body.outputs):
        fixed = "".join([f"{python_source(t, {})}, " for t in spec.shape]) if not symbolic else ""
        shape = f"o{i}" if symbolic else f"({fixed})"
        lines += _output(body, i, shape, kind, kept=kept[i], symbolic=symbolic, parts=parts)
    for i in range(count):
        lines += _stores(body, "param", i, f"x{i}", kind.argument or kind.pointer)
    lines += ["kernel(a, n, w, r)", "push(frame)", f"return {_result(body.result, kind)}"]
    head = ", ".join([f"{x}=absent" for x in arguments] + ["*rest"])
    return [f"def entry({head}):", *["    " + line for line in lines]]


def _output(
    body: CallBody, i: int, shape: str, kind: ArrayKind, *, kept: bool, symbolic: bool, parts: str
) -> list[str]:
    """Lines that make output ``y{i}``: a view of the frame's own memory where nobody sees it any
    more, else a new array."""
    empty = kind.large if _is_large(body.outputs[i]) else "empty"
    fresh = [f"y{i} = {empty}({shape}, u{i})", *_stores(body, "out", i, f"y{i}", kind.pointer)]
    if not kept or not kind.view or not _COUNTS_REFERENCES:
        return fresh
    x = f"b{i}"
    made = f"empty({shape}, u{i})"
    reused = [
        f"if {kind.busy.format(x=x)}:",
        f"    {x} = {made if kind.keep is None else f'keep({made})'}",
        *[f"    {line}" for line in _stores(body, "out", i, x, kind.kept_pointer or kind.pointer)],
        f"    frame = ({parts})",
        f"y{i} = {kind.view.format(x=x)}",
    ]
    if not symbolic:
        return reused
    # Large outputs of symbolic functions have no memory in the frame.
    return [
        f"if {x} is None:",
        *[f"    {f}" for f in fresh],
        "else:",
        *[f"    {r}" for r in reused],
    ]


def _stores(body: CallBody, what: str, i: int, x: str, pointer: str) -> list[str]:
    """Lines that put the pointer of ``x`` into the slots of one operand."""
    slots = [slot for slot, operand in enumerate(body.operands) if operand == (what, i)]
    return [f"slots[{slot}] = {pointer.format(x=x)}" for slot in slots]


def _is_kept(body: CallBody, spec: TensorSpec, kind: ArrayKind) -> bool:
    """Whether an output lives in the frames: all is of fixed size, and it is small."""
    if not kind.view or body.dims or not _COUNTS_REFERENCES:
        return False
    sizes = [static_value(text) for text in spec.shape]
    return None not in sizes and _is_small([n or 0 for n in sizes], spec.dtype)


def _is_large(spec: TensorSpec) -> bool:
    """Whether an output of known size is to begin with a cache line."""
    sizes = [static_value(text) for text in spec.shape]
    if None in sizes:
        return False
    return math.prod([n or 0 for n in sizes]) * DType(spec.dtype).itemsize >= _LARGE_BYTES


def _is_small(shape: Sequence[int], dtype: str) -> bool:
    return math.prod(shape) * DType(dtype).itemsize <= _KEPT_BYTES


def _check(i: int, param: Param, kind: ArrayKind, symbolic: bool) -> list[str]:
    """Conditions under which an argument goes to ``slow``."""
    x = f"x{i}"
    usable = kind.usable.format(x=x)
    refused = [f"type({x}) is not kind", f"{x}.dtype is not t{i}", f"not ({usable})"]
    if not symbolic:
        refused.append(f"{x}.shape != {tuple([static_value(text) for text in param.spec.shape])}")
    return refused


def _gives_all_dims(function: VMFunction) -> bool:
    """Whether every dim stands by itself in some parameter's shape."""
    alone = {text for p in function.params for text in p.spec.shape}
    return set(function.dim_names) <= alone


def _bind_dims(function: VMFunction, shapes: Sequence[Sequence[int]]) -> list[int] | None:
    """The values of the function's dims, or None where the shapes do not fit its parameters."""
    dims: dict[str, int] = {}
    for param, shape in zip(function.params, shapes, strict=True):
        if len(shape) != len(param.spec.shape):
            return None
        for text, size in zip(param.spec.shape, shape, strict=True):
            if text in function.dim_names and dims.setdefault(text, size) != size:
                return None
    values = [dims[name] for name in function.dim_names]
    for param, shape in zip(function.params, shapes, strict=True):
        if compile_shapes(param.spec.shape, function.dim_names)(values) != tuple(shape):
            return None
    return values


def _result(value: Value, kind: ArrayKind) -> str:
    if isinstance(value, tuple):
        return kind.wrap.format(x=f"y{value[1]}", dtype=f"d{value[1]}")
    return f"({''.join([_result(v, kind) + ', ' for v in value])})"


class _Absent:
    """The default of every parameter of a generated entry."""


Frame: TypeAlias = "tuple[Any, ...]"
"""What one call at a time owns: argument slots, references to them, to the dims and to the
workspace, and outputs that are kept. The generated code unpacks it in one step."""


class _Frames:
    """Makes and keeps the frames of an entry: one queue, or one for each combination of shapes."""

    def __init__(
        self,
        function: VMFunction,
        kernel: BoundKernel,
        body: CallBody,
        constants: Sequence[Tensor],
        kind: ArrayKind,
    ) -> None:
        self.function, self.kernel, self.body = function, kernel, body
        self.constants, self.kind = constants, kind
        self.free: deque[Frame] = deque()
        self.known: dict[Any, deque[Frame]] = {}
        self._budget = _KEPT_WORKSPACE
        self._kernel_dims = compile_shapes(body.dims, function.dim_names)
        self._conditions = compile_shapes(body.conditions, function.dim_names)
        self._shapes = [compile_shapes(spec.shape, function.dim_names) for spec in body.outputs]
        pointer = (kind.kept_pointer or kind.pointer).format(x="x")
        self._pointer_of = eval(f"lambda x: {pointer}", dict(kind.names))

    def make(self) -> Frame:
        """A frame of a function of fixed shapes."""
        kept = [_is_kept(self.body, spec, self.kind) for spec in self.body.outputs]
        bases = [
            self._empty(i, shape(())) if keep else None
            for i, (shape, keep) in enumerate(zip(self._shapes, kept, strict=True))
        ]
        return (*self._build((), bases), *[b for b in bases if b is not None])

    def bind(self, *shapes: Sequence[int]) -> Frame | None:
        """A frame for a combination of shapes, or None where the function does not take it."""
        values = _bind_dims(self.function, shapes)
        if values is None or not all(self._conditions(values)):
            return None  # the interpreter says what is wrong
        sizes = [shape(values) for shape in self._shapes]
        keeps = bool(self.kind.view) and _COUNTS_REFERENCES
        bases = [
            self._empty(i, shape) if keeps and _is_small(shape, spec.dtype) else None
            for i, (shape, spec) in enumerate(zip(sizes, self.body.outputs, strict=True))
        ]
        dims = self._kernel_dims(values)
        workspace = self.kernel.workspace_bytes(dims)
        if len(self.known) >= _KNOWN_SHAPES or self._budget < workspace:
            self._forget()
        self._budget -= workspace
        key = shapes[0] if len(shapes) == 1 else shapes
        queue = self.known.setdefault(key, deque(maxlen=_FRAMES))
        entry = self.kernel.entry_for(dims)
        return (*self._build(dims, bases), queue.append, entry, *sizes, *bases)

    def _forget(self) -> None:
        """Give the workspaces of all shapes back, now: a frame and its queue refer to each other,
        and would otherwise wait for the garbage collector, which knows nothing of their size."""
        queues = list(self.known.values())
        self.known.clear()
        for queue in queues:
            queue.clear()
        self._budget = _KEPT_WORKSPACE

    def _empty(self, output: int, shape: Sequence[int]) -> Any:
        made = self.kind.empty(tuple(shape), self.kind.dtypes[self.body.outputs[output].dtype])
        return made if self.kind.keep is None else self.kind.keep(made)

    def _build(self, dims: Sequence[int], bases: Sequence[Any]) -> Frame:
        slots = (ctypes.c_size_t * max(1, len(self.body.operands)))()
        held = (ctypes.c_int64 * max(1, len(dims)))(*dims)
        storage = Storage(max(self.kernel.workspace_bytes(dims), 1))
        # byref objects keep what they refer to alive, from_buffer keeps the storage's memory.
        workspace = ctypes.byref(ctypes.c_char.from_buffer(storage.data))  # type: ignore[arg-type]
        for slot, (what, i) in enumerate(self.body.operands):
            if what == "const":
                slots[slot] = self.constants[i].pointer
            elif what == "out" and bases[i] is not None:
                slots[slot] = self._pointer_of(bases[i])
        return (slots, ctypes.byref(slots), ctypes.byref(held), workspace)


def _names(
    function: VMFunction,
    kernel: BoundKernel,
    body: CallBody,
    constants: Sequence[Tensor],
    slow: Callable[..., Any],
    kind: ArrayKind,
) -> dict[str, Any]:
    """The globals of a generated entry."""
    absent = _Absent()

    def refuse(*args: object) -> Any:
        return slow(*[a for a in args if a is not absent])

    frames = _Frames(function, kernel, body, constants, kind)
    names: dict[str, Any] = {
        "absent": absent,
        "kind": kind.type,
        "empty": kind.empty,
        "keep": kind.keep,
        "refuse": refuse,
        "pop": frames.free.popleft,
        "push": frames.free.append,
        "make": frames.make,
        "bind": frames.bind,
        "known": frames.known,
        "count": sys.getrefcount,
        "idle": _IDLE,
        "r": ctypes.byref(Runtime.from_address(kernel.runtime)),
        "library": kernel.library,
        "constants": constants,
    }
    if not function.dim_names:
        names["kernel"] = kernel.entry_for(())
    names.update(kind.names)
    names.update({f"t{i}": kind.dtypes[p.spec.dtype] for i, p in enumerate(function.params)})
    names.update({f"u{i}": kind.dtypes[s.dtype] for i, s in enumerate(body.outputs)})
    names.update({f"d{i}": DType(s.dtype) for i, s in enumerate(body.outputs)})
    if any(_is_kept(body, spec, kind) for spec in body.outputs):
        frames.free.extend([frames.make() for _ in range(2)])
    return names
