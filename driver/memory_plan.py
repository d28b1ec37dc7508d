"""model.memory(): what a model holds and what a call takes, as it was planned before any ran."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass

from ..support.dtype import DType
from ..support.errors import ArgumentError, nearest
from ..vm.program import Call, Imm, Program, ResultSpec, TensorSpec
from ..vm.shape_text import compile_shapes
from ..vm.tensor import as_tensor
from .console import table_lines
from .model_profile import html_table


@dataclass(frozen=True)
class MemoryPlan:
    """Bytes. ``constants`` (how many: ``constant_count``) and ``code`` a model holds once, whoever
    calls; ``workspace`` is what each of the calls that run at once takes for its intermediates and
    for what kernels keep aside; ``inputs`` and ``outputs`` are the caller's. ``floor`` is the least
    that any order of the same memory could do with for the intermediates, None where that is not
    known."""

    constants: int
    constant_count: int
    code: int
    workspace: int
    floor: int | None
    inputs: int
    outputs: int
    threads: int
    dims: tuple[tuple[str, int], ...] = ()

    @property
    def peak(self) -> int:
        """What a process with one call at a time needs for the model: all but its inputs."""
        return self.constants + self.code + self.workspace + self.outputs

    def cells(self) -> list[list[str]]:
        """The rows of the table."""
        plural = "s" if self.threads != 1 else ""
        rows = [
            ("constants", self.constants, f"{self.constant_count}, packed, once a model"),
            ("code", self.code, "once a model"),
            ("workspace", self.workspace, f"of each call at once, {self.threads} thread{plural}"),
            *([] if self.floor is None else [("  its floor", self.floor, "intermediates alone")]),
            ("outputs", self.outputs, "of each call"),
            ("peak", self.peak, "of these, with one call at a time"),
            ("inputs", self.inputs, "the caller's"),
        ]
        return [[name, f"{size / 1e6:.3f} MB", remark] for name, size, remark in rows]

    @property
    def title(self) -> str:
        """For which sizes the plan is."""
        sizes = ", ".join([f"{name} = {size}" for name, size in self.dims])
        return f"memory with {sizes}" if sizes else "memory"

    def __str__(self) -> str:
        return "\n".join(table_lines(self.title, ("", "bytes", "what"), self.cells()))

    def _repr_html_(self) -> str:
        return html_table(self.title, ("", "bytes", "what"), self.cells())


def plan_of_program(
    program: Program, threads: int, dims: Mapping[str, int], floor: int | None
) -> MemoryPlan:
    """The plan of a program's ``main`` for values of its named dims.

    Raises ArgumentError for a dim that has no value or does not exist.
    """
    main = program.functions["main"]
    for name in dims:
        if name not in main.dim_names:
            raise ArgumentError(
                f"{name!r} is no named size of this model; it has "
                f"{', '.join(main.dim_names) or 'none'}.{nearest(name, main.dim_names)}"
            )
    missing = [name for name in main.dim_names if name not in dims]
    if missing:
        raise ArgumentError(
            f"memory depends on the named size {missing[0]!r}: memory({missing[0]}=8), say."
        )
    values = [dims[name] for name in main.dim_names]
    tensors = [as_tensor(c, "a constant") for c in program.constants]
    return MemoryPlan(
        constants=sum(t.nbytes for t in tensors),
        constant_count=len(tensors),
        code=sum(map(len, program.objects)),
        workspace=_workspace(program, "main", values, threads),
        floor=floor,
        inputs=sum(_bytes(p.spec, main.dim_names, values) for p in main.params),
        outputs=_bytes(main.result, main.dim_names, values),
        threads=threads,
        dims=tuple(zip(main.dim_names, values, strict=True)),
    )


def _workspace(program: Program, name: str, values: list[int], threads: int) -> int:
    """The largest workspace of a kernel that a function calls, and its arenas."""
    function = program.functions[name]
    largest, arenas = 0, 0
    for i in function.instructions:
        match i:
            case Call(_, "builtin:alloc_storage", (Imm(size),)):
                (nbytes,) = compile_shapes((str(size),), function.dim_names)(values)
                arenas += nbytes
            case Call(_, func, _, dims) if func.startswith("kernel:"):
                kernel = program.kernels[func.removeprefix("kernel:")]
                own = compile_shapes(dims, function.dim_names)(values)
                sizes = (kernel.shared_bytes, kernel.thread_bytes)
                shared, thread = compile_shapes(sizes, kernel.dims)(own)
                largest = max(largest, shared + thread * threads)
            case _:
                pass
    return largest + arenas


def _bytes(spec: ResultSpec, names: tuple[str, ...], values: list[int]) -> int:
    if isinstance(spec, TensorSpec):
        return math.prod(compile_shapes(spec.shape, names)(values)) * DType(spec.dtype).itemsize
    return sum(_bytes(inner, names, values) for inner in spec)
