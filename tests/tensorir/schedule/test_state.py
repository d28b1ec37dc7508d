from __future__ import annotations

import html
import re
from collections.abc import Mapping

import pytest

from burnish.support.errors import BlockNotFoundError, ScheduleError, ScheduleValueError
from burnish.tensorir.expr import Var
from burnish.tensorir.function import PrimFunc
from burnish.tensorir.schedule import FunctionTable, Schedule
from burnish.tensorir.stmt import Evaluate
from burnish.tensorir.text.printer import print_func
from burnish.tests.tensorir.schedule.programs import body, chain, linear_relu, matmul


class Module(FunctionTable):
    """A module of two functions, as a higher layer might bring."""

    def copy(self) -> Module:
        return Module(self.functions)


def two() -> Module:
    first = matmul().with_attr("global_symbol", "mm")
    return Module({"mm": first, "chain": chain().with_attr("global_symbol", "chain")})


def test_the_module_given_is_not_changed() -> None:
    module = two()
    before: Mapping[str, PrimFunc] = dict(module.functions)
    sch = Schedule(module, seed=0)
    sch.get_loops(sch.get_block("B", "chain"))
    i, _ = sch.get_loops(sch.get_block("B", "chain"))
    sch.parallel(i)
    assert module.functions == before
    assert isinstance(sch.mod, Module)
    assert sch.mod["mm"] is before["mm"]
    assert "T.parallel" in print_func(sch.mod["chain"])


def test_what_is_no_prim_func_is_left_alone() -> None:
    """A module of a higher layer has other functions too."""
    other = object()
    module = Module({"graph": other, "main": chain()})  # type: ignore[dict-item]
    sch = Schedule(module, seed=0)
    sch.parallel(sch.get_loops("C")[0])
    assert sch.mod.functions["graph"] is other


def test_a_changed_function_is_marked_as_scheduled() -> None:
    sch = Schedule(matmul(), seed=0)
    sch.sample_perfect_tile(sch.get_loops("C")[0], 2)
    assert sch.func.attr("is_scheduled") is None, "sampling alone changes nothing"
    sch.parallel(sch.get_loops("C")[0])
    assert sch.mod["main"].attr("is_scheduled") is True


def test_several_functions_need_a_choice() -> None:
    sch = Schedule(two(), seed=0)
    with pytest.raises(ScheduleValueError, match=r"several PrimFuncs \('mm', 'chain'\)\. Name one"):
        sch.get_block("C")
    sch.work_on("chain")
    assert [sch.get(b).name for b in sch.get_consumers("B")] == ["C"]
    with pytest.raises(ScheduleValueError, match=r"no PrimFunc 'chains'.* Did you mean 'chain'"):
        sch.work_on("chains")
    mm = sch.get_loops(sch.get_block("C", "mm"))
    with pytest.raises(ScheduleValueError, match="The loops are of different functions"):
        sch.reorder(mm[0], sch.get_loops("C")[0])


def test_a_lowered_function_has_no_schedule() -> None:
    func = matmul()
    lowered = PrimFunc(func.params, Evaluate(Var("x")), func.attrs, "main")
    with pytest.raises(ScheduleError, match="'main' has no root block: it is lowered already, or"):
        Schedule(lowered)


def test_queries() -> None:
    sch = Schedule(linear_relu(4, 4, 4), seed=0)
    root = sch.get_block("root")
    assert [sch.get(b).name for b in sch.get_child_blocks(root)] == ["Y", "T", "Z"]
    assert [sch.get(b).name for b in sch.get_child_blocks(sch.get_loops("T")[0])] == ["T"]
    assert [sch.get(b).name for b in sch.get_producers("T")] == ["Y"]
    assert [sch.get(b).name for b in sch.get_consumers("T")] == ["Z"]
    assert [sch.get(b).name for b in sch.get_output_blocks("root")] == ["Z"]
    assert sch.get(sch.get_loops("Y")[2]).var.name == "k"


def test_unknown_names() -> None:
    sch = Schedule(linear_relu(4, 4, 4), seed=0)
    with pytest.raises(
        BlockNotFoundError, match=r"no block 'y' in 'main'; it has 'root', 'Y', 'T'"
    ):
        sch.get_block("y")
    with pytest.raises(ScheduleValueError, match="has no symbolic dimension 'm'; it has none"):
        sch.get_shape_var("m")


def test_handles_of_another_schedule_are_refused() -> None:
    sch, other = Schedule(matmul(), seed=0), Schedule(two(), seed=0)
    other.work_on("chain")
    block, loop = other.get_block("B"), other.get_loops("B")[0]
    words = "of 'chain', which another one gave out"
    for refused in (
        lambda: sch.split(loop, [2, None]),
        lambda: sch.fuse(loop),
        lambda: sch.get(loop),
        lambda: sch.get(block),
        lambda: sch.compute_inline(block),
    ):
        with pytest.raises(ScheduleValueError, match=words):
            refused()
    assert len(sch.trace) == 0


def test_a_failed_primitive_records_nothing() -> None:
    sch = Schedule(linear_relu(4, 4, 4), seed=0)
    with pytest.raises(ScheduleError):
        sch.compute_inline("Z")
    assert len(sch.trace) == 0
    sch.compute_inline("T")
    assert [i.kind for i in sch.trace] == ["get_block", "compute_inline"]


def test_a_copy_goes_its_own_way() -> None:
    sch = Schedule(matmul(), seed=0)
    i, j, _ = sch.get_loops("C")
    fork = sch.copy()
    fork.parallel(i)
    sch.vectorize(j)
    assert "parallel" in body(fork.func)
    assert "parallel" not in body(sch.func)
    assert "vectorized" not in body(fork.func)
    assert [inst.kind for inst in fork.trace] == ["get_block", "get_loops", "parallel"]
    sch.become(fork)
    assert body(sch.func) == body(fork.func)


def test_the_seed_is_kept() -> None:
    assert Schedule(matmul(), seed=7).seed == 7
    sch = Schedule(matmul())
    again = Schedule(matmul(), seed=sch.seed)
    for s in (sch, again):
        s.sample_perfect_tile(s.get_loops("C")[0], 3)
    assert sch.trace.decisions == again.trace.decisions


def test_handles_follow_renamed_blocks() -> None:
    sch = Schedule(matmul(), seed=0)
    c = sch.get_block("C")
    sch.decompose_reduction(c, sch.get_loops(c)[2])
    assert sch.block_name(c) == "C_update"
    assert len(sch.get_loops(c)) == 3


def test_values_of_symbolic_expressions() -> None:
    sch = Schedule(chain(Var("m"), 4), seed=0)
    v = sch.sample_categorical([3], [1.0])
    assert sch.get(v * 2 + 1) == 7
    with pytest.raises(ScheduleValueError, match="depends on a symbolic dimension"):
        sch.get(sch.get_shape_var("m"))


def test_show(capsys: pytest.CaptureFixture[str]) -> None:
    sch = Schedule(chain(), seed=0)
    sch.show()
    sch.mod.show()
    assert capsys.readouterr().out.count("def main(A: T.Buffer((8, 6)") == 2


def test_a_notebook_shows_program_and_trace() -> None:
    sch = Schedule(chain(), seed=0)
    sch.get_block("B")
    for shown in (sch._repr_html_(), sch.trace._repr_html_()):
        text = html.unescape(re.sub(r"<[^>]*>", "", shown))
        assert text.strip().endswith('b0 = sch.get_block(name="B", func_name="main")')
    assert "def main(A: T.Buffer((8, 6)" in html.unescape(re.sub(r"<[^>]*>", "", sch._repr_html_()))


def test_a_module_without_functions_has_nothing_to_schedule() -> None:
    with pytest.raises(ScheduleValueError, match="get_block: The module has no PrimFunc to sched"):
        Schedule(FunctionTable({}), seed=0).get_block("B")


def test_the_root_has_no_neighbours() -> None:
    for query in ("get_producers", "get_consumers"):
        with pytest.raises(ScheduleValueError, match=f"{query}: The block 'root' is the root of"):
            getattr(Schedule(chain(), seed=0), query)("root")


def test_a_place_without_a_loop_has_no_statement() -> None:
    sch = Schedule(chain(), seed=0)
    place = sch.sample_compute_location("B", decision=-1)
    with pytest.raises(ScheduleValueError, match="a place without a loop, made by sampling"):
        sch.get(place)
