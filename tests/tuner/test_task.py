"""Tasks: what their keys depend on, their work, and which of them can be tuned here."""

from __future__ import annotations

from dataclasses import replace

import pytest

from burnish import te
from burnish.support.errors import TuningError
from burnish.support.host import native_target
from burnish.support.structural import structural_hash
from burnish.support.target import Target
from burnish.tensorir import operators as op
from burnish.tensorir.function import PrimFunc
from burnish.tensorir.lowering import lower_func
from burnish.tensorir.text.parser import parse_func
from burnish.tensorir.text.printer import print_func
from burnish.tests.tuner.programs import matmul
from burnish.tuner.task import (
    TuneTask,
    count_flop,
    geometric_mean,
    largest,
    narrow_operands,
    sizes_key,
    sizes_of_key,
    strip_attrs,
    target_key,
)

HERE = Target("native -threads=1")


def workload(func: PrimFunc) -> str:
    return TuneTask("main", func, HERE).workload


def test_the_workload_ignores_names_and_provenance() -> None:
    func = matmul()
    same = [
        matmul(names="XYZ", func_name="linear0"),
        func.with_attr("global_symbol", "fused_matmul"),
        func.with_attr("op_pattern", "out_fusable").with_attr("legalized", "matmul"),
        parse_func(print_func(func)),
    ]
    assert {workload(f) for f in same} == {workload(func)}


def test_the_workload_includes_what_code_depends_on() -> None:
    func = matmul()
    different = [
        func,
        matmul(16),
        matmul(dtype="float64"),
        func.with_attr("layout_free", [1]),
        func.with_attr("layout_free", [0, 1]),
        func.with_attr("inplace", True),
        func.with_attr("is_scheduled", True),
    ]
    assert len({workload(f) for f in different}) == len(different)
    assert workload(func.with_attr("layout_free", [])) == workload(func)


def test_a_layout_free_workload_survives_its_text() -> None:
    func = strip_attrs(matmul().with_attr("layout_free", [1]).with_attr("op_pattern", "x"))
    assert func.attrs == (("layout_free", [1]),)
    assert workload(parse_func(print_func(func))) == workload(func)


def test_the_target_key_names_what_measurements_depend_on() -> None:
    key = target_key(Target("llvm -mcpu=haswell -mattr=+avx2,+fma -threads=2"))
    assert key == "v2 haswell features=84489a27 threads=2"
    assert target_key(Target("llvm -mcpu=haswell")).endswith(" threads=any")
    assert target_key(Target("llvm -mcpu=haswell -mattr=+fma,+avx2 -threads=2")) == key
    assert target_key(Target("llvm -mcpu=haswell -mattr=+fma -threads=2")) != key
    assert target_key(Target("llvm -mcpu=haswell -l2=2M")) == target_key(
        Target("llvm -mcpu=haswell")
    )


def test_an_open_target_is_this_machine() -> None:
    task = TuneTask("main", matmul(), Target("native"))
    assert task.target.is_resolved
    assert task.target_key == target_key(native_target())


def test_flop_counts_what_the_blocks_compute() -> None:
    assert count_flop(matmul(32)) == 2 * 32**3
    a = te.placeholder((4, 8), name="A")
    relu = te.compute((4, 8), lambda i, j: te.maximum(te.exp(a[i, j]) + 1.0, 0.0), name="R")
    assert count_flop(te.create_prim_func([a, relu])) == 3 * 32
    whole = te.placeholder((4,), "int32", name="W")
    doubled = te.compute((4,), lambda i: whole[i] * 2, name="D")
    assert count_flop(te.create_prim_func([whole, doubled])) == 0
    assert TuneTask("main", matmul(32), HERE).flop == 65536.0


def product(dtype: str, second: str = "") -> PrimFunc:
    x = te.placeholder((4, 8), dtype, name="x")
    w = te.placeholder((8, 16), second or dtype, name="w")
    if dtype in ("int8", "uint8"):
        return te.create_prim_func([x, w, op.integer_matmul(x, w)])
    out_dtype = {} if dtype == "float32" else {"out_dtype": "float32"}
    return te.create_prim_func([x, w, op.matmul(x, w, **out_dtype)])  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("dtypes", "narrow"),
    [
        (("uint8", "int8"), ("uint8", "int8")),
        (("bfloat16", ""), ("bfloat16", "bfloat16")),
        (("float32", ""), ()),
    ],
)
def test_products_of_narrow_operands_count(
    dtypes: tuple[str, str], narrow: tuple[str, ...]
) -> None:
    func = product(*dtypes)
    assert count_flop(func) == 2 * 4 * 8 * 16
    assert narrow_operands(func) == narrow


def test_a_choice_is_no_operation() -> None:
    a = te.placeholder((8,), name="A")
    chosen = te.compute((8,), lambda i: te.if_then_else(i < 4, a[i], 0.0), name="R")
    assert count_flop(te.create_prim_func([a, chosen])) == 0


def test_symbolic_sizes_are_refused() -> None:
    n = te.var("n")
    a = te.placeholder((n, 8), name="A")
    b = te.compute((n, 8), lambda i, j: a[i, j] + 1.0, name="B")
    task = TuneTask("relu", te.create_prim_func([a, b]), HERE)
    assert task.flop == 0
    with pytest.raises(TuningError, match=r"'relu' has symbolic sizes \('n'\).* sizes=\[{'n': 1}"):
        task.verify_tunable()
    with pytest.raises(TuningError, match="needs 1 values"):
        replace(task, sizes=((4, 5),)).verify_tunable()


def test_sizes_are_measured_each_for_itself() -> None:
    func = matmul(te.var("n"))
    task = TuneTask("main", func, HERE, sizes=((16,), (64,)))
    task.verify_tunable()
    assert [structural_hash(f) for f in task.instances] == [
        structural_hash(strip_attrs(matmul(n))) for n in (16, 64)
    ]
    assert task.flop == pytest.approx(2 * 32**3)  # the geometric mean
    assert TuneTask("main", matmul(16), HERE).instances[0] is not None


def test_times_at_other_sizes_are_others() -> None:
    func = matmul(te.var("n"))
    plain, sized = (TuneTask("main", func, HERE, sizes=s) for s in ((), ((1,), (8,))))
    assert plain.workload == sized.workload
    assert sized.target_key == f"{plain.target_key} sizes=1;8"
    assert sizes_of_key(sized.target_key) == sized.sizes
    assert sizes_of_key(plain.target_key) == ()
    assert sizes_of_key(sizes_key(((1, 2), (3, 4)))) == ((1, 2), (3, 4))
    with pytest.raises(ValueError, match="invalid literal"):
        sizes_of_key(f"{plain.target_key} sizes=many")


def test_the_mean_and_the_largest() -> None:
    assert geometric_mean([2.0, 8.0]) == pytest.approx(4.0)
    assert geometric_mean([0.0, 8.0]) == 0.0
    assert largest(((3, 4), (2, 7), (1, 1))) == (2, 7)
    assert largest(()) == ()


def test_scalar_parameters_are_refused() -> None:
    func = parse_func(
        """
        def scale(A: T.Buffer((8,), "float32"), s: T.float32, B: T.Buffer((8,), "float32")):
            for i in range(8):
                with T.block("B"):
                    v = T.axis.spatial(8, i)
                    B[v] = A[v] * s
        """
    )
    with pytest.raises(TuningError, match=r"scalar parameters \('s'\)"):
        TuneTask("scale", func, HERE).verify_tunable()


def test_lowered_functions_are_refused() -> None:
    lowered = lower_func(matmul(), native_target()).func
    with pytest.raises(TuningError, match="is lowered"):
        TuneTask("main", lowered, HERE).verify_tunable()


def test_functions_without_a_result_are_refused() -> None:
    func = parse_func(
        """
        def nothing(A: T.Buffer((8,), "float32")):
            B = T.alloc_buffer((8,), "float32")
            for i in range(8):
                with T.block("B"):
                    v = T.axis.spatial(8, i)
                    B[v] = A[v]
        """
    )
    with pytest.raises(TuningError, match="writes none of its parameters"):
        TuneTask("nothing", func, HERE).verify_tunable()


def test_tunable_functions_pass() -> None:
    task = TuneTask("main", matmul(), HERE, weight=3)
    task.verify_tunable()
    task.verify_measurable()
    assert task.weight == 3


@pytest.mark.parametrize("cpu", sorted({"neoverse-n1", "haswell"} - {native_target().cpu}))
def test_another_machine_is_refused(cpu: str) -> None:
    task = TuneTask("main", matmul(), Target(f"llvm -mcpu={cpu}"))
    with pytest.raises(TuningError, match="is another machine than this one"):
        task.verify_measurable()


def test_features_this_machine_lacks_are_refused() -> None:
    target = Target("llvm", cpu=native_target().cpu, features=("+warp-drive",))
    target = target.with_options(triple=native_target().triple, vector_bits=128, l1_bytes=1 << 15)
    with pytest.raises(TuningError, match=r"it lacks \+warp-drive"):
        TuneTask("main", matmul(), target).verify_measurable()
