"""docs/vm.md has every instruction, callee and builtin, and each with its operands."""

from __future__ import annotations

import inspect
import re
from typing import get_args

import pytest

from burnish.support.abi import ABI_VERSION, RUNTIME_FIELDS
from burnish.tests.docs.documents import ROOT
from burnish.vm.builtins import BUILTINS
from burnish.vm.program import KINDS, Instruction

TEXT = (ROOT / "docs" / "vm.md").read_text(encoding="utf-8")


def test_every_instruction_has_its_row() -> None:
    rows = re.findall(r"(?m)^\| `.*` \| \*\*(\w+)\*\*: ", TEXT)
    assert rows == [kind.__name__ for kind in get_args(Instruction)]


def test_every_kind_of_callee_has_its_row() -> None:
    assert sorted(re.findall(r"(?m)^\| `(\w+):` \|", TEXT)) == sorted(KINDS)


def test_every_builtin_is_listed() -> None:
    listed = re.findall(r"(?m)^(\w+) {2,}\(.*\)", TEXT)
    assert listed == list(BUILTINS)


@pytest.mark.parametrize("name", BUILTINS)
def test_builtins_have_the_operands_that_it_says(name: str) -> None:
    found = re.search(rf"(?m)^{name} {{2,}}\((.*?)\)(?: |$)", TEXT)
    assert found is not None
    said = found[1].split(", ")
    given = list(inspect.signature(BUILTINS[name]).parameters.values())[1:]
    if given[0].kind is inspect.Parameter.VAR_POSITIONAL:
        assert said[0].endswith("...")
    else:
        assert len(said) == len(given)


def test_the_runtime_record_is_that_of_the_code() -> None:
    assert ABI_VERSION == 2, "a new convention: read docs/vm.md again"
    record = TEXT.split("struct Runtime {")[1].split("}")[0]
    assert tuple(re.findall(r"(\w+);", record)) == RUNTIME_FIELDS
