"""Random functions whose threads exchange values, and what they compute on a GPU.

Every statement is run by all threads that take part before any of them runs the next: the
simulation computes the values of a statement for all of them, then stores them. Loops are run by
all threads alike; conditions may tell threads apart, and read memory. No two threads store to one
element in one statement, so that no order of threads is to be seen.
"""

from __future__ import annotations

import random
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from types import SimpleNamespace
from typing import Any, TypeAlias

import numpy as np

from burnish.tensorir.function import PrimFunc
from burnish.tensorir.text.parser import parse_func

ROWS = 3
"""Iterations of every loop, and rows of the inputs and outputs."""


@dataclass(frozen=True)
class Store:
    place: str
    value: str
    in_block: bool


@dataclass(frozen=True)
class Let:
    name: str
    value: str
    body: Store


@dataclass(frozen=True)
class Loop:
    var: str
    body: tuple[Item, ...]


@dataclass(frozen=True)
class Branch:
    condition: str
    then: tuple[Item, ...]
    other: tuple[Item, ...]


Item: TypeAlias = Store | Let | Loop | Branch


class ThreadProgram:
    """The program of a seed: ``func`` is its function of A (read) and B (written), ``simulate``
    gives what threads that wait for each other write."""

    def __init__(self, seed: int) -> None:
        self.rng = random.Random(f"threads/{seed}")
        self.n = self.rng.choice([4, 6, 8])
        self.scope = self.rng.choice(["shared", "shared", "warp", "global"])
        self.count = 0
        self.rows = self.rng.random() < 0.5
        """Whether a loop over rows stands around the threads; they run it otherwise."""
        first = Store("S[t]", "A[i, t]", self.chance(0.5))
        own = Store("P[0]", "A[i, t]", self.chance(0.5))
        last = Store("B[i, t]", f"{self.shared(['i'])} + P[0]", self.chance(0.5))
        self.items = (first, own, *self.sequence(["i"], 2), last)

    def chance(self, p: float) -> bool:
        return self.rng.random() < p

    # -- what is drawn ----------------------------------------------------------------------------
    def sequence(self, loops: Sequence[str], depth: int) -> tuple[Item, ...]:
        return tuple([self.item(loops, depth) for _ in range(self.rng.randint(1, 3))])

    def item(self, loops: Sequence[str], depth: int) -> Item:
        kind = self.rng.choice(["store"] * 4 + ["let"] + (["loop", "branch", "loop"] * bool(depth)))
        if kind == "loop":
            self.count += 1
            var = f"k{self.count}"
            return Loop(var, self.sequence([*loops, var], depth - 1))
        if kind == "branch":
            other = self.sequence(loops, depth - 1) if self.chance(0.3) else ()
            return Branch(self.condition(loops), self.sequence(loops, depth - 1), other)
        place = self.rng.choice([self.place(loops)] * 3 + ["P[0]", "B[i, t]"])
        store = Store(place, self.value(loops), self.chance(0.5))
        if kind == "store":
            return store
        self.count += 1
        name = f"x{self.count}"
        return Let(name, self.value(loops), Store(place, f"{name} + A[i, t]", False))

    def thread(self, loops: Sequence[str]) -> str:
        """An index that differs between threads."""
        n, k, c = self.n, self.rng.choice(loops), self.rng.randrange(1, self.n)
        forms = ["t", "t", f"(t + {c}) % {n}", f"{n - 1} - t", f"(t + {k} + {c}) % {n}"]
        return self.rng.choice([*forms, "t // 2 * 2 + (1 - t % 2)"])

    def place(self, loops: Sequence[str]) -> str:
        return f"S[{self.thread(loops)}]"

    def shared(self, loops: Sequence[str]) -> str:
        some = self.rng.choice(
            [self.thread(loops), self.thread(loops), "0", self.rng.choice(loops)]
        )
        return f"S[{some}]"

    def value(self, loops: Sequence[str]) -> str:
        row = self.rng.choice(loops)
        parts = [self.shared(loops), self.shared(loops), f"A[{row}, t]", "P[0]"]
        a, b = self.rng.sample(parts, 2)
        return self.rng.choice([f"{a} + {b}", f"{a} - {b}", f"T.max({a}, {b})"])

    def condition(self, loops: Sequence[str]) -> str:
        k, c = self.rng.choice(loops), self.rng.randrange(1, self.n)
        forms = [f"t < {c}", f"{k} < 2", f"t < {k} + 1", "t % 2 == 0"]
        return self.rng.choice([*forms, f"{self.shared(loops)} > T.float32(0)"])

    # -- text -------------------------------------------------------------------------------------
    @property
    def text(self) -> str:
        n = self.n
        heads = [
            f"for i in range({ROWS}):",
            f'for t in T.thread_binding({n}, thread="threadIdx.x"):',
        ]
        if not self.rows:
            heads.reverse()
        names = Names(n)
        body = nested(heads, [line for item in self.items for line in lines(item, ["i"], names)])
        return "\n".join(
            [
                "@T.prim_func",
                f"def main(A: T.Buffer(({ROWS}, {n})), B: T.Buffer(({ROWS}, {n}))):",
                f'    S = T.alloc_buffer(({n},), scope="{self.scope}")',
                '    P = T.alloc_buffer((1,), scope="local")',
                *["    " + line for line in body],
            ]
        )

    @property
    def func(self) -> PrimFunc:
        return parse_func(self.text)

    # -- what it means ----------------------------------------------------------------------------
    def simulate(self, a: np.ndarray, b: np.ndarray) -> None:
        """Write what the threads write into ``b``."""
        memory = {"A": a, "B": b, "S": np.zeros(self.n, "float32")}
        private = np.zeros(self.n, "float32")
        for i in range(ROWS):
            run(self.items, np.arange(self.n), {"i": i}, memory, private)


class Names:
    """Names of blocks."""

    def __init__(self, threads: int) -> None:
        self.threads, self.count = threads, 0

    def fresh(self) -> str:
        self.count += 1
        return f"b{self.count}"


def nested(heads: Sequence[str], body: Sequence[str]) -> list[str]:
    result = list(body)
    for head in reversed(heads):
        result = [head, *["    " + line for line in result]]
    return result


def lines(item: Item, loops: Sequence[str], names: Names) -> list[str]:
    match item:
        case Store(place, value, in_block):
            if not in_block:
                return [f"{place} = {value}"]
            axes = [f"vt = T.axis.spatial({names.threads}, t)"]
            axes += [f"v{k} = T.axis.spatial({ROWS}, {k})" for k in loops]
            inner = re.sub(r"\b(t|i|k\d+)\b", r"v\1", f"{place} = {value}")
            return nested([f'with T.block("{names.fresh()}"):'], [*axes, inner])
        case Let(name, value, body):
            return [f"{name}: T.float32 = {value}", *lines(body, loops, names)]
        case Loop(var, inside):
            found = [x for y in inside for x in lines(y, [*loops, var], names)]
            return nested([f"for {var} in range({ROWS}):"], found)
        case Branch(condition, then, other):
            found = nested([f"if {condition}:"], [x for y in then for x in lines(y, loops, names)])
            if other:
                found += nested(["else:"], [x for y in other for x in lines(y, loops, names)])
            return found


_OPERATORS = SimpleNamespace(max=np.maximum, float32=np.float32)


def run(
    items: Sequence[Item],
    threads: np.ndarray,
    loops: Mapping[str, Any],
    memory: Mapping[str, np.ndarray],
    private: np.ndarray,
) -> None:
    """Statements one after another, each by all of the ``threads``."""

    def evaluate(text: str, **names: Any) -> Any:
        found = eval(
            text,
            {"T": _OPERATORS, **memory, "P": [private[threads]], "t": threads},
            {
                **loops,
                **names,
            },
        )
        return np.broadcast_to(found, threads.shape).copy()

    for item in items:
        match item:
            case Store(place, value):
                store(place, evaluate(value), threads, loops, memory, private)
            case Let(name, value, body):
                kept = evaluate(value)
                found = evaluate(body.value, **{name: kept})
                store(body.place, found, threads, loops, memory, private)
            case Loop(var, inside):
                for k in range(ROWS):
                    run(inside, threads, {**loops, var: k}, memory, private)
            case Branch(condition, then, other):
                taken = evaluate(condition).astype(bool)
                run(then, threads[taken], loops, memory, private)
                run(other, threads[~taken], loops, memory, private)


def store(
    place: str,
    values: np.ndarray,
    threads: np.ndarray,
    loops: Mapping[str, Any],
    memory: Mapping[str, np.ndarray],
    private: np.ndarray,
) -> None:
    if place == "P[0]":
        private[threads] = values
        return
    name, index = place[:-1].split("[", 1)
    memory[name][eval(index, {}, {"t": threads, **loops})] = values
