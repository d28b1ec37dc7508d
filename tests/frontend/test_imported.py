"""Imported: what a driver may rely on without asking."""

from __future__ import annotations

import dataclasses

import pytest

from burnish.frontend.imported import Imported
from burnish.graphir.module import IRModule
from burnish.support.call_form import CallForm


def form() -> CallForm:
    return CallForm.plain(["x"], 1)


def test_the_defaults_describe_a_model_of_bare_tensors() -> None:
    imported = Imported(
        IRModule(), ("x",), lambda args, kwargs: list(args), lambda outs: outs[0], form
    )
    assert imported.single_output
    assert imported.positional_only
    assert (imported.dim_names, imported.notes, imported.source) == ((), (), "")
    assert imported.variables == {}
    assert imported.unflatten_outputs(imported.flatten_inputs((1,), {})) == 1


def test_it_is_a_value() -> None:
    imported = Imported(IRModule(), (), lambda args, kwargs: [], tuple, form)
    with pytest.raises(dataclasses.FrozenInstanceError):
        imported.source = "other"  # type: ignore[misc]
