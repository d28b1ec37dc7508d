"""The mutants of a text: which there are, and that each is what it says."""

from __future__ import annotations

import pytest

from burnish.tests.mutation.sites import is_python, mutants


def changes(text: str, kind: str = "") -> list[str]:
    """The mutated texts, of one kind of change if that is given."""
    found = [m for m in mutants("f.py", text) if not kind or m.kind == kind]
    return [m.apply(text) for m in found]


@pytest.mark.parametrize(
    ("text", "kind", "expected"),
    [
        ("a < b", "compare", ["a <= b"]),
        ("a < b <= c", "compare", ["a <= b <= c", "a < b < c"]),
        ("a is not b", "compare", ["a is b"]),
        ("a not in b", "compare", ["a in b"]),
        ("a and b", "and/or", ["(a or b)"]),
        ("a or b or c", "drop condition", ["(a or c)", "(a or b)"]),
        ("not a", "drop not", ["(a)"]),
        ("a = -b", "drop minus", ["a = (b)"]),
        ("a = b + c * 2", "operator", ["a = b - c * 2", "a = b + c + 2"]),
        ("a = 3", "constant", ["a = 4", "a = 2"]),
        ("f(True)", "constant", ["f(False)"]),
        ("any(a)", "function", ["all(a)"]),
        ("a if b else c", "swap branches", ["(c if b else a)"]),
        ("[a for a in b if a]", "drop filter", ["[a for a in b if True]"]),
        ("f(a, b, c)", "swap arguments", ["f(b, a, c)"]),
        ("f(a)", "drop statement", ["pass"]),
        ("a.b = c", "drop statement", ["pass"]),
        ("if a:\n    b", "condition", ["if not (a):\n    b"]),
        ("if a:\n    b", "drop branch", ["if False:\n    b"]),
        ("def f(x=1):\n    return x", "return None", ["def f(x=1):\n    return None"]),
        ("def f(x=1):\n    return x", "constant", [
            "def f(x=2):\n    return x", "def f(x=0):\n    return x",
        ]),
    ],
)  # fmt: skip
def test_changes(text: str, kind: str, expected: list[str]) -> None:
    assert changes(text, kind) == expected


@pytest.mark.parametrize(
    "text",
    [
        'def f(a: Callable[[int, str], bool]) -> tuple[int, str]:\n    """Not 1 or 2."""',
        "raise ValueError(a + 1, not b)",
        'raise move.error(DependenceError, f"{a + 1}", b)',
        "assert a < b",
        "x = f'{a + 1}'",
        "if TYPE_CHECKING:\n    a = 1 + 2",
        "a: Literal[1, 2]",
        "def __repr__(self):\n    return 1 + 2",
        "'a' + 'b'",
    ],
)
def test_what_no_behaviour_depends_on_stays(text: str) -> None:
    assert changes(text) == []


def test_places_count_characters_not_bytes() -> None:
    assert changes("s = 'é'; t = a < 'ü'", "compare") == ["s = 'é'; t = a <= 'ü'"]


def test_keys_tell_mutants_apart() -> None:
    text = "class A:\n    def f(self):\n        return a == 0 or b == 0\n"
    found = mutants("x/f.py", text)
    assert len({m.key for m in found}) == len(found)
    moved = mutants("x/f.py", "# A line before.\n" + text)
    assert [m.key for m in moved] == [m.key for m in found]
    (last,) = [m for m in found if m.kind == "constant" and m.nth == 1]
    assert last.key == "x/f.py A.f constant `0` -> `1` #1"
    assert (last.line, last.last) == (3, 3)


def test_some_changes_are_no_python() -> None:
    assert is_python("a < b")
    assert not is_python("a < < b")
