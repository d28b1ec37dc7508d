"""Kernel descriptors of lowered functions."""

from __future__ import annotations

import pytest

from burnish.support.errors import CodegenError
from burnish.support.host import native_target
from burnish.tensorir.lowering import lower_func
from burnish.tensorir.text.parser import parse_func
from burnish.tests.tuner.programs import matmul
from burnish.tuner.measuring.kernel import describe_kernel


def test_a_static_function() -> None:
    func = matmul(8).with_attr("global_symbol", "product")
    kernel = describe_kernel(func, lower_func(func, native_target()))
    assert (kernel.name, kernel.symbol) == ("product", "product")
    assert [(p.name, p.spec.shape, p.spec.dtype) for p in kernel.params] == [
        (name, ("8", "8"), "float32") for name in "ABC"
    ]
    assert kernel.outputs == (2,)
    assert kernel.dims == ()
    assert (kernel.shared_bytes, kernel.thread_bytes) == ("0", "0")
    assert not kernel.inplace


def test_a_symbol_of_its_own_and_the_inplace_mark() -> None:
    func = matmul(8).with_attr("inplace", True)
    kernel = describe_kernel(func, lower_func(func, native_target()), "main_1234")
    assert (kernel.name, kernel.symbol, kernel.inplace) == ("main", "main_1234", True)


def test_symbolic_dims_have_distinct_names_and_give_the_workspace() -> None:
    func = parse_func(
        """
        def twice(a: T.handle, b: T.handle):
            n = T.int64()
            A = T.match_buffer(a, (n, 4), "float32")
            B = T.match_buffer(b, (n, 4), "float32")
            C = T.alloc_buffer((n, 4), "float32")
            for i, j in T.grid(n, 4):
                with T.block("C"):
                    v, w = T.axis.remap("SS", [i, j])
                    C[v, w] = A[v, w] * T.float32(2)
            for i, j in T.grid(n, 4):
                with T.block("B"):
                    v, w = T.axis.remap("SS", [i, j])
                    B[v, w] = C[v, 3 - w]
        """
    )
    kernel = describe_kernel(func, lower_func(func, native_target()))
    assert kernel.dims == ("n",)
    assert kernel.params[0].spec.shape == ("n", "4")
    assert "n" in kernel.shared_bytes


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
    with pytest.raises(CodegenError, match="'s' is a scalar"):
        describe_kernel(func, lower_func(matmul(8), native_target()))


@pytest.mark.parametrize(
    ("layout", "message"),
    [
        ("strides=[8, 1]", "'A' is declared with strides that are not those of a contiguous"),
        ("strides=[1, 4]", "'A' is declared with strides that are not those of a contiguous"),
        ("strides=[4, 1]", ""),
        ("elem_offset=2", "'A' is declared with an elem_offset"),
    ],
)
def test_parameters_are_contiguous_arrays(layout: str, message: str) -> None:
    func = parse_func(
        f"""
        def copy(a: T.handle, B: T.Buffer((4, 4), "float32")):
            A = T.match_buffer(a, (4, 4), "float32", {layout})
            for i, j in T.grid(4, 4):
                with T.block("B"):
                    v, w = T.axis.remap("SS", [i, j])
                    B[v, w] = A[v, w]
        """
    )
    lowered = lower_func(func, native_target())
    if message:
        with pytest.raises(CodegenError, match=message):
            describe_kernel(func, lowered)
    else:
        assert [p.name for p in describe_kernel(func, lowered).params] == ["A", "B"]


def test_a_size_is_no_parameter() -> None:
    func = parse_func("""
@T.prim_func
def main(A: T.Buffer(("n",), "float32"), B: T.Buffer(("n",), "float32"), n: T.int64):
    for i in range(n):
        with T.block("B"):
            vi = T.axis.spatial(n, i)
            B[vi] = A[vi]
""")
    with pytest.raises(CodegenError, match="the size 'n' is a parameter"):
        describe_kernel(func, lower_func(func, native_target()))
