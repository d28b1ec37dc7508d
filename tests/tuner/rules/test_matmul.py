"""Matrix products: tiles in registers, over weights as they are or packed."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

from burnish.support.host import native_target
from burnish.support.target import Target
from burnish.tensorir import operators as op
from burnish.tensorir.expr import IntImm, Var
from burnish.tensorir.function import PrimFunc
from burnish.tensorir.schedule import Schedule
from burnish.tensorir.te.compute import Tensor, create_prim_func, placeholder
from burnish.tensorir.text.printer import print_func
from burnish.tests.native import call_native
from burnish.tests.tuner.rules.checking import (
    HASWELL,
    SIZES,
    SKYLAKE,
    Shape,
    Workload,
    assembly_of,
    check_rule,
    scheduled,
)
from burnish.tuner.rules.matmul import MatmulRule, match, roles_of
from burnish.tuner.workload import block_named


def matmul(
    a: Shape, b: Shape, *, ta: bool = False, tb: bool = False, dtype: str = "float32"
) -> Workload:
    def turned(x: np.ndarray, turn: bool) -> np.ndarray:
        return x.swapaxes(-1, -2) if turn else x

    return Workload(
        lambda x, y: op.matmul(x, y, transpose_a=ta, transpose_b=tb),
        lambda x, y: turned(x, ta) @ turned(y, tb),
        a,
        b,
        dtype=dtype,
    )


def layer(rows: int | str, columns: int, depth: int, *, free: bool = True) -> PrimFunc:
    """``relu(x @ w.T + b)``, whose weight's layout is the schedule's where it is ``free``."""
    m = Var(rows) if isinstance(rows, str) else rows
    x, w = placeholder((m, depth), name="x"), placeholder((columns, depth), name="w")
    b = placeholder((columns,), name="b")
    func = create_prim_func([x, w, b, op.relu(op.linear(x, w, b))], "layer")
    return func.with_attr("layout_free", [1]) if free else func


@pytest.mark.parametrize("rows", [1, 2, 17, 33])
@pytest.mark.parametrize("columns", [1, 3, 17, 33, 64, 100])
def test_any_rows_and_columns(rows: int, columns: int) -> None:
    check_rule(matmul((rows, 5), (5, columns)), "matmul", seeds=1)


@pytest.mark.parametrize("depth", [n for n in SIZES if n > 1])
def test_any_depth(depth: int) -> None:
    check_rule(matmul((7, depth), (depth, 33)), "matmul", seeds=1)


@pytest.mark.parametrize("ta", [False, True])
@pytest.mark.parametrize("tb", [False, True])
@pytest.mark.parametrize("columns", [33, 96])
def test_any_layout(ta: bool, tb: bool, columns: int) -> None:
    a, b = (17, 31), (31, columns)
    check_rule(matmul(a[::-1] if ta else a, b[::-1] if tb else b, ta=ta, tb=tb), "matmul")


@pytest.mark.parametrize("tb", [False, True])
@pytest.mark.parametrize("batch", [(), (2,)])
def test_panels_of_zeros_fill_the_last_group(batch: tuple[int, ...], tb: bool) -> None:
    """A number of panels that nothing divides, of a weight that is copied."""
    b = (1601, 31) if tb else (31, 1601)
    check_rule(matmul((*batch, 70, 31), (*batch, *b), tb=tb), "matmul", seeds=3)


@pytest.mark.parametrize(
    ("a", "b"),
    [
        ((3, 17, 31), (3, 31, 33)),
        ((3, 17, 31), (31, 33)),
        ((17, 31), (3, 31, 33)),
        ((3, 1, 17, 31), (2, 31, 33)),
        ((1, 17, 31), (5, 31, 33)),
        ((9, 1, 31), (31, 33)),
        ((9, 3, 31), (31, 33)),
        ((1, 9, 31), (31, 33)),
        ((31,), (31, 33)),
        ((31,), (2, 31, 33)),
        ((4, 17, 7), (4, 7, 1)),
    ],
)
def test_batches(a: Shape, b: Shape) -> None:
    check_rule(matmul(a, b), "matmul", seeds=1)


@pytest.mark.parametrize("ta", [False, True])
def test_a_batch_of_transposed_weights(ta: bool) -> None:
    a = (3, 31, 17) if ta else (3, 17, 31)
    check_rule(matmul(a, (3, 33, 31), ta=ta, tb=True), "matmul")


@pytest.mark.parametrize("depth", [17, 40, 200])
def test_a_batch_whose_depth_does_not_fill_the_tiles_that_turn(depth: int) -> None:
    check_rule(matmul((4, 64, depth), (4, 64, depth), tb=True), "matmul", seeds=1, tolerance=1e-4)
    for target in (SKYLAKE, HASWELL):
        func = matmul((4, 64, depth), (4, 64, depth), tb=True).func
        assert scheduled(func, target=target.with_options(threads=2))[0] == "matmul"


@pytest.mark.parametrize(
    ("a", "b"),
    [
        (("m", 9), (9, 33)),
        ((3, 9), (9, "m")),
        ((3, "m"), ("m", 33)),
        (("m", 9), (9, "m")),
        (("m", 3, 9), ("m", 9, 33)),
        ((2, "m", 9), (9, 33)),
        (("m", 4, 9), (9, 33)),
    ],
)
def test_symbolic_dims(a: Shape, b: Shape) -> None:
    check_rule(matmul(a, b), "matmul", seeds=1, m=(0, 1, 2, 19))


def test_symbolic_attention() -> None:
    check_rule(matmul((2, "m", 8), (2, "m", 8), tb=True), "matmul", seeds=1, m=(1, 17, 40))


@pytest.mark.parametrize("dtype", ["float64", "int32", "float16"])
def test_other_dtypes(dtype: str) -> None:
    workload = matmul((9, 31), (31, 33), dtype=dtype)
    if dtype == "float16":
        workload.reference = lambda a, b: a.astype("float32") @ b.astype("float32")
    check_rule(workload, "matmul", tolerance=2e-3 if dtype == "float16" else 2e-5)


@pytest.mark.parametrize("rows", [40, "m"])
def test_half_precision_is_converted_before_the_product(rows: int | str) -> None:
    work = Workload(op.linear, lambda x, w: x @ w.T, (rows, 70), (130, 70), dtype="float16")
    check_rule(work, "matmul", tolerance=5e-3, **({"m": (1, 40)} if rows == "m" else {}))
    _, func = scheduled(work.func.with_attr("layout_free", [1]), target=SKYLAKE)
    text = func.script()
    assert 'a_global[v0, v1] = T.Cast("float32", a[v0, v1])' in text
    assert 'T.Cast("float32", a[v_i0, v_k])' not in text


@pytest.mark.parametrize(
    ("x", "w"), [((40, 65), (65, 1)), ((40, 65), (1, 33)), ((40, 1), (65, 33))]
)
def test_expanded_operands(x: tuple[int, int], w: tuple[int, int]) -> None:
    work = Workload(
        lambda a, b: op.matmul(op.broadcast_to(a, (40, 65)), op.broadcast_to(b, (65, 33))),
        lambda a, b: np.broadcast_to(a, (40, 65)) @ np.broadcast_to(b, (65, 33)), x, w,
    )  # fmt: skip
    check_rule(work, "matmul")


@pytest.mark.parametrize(("target", "depth"), [(SKYLAKE, 65), (SKYLAKE, 400), (HASWELL, 65)])
@pytest.mark.parametrize("columns", [33, 9, 200])
def test_a_partial_vector_of_columns_keeps_sums_in_registers(
    columns: int, depth: int, target: Target
) -> None:
    work = matmul((127, depth), (depth, columns))
    _, func = scheduled(work.func, target=target)
    bodies = loop_bodies(assembly_of(func, target))
    innermost = [b for b in bodies if sum([line.startswith(".LBB") for line in b]) == 1]
    products = [b for b in innermost if sum(["fmadd" in line for line in b]) > 2]
    assert products
    for body in products:
        assert not [line for line in body if "byte Spill" in line and "mm" in line]


@pytest.mark.parametrize("batch", [(), (3,)])
@pytest.mark.parametrize("rows", [6, 40, 100])
@pytest.mark.parametrize("tb", [False, True])
def test_the_rows_of_a_turned_matrix_times_a_column_are_in_vectors(
    rows: int, tb: bool, batch: Shape
) -> None:
    work = matmul((*batch, 37, rows), (*batch, 1, 37) if tb else (*batch, 37, 1), ta=True, tb=tb)
    check_rule(work, "matmul")
    found = match(work.func)
    assert found is not None
    assert found.w.buffer is work.func.buffers[0]
    _, func = scheduled(work.func, target=SKYLAKE)
    loads = [x for x in assembly_of(func, SKYLAKE).splitlines() if "gather" in x or "scatter" in x]
    assert loads == []  # each row of sums is a row of registers


def test_a_strange_order_of_axes() -> None:
    # Rows behind columns: the operand with the last axis is the one in vectors.
    check_rule(
        Workload(
            lambda a, b: op.permute_dims(op.matmul(a, b), (1, 0)),
            lambda a, b: (a @ b).T,
            (9, 31),
            (31, 33),
        ),
        "matmul",
    )


# -- prologues and epilogues -----------------------------------------------------------------------
def _softmax(x: np.ndarray) -> np.ndarray:
    powers = np.exp(x - x.max(-1, keepdims=True))
    return powers / powers.sum(-1, keepdims=True)


@pytest.mark.parametrize(
    ("build", "reference"),
    [
        (lambda a, b: op.relu(op.matmul(a, b)), lambda a, b: np.maximum(a @ b, 0)),
        (lambda a, b: op.matmul(op.exp(a), b), lambda a, b: np.exp(a) @ b),
        (lambda a, b: op.matmul(a, op.exp(b)), lambda a, b: a @ np.exp(b)),
        (lambda a, b: op.softmax(op.matmul(a, b)), lambda a, b: _softmax(a @ b)),
        (lambda a, b: op.sum(op.matmul(a, b), 0), lambda a, b: (a @ b).sum(0)),
        (lambda a, b: op.matmul(op.softmax(a), b), lambda a, b: _softmax(a) @ b),
        (
            lambda a, b: op.add(op.matmul(a, b), op.exp(op.matmul(a, b))),
            None,
        ),
    ],
)
def test_functions_around_a_product(
    build: Callable[..., Tensor], reference: Callable[..., np.ndarray] | None
) -> None:
    rule = "matmul"
    if reference is None:
        reference, rule = (lambda a, b: a @ b + np.exp(a @ b)), "reduction"
    workload = Workload(build, reference, (17, 7), (7, 33))
    check_rule(workload, rule, tolerance=1e-4)


def test_an_epilogue_with_two_readers() -> None:
    def build(a: Tensor, b: Tensor) -> Tensor:
        product = op.matmul(a, b)
        powers = op.exp(product)
        return op.add(op.multiply(powers, product), powers)

    def reference(a: np.ndarray, b: np.ndarray) -> np.ndarray:
        return np.exp(a @ b) * (a @ b) + np.exp(a @ b)

    check_rule(Workload(build, reference, (17, 3), (3, 33)), "matmul", tolerance=1e-4)


# -- weights of free layout ------------------------------------------------------------------------
def packed_weight(func: PrimFunc, w: np.ndarray) -> np.ndarray:
    """A weight [n, k] as the function wants it: [n / panel][k][panel], with zeros at the end."""
    panels, depth, panel = [d.value for d in func.buffers[1].shape if isinstance(d, IntImm)]
    padded = np.zeros((panels * panel, depth), w.dtype)
    padded[: len(w)] = w
    return np.ascontiguousarray(padded.reshape(panels, panel, depth).transpose(0, 2, 1))


@pytest.mark.parametrize("columns", [10, 33, 128])
@pytest.mark.parametrize("rows", [1, 3, 17, 64, "m"])
def test_layers(rows: int | str, columns: int) -> None:
    rule, func = scheduled(layer(rows, columns, 31))
    assert rule == "matmul"
    rng = np.random.default_rng(0)
    w = rng.standard_normal((columns, 31)).astype("float32")
    b = rng.standard_normal(columns).astype("float32")
    for m in (0, 1, 2, 12, 29) if rows == "m" else (rows,):
        x = rng.standard_normal((m, 31)).astype("float32")
        found = np.zeros((m, columns), "float32")
        call_native(func, x, packed_weight(func, w), b, found, dims=(m,) if rows == "m" else ())
        np.testing.assert_allclose(found, np.maximum(x @ w.T + b, 0), atol=2e-5, rtol=1e-4)


@pytest.mark.parametrize(("target", "lanes"), [(SKYLAKE, 16), (HASWELL, 8)])
def test_the_inner_loop_of_a_layer(target: Target, lanes: int) -> None:
    _, func = scheduled(layer(256, 128, 784), target=target.with_options(threads=1))
    assembly = assembly_of(func, target)
    assert "callq" not in assembly
    text = print_func(func)
    rows = int(
        text.split("i0_p0_1_init in T.unroll(" if "i0_p0" in text else "i0_1_init in T.unroll(")[
            1
        ].split(")")[0]
    )
    vectors = int(text.split("_2_init in T.unroll(")[1].split(")")[0])
    unroll = int(text.split("k_1 in T.unroll(")[1].split(")")[0])
    register = "zmm" if lanes == 16 else "ymm"
    bodies = [b for b in loop_bodies(assembly) if sum(x.startswith(".L") for x in b) == 1]
    body = max(bodies, key=lambda lines: sum("vfmadd" in x for x in lines))
    found = [x for x in body if "vfmadd" in x and register in x]
    assert len(found) == rows * vectors * unroll
    # Around it, the totals of blocks of k go to memory and come back.
    assert not any("Spill" in x or "Reload" in x for x in body)


@pytest.mark.parametrize("rows", [1, 2, 3, 5, 7])
@pytest.mark.parametrize("target", [HASWELL, SKYLAKE], ids=["haswell", "skylake"])
def test_few_rows_have_many_sums_in_flight(rows: int, target: Target) -> None:
    """Several panels at once where one has fewer sums than hide the latency, as far as registers
    hold them, also of a matrix that is read as it is."""
    _, func = scheduled(matmul((rows, 64), (64, 512)).func, target=target.with_options(threads=1))
    bodies = loop_bodies(assembly_of(func, target))
    body = max(bodies, key=lambda lines: sum("vfmadd" in x for x in lines))
    sums = {x.split()[-1].split(",")[-1] for x in map(_without_comment, body) if "vfmadd" in x}
    assert len(sums) >= 6
    assert not any("Spill" in x or "Reload" in x for x in body)


def _without_comment(line: str) -> str:
    return line.split("#")[0].strip()


def loop_bodies(assembly: str) -> list[list[str]]:
    """The lines from each label to a jump back to it."""
    lines = [x.strip() for x in assembly.splitlines()]
    labels = {x.split(":")[0]: i for i, x in enumerate(lines) if x.startswith(".L") and ":" in x}
    bodies = []
    for i, x in enumerate(lines):
        word = x.split()[-1] if x.startswith("j") else ""
        if word in labels and labels[word] < i:
            bodies.append(lines[labels[word] : i])
    return bodies


@pytest.mark.parametrize("threads", [2, 3])
def test_threads_change_no_bit(threads: int) -> None:
    for workload in (
        matmul((100, 40), (40, 100)),
        matmul((3, 40, 40), (3, 50, 40), tb=True),
        matmul((2, 40), (40, 1000)),
    ):
        _, func = scheduled(workload.func)
        assert "T.parallel" in print_func(func)
        inputs = workload.arguments()
        one, many = [np.zeros(workload.reference(*inputs).shape, "float32") for _ in range(2)]
        call_native(func, *inputs, one)
        call_native(func, *inputs, many, threads=threads)
        assert (one == many).all()


# -- decisions -------------------------------------------------------------------------------------
@pytest.mark.parametrize("rows", [5, 7, 9, 11, 13])
def test_all_rows_that_registers_hold_may_be_said(rows: int) -> None:
    work = matmul((29, 40), (40, 24))
    sch = Schedule(work.func, seed=0)
    sch.apply_rule("matmul", native_target(), {"rows": rows, "vectors": 1})
    extents = [sch.get(loop).extent for loop in sch.get_loops("matmul_init")]
    assert rows in [e.value for e in extents if isinstance(e, IntImm)]
    work.check(sch.func)


@pytest.mark.parametrize("rows", range(1, 20))
@pytest.mark.parametrize("columns", [8, 24, 1024])
def test_what_the_model_picks_is_taken(rows: int, columns: int) -> None:
    for target in (HASWELL, SKYLAKE):
        product = MatmulRule().match(matmul((rows, 40), (40, columns)).func, target)
        assert product is not None
        decisions = MatmulRule().decide(product, target)
        best = product.best_tile(target)
        assert (decisions.rows, decisions.vectors) == (best.rows, best.vectors)


@pytest.mark.parametrize(("rows", "depth", "panel"), [(8, 1024, 8), (6, 1024, 16), (8, 16, 16)])
def test_a_weight_from_far_away_is_read_once(rows: int, depth: int, panel: int) -> None:
    """One tile of eight rows and narrow panels, where two tiles would read the weight twice."""
    few = HASWELL.with_options(threads=1)
    _, func = scheduled(layer(rows, 1024, depth), target=few)
    shape = [d.value for d in func.buffers[1].shape if isinstance(d, IntImm)]
    assert shape == [1024 // panel, depth, panel]


def test_roles() -> None:
    def roles(a: Shape, b: Shape, **turned: bool) -> tuple[object, ...]:
        func = matmul(a, b, **turned).func
        found = match(func)
        assert found is not None
        r = roles_of(block_named(func, found.block), found)
        return r.front, r.row, r.inner

    assert roles((9, 5), (5, 7)) == ((), 0, ())
    assert roles((5,), (5, 7)) == ((), None, ())
    assert roles((4, 9, 5), (4, 5, 7)) == ((0,), 1, ())
    assert roles((4, 9, 5), (5, 7)) == ((0,), 1, ())
    assert roles((4, 1, 5), (5, 7)) == ((), 0, (1,))
    assert roles((4, 3, 5), (5, 7)) == ((), 0, (1,))
    assert roles((9, 5), (4, 5, 7)) == ((0,), 1, ())
    assert roles((4, 1, 9, 5), (2, 5, 7)) == ((1, 0), 2, ())


def test_what_is_no_product() -> None:
    assert match(Workload(op.relu, np.abs, (3, 4)).func) is None
    assert match(Workload(lambda a: op.sum(op.multiply(a, a), 1), np.abs, (3, 4)).func) is None
    assert (
        match(Workload(lambda a, b: op.sum(op.multiply(a, b), 1), np.abs, (3, 4), (3, 4)).func)
        is None
    )
