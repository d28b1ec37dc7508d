from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

from burnish.support.errors import (
    ArgumentError,
    ArityError,
    DTypeMismatchError,
    EnvironmentFunctionError,
    ShapeMismatchError,
    UnknownFunctionError,
    VMError,
)
from burnish.vm.assembler import Assembler
from burnish.vm.interpreter import VirtualMachine
from burnish.vm.program import Imm, Param, Program, TensorSpec
from burnish.vm.registry import register_func, unregister_func
from burnish.vm.tensor import Tensor, array

VECTOR = TensorSpec(("n",), "float32")
SCALAR = TensorSpec((), "bool")


@pytest.fixture(autouse=True)
def environment() -> Iterator[None]:
    @register_func("test.scale")
    def scale(x: Tensor, factor: Tensor, out: Tensor) -> None:
        np.multiply(x.numpy(), factor.numpy(), out=out.numpy())

    @register_func("test.fail")
    def fail(*args: Tensor) -> None:
        raise KeyError("weights")

    yield
    for name in ("test.scale", "test.fail"):
        unregister_func(name)


def scaled(name: str = "test.scale") -> Program:
    asm = Assembler()
    factor = asm.constant(np.array(3, np.float32))
    with asm.function("main", [Param("x", VECTOR)], VECTOR, ("n",)) as f:
        f.match_shape()
        y = f.alloc_tensor(("n",), "float32")
        f.call_env(name, [f.param(0), factor, y])
        f.ret(y)
    return asm.finish()


def test_environment_functions_and_constants() -> None:
    vm = VirtualMachine(scaled())
    assert vm["main"](np.array([1, 2], np.float32)).tolist() == [3, 6]
    assert vm.constants[0].pointer % 64 == 0
    assert vm.program.constants[0] is vm.constants[0]


def test_the_latest_registration_counts() -> None:
    vm = VirtualMachine(scaled())
    main = vm["main"]
    register_func("test.scale", lambda x, f, out: out.numpy().fill(7), override=True)
    assert main(np.zeros(2, np.float32)).tolist() == [7, 7]


def test_a_missing_environment_function_is_known_before_the_call() -> None:
    vm = VirtualMachine(scaled("test.scael"))
    with pytest.raises(UnknownFunctionError, match=r"Did you mean 'test.scale'\?"):
        vm["main"]


def test_an_environment_function_that_raises() -> None:
    vm = VirtualMachine(scaled("test.fail"))
    with pytest.raises(EnvironmentFunctionError, match=r"'test.fail' raised KeyError") as error:
        vm["main"](np.zeros(2, np.float32))
    assert isinstance(error.value.__cause__, KeyError)


@pytest.mark.parametrize("flag", [True, False])
def test_branches(flag: bool) -> None:
    asm = Assembler()
    factor = asm.constant(np.array(3, np.float32))
    with asm.function("main", [Param("x", VECTOR), Param("c", SCALAR)], VECTOR, ("n",)) as f:
        f.match_shape()
        result = f.register()
        otherwise, end = f.label("else"), f.label("end")
        f.branch(f.read_scalar(f.param(1)), otherwise)
        y = f.alloc_tensor(("n",), "float32")
        f.call_env("test.scale", [f.param(0), factor, y])
        f.move(y, result)
        f.goto(end)
        f.place(otherwise)
        f.move(f.param(0), result)
        f.place(end)
        f.ret(result)
    vm = VirtualMachine(asm.finish())
    x = np.array([1, 2], np.float32)
    assert vm["main"](x, np.array(flag)).tolist() == ([3, 6] if flag else [1, 2])


def test_calls_between_functions_storages_and_tuples() -> None:
    asm = Assembler()
    factor = asm.constant(np.array(2, np.float32))
    with asm.function("inner", [Param("x", VECTOR)], (VECTOR, VECTOR), ("n",)) as f:
        f.match_shape()
        storage = f.alloc_storage("n * 4 + 64")
        y = f.tensor_at(storage, "64", ("n",), "float32")
        f.call_env("test.scale", [f.param(0), factor, y])
        f.ret(f.make_tuple([f.param(0), y]))
    square = TensorSpec(("k", "k"), "float32")
    with asm.function("main", [Param("x", square)], VECTOR, ("k",)) as f:
        f.match_shape()
        both = f.call_function("inner", [f.reshape(f.param(0), ("k * k",))])
        y = f.tuple_get(both, 1)
        twin = f.alloc_tensor(("k * k",), "float32")
        f.copy(y, twin)
        f.ret(f.make_tuple([twin, f.value("builtin:shape_of", [y]), f.make_shape(("k", "k + 1"))]))
    y, shape, other = VirtualMachine(asm.finish())["main"](np.ones((2, 2), np.float32))
    assert y.tolist() == [2, 2, 2, 2]
    assert (shape, other) == ((4,), (2, 3))


def test_recursion() -> None:
    asm = Assembler()
    with asm.function("main", [Param("x", VECTOR), Param("go", SCALAR)], VECTOR, ("n",)) as f:
        f.match_shape()
        end = f.label("end")
        f.branch(f.read_scalar(f.param(1)), end)
        stop = asm.constant(np.array(False))
        f.ret(f.call_function("main", [f.param(0), stop]))
        f.place(end)
        f.ret(f.param(0))
    x = np.ones(3, np.float32)
    assert VirtualMachine(asm.finish())["main"](x, np.array(True)).tolist() == [1, 1, 1]


def test_a_condition_on_dims() -> None:
    asm = Assembler()
    params = [Param("x", VECTOR), Param("y", TensorSpec(("m",), "float32"))]
    with asm.function("main", params, VECTOR, ("n", "m")) as f:
        f.match_shape()
        f.check("m == n", "The operands of add do not broadcast.")
        f.ret(f.param(0))
    main = VirtualMachine(asm.finish())["main"]
    x = np.zeros(2, np.float32)
    assert main(x, x).shape == (2,)
    with pytest.raises(ShapeMismatchError, match=r"n = 2, m = 3. The operands of add do not"):
        main(x, np.zeros(3, np.float32))


def arguments() -> list[tuple[tuple[Any, ...], type[Exception], str]]:
    x = np.zeros((2, 4), np.float32)
    return [
        ((x,), ArityError, r"main takes 2 arguments \(x: float32\(m, 4\), y: .*\); got 1"),
        ((x, x.astype(np.int32)), DTypeMismatchError, "y: expected dtype float32, got int32"),
        ((x, x[:1]), ShapeMismatchError, r"'y': expected shape \(m, 4\) with m = 2, got \(1, 4\)"),
        ((x, "text"), ArgumentError, "main, argument 'y': expected a NumPy array"),
    ]


@pytest.mark.parametrize(("args", "error", "message"), arguments())
def test_both_ways_check_the_same(
    add_program: Program, args: tuple[Any, ...], error: type[Exception], message: str
) -> None:
    vm = VirtualMachine(add_program)
    for call in (vm["main"], lambda *a: vm.run("main", a)):
        with pytest.raises(error, match=message):
            call(*args)


def test_both_ways_give_the_same_bits(add_program: Program) -> None:
    vm = VirtualMachine(add_program)
    rng = np.random.default_rng(0)
    a, b = rng.random((9, 4), dtype=np.float32), rng.random((9, 4), dtype=np.float32)
    assert vm.fast_entry("main", print) is not None
    fast, slow = vm["main"](a, b), vm.run("main", [a, b])
    assert fast.numpy().tobytes() == slow.numpy().tobytes() == (a + b).tobytes()
    strided = vm["main"](np.asfortranarray(a), array(b))
    assert strided.numpy().tobytes() == fast.numpy().tobytes()


def test_torch_tensors(add_program: Program) -> None:
    torch = pytest.importorskip("torch")
    x = torch.rand(3, 4)
    y = VirtualMachine(add_program)["main"](x, x.t().contiguous().t())
    assert torch.equal(torch.from_dlpack(y), x + x)


def test_an_executable_has_a_program(add_program: Program) -> None:
    class Executable:
        program = add_program

    assert VirtualMachine(Executable()).program is add_program


def test_unknown_names(add_program: Program) -> None:
    with pytest.raises(UnknownFunctionError, match=r"Did you mean 'main'\?"):
        VirtualMachine(add_program)["mian"]
    asm = Assembler()
    with asm.function("main", [], TensorSpec((), "int8")) as f:
        f.call(
            "builtin:alloc_tensr",
            [
                Imm(
                    (),
                ),
                Imm("int8"),
            ],
        )
        f.ret(Imm(0))
    with pytest.raises(VMError, match=r"no builtin 'alloc_tensr'. Did you mean 'alloc_tensor'\?"):
        VirtualMachine(asm.finish())["main"]()


def test_a_program_without_its_constants() -> None:
    program = scaled()
    program.constants[0] = None
    with pytest.raises(VMError, match="Constant 0 of the program is NoneType"):
        VirtualMachine(program)


def test_time_evaluator(add_program: Program) -> None:
    x = np.zeros((2, 4), np.float32)
    r = VirtualMachine(add_program).time_evaluator("main", number=5, repeat=4)(x, x)
    assert len(r.results) == 4
    assert 0 < r.min <= r.median <= r.max < 60


def test_what_is_no_program() -> None:
    with pytest.raises(VMError, match=r"runs a Program or what burnish\.build gives; found int"):
        VirtualMachine(3)  # type: ignore[arg-type]


def test_there_are_no_devices() -> None:
    with pytest.raises(VMError, match=r"takes the executable alone: .* found 'cpu' beside it"):
        VirtualMachine(scaled(), "cpu")
