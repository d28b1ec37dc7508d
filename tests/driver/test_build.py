"""burnish.build: PrimFuncs as they stand, modules of both kinds, environment functions."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
import torch

import burnish
from burnish import errors
from burnish.tests.driver.programs import add_one, mixed
from burnish.vm.registry import unregister_func


@pytest.fixture(autouse=True)
def double() -> Iterator[None]:
    """An environment function that writes in place through DLPack."""

    @burnish.register_func("env.driver.double", override=True)
    def double(x: Any, out: Any) -> None:
        torch.mul(torch.from_dlpack(x), 2, out=torch.from_dlpack(out))

    yield
    unregister_func("env.driver.double")


# -- PrimFuncs ------------------------------------------------------------------------------------
@pytest.mark.parametrize("make", [np.zeros, burnish.empty])
def test_a_prim_func_is_called_with_its_outputs(make: Any) -> None:
    lib = burnish.build(add_one())
    x, y = np.arange(8, dtype=np.float32), make((8,), "float32")
    assert lib["main"](burnish.array(x), y) is None
    np.testing.assert_array_equal(np.asarray(y), x + 1)
    assert lib["add_one"] is lib["main"]


def test_it_is_timed_alone() -> None:
    lib = burnish.build(add_one())
    x, y = np.zeros(8, np.float32), np.zeros(8, np.float32)
    time = lib.time_evaluator("main", number=2, repeat=3)(x, y)
    assert len(time.results) == 3
    assert 0 < time.min <= time.mean < 1
    assert y[0] == 1


def test_a_module_of_prim_funcs() -> None:
    lib = burnish.build(burnish.IRModule({"one": add_one("one"), "two": add_one("two", 4)}))
    y = np.zeros(4, np.float32)
    lib["two"](np.ones(4, np.float32), y)
    assert y.tolist() == [2] * 4
    with pytest.raises(errors.UnknownFunctionError, match="Did you mean 'two'"):
        lib["tow"]
    with pytest.raises(errors.UnknownFunctionError):
        lib["main"]  # there are two: which one is meant cannot be known


def test_arguments_are_checked() -> None:
    lib = burnish.build(add_one())
    x, y = np.zeros(8, np.float32), np.zeros(8, np.float32)
    with pytest.raises(errors.ArityError, match="takes 2 arguments"):
        lib["main"](x)
    with pytest.raises(errors.ShapeMismatchError, match=r"argument 'y': expected shape \(8,\)"):
        lib["main"](x, np.zeros(9, np.float32))
    with pytest.raises(errors.DTypeMismatchError):
        lib["main"](x, np.zeros(8))
    with pytest.raises(errors.ArgumentError, match="overlaps the memory of 'x'"):
        lib["main"](x, x)
    with pytest.raises(errors.ArgumentError, match="C-contiguous"):
        lib["main"](x, np.zeros(16, np.float32)[::2])
    y.flags.writeable = False
    with pytest.raises(errors.ArgumentError, match="read-only"):
        lib["main"](x, y)


def test_symbolic_sizes() -> None:
    func = burnish.parse(
        """
@T.prim_func
def scale(a: T.handle, b: T.handle):
    n = T.int64()
    A = T.match_buffer(a, (n,), "float32")
    B = T.match_buffer(b, (n,), "float32")
    for i in range(n):
        with T.block("B"):
            v = T.axis.spatial(n, i)
            B[v] = A[v] * T.float32(3)
"""
    )
    lib = burnish.build(func)
    for n in (0, 1, 7, 100):
        y = np.zeros(n, np.float32)
        lib["main"](np.ones(n, np.float32), y)
        assert (y == 3).all()
    with pytest.raises(errors.ShapeMismatchError, match="with n = 3"):
        lib["main"](np.ones(3, np.float32), np.ones(4, np.float32))


def test_a_schedule_and_a_compute_definition_build() -> None:
    from burnish import te

    A = te.placeholder((8,), name="A")
    B = te.compute((8,), lambda i: A[i] * 2.0, name="B")
    sch = burnish.Schedule(te.create_prim_func([A, B]))
    sch.vectorize(sch.get_loops("B")[0])
    y = np.zeros(8, np.float32)
    burnish.build(sch)["main"](np.ones(8, np.float32), y)
    assert y.tolist() == [2] * 8


def test_a_stage_schedule_is_built_into_a_function_of_a_name() -> None:
    from burnish import te

    A = te.placeholder((8,), name="A")
    B = te.compute((8,), lambda i: A[i] * 2.0, name="B")
    lib = burnish.build(te.create_schedule(B.op), [A, B], "llvm", name="double")
    y = np.zeros(8, np.float32)
    lib["double"](np.ones(8, np.float32), y)
    assert y.tolist() == [2] * 8
    assert list(lib.mod.functions) == ["double"]
    with pytest.raises(errors.BurnishError, match="the functions of a PrimFunc have names already"):
        burnish.build(add_one(), name="other")


def test_parallel_loops_give_the_same_for_any_number_of_threads() -> None:
    func = add_one(n=100_003, loop="T.parallel")
    x = np.random.default_rng(0).random(100_003, np.float32)
    for threads in (None, 1, 2):
        y = np.zeros_like(x)
        burnish.build(func, threads=threads)["main"](x, y)
        np.testing.assert_array_equal(y, x + 1)


def test_what_cannot_be_built() -> None:
    with pytest.raises(errors.BurnishError, match="build takes an IRModule"):
        burnish.build(3)
    with pytest.raises(errors.BurnishError, match="no functions"):
        burnish.build(burnish.IRModule())
    with pytest.raises(errors.BurnishError, match="args="):
        burnish.build(add_one(), [1])
    with pytest.raises(errors.ArgumentError, match="threads=0"):
        burnish.build(add_one(), threads=0)
    with pytest.raises(errors.TargetError):
        burnish.build(add_one(), target="llvm -mcpu=nonsense")


def test_the_module_is_not_changed_and_not_kept() -> None:
    module = burnish.IRModule({"main": add_one("main")})
    text = module.script()
    lib = burnish.build(module)
    assert module.script() == text
    module.update_func("main", add_one("main", 5))
    y = np.zeros(8, np.float32)
    lib["main"](np.zeros(8, np.float32), y)
    assert y[0] == 1


# -- modules with graph functions -----------------------------------------------------------------
def test_a_module_may_mix_everything() -> None:
    x = np.array([-3, -1, 0, 2], np.float32)
    wanted = 2 * np.maximum(2 * (x + 1) + 1, 0)
    vm = burnish.VirtualMachine(burnish.build(mixed()))
    np.testing.assert_array_equal(vm["main"](x).numpy(), wanted)
    np.testing.assert_array_equal(burnish.compile(mixed())(x), wanted)


def test_prim_funcs_of_the_user_stay_as_they_stand() -> None:
    module = mixed()
    lib = burnish.build(module)
    for stage in lib.stages.values():
        assert stage["add_one"] is module["add_one"]
    assert lib.report.kernels == ["add_one", "fused_relu_add"]
    y = np.zeros(4, np.float32)
    lib["add_one"](np.ones(4, np.float32), y)
    assert y.tolist() == [2] * 4


def test_a_graph_function_is_not_called_through_the_library() -> None:
    lib = burnish.build(mixed())
    for use in (lambda: lib["main"], lambda: lib.time_evaluator("main")):
        with pytest.raises(errors.ArgumentError, match=r"VirtualMachine\(lib\)\['main'\]"):
            use()


def test_an_unknown_environment_function_names_the_nearest() -> None:
    lib = burnish.build(mixed("env.driver.duoble"))
    vm = burnish.VirtualMachine(lib)
    with pytest.raises(errors.UnknownFunctionError, match=r"Did you mean 'env\.driver\.double'"):
        vm["main"]


def test_an_environment_function_that_raises_is_named() -> None:
    @burnish.register_func("env.driver.raises", override=True)
    def raises(x: Any, out: Any) -> None:
        raise ZeroDivisionError("boom")

    vm = burnish.VirtualMachine(burnish.build(mixed("env.driver.raises")))
    with pytest.raises(errors.EnvironmentFunctionError, match="ZeroDivisionError: boom") as caught:
        vm["main"](np.zeros(4, np.float32))
    assert isinstance(caught.value.__cause__, ZeroDivisionError)
    unregister_func("env.driver.raises")


def test_a_name_is_registered_once() -> None:
    with pytest.raises(errors.DuplicateFunctionError, match="override=True"):
        burnish.register_func("env.driver.double", print)


def test_the_latest_registration_counts() -> None:
    vm = burnish.VirtualMachine(burnish.build(mixed()))

    @burnish.register_func("env.driver.double", override=True)
    def triple(x: Any, out: Any) -> None:
        np.multiply(x.numpy(), 3, out=out.numpy())

    assert vm["main"](np.zeros(4, np.float32)).tolist() == [8] * 4


@pytest.mark.parametrize("target", ["llvm", burnish.Target("native"), {"kind": "llvm"}])
def test_a_target_may_come_second(target: Any) -> None:
    lib = burnish.build(add_one(), target)
    y = np.zeros(8, np.float32)
    lib["main"](np.ones(8, np.float32), y)
    np.testing.assert_array_equal(y, np.full(8, 2))
    assert lib.mod is lib.module


def test_two_targets_are_one_too_many() -> None:
    with pytest.raises(errors.ArgumentError, match="two targets, 'llvm' and 'haswell'"):
        burnish.build(add_one(), "llvm", "haswell")


@pytest.mark.parametrize(
    ("extent", "law"), [(9, "every access lies in its buffer"), (7, "axes all of their domains")]
)
def test_a_kernel_that_a_graph_calls_keeps_the_laws_too(extent: int, law: str) -> None:
    text = f"""
@I.ir_module
class Module:
    @T.prim_func
    def copy(A: T.Buffer((8,), "float32"), B: T.Buffer((8,), "float32")):
        for i in range({extent}):
            with T.block("B"):
                vi = T.axis.spatial({max(extent, 8)}, i)
                B[vi] = A[vi]

    @R.function
    def main(x: R.Tensor((8,))):
        y = R.call_dps(cls.copy, (x,), R.Tensor((8,)))
        return y
"""
    with pytest.raises(errors.VerifyError, match=law):
        burnish.build(burnish.parse(text))
