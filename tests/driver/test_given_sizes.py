"""Sets of sizes by name: one or several, whole or in part, and what is none."""

from __future__ import annotations

from typing import Any

import pytest

from burnish.driver.given_sizes import sets_of_sizes, whole_sizes
from burnish.support.errors import ArgumentError


def test_one_set_and_several() -> None:
    assert sets_of_sizes({"n": 1}, "sizes") == ({"n": 1},)
    assert sets_of_sizes([{"n": 0}, {}], "sizes") == ({"n": 0}, {})
    assert sets_of_sizes((), "sizes") == ()
    assert whole_sizes(({"n": 2, "m": 3},), "sizes", ["m", "n"]) == ({"n": 2, "m": 3},)
    assert whole_sizes((), "sizes", ["n"]) == ()


@pytest.mark.parametrize(
    ("given", "message"),
    [
        (8, r"sizes takes sizes by name, as in \[{\"batch\": 1}\]; found 8"),
        ([8], "takes sizes by name"),
        ("n", "takes sizes by name"),
        ([{"n": 0}], "n cannot be 0; expected 1 or more"),
        ([{"n": True}], "n cannot be True"),
        ([{"n": 1.0}], "n cannot be 1.0"),
        ([{"n": 1, "bath": 2}], "no input has a size 'bath'; there are n, batch. Did you mean"),
        ([{"n": 1}], "leaves 'batch' open; a call needs a number for each"),
    ],
)
def test_errors(given: Any, message: str) -> None:
    with pytest.raises(ArgumentError, match=message):
        whole_sizes(given, "sizes", ["n", "batch"])
