"""burnish.graph: the names that graph programs are built with."""

from __future__ import annotations

import numpy as np
import pytest

import burnish
from burnish import graph


@pytest.mark.parametrize("name", graph.__all__)
def test_every_name_is_there(name: str) -> None:
    assert getattr(graph, name) is not None


def test_names_that_are_none_here_say_what_does_it() -> None:
    assert not set(graph._ELSEWHERE) & set(graph.__all__)
    for name in graph._ELSEWHERE:
        with pytest.raises(AttributeError, match=rf"{name}'; here it is .*from_tvm\.md"):
            getattr(graph, name)
    with pytest.raises(AttributeError, match=r"no attribute 'nonsense'$"):
        graph.nonsense  # noqa: B018


def test_a_program_of_these_names_runs() -> None:
    bb = burnish.BlockBuilder()
    x = graph.Var("x", graph.tensor_type((2, 3)))
    with bb.function("main", [x]):
        with bb.dataflow():
            y = bb.emit(graph.op("add", x, graph.const(np.ones(3, np.float32))))
            out = bb.emit_output(graph.op("multiply", y, 2.0))
        bb.emit_func_output(out)
    module = graph.verify_module(bb.get())
    vm = burnish.VirtualMachine(burnish.build(module))
    given = np.arange(6, dtype=np.float32).reshape(2, 3)
    np.testing.assert_array_equal(vm["main"](given).numpy(), (given + 1) * 2)
