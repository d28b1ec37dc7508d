"""PyTorch's database of operators through ``burnish.compile``: a sample of the list, and the list
itself. ``make opinfo`` runs all of it."""

from __future__ import annotations

import pytest
import torch
from torch.utils import _pytree as pytree

from burnish.tests.frontend.torch.opinfo import run
from burnish.tests.frontend.torch.opinfo.check import FAILED, PASSED, REFUSED, WRONG, check
from burnish.tests.frontend.torch.opinfo.database import (
    DTYPES,
    Sample,
    pairs,
    samples,
    why_not,
)

EVERY = 97
"""Of how many pairs that pass one is compiled here."""
LEAST = 0.95
"""The part of the pairs in the list that pass; it only rises."""
PASSING = [(n, d) for n, row in run.read_list().items() for d, ok in row.items() if ok]


def sample_of(function: object, *args: object) -> Sample:
    leaves, tree = pytree.tree_flatten((args, {}))
    return Sample(function, tree, tuple(leaves))


@pytest.mark.parametrize(("name", "dtype"), PASSING[::EVERY])
def test_an_operator_of_the_list_computes_what_pytorch_does(name: str, dtype: str) -> None:
    found = check(samples(name, dtype, 2))
    assert [o for o in found if o.kind in (WRONG, FAILED, REFUSED)] == []


def test_the_list_has_every_operator_in_scope_and_little_is_missing() -> None:
    table = run.read_list()
    asked = [ok for row in table.values() for ok in row.values()]
    assert {n for n, _ in pairs()} == set(table)
    assert sum(asked) >= LEAST * len(asked)


def test_the_list_reads_what_it_writes() -> None:
    assert run.list_text(run.read_list()) == run.LIST.read_text()


def test_the_list_only_grows() -> None:
    failed = run.Result("abs", "float32", [(WRONG, "1, PyTorch 2", "")])
    passed = run.Result("abs", "bool", [(PASSED, "", "")])
    unasked = run.Result("abs", "int64", [])
    table = {"abs": {"float32": True, "bool": False}}
    assert run.merged(table, [failed, passed, unasked]) == {"abs": {"float32": True, "bool": True}}


def test_results_are_compared_by_structure_dtype_shape_and_value() -> None:
    x = torch.tensor([1.0, 4.0, float("nan")])
    kinds = [o.kind for o in check([sample_of(torch.sqrt, x), sample_of(torch.topk, x[:2], 1)])]
    assert kinds == [PASSED, PASSED]


def test_of_equal_elements_any_may_come_first() -> None:
    flags = torch.rand(4000, generator=torch.Generator().manual_seed(0)) < 0.5
    assert [o.kind for o in check([sample_of(torch.argsort, flags)])] == [PASSED]


def test_an_operator_that_draws_random_numbers_is_not_asked_for() -> None:
    (found,) = check([sample_of(torch.rand_like, torch.zeros(3))])
    assert (found.kind, found.why) == ("skipped", "random")


def test_what_cannot_be_imported_is_told_from_what_is_wrong() -> None:
    x = torch.tensor([1.0, 0.0])
    found = check([sample_of(torch.sqrt, x), sample_of(lambda x: torch.unique(x, dim=0), x)])
    assert [o.kind for o in found] == [PASSED, REFUSED]


def test_operators_out_of_scope_have_a_reason() -> None:
    assert why_not("linalg.svd") == "dense factorisation"
    assert why_not("fft.rfft") == "complex"
    assert why_not("fft.irfft") == ""
    assert why_not("add") == ""
    assert {d for _, d in pairs()} == set(DTYPES)


def test_samples_are_the_same_every_time_and_from_all_over_the_list() -> None:
    few, all_ = samples("sum", "float32", 3), samples("sum", "float32")
    assert [str(s) for s in few][::2] == [str(all_[0]), str(all_[-1])]
    again = samples("sum", "float32", 3)
    assert all(
        torch.equal(a, b)
        for s, t in zip(few, again, strict=True)
        for a, b in zip(s.tensors, t.tensors, strict=True)
    )
