"""Reads the assembly that LLVM prints for x86-64 and AArch64: its innermost loops, what they keep
in memory for want of registers, what is called, which registers and instructions occur.

The text is that of ``emit_object(..., keep_text=True)``, where LLVM marks spills in comments. A
loop is what lies between a label and a jump back to it. Beside it, what a schedule promises: how
many vector multiply-adds each innermost loop of a PrimFunc is to have.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterator
from dataclasses import dataclass

from burnish.support.node import children, walk
from burnish.support.target import Target
from burnish.tensorir.codegen import emit_object
from burnish.tensorir.expr import Add, Call, Expr, IntImm, Mul
from burnish.tensorir.function import PrimFunc
from burnish.tensorir.lowering import lower_func
from burnish.tensorir.stmt import Block, BufferStore, For, Stmt

_LABEL = re.compile(r"^(?P<name>[.\w]+):")
_JUMP = re.compile(r"^(?:j\w+|b|b\.\w+|cbn?z|tbn?z)\s+(?:.*,\s*)?(?P<name>\.L\w+)$")
_CALL = re.compile(r"^(?:callq?|blr?)\s+(?P<callee>\S+)$")
_TAIL_CALL = re.compile(r"^(?:jmp|br?)\s+(?P<callee>[^.\s]\S*)$")
_X86_FUSED = re.compile(r"^vfn?m(?:add|sub)\d+[ps][sd]$")
_STACK = re.compile(r"\(%rsp|\[sp\b")
_INDIRECT = re.compile(r"^(?:callq?\s+\*|blr\s)")


@dataclass(frozen=True)
class Line:
    """One line: the instruction (or a label) without its comment, and the comment."""

    code: str
    comment: str

    @property
    def operation(self) -> str:
        """The mnemonic; empty for labels and directives."""
        return "" if self.code.endswith(":") or self.code[:1] in ("", ".") else self.code.split()[0]

    @property
    def is_spill(self) -> bool:
        """Whether registers did not suffice here: something is put on the stack or fetched back."""
        return "Spill" in self.comment or "Reload" in self.comment

    @property
    def is_stack_access(self) -> bool:
        """Whether an operand is in the stack frame."""
        return _STACK.search(self.code) is not None

    @property
    def is_stack_store(self) -> bool:
        """Whether something is put into the stack frame."""
        if not self.is_stack_access:
            return False
        return self.operation in ("str", "stp", "stur") or self.code.endswith("(%rsp)")

    @property
    def is_wide(self) -> bool:
        """Whether it works on whole vectors (of any width), not on scalars."""
        if re.search(r"\bv\d+\.\d+[bhsd]\b", self.code):
            return True
        return (
            re.search(r"%[xyz]mm", self.code) is not None
            and re.search(r"(?:p[sd]|dq\w*|wd|dqu|dqa)\d*$", self.operation) is not None
        )

    @property
    def multiply_adds(self) -> int:
        """1 for a multiply-add of vectors, fused or its product alone where the CPU has none
        fused (its sum is an instruction of its own)."""
        if not self.is_wide:
            return 0
        fused = _X86_FUSED.match(self.operation) is not None or self.operation in ("fmla", "fmls")
        return int(fused or self.operation in ("mulps", "mulpd"))


def read_lines(assembly: str) -> list[Line]:
    """The lines of an assembly, stripped, without those that are empty or comments alone."""
    lines = []
    for raw in assembly.splitlines():
        code, _, comment = raw.partition("//" if "//" in raw else "#") if _has_comment(raw) else (
            raw, "", ""
        )  # fmt: skip
        if code.strip():
            lines.append(Line(" ".join(code.split()), comment.strip()))
    return lines


def _has_comment(raw: str) -> bool:
    # An immediate of AArch64 begins with a hash too: comments follow white space, or are all of a
    # line.
    return (
        "//" in raw or raw.lstrip().startswith("#") or re.search(r"(?:^|\s)#+\s", raw) is not None
    )


def innermost_loops(lines: list[Line]) -> list[list[Line]]:
    """The loops that no other loop is inside, each from its label to the jump back; without those
    that hand work to the thread pool, which is called through a pointer."""
    ranges = _loops(lines)
    found = [
        lines[start : end + 1]
        for start, end in ranges
        if not any(start <= s and e <= end and (s, e) != (start, end) for s, e in ranges)
    ]
    return [loop for loop in found if not any(_INDIRECT.match(line.code) for line in loop)]


def _loops(lines: list[Line]) -> list[tuple[int, int]]:
    labels: dict[str, int] = {}
    found: dict[int, int] = {}
    for i, line in enumerate(lines):
        if label := _LABEL.match(line.code):
            labels[label["name"]] = i
        elif (jump := _JUMP.match(line.code)) and jump["name"] in labels:
            # Several jumps back to one label are one loop.
            found[labels[jump["name"]]] = i
    return sorted(found.items())


def multiply_adds(loop: list[Line]) -> int:
    """The multiply-adds of vectors in a loop."""
    return sum(line.multiply_adds for line in loop)


def spills(loop: list[Line]) -> list[str]:
    """What a loop stores to the stack frame, and what it loads from there."""
    return [line.code for line in loop if line.is_spill or line.is_stack_access]


def vector_spills(loop: list[Line]) -> list[str]:
    """The vectors among ``spills``."""
    return [x for x in spills(loop) if re.search(r"%[xyz]mm|\b[qv]\d+\b", x)]


def stack_stores(loop: list[Line]) -> list[str]:
    """What a loop stores to the stack frame: values that it makes and has no register for. What it
    only loads was known before it, and costs as much as any other operand in memory."""
    return [line.code for line in loop if line.is_stack_store]


def foreign_calls(lines: list[Line]) -> list[str]:
    """What is called, and neither defined in the same text nor reached through a pointer (as the
    thread pool is, through the runtime that a kernel is given)."""
    own = {m["name"] for line in lines if (m := _LABEL.match(line.code))}
    callees = [
        m["callee"]
        for line in lines
        if (m := _CALL.match(line.code) or _TAIL_CALL.match(line.code))
    ]
    return [
        name for name in callees
        if name.split("@")[0] not in own and not re.match(r"\*|x\d+$", name)
    ]  # fmt: skip


def registers(lines: list[Line]) -> set[str]:
    """The kinds of vector registers in use: ``xmm``, ``ymm``, ``zmm``, ``k`` (masks), ``v``."""
    text = "\n".join(line.code for line in lines if line.operation)
    kinds = set(re.findall(r"%([xyz]mm|k(?=\d))", text))
    return kinds | ({"v"} if re.search(r"\bv\d+\.", text) else set())


def operations(lines: list[Line]) -> set[str]:
    """The mnemonics in use."""
    return {line.operation for line in lines} - {""}


def kernel_lines(func: PrimFunc, target: Target) -> list[Line]:
    """The lines of a scheduled function for a fixed target."""
    code = emit_object([lower_func(func, target)], target, keep_text=True)
    lines = read_lines(code.assembly)
    assert {"retq", "ret"} & operations(lines)
    return lines


# -- what the schedule says ------------------------------------------------------------------------
def promised_multiply_adds(func: PrimFunc, target: Target, product: str = "") -> list[int]:
    """For each innermost loop of a schedule that is a loop in the code too, the multiply-adds of
    the target's vectors in it: what is unrolled there times the vectors of its statements. Only
    blocks whose names begin with ``product`` count."""
    return [count for count in _promised(func.body, target, product) if count]


def _promised(s: Stmt, target: Target, product: str) -> Iterator[int]:
    for inside in _loop_bodies(s):
        yield from _promised(inside, target, product)
        if next(_loop_bodies(inside), None) is None:
            yield _vectors(inside, target, product, 1, 1)


def _loop_bodies(s: Stmt) -> Iterator[Stmt]:
    """The bodies of the outermost loops that are not written out."""
    if isinstance(s, For) and s.kind in ("serial", "parallel"):
        yield s.body
        return
    for child in _statements(s):
        yield from _loop_bodies(child)


def _statements(s: Stmt) -> list[Stmt]:
    return [c for c in children(s) if isinstance(c, Stmt)]


def _vectors(s: Stmt, target: Target, product: str, times: int, lanes: int) -> int:
    match s:
        case For(extent=IntImm() as extent):
            wider = s.kind == "vectorized"
            times, lanes = (times, lanes * extent.value) if wider else (times * extent.value, lanes)
            return _vectors(s.body, target, product, times, lanes)
        case Block(name=name) if not name.startswith(product):
            return 0
        case BufferStore(buffer=buffer):
            registers = math.ceil(lanes * buffer.dtype.bits / target.vector_bits)
            found = [n for n in walk(s.value) if isinstance(n, Expr) and n.dtype == buffer.dtype]
            return times * registers * sum(map(_is_multiply_add, found))
        case _:
            return sum(_vectors(c, target, product, times, lanes) for c in _statements(s))


def _is_multiply_add(e: Expr) -> bool:
    if isinstance(e, Call):
        return e.op == "fma"
    return isinstance(e, Add) and (isinstance(e.a, Mul) or isinstance(e.b, Mul))
