"""What only schedules written by hand need is imported when it is asked for, and is all there."""

from __future__ import annotations

import ast
import subprocess
import sys
from pathlib import Path

import pytest

from burnish.support.errors import TraceError
from burnish.tensorir.schedule import Schedule, Trace, by_hand, by_hand_methods
from burnish.tensorir.schedule.trace.rows import BY_HAND, ROWS
from burnish.tests.tensorir.schedule.programs import chain


def loaded_by(program: str) -> set[str]:
    """The modules of ``by_hand`` that a program loads, in a process of its own."""
    program += (
        "\nimport sys\n"
        "print(*[m.rpartition('.')[2] for m in sys.modules if '.schedule.by_hand.' in m])"
    )
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True
    )
    return set(done.stdout.split())


SCHEDULE = """
from burnish.tensorir.schedule import Schedule, Trace
from burnish.tensorir.text.parser import parse_func
sch = Schedule(parse_func('''
@T.prim_func
def main(A: T.Buffer((8,), "float32"), B: T.Buffer((8,), "float32")):
    for i in range(8):
        with T.block("B"):
            vi = T.axis.spatial(8, i)
            B[vi] = A[vi] + T.float32(1)
'''))
sch.split(sch.get_loops("B")[0], [2, 4])
"""


@pytest.mark.parametrize(
    ("more", "expected"),
    [
        ("assert 'reindex' in dir(sch)", set()),
        ("assert Trace.from_json(sch.trace.as_json()).simplified()", set()),
        ("sch.reindex('B', ('read', 0))", {"reindex", "reindex_cache_write"}),
        ("assert 'laid out by the axes' in Schedule.reindex.__doc__",
         {"reindex", "reindex_cache_write"}),
        ("assert Trace.from_json([['enter_postproc', [], [], [], None]]).simplified()",
         {"enter_postproc"}),
    ],
)  # fmt: skip
def test_a_primitive_is_loaded_when_it_is_asked_for(more: str, expected: set[str]) -> None:
    assert loaded_by(SCHEDULE + more) == expected


def test_every_file_is_in_the_table_and_what_type_checkers_see() -> None:
    assert by_hand.__file__ is not None
    files = {p.stem for p in Path(by_hand.__file__).parent.glob("*.py")} - {"__init__"}
    assert set(BY_HAND.values()) == files
    assert by_hand_methods.__file__ is not None
    tree = ast.parse(Path(by_hand_methods.__file__).read_text(encoding="utf-8"))
    (seen,) = [n for n in ast.walk(tree) if isinstance(n, ast.ClassDef) and n.bases]
    bases = [b.id.lower() for b in seen.bases if isinstance(b, ast.Name)]
    assert sorted(bases) == sorted(f.replace("_", "") for f in files)


@pytest.mark.parametrize("name", BY_HAND)
def test_a_method_is_that_of_its_file(name: str) -> None:
    method = getattr(Schedule, name)
    assert method.__name__ == name
    assert method.__module__.rpartition(".")[2] == BY_HAND[name]
    assert "return" in method.__annotations__
    assert name in dir(Schedule)
    assert (name in ROWS) is (name != "can_decompose_padding")


def test_what_is_no_instruction_is_refused_by_name() -> None:
    for name in ("can_decompose_padding", "reindexx"):
        with pytest.raises(TraceError, match=f"no instruction '{name}'"):
            Trace.from_json([[name, [], [], [], None]])


def test_traces_replay() -> None:
    sch = Schedule(chain(6, 5), seed=0)
    sch.enter_postproc()
    sch.reindex("C", ("read", 0))
    again = Schedule(chain(6, 5), seed=1)
    Trace.from_json(sch.trace.as_json()).apply_to(again)
    assert again.func.script() == sch.func.script()
