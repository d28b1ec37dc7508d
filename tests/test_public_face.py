"""The public names of ``burnish``: each resolves, and none is imported before it is asked for."""

from __future__ import annotations

import re
import subprocess
import sys
from types import ModuleType

import pytest

import burnish

NAMES = [name for name in burnish.__all__ if not name.startswith("_")]
MODULES = (
    *("auto_scheduler", "autotvm", "errors", "transform", "graph", "patterns"),
    *("script", "te", "topi"),
)


FACE = """
    compile build lower VirtualMachine register_func array empty Target parse IRModule BlockBuilder
    ExprMutator ExprVisitor module_pass assert_structural_equal Schedule tune_tir compile_tir errors
    transform graph patterns script te topi
"""
"""What examples and users rely on: a name may be added, none may go."""


def run(program: str) -> str:
    result = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=False
    )
    assert result.returncode == 0, result.stderr
    return result.stdout.strip()


@pytest.mark.parametrize("name", NAMES)
def test_every_public_name_resolves(name: str) -> None:
    value = getattr(burnish, name)
    assert isinstance(value, ModuleType) == (name in MODULES)
    assert getattr(burnish, name) is value


def test_no_name_has_gone() -> None:
    assert set(FACE.split()) <= set(NAMES)


def test_names_stand_for_the_objects_they_are_called_after() -> None:
    for name in set(NAMES) - {*MODULES, "parse"}:
        assert getattr(burnish, name).__name__ == name


def test_importing_burnish_imports_nothing() -> None:
    loaded = run("import sys, burnish; print('\\n'.join(sys.modules))").split()
    assert [m for m in loaded if m.startswith(("burnish.", "numpy", "llvmlite", "torch"))] == []


def test_asking_for_a_name_of_the_vm_does_not_import_the_compiler() -> None:
    loaded = run(
        "import sys, burnish; burnish.array, burnish.VirtualMachine, burnish.register_func\n"
        "print('\\n'.join(sys.modules))"
    ).split()
    assert "burnish.vm.interpreter" in loaded
    assert [
        m for m in loaded if m.startswith(("burnish.tensorir", "burnish.graphir", "torch"))
    ] == []


def test_modules_can_be_imported_from_burnish() -> None:
    assert run("from burnish import te, script, errors; print(te.__name__)") == "burnish.te"


def test_dir_lists_the_table() -> None:
    assert set(NAMES) <= set(dir(burnish))


def test_an_unknown_name_is_an_attribute_error() -> None:
    with pytest.raises(
        AttributeError, match=r"has no attribute 'compil'. Did you mean 'compile'\?"
    ):
        burnish.compil  # noqa: B018
    assert not hasattr(burnish, "_unknown")


def test_names_of_other_compilers_are_told_what_does_it_here() -> None:
    with pytest.raises(
        AttributeError, match=r"'register_global_func'; here it is burnish.register"
    ):
        burnish.register_global_func  # noqa: B018
    assert not set(burnish._ELSEWHERE) & set(burnish._PUBLIC)
    named = re.findall(r"burnish\.(\w+)", " ".join(burnish._ELSEWHERE.values()))
    assert named
    assert all(hasattr(burnish, name) for name in named)


def test_topi_says_where_the_functions_of_its_rooms_are() -> None:
    with pytest.raises(AttributeError, match=r"topi has no 'nn'\..*topi\.relu.*dense is linear"):
        _ = burnish.topi.nn
    assert not hasattr(burnish.topi, "reluu")


def test_topi_says_what_does_the_rest() -> None:
    for name, here in burnish.topi._ELSEWHERE.items():
        with pytest.raises(AttributeError, match=f"{name}'; here it is {re.escape(here)} "):
            getattr(burnish.topi, name)
    assert not set(burnish.topi._ELSEWHERE) & set(burnish.topi.__all__)
