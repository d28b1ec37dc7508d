"""Which node's value a variable is compared with."""

from __future__ import annotations

import numpy as np

from burnish.frontend.imported import Imported
from burnish.frontend.reference import NodeValue, Reference
from burnish.graphir.module import IRModule


def _value(name: str, *numbers: float) -> NodeValue:
    return NodeValue(name, "op", "", np.array(numbers))


VALUES = (_value("a", 1.0), _value("view_of_a", 1.0), _value("b", 2.0), _value("unknown", 3.0))


def _reference(imported: Imported | None) -> Reference:
    exact = (_value("a", 1.5), _value("b", 2.5, 2.5))
    return Reference("eager", imported, (), (), VALUES, exact_values=exact)


def test_views_of_one_value_are_one_variable() -> None:
    variables = {"a": "lv", "view_of_a": "lv", "b": "lv_1"}
    imported = Imported(
        IRModule(), (), lambda args, kwargs: [], tuple, form=lambda: None, variables=variables
    )  # type: ignore[arg-type,return-value]
    found = _reference(imported).by_variable()
    assert {name: value.name for name, value in found.items()} == {"lv": "a", "lv_1": "b"}
    assert _reference(None).by_variable() == {}


def test_values_in_float64_are_those_of_the_same_name_and_shape() -> None:
    reference = _reference(None)
    exact = reference.exact(VALUES[0])
    assert exact is not None
    assert exact == 1.5
    assert reference.exact(VALUES[2]) is None
    assert reference.exact(VALUES[3]) is None
