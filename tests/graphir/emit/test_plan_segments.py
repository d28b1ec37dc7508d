from __future__ import annotations

from dataclasses import replace

from burnish.graphir.dim import print_dim
from burnish.graphir.emit.linearize import KernelInfo, KernelOp, Memory, View
from burnish.graphir.emit.plan_segments import plan_segment, rename_dims, size_of, spec_of
from burnish.graphir.type import tensor_type
from burnish.tensorir.expr import Expr, IntImm
from burnish.tensorir.expr import Var as DimVar
from burnish.vm.program import Kernel, TensorSpec

M = DimVar("m")
KIND = tensor_type((M, 16))


def op(name: str, source: Memory, target: Memory, shared: Expr | None = None) -> KernelOp:
    own = DimVar("rows")
    size = IntImm(0) if shared is None else shared
    info = KernelInfo(Kernel(name, f"{name}_symbol", (), (1,), ("rows",)), (own,), size, IntImm(64))
    return KernelOp(info, (View(source, KIND),), (View(target, KIND),), (M,))


def test_a_chain() -> None:
    x = Memory("param", KIND)
    a, b, c, y = [Memory("call", KIND) for _ in range(4)]
    first = op("f", x, a)
    own = first.info.dims[0]
    first = replace(first, info=replace(first.info, shared_bytes=own * 128))
    run = [first, op("g", a, b), op("h", b, c, IntImm(256)), op("f", c, y)]
    plan = plan_segment("seg", run, frozenset([y]), [M])
    assert plan.args == (x, y)
    assert (plan.name, plan.num_args, plan.dim_names) == ("seg", 2, ("m",))
    assert [
        [o if isinstance(o[1], int) else (o[0], print_dim(o[1])) for o in c.operands]
        for c in plan.calls
    ] == [
        [("arg", 0), ("workspace", "0")],
        [("workspace", "0"), ("workspace", "m * 64")],
        [("workspace", "m * 64"), ("workspace", "0")],
        [("workspace", "0"), ("arg", 1)],
    ]
    assert [c.symbol for c in plan.calls] == ["f_symbol", "g_symbol", "h_symbol", "f_symbol"]
    assert {print_dim(c.workspace_offset) for c in plan.calls} == {"m * 128"}
    assert plan.kernel.shared_bytes == "m * 128 + max(m * 128, 256)"
    assert plan.kernel.thread_bytes == "64"
    assert plan.kernel.outputs == (1,)
    assert [p.spec for p in plan.kernel.params] == [TensorSpec(("m", "16"), "float32")] * 2


def test_what_others_read_is_an_argument() -> None:
    x, a, y = Memory("param", KIND), Memory("call", KIND), Memory("call", KIND)
    plan = plan_segment("seg", [op("f", x, a), op("g", a, y)], frozenset([a, y]), [M])
    assert plan.args == (x, a, y)
    assert plan.kernel.outputs == (1, 2)
    assert plan.kernel.shared_bytes == "0"


def test_only_the_dims_that_are_used() -> None:
    n = DimVar("n")
    x, a, y = Memory("param", KIND), Memory("call", KIND), Memory("call", KIND)
    plan = plan_segment("seg", [op("f", x, a), op("g", a, y)], frozenset([y]), [n, M])
    assert plan.dim_names == plan.kernel.dims == ("m",)


def test_names_of_dims() -> None:
    dims = [DimVar(n) for n in ("n", "n", "max", "2*s", "lambda", "n_1")]
    renamed = rename_dims(dims)
    assert [v.name for v in renamed.values()] == ["n", "n_1", "max_1", "d", "d_1", "n_1_1"]
    assert renamed[dims[0]] is dims[0]


def test_sizes_and_specs() -> None:
    assert print_dim(size_of(tensor_type((M, 3), "float64"))) == "m * 24"
    assert spec_of(tensor_type((M * 2,), "int8")) == TensorSpec(("m * 2",), "int8")
