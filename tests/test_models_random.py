"""Random graphs from a seed, through the whole compiler: every answer against the meaning in
float64, every way to run a program against every other to the bit, and the text of every stage.

Most cases are built as modules, because torch.export takes longer than everything after it; for
some the same graph is a torch module, and eager torch is the oracle.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import pytest
import torch

import burnish
from burnish.driver.executable import Executable
from burnish.driver.kernels import resolve_target
from burnish.driver.stages import compile_module
from burnish.support.structural import first_difference
from burnish.tests.graphir import reference
from burnish.tests.strategies.graph_environment import environment_functions
from burnish.tests.strategies.graph_modules import RandomModule, build_random
from burnish.tests.strategies.graph_torch import GraphModule
from burnish.tests.strategies.graph_values import check_values, flat
from burnish.vm.disassembler import constant_hash, object_hash, parse_program, print_program

NATIVE = resolve_target("native")
BATCHES = (0, 1, 5)


@pytest.fixture(autouse=True, scope="module")
def environment() -> Iterator[None]:
    with environment_functions():
        yield


def check_same(found: Sequence[Any], expected: Sequence[Any], what: str) -> None:
    for index, (got, want) in enumerate(zip(found, expected, strict=True)):
        np.testing.assert_array_equal(np.asarray(got), want, f"{what}, output {index}")


def check_fresh(outputs: Sequence[np.ndarray], inputs: Sequence[np.ndarray]) -> None:
    """Outputs share memory with no input and with no other output."""
    for index, output in enumerate(outputs):
        for other in (*inputs, *outputs[:index]):
            assert not np.shares_memory(output, other), f"output {index}"


def check_texts(executable: Executable) -> None:
    """Every stage, and the program, come back from their text."""
    for name, module in executable.stages.items():
        back = burnish.parse(module.script(), constants=module.constants)
        assert first_difference(module, back) is None, name
        assert back.script() == module.script(), name
    program = executable.program
    text = print_program(program)
    constants = {constant_hash(c): c for c in program.constants}
    objects = {object_hash(image): image for image in program.objects}
    assert print_program(parse_program(text, constants, objects)) == text


def check_all_ways(random: RandomModule, double: RandomModule, seed: int) -> None:
    model = burnish.compile(random.module)
    executable = model.executable
    check_texts(executable)
    apart = compile_module(random.module, NATIVE, segments=False)
    threaded = compile_module(random.module, NATIVE, threads=2)
    for batch in BATCHES if random.is_dynamic else (1,):
        inputs = random.inputs(seed, batch)
        kept = [x.copy() for x in inputs]
        tensors = [torch.from_numpy(x) for x in inputs]
        wide = [x.astype(np.float64) for x in inputs]
        found = flat(model(*inputs))
        check_values(found, flat(reference.run(double.module, "main", *wide)), random.depth)
        check_fresh(found, inputs)
        held = [x.copy() for x in found]
        check_same(flat(model(*inputs)), found, "a second call")
        check_same(flat(apart.vm["main"](*inputs)), found, "without segments")
        check_same(flat(threaded.vm["main"](*inputs)), found, "two threads")
        check_same(flat(executable.vm.run("main", inputs)), found, "interpreted")
        for call in ("torch", "torch again"):
            check_same(flat(model(*tensors)), found, call)
        check_same(found, held, "later calls left the first result alone")
        check_same(inputs, kept, "inputs are left alone")


@pytest.mark.parametrize("seed", range(16))
def test_random_operators(seed: int) -> None:
    check_all_ways(build_random(seed), build_random(seed, "float64"), seed)


@pytest.mark.parametrize("seed", range(6))
def test_random_operators_with_environment_functions_branches_and_calls(seed: int) -> None:
    random = build_random(seed, control=True)
    check_all_ways(random, build_random(seed, "float64", control=True), seed)


@pytest.mark.parametrize("seed", range(30, 33))
def test_every_stage_means_the_same(seed: int) -> None:
    """The stages before scheduling, run by interpreters that share nothing with the compiler."""
    random = build_random(seed, dynamic=seed % 2 == 0)
    stages = compile_module(random.module, NATIVE).stages
    inputs = random.inputs(seed, 2)
    expected = flat(reference.run(random.module, "main", *inputs))
    for stage in ("10-canonical", "20-legalized", "30-fused"):
        found = flat(reference.run(stages[stage], "main", *inputs))
        for got, want in zip(found, expected, strict=True):
            np.testing.assert_allclose(got, want, rtol=1e-4, atol=1e-4, err_msg=stage)


@pytest.mark.parametrize(("seed", "dynamic"), [(0, False), (1, False), (2, True), (3, True)])
def test_random_torch_modules(seed: int, dynamic: bool) -> None:
    random = build_random(seed, dynamic=dynamic)
    module = GraphModule(random.module).eval()
    double = GraphModule(random.module).eval().double()
    examples = tuple([torch.from_numpy(x) for x in random.inputs(seed, 4)])
    shapes = tuple([{i: n for i, n in enumerate(s) if isinstance(n, str)} for s in random.shapes])
    model = burnish.compile(module, examples, dynamic_shapes=shapes if dynamic else None)
    for batch in BATCHES if dynamic else (4,):
        inputs = [torch.from_numpy(x) for x in random.inputs(seed + batch, batch)]
        with torch.no_grad():
            expected = flat(double(*[x.double() for x in inputs]))
            types = [x.dtype for x in flat(module(*inputs))]
        for _ in range(2):
            found = flat(model(*inputs))
            assert [x.dtype for x in found] == types
            check_values(found, expected, random.depth)
        check_same(flat(model(*[x.numpy() for x in inputs])), found, "NumPy")
