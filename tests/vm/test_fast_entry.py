from __future__ import annotations

import gc
import threading
import weakref
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from burnish.vm import fast_entry
from burnish.vm.assembler import Assembler, FunctionBuilder
from burnish.vm.fast_entry import NUMPY, ArrayKind, FastEntry
from burnish.vm.interpreter import TENSOR, VirtualMachine
from burnish.vm.program import Call, Imm, Kernel, Param, Program, ResultSpec, TensorSpec
from burnish.vm.storage import Storage
from burnish.vm.tensor import Tensor, array

ROW = np.array([[1, 2, 3, 4]], np.float32)


class Slow:
    """Stands for the checked path: records what came to it."""

    def __init__(self) -> None:
        self.calls: list[tuple[object, ...]] = []

    def __call__(self, *args: object) -> str:
        self.calls.append(args)
        return "slow"


@pytest.fixture
def slow() -> Slow:
    return Slow()


def entry_of(program: Program, slow: Slow, kind: ArrayKind = NUMPY) -> FastEntry:
    entry = VirtualMachine(program).fast_entry("main", slow, kind=kind)
    assert entry is not None
    return entry


def test_static_function(double_program: Program, slow: Slow) -> None:
    call = entry_of(double_program, slow).call
    y = call(ROW)
    assert type(y) is np.ndarray
    assert y.tolist() == [2, 4, 6, 8]
    assert slow.calls == []


def test_large_outputs_begin_with_a_cache_line(
    double_object: bytes, double_kernel: Kernel, slow: Slow
) -> None:
    asm = Assembler()
    asm.add_object(double_object)
    asm.add_kernel(double_kernel)
    shape = ("262144", "4")
    params = [Param("x", TensorSpec(("1", "4"), "float32"))]
    with asm.function("main", params, TensorSpec(shape, "float32")) as f:
        out = f.alloc_tensor(shape, "float32")
        f.call_kernel("double", [f.param(0), out])
        f.ret(out)
    call = entry_of(asm.finish(), slow).call
    found = [call(ROW) for _ in range(3)]
    assert slow.calls == []
    assert len({y.ctypes.data for y in found}) == 3
    for y in found:
        assert y.shape == (262144, 4)
        assert y.ctypes.data % 64 == 0
        assert y[0].tolist() == [2, 4, 6, 8]


@pytest.mark.parametrize("m", [0, 1, 7, 100])
def test_symbolic_function(add_program: Program, slow: Slow, m: int) -> None:
    call = entry_of(add_program, slow).call
    x = np.random.default_rng(m).random((m, 4), dtype=np.float32)
    for size in (x, np.concatenate([x, x])):
        assert np.array_equal(call(size, size), size + size)
    assert slow.calls == []


@pytest.mark.parametrize(
    "args",
    [
        (),
        (ROW, ROW),
        ([[1, 2, 3, 4]],),
        (None,),
        (ROW.astype(np.float64),),
        (ROW.astype(">f4"),),
        (ROW[0],),
        (np.zeros((2, 4), np.float32),),
        (np.zeros((1, 8), np.float32)[:, ::2],),
        (np.zeros(17, np.uint8)[1:].view(np.float32).reshape(1, 4),),
        (ROW.view(np.recarray),),
    ],
)
def test_the_unusual_goes_to_slow_as_it_came(
    double_program: Program, slow: Slow, args: tuple[object, ...]
) -> None:
    assert entry_of(double_program, slow).call(*args) == "slow"
    assert len(slow.calls[0]) == len(args)
    assert all(a is b for a, b in zip(slow.calls[0], args, strict=True))


def test_mismatched_dims_go_to_slow(add_program: Program, slow: Slow) -> None:
    call = entry_of(add_program, slow).call
    assert call(np.zeros((2, 4), np.float32), np.zeros((3, 4), np.float32)) == "slow"
    assert call(np.zeros((2, 5), np.float32), np.zeros((2, 5), np.float32)) == "slow"


def test_a_read_only_input_is_no_reason_to_be_slow(double_program: Program, slow: Slow) -> None:
    frozen = ROW.copy()
    frozen.flags.writeable = False
    assert entry_of(double_program, slow).call(frozen).tolist() == [2, 4, 6, 8]


def test_results_are_never_written_again_while_somebody_sees_them(
    double_program: Program, slow: Slow
) -> None:
    call = entry_of(double_program, slow).call
    kept = [call(ROW * i) for i in range(20)]
    views = [call(ROW * i)[:2] for i in range(20)]
    buffers = [memoryview(call(ROW * i)) for i in range(20)]
    capsules = [np.from_dlpack(call(ROW * i)) for i in range(20)]
    for i in range(20):
        expected = [2.0 * i, 4.0 * i, 6.0 * i, 8.0 * i]
        assert kept[i].tolist() == buffers[i].tolist() == capsules[i].tolist() == expected
        assert views[i].tolist() == expected[:2]
    assert len({y.__array_interface__["data"][0] for y in kept}) == 20


def test_torch_keeps_a_result_alive(double_program: Program, slow: Slow) -> None:
    torch = pytest.importorskip("torch")
    call = entry_of(double_program, slow).call
    tensors = [torch.from_numpy(call(ROW * i)) for i in range(5)]
    tensors += [torch.from_dlpack(call(ROW * i)) for i in range(5)]
    assert [t[0].item() for t in tensors] == [0, 2, 4, 6, 8] * 2


def test_dropped_results_are_reused(double_program: Program, slow: Slow) -> None:
    call = entry_of(double_program, slow).call
    addresses = set()
    for _ in range(50):
        y = call(ROW)
        addresses.add(y.__array_interface__["data"][0])
    assert len(addresses) == 2
    assert y.shape == (4,)


@pytest.mark.filterwarnings("ignore:Setting the shape on a NumPy array:DeprecationWarning")
def test_spoiling_a_result_does_not_spoil_the_next(double_program: Program, slow: Slow) -> None:
    call = entry_of(double_program, slow).call
    for _ in range(4):
        y = call(ROW)
        y.shape = (2, 2)
        y.flags.writeable = False
        del y
    y = call(ROW)
    assert y.shape == (4,)
    assert y.flags.writeable
    assert y.dtype == np.float32


def test_concurrent_calls(add_program: Program, double_program: Program, slow: Slow) -> None:
    double, add = entry_of(double_program, slow).call, entry_of(add_program, slow).call
    wrong: list[int] = []

    def work(number: int) -> None:
        x = ROW * number
        many = np.full((number * 10 + 1, 4), number, np.float32)
        for _ in range(500):
            if double(x).tolist() != [2.0 * number * i for i in (1, 2, 3, 4)]:
                wrong.append(number)
            if (add(many, many) != 2 * number).any():
                wrong.append(-number)

    threads = [threading.Thread(target=work, args=(i,)) for i in range(1, 5)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    assert wrong == []
    assert slow.calls == []


def test_workspaces_of_shapes_long_ago_are_given_back_at_once(
    add_program: Program, slow: Slow, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Without the garbage collector, which knows nothing of their size."""
    made: list[weakref.ref[np.ndarray]] = []

    def storage(nbytes: int) -> Storage:
        new = Storage(nbytes)
        made.append(weakref.ref(new.data))
        return new

    monkeypatch.setattr(fast_entry, "Storage", storage)
    monkeypatch.setattr(fast_entry, "_KEPT_WORKSPACE", 100 * 16)
    call = entry_of(add_program, slow).call
    gc.disable()
    try:
        for m in range(1, 120):
            x = np.ones((m, 4), np.float32)
            assert (call(x, x) == 2).all()
            # 1 + 2 + ... + 13 rows are fewer than 100; later ones make way for each other.
            assert len([ref for ref in made if ref() is not None]) <= 14
    finally:
        gc.enable()
    assert slow.calls == []


def test_it_keeps_its_code_and_constants_alive(double_program: Program, slow: Slow) -> None:
    vm = VirtualMachine(double_program)
    entry = vm.fast_entry("main", slow)
    assert entry is not None
    gone = weakref.ref(vm.library)
    call = entry.call
    del vm, entry
    gc.collect()
    assert gone() is not None
    assert call(ROW).tolist() == [2, 4, 6, 8]


def test_call_pointers(add_program: Program, slow: Slow) -> None:
    entry = entry_of(add_program, slow)
    x, y = np.ones((3, 4), np.float32), np.zeros((3, 4), np.float32)
    entry.call_pointers([x.ctypes.data, x.ctypes.data], [y.ctypes.data], [3])
    assert (y == 2).all()
    assert entry.outputs == (TensorSpec(("m", "4"), "float32"),)


def test_tensors_in_and_out(double_program: Program, slow: Slow) -> None:
    call = entry_of(double_program, slow, TENSOR).call
    first = call(ROW)
    assert isinstance(first, Tensor)
    second = call(Tensor(ROW))
    assert first.tolist() == second.tolist() == [2, 4, 6, 8]
    assert slow.calls == []
    half = array(ROW, "bfloat16")
    assert call(half) == "slow"
    assert slow.calls[0][0] is half


def test_another_library_is_a_matter_of_four_expressions(add_program: Program, slow: Slow) -> None:
    torch = pytest.importorskip("torch")
    kind = ArrayKind(
        torch.Tensor,
        {"float32": torch.float32},
        usable="({x}.is_contiguous() and {x}.device.type == 'cpu')",
        pointer="{x}.data_ptr()",
        empty=lambda shape, dtype: torch.empty(shape, dtype=dtype),
    )
    call = entry_of(add_program, slow, kind).call
    x = torch.rand(3, 4)
    assert torch.equal(call(x, x), x + x)
    assert call(x.t(), x.t()) == "slow"


# -- which functions are eligible -----------------------------------------------------------------
Build = Callable[[FunctionBuilder], None]


def program_of(kernel: Kernel, image: bytes, result: ResultSpec, build: Build) -> Program:
    asm = Assembler()
    asm.add_object(image)
    asm.add_kernel(kernel)
    asm.constant(ROW)
    with asm.function("main", [Param("x", kernel.params[0].spec)], result, kernel.dims) as f:
        f.match_shape()
        build(f)
    return asm.finish()


def out(f: FunctionBuilder) -> Any:
    return f.alloc_tensor(("1", "4"), "float32")


def test_tuples_views_and_constants(
    double_kernel: Kernel, double_object: bytes, slow: Slow
) -> None:
    spec = TensorSpec(("1", "4"), "float32")

    def build(f: FunctionBuilder) -> None:
        seen = f.reshape(f.param(0), ("4",))
        y = out(f)
        f.call_kernel("double", [seen, y])
        f.ret(f.make_tuple([f.make_tuple([f.reshape(y, ("2", "2"))])]))

    program = program_of(double_kernel, double_object, ((spec,),), build)
    ((y,),) = entry_of(program, slow).call(ROW)
    assert y.tolist() == [[2, 4], [6, 8]]


def test_conditions_on_dims(add_program: Program, slow: Slow) -> None:
    """A call that breaks one goes to the interpreter, which says what is wrong."""
    function = add_program.functions["main"]
    first, *rest = function.instructions
    check = Call(-1, "builtin:check", (Imm("m - 2 >= 0"), Imm("the model computes")))
    checked = replace(function, instructions=[first, check, *rest])
    program = replace(add_program, functions={"main": checked})
    entry = entry_of(program, slow)
    assert entry.call(*[np.ones((2, 4), np.float32)] * 2).shape == (2, 4)
    before = len(slow.calls)
    entry.call(*[np.ones((1, 4), np.float32)] * 2)
    assert len(slow.calls) == before + 1


def use_twice(f: FunctionBuilder) -> None:
    y = out(f)
    f.call_kernel("double", [f.param(0), y])
    f.ret(f.make_tuple([y, y]))


def call_twice(f: FunctionBuilder) -> None:
    y, z = out(f), out(f)
    f.call_kernel("double", [f.param(0), y])
    f.call_kernel("double", [y, z])
    f.ret(z)


def return_input(f: FunctionBuilder) -> None:
    f.ret(f.param(0))


def call_env(f: FunctionBuilder) -> None:
    y = out(f)
    f.call_env("env.f", [f.param(0), y])
    f.ret(y)


@pytest.mark.parametrize("build", [use_twice, call_twice, return_input, call_env])
def test_other_bodies_have_no_fast_entry(
    double_kernel: Kernel, double_object: bytes, slow: Slow, build: Build
) -> None:
    program = program_of(double_kernel, double_object, double_kernel.params[0].spec, build)
    assert VirtualMachine(program).fast_entry("main", slow) is None


def test_a_dtype_that_the_arrays_lack(double_program: Program, slow: Slow) -> None:
    vm = VirtualMachine(double_program)
    assert vm.fast_entry("main", slow, kind=replace(NUMPY, dtypes={})) is None


def test_a_check_that_raises_is_a_refusal(add_program: Program, slow: Slow) -> None:
    """The address that the checks read is the one that is used."""
    torch = pytest.importorskip("torch")
    kind = ArrayKind(
        torch.Tensor,
        {"float32": torch.float32},
        usable="{x}.is_contiguous() and (p_{x} := {x}.data_ptr())",
        pointer="{x}.data_ptr()",
        empty=lambda shape, dtype: torch.empty(shape, dtype=dtype),
        argument="p_{x}",
        may_raise=True,
    )
    entry = entry_of(add_program, slow, kind)
    x = torch.rand(3, 4)
    assert torch.equal(entry.call(x, x), x + x)
    assert entry.call(x, x.to_mkldnn()) == "slow"
    assert entry.source.count("data_ptr()") == 3  # two arguments and the output


def test_shapes_for_which_a_call_may_take_long_can_be_interrupted(
    add_program: Program, add_work_object: bytes, slow: Slow, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The work of the kernel is a hundred million a row."""
    made: list[object] = []

    def watch(call: Callable[[], object], cancel: Callable[[], object]) -> None:
        made.append(cancel)
        call()

    monkeypatch.setattr("burnish.vm.binding.run_interruptibly", watch)
    monkeypatch.setattr("burnish.vm.binding._QUICK", 0.0)
    add_program.objects.append(add_work_object)
    entry = entry_of(add_program, slow).call
    for m, count in ((1, 0), (5, 1), (1, 1), (5, 2)):
        x = np.full((m, 4), 2, np.float32)
        assert entry(x, x).tolist() == [[4.0] * 4] * m
        assert len(made) == count
    assert slow.calls == []


def test_an_interrupted_call_leaves_the_entry_as_it_was(
    add_program: Program, add_work_object: bytes, slow: Slow, monkeypatch: pytest.MonkeyPatch
) -> None:
    def interrupt(call: Callable[[], object], cancel: Callable[[], object]) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("burnish.vm.binding.run_interruptibly", interrupt)
    add_program.objects.append(add_work_object)
    entry = entry_of(add_program, slow).call
    x = np.full((5, 4), 2, np.float32)
    for _ in range(3):
        with pytest.raises(KeyboardInterrupt):
            entry(x, x)
    monkeypatch.undo()
    assert entry(x, x).tolist() == [[4.0] * 4] * 5
