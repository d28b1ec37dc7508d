"""burnish.patterns: the names that patterns are written with."""

from __future__ import annotations

import pytest

from burnish import patterns


@pytest.mark.parametrize("name", patterns.__all__)
def test_every_name_is_there(name: str) -> None:
    assert getattr(patterns, name) is not None


def test_names_that_are_none_here_say_what_does_it() -> None:
    assert not set(patterns._ELSEWHERE) & set(patterns.__all__)
    for name in patterns._ELSEWHERE:
        with pytest.raises(AttributeError, match=rf"{name}'; here it is .*patterns\.md"):
            getattr(patterns, name)
    with pytest.raises(AttributeError, match=r"no attribute 'nonsense'$"):
        patterns.nonsense  # noqa: B018
