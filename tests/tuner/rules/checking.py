"""Functions for the rules, and what every rule owes: the numbers of NumPy under any decision, and a
trace that replays."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence

import numpy as np

from burnish.support.errors import ScheduleValueError
from burnish.support.host import native_target
from burnish.support.structural import structural_hash
from burnish.support.target import Target
from burnish.tensorir.codegen import emit_object
from burnish.tensorir.expr import Var
from burnish.tensorir.function import PrimFunc
from burnish.tensorir.lowering import lower_func
from burnish.tensorir.schedule import Schedule, Trace
from burnish.tensorir.te.compute import Tensor, create_prim_func, placeholder
from burnish.tests.native import call_native
from burnish.tuner.analytic import apply_rules
from burnish.tuner.rules.registry import RULES

Shape = tuple[int | str, ...]
SIZES = (1, 2, 3, 7, 17, 31, 33, 64, 100)
SKYLAKE = Target("llvm -mcpu=skylake-avx512")
HASWELL = Target("llvm -mcpu=haswell")


class Workload:
    """A function of tensors and the same in NumPy. A dim named in a shape is symbolic."""

    def __init__(
        self,
        build: Callable[..., Tensor],
        reference: Callable[..., np.ndarray],
        *shapes: Shape,
        dtype: str = "float32",
    ) -> None:
        self.reference, self.shapes, self.dtype = reference, shapes, dtype
        self.dims = list(dict.fromkeys(d for s in shapes for d in s if isinstance(d, str)))
        known = {name: Var(name) for name in self.dims}
        inputs = [
            placeholder(tuple([known.get(d, d) for d in s]), dtype, name="abcd"[i])  # type: ignore[arg-type]
            for i, s in enumerate(shapes)
        ]
        self.func = create_prim_func([*inputs, build(*inputs)])

    def arguments(self, **dims: int) -> list[np.ndarray]:
        """Random inputs."""
        rng = np.random.default_rng(0)
        shapes = [tuple([dims.get(str(d), d) for d in s]) for s in self.shapes]
        if self.dtype.startswith("int"):
            return [rng.integers(-9, 9, s).astype(self.dtype) for s in shapes]  # type: ignore[arg-type]
        return [rng.standard_normal(s).astype(self.dtype) for s in shapes]  # type: ignore[arg-type]

    def check(
        self, func: PrimFunc, *, tolerance: float = 2e-5, threads: int = 1, **dims: int
    ) -> None:
        """The numbers of a schedule of ``func``."""
        inputs = self.arguments(**dims)
        expected = np.asarray(self.reference(*inputs)).astype(self.dtype)
        found = np.full(expected.shape, -77, self.dtype)
        call_native(func, *inputs, found, dims=[dims[d] for d in self.dims], threads=threads)
        np.testing.assert_allclose(found, expected, rtol=tolerance * 10, atol=tolerance)


def scheduled(
    func: PrimFunc, *, sampled: bool = False, seed: int = 0, target: Target | None = None
) -> tuple[str | None, PrimFunc]:
    """The rule applied to a function and the result, which its trace (as JSON) gives too."""
    sch = Schedule(func, seed=seed)
    rule = apply_rules(sch, target or native_target(), sampled=sampled)
    again = Schedule(func)
    Trace.from_json(json.loads(json.dumps(sch.trace.as_json()))).apply_to(again)
    assert structural_hash(again.func) == structural_hash(sch.func)
    return rule, sch.func


def rules_of(func: PrimFunc, target: Target) -> list[str]:
    """The rules that a function matches, in the order in which they are tried."""
    return [rule.name for rule in RULES if rule.match(func, target) is not None]


def refuse(rule: object, sch: Schedule, *arguments: object) -> None:
    """What stands for the ``apply`` of a rule that refuses after its first steps."""
    sch.unroll(sch.get_loops(sch.get_output_blocks("root")[0])[0])
    raise ScheduleValueError("unroll", "The loop\n    is too long.", "the program")


def assembly_of(func: PrimFunc, target: Target) -> str:
    """The assembly of a scheduled function for a fixed target, but for the entry's own call."""
    text = emit_object([lower_func(func, target)], target, keep_text=True).assembly
    assert "retq" in text
    return "\n".join([line for line in text.splitlines() if not line.strip().endswith(".impl")])


def check_rule(
    workload: Workload, rule: str, *, seeds: int = 2, tolerance: float = 2e-5, **dims: Sequence[int]
) -> None:
    """The analytic schedule is ``rule``'s, and gives the right numbers, as do random ones."""
    name, analytic = scheduled(workload.func)
    assert name == rule
    variants = [analytic]
    variants += [scheduled(workload.func, sampled=True, seed=seed)[1] for seed in range(seeds)]
    for func in variants:
        for values in zip(*dims.values(), strict=True) if dims else [()]:
            workload.check(func, tolerance=tolerance, **dict(zip(dims, values, strict=True)))
