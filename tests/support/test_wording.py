"""Messages name options at the command line, arguments elsewhere."""

from __future__ import annotations

from burnish.support.wording import command_line, spoken


def test_words_are_those_of_who_is_spoken_to() -> None:
    assert spoken("threads=2", "--threads 2") == "threads=2"
    with command_line():
        assert spoken("threads=2", "--threads 2") == "--threads 2"
    assert spoken("threads=2", "--threads 2") == "threads=2"
