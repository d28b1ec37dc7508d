"""Random small functions of text, made of what users write and the compiler itself does not.

Conditions in bodies and around blocks, predicates, nested blocks whose declared regions are larger
than what they write, updates at other elements than the init, indices of every integer type and
out of memory, views, blocks without axes, threads that hand values to one another. Every function
is defined for inputs of any value: indices are clamped, and what is read was written before, or is
an output, which the caller fills. Sizes are written as users do, now and then as ``T.int32(6)`` or
as a parameter.
"""

from __future__ import annotations

import random
from collections.abc import Sequence

from burnish.tensorir.function import PrimFunc
from burnish.tensorir.text.parser import parse_func

PREFIX = "random_"
"""``random_17`` is the name of the function of number 17."""


def random_program(seed: int) -> PrimFunc:
    """The function of a number: always the same for the same one."""
    return parse_func(random_text(seed))


def random_text(seed: int) -> str:
    """The text of ``random_program``."""
    return _Program(random.Random(f"program/{seed}")).text()


def _indented(lines: Sequence[str], by: int = 4) -> list[str]:
    return [" " * by + line for line in lines]


class _Program:
    """Stages one after another, each of which writes all of a new buffer or some of an old one."""

    def __init__(self, rng: random.Random) -> None:
        self.rng = rng
        self.m, self.n = rng.choice([(6, 8), (5, 12), (6, 6), (4, 9), (8, 3)])
        self.index_dtype = rng.choice(["int8", "int16", "int32", "int32", "int64", "uint8"])
        self.readable = ["A"]
        self.defined: set[str] = set()
        """Buffers all of whose elements have values: of these a stage may write a part."""
        self.outputs: list[str] = []
        self.allocated: list[str] = []
        self.lines: list[str] = []
        self.count = 0

    def text(self) -> str:
        for _ in range(self.rng.choice([1, 2, 2, 3])):
            self.stage(last=False)
        self.stage(last=True)
        m, n = self.m, self.n
        params = [f'A: T.Buffer(({self.size(m)}, {n}), "float32")']
        params.append(f'I: T.Buffer(({m},), "{self.index_dtype}")')
        params += [f'{o}: T.Buffer(({m}, {self.size(n)}), "float32")' for o in self.outputs]
        if self.rng.random() < 0.02:
            params = [p.replace(f"(({m},", "((m,") for p in params] + ["m: T.int64"]
            params[0] = params[0].replace("T.int32(m)", "m")
        allocations = [f"{b} = T.alloc_buffer(({m}, {n}))" for b in self.allocated]
        body = "\n".join(_indented([*allocations, *self.lines]))
        return f"@T.prim_func\ndef main({', '.join(params)}):\n{body}\n"

    def size(self, value: int) -> str:
        return f"T.int32({value})" if self.rng.random() < 0.05 else str(value)

    def chance(self, p: float) -> bool:
        return self.rng.random() < p

    # -- what a stage writes -----------------------------------------------------------------------
    def stage(self, *, last: bool) -> None:
        """One stage; the last one writes an output, so that something is seen."""
        name = f"b{self.count}"
        self.count += 1
        target = self.target(last)
        whole = target not in self.defined
        # Written twice, a buffer is read and written in an order that schedules must keep.
        kinds = [self.elements, self.elements, self.nested, self.reduction, self.view]
        kinds += [self.without_axes] if self.chance(0.5) else []
        kinds += [self.threads] if self.chance(0.3) else []
        self.lines += self.rng.choice(kinds)(name, target, whole)
        self.defined.add(target)
        if target not in self.readable:
            self.readable.append(target)

    def target(self, last: bool) -> str:
        """A new buffer, or one whose elements all have values."""
        if (last and not self.outputs) or self.chance(0.3):
            name = f"O{len(self.outputs)}"
            self.outputs.append(name)
            self.defined.add(name)  # by the caller
            return name
        old = self.outputs if last else [b for b in self.readable if b != "A"]
        if old and (last or self.chance(0.5)):
            return self.rng.choice(old)
        name = f"T{len(self.allocated)}"
        self.allocated.append(name)
        return name

    # -- values ------------------------------------------------------------------------------------
    def row(self, i: str) -> str:
        """An index of a row."""
        m, rng = self.m, self.rng
        load = f"I[{i}]"
        return rng.choice(
            [
                *[i] * 6,
                f"({i} + {rng.randrange(1, m)}) % {m}",
                f"T.max(T.min({load}, {m - 1}), 0)",
                f"{load} % {m}",
                f"T.min(T.max({load}, 0) // 2, {m - 1})",
                f'T.max(T.min(T.cast({load}, "int64"), {m - 1}), 0)',
            ]
        )

    def column(self, j: str) -> str:
        n = self.n
        return self.rng.choice([*[j] * 4, f"{n - 1} - {j}", f"({j} + 1) % {n}"])

    def value(self, i: str, j: str, target: str = "") -> str:
        """An element of what may be read, or several combined. Of what is written itself, the very
        element alone."""
        parts = []
        for _ in range(self.rng.choice([1, 1, 2])):
            source = self.rng.choice(self.readable)
            own = source == target
            parts.append(f"{source}[{i if own else self.row(i)}, {j if own else self.column(j)}]")
        if len(parts) == 2:
            a, b = parts
            return self.rng.choice([f"{a} + {b}", f"T.max({a}, {b})", f"{a} - {b}"])
        return self.rng.choice(
            [parts[0], f"{parts[0]} * T.float32(2)", f"{parts[0]} + T.float32(1)"]
        )

    def condition(self, i: str, j: str, *, data: bool = True) -> str:
        choices = [
            f"{i} < {self.rng.randrange(1, self.m)}",
            f"{self.rng.randrange(1, self.n)} <= {j}",
            f"({i} + {j}) % 2 == 0",
        ]
        return self.rng.choice([*choices, f"A[{i}, {j}] > T.float32(0)"] if data else choices)

    def store(self, target: str, i: str, j: str, *, whole: bool) -> list[str]:
        """A store of an element, behind a condition where not all need be written."""
        line = f"{target}[{i}, {j}] = {self.value(i, j, target)}"
        kind = self.rng.choice(["plain", "plain", "both", "plain" if whole else "if"])
        if kind == "plain":
            return [line]
        head = f"if {self.condition(i, j)}:"
        if kind == "if":
            return [head, *_indented([line])]
        other = f"{target}[{i}, {j}] = {self.value(i, j, target)}"
        return [head, *_indented([line]), "else:", *_indented([other])]

    # -- kinds of stages ---------------------------------------------------------------------------
    def elements(self, name: str, target: str, whole: bool) -> list[str]:
        m, n = self.m, self.n
        block = [f'with T.block("{name}"):', '    vi, vj = T.axis.remap("SS", [i, j])']
        if not whole and self.chance(0.3):
            block.append(f"    T.where({self.condition('i', 'j', data=False)})")
        block += _indented(self.store(target, "vi", "vj", whole=whole))
        if not whole and self.chance(0.2):
            block = [f"if {self.condition('i', 'j', data=False)}:", *_indented(block)]
        return [f"for i, j in T.grid({m}, {n}):", *_indented(block)]

    def nested(self, name: str, target: str, whole: bool) -> list[str]:
        """A block of rows around a block of elements, which says that it writes all of the rows."""
        m, n = self.m, self.n
        rows = 2 if m % 2 == 0 and self.chance(0.4) else 1
        some = n if whole or self.chance(0.3) else self.rng.randrange(1, n)
        domain = some if self.chance(0.5) else n
        ran = some if self.chance(0.5) else n
        i = "vi * 2 + u" if rows == 2 else "vi"
        inner = [f'with T.block("{name}_i"):']
        inner.append(f"    vj = T.axis.spatial({domain}, j)")
        inner += ["    vu = T.axis.spatial(2, u)"] if rows == 2 else []
        if ran > some or domain < ran:
            inner.append(f"    T.where(j < {some})")
        i = i.replace("u", "vu")
        inner += _indented(self.store(target, i, "vj", whole=whole))
        loops = f"for u, j in T.grid(2, {ran}):" if rows == 2 else f"for j in range({ran}):"
        everything = [*dict.fromkeys([*self.readable, target])]
        reads = [f"{b}[0:{m}, 0:{n}]" for b in everything if b != target]
        own = f"{target}[vi * 2 : vi * 2 + 2, 0:{n}]" if rows == 2 else f"{target}[vi, 0:{n}]"
        if target in self.readable or target in self.outputs:
            reads.append(own)
        outer = [f'with T.block("{name}"):', f"    vi = T.axis.spatial({m // rows}, i)"]
        outer.append(f"    T.reads({', '.join(reads)}, I[0:{m}], A[0:{m}, 0:{n}])")
        outer.append(f"    T.writes({own})")
        outer += _indented([loops, *_indented(inner)])
        return [f"for i in range({m // rows}):", *_indented(outer)]

    def reduction(self, name: str, target: str, whole: bool) -> list[str]:
        m, n = self.m, self.n
        own = f"{target}[vi, vj]"
        source = self.rng.choice([b for b in self.readable if b != target] or ["A"])
        term = f"{source}[{self.row('vi')}, (vj + vk) % {n}]"
        first, update = own, f"{own} = {own} + {term}"
        if m == n and not whole and self.chance(0.4):
            other = f"{target}[vj, vi]"
            update = f"{other} = {other} + {term}"
        elif not whole and self.chance(0.15):
            update = f"{own} = {target}[vi, (vj + 1) % {n}] + {term}"
        elif self.chance(0.2):
            update = f"{own} = T.max({own}, {term})"
        begin = self.rng.choice(["T.float32(0)", "T.float32(0)", "A[vi, vj]"])
        order = self.rng.choice([("i", "j", "k"), ("k", "i", "j"), ("i", "k", "j")])
        sizes = {"i": m, "j": n, "k": 3}
        body = [update]
        if self.chance(0.2):
            body = ["if vk < 2:", *_indented(body)]
        block = [
            f'with T.block("{name}"):',
            '    vi, vj, vk = T.axis.remap("SSR", [i, j, k])',
            "    with T.init():",
            f"        {first} = {begin}",
            *_indented(body),
        ]
        grid = ", ".join([str(sizes[x]) for x in order])
        return [f"for {', '.join(order)} in T.grid({grid}):", *_indented(block)]

    def view(self, name: str, target: str, whole: bool) -> list[str]:
        """A row through a view of the target, and perhaps of what is read."""
        m, n = self.m, self.n
        some = n if whole or self.chance(0.5) else self.rng.randrange(1, n)
        source = self.rng.choice([b for b in self.readable if b != target] or ["A"])
        block = [f'with T.block("{name}"):', f"    vi = T.axis.spatial({m}, i)"]
        block.append(f"    M{name} = T.match_buffer({target}[vi, 0:{n}], ({n},))")
        load = f"{source}[{self.row('vi')}, {{j}}]"
        if self.chance(0.5):
            block.append(f"    V{name} = T.match_buffer({source}[vi, 0:{n}], ({n},))")
            load = f"V{name}[{{j}}]"
        if self.chance(0.5):
            body = [f"M{name}[j] = {load.format(j='j')}"]
        else:
            body = [f'with T.block("{name}_i"):', f"    vj = T.axis.spatial({some}, j)"]
            body.append(f"    M{name}[vj] = {load.format(j='vj')}")
        block += _indented([f"for j in range({some}):", *_indented(body)])
        return [f"for i in range({m}):", *_indented(block)]

    def without_axes(self, name: str, target: str, whole: bool) -> list[str]:
        block = [f'with T.block("{name}"):', *_indented(self.store(target, "i", "j", whole=whole))]
        return [f"for i, j in T.grid({self.m}, {self.n}):", *_indented(block)]

    def threads(self, name: str, target: str, whole: bool) -> list[str]:
        """Threads that read what others of them have put into shared memory."""
        n, shared = self.n, f"S{name}"
        source = self.rng.choice([b for b in self.readable if b != target] or ["A"])
        fill = [f'with T.block("{name}_s"):', f"    vj = T.axis.spatial({n}, t)"]
        fill += [f"    vi = T.axis.spatial({self.m}, i)"]
        fill += [f"    {shared}[vj] = {source}[vi, vj]"]
        use = [f'with T.block("{name}"):', f"    vj = T.axis.spatial({n}, t)"]
        use += [f"    vi = T.axis.spatial({self.m}, i)"]
        use += [f"    {target}[vi, vj] = {shared}[{n - 1} - vj]"]
        head = f'for t in T.thread_binding({n}, thread="threadIdx.x"):'
        rows = f"for i in range({self.m}):"
        nest = [head, *_indented([rows, *_indented([*fill, *use])])]
        if self.chance(0.5):
            nest = [rows, *_indented([head, *_indented([*fill, *use])])]
        return [f'{shared} = T.alloc_buffer(({n},), scope="shared")', *nest]
