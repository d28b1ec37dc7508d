"""Executable: access by name; the rest is tested with build."""

from __future__ import annotations

import numpy as np
import pytest

import burnish
from burnish import errors
from burnish.support.abi import ABI_VERSION
from burnish.tests.driver.programs import add_one
from burnish.vm.binding import Runtime


def test_native_code_is_linked_at_the_first_use() -> None:
    lib = burnish.build(add_one())
    assert lib._vm is None
    assert lib["main"] is lib["add_one"]
    assert lib.vm is lib.vm


def test_the_only_function_is_main_too() -> None:
    lib = burnish.build(add_one())
    assert lib["main"] is lib["add_one"]
    with pytest.raises(errors.UnknownFunctionError, match="Did you mean 'add_one'"):
        lib["add_on"]
    with pytest.raises(errors.UnknownFunctionError):
        lib.time_evaluator("add_on")


def test_it_runs_with_its_own_number_of_threads() -> None:
    lib = burnish.build(add_one(n=64, loop="T.parallel"), threads=1)
    record = Runtime.from_address(lib.runtime)
    assert (record.abi_version, record.threads) == (ABI_VERSION, 1)
    assert burnish.VirtualMachine(lib).kernels["add_one"].threads == 1


def test_code_for_another_cpu_is_not_run() -> None:
    lib = burnish.build(add_one(), target="llvm -mcpu=neoverse-n1")
    assert lib.program.objects
    x = np.zeros(8, np.float32)
    for use in (lambda: lib["main"](x, x.copy()), lambda: burnish.VirtualMachine(lib)):
        with pytest.raises(errors.TargetError, match="compiled for aarch64"):
            use()


def test_what_a_prompt_shows_is_short() -> None:
    lib = burnish.build(add_one())
    assert repr(lib) == "<burnish executable of add_one: 1 kernel>"
    assert repr(lib["main"]).startswith("<burnish kernel add_one(")
    sch = burnish.Schedule(lib.module)
    assert repr(sch) == "Schedule(add_one: 0 instructions)"
    assert repr(sch.mod) == "IRModule(add_one)"
    assert repr(sch.trace) == "Trace(0 instructions)"


def test_a_library_is_no_function() -> None:
    lib = burnish.build(add_one())
    with pytest.raises(errors.ArgumentError, match=r"call lib\['add_one'\]\(\.\.\.\)"):
        lib(np.zeros(4, np.float32))


@pytest.mark.parametrize("name", ["export_library", "save", "stats", "as_text", "jit"])
def test_names_of_other_libraries(name: str) -> None:
    with pytest.raises(AttributeError, match=f"no attribute '{name}'; here it is "):
        getattr(burnish.build(add_one()), name)
