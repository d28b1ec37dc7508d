"""Spans of source text and their rendering with a caret under the guilty columns."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Source:
    """A text that was parsed, under the name errors show."""

    name: str
    text: str
    first_line: int = 1
    """Line number of the text's first line in the file it was cut from."""


@dataclass(frozen=True, slots=True)
class Span:
    """A range of a source: lines from 1, columns from 0, ends exclusive."""

    source: Source
    line: int
    column: int
    end_line: int
    end_column: int

    def __str__(self) -> str:
        return f"{self.source.name}:{self.source.first_line + self.line - 1}:{self.column + 1}"

    def render(self) -> str:
        """The line the span begins on, with a caret under its columns."""
        lines = self.source.text.splitlines()
        if not 1 <= self.line <= len(lines):
            return f"--> {self}"
        text = lines[self.line - 1]
        end = self.end_column if self.end_line == self.line else len(text)
        number = str(self.source.first_line + self.line - 1)
        gutter = " " * len(number)
        underline = " " * self.column + "^" * max(1, end - self.column)
        return f"{gutter} --> {self}\n{gutter} |\n{number} | {text}\n{gutter} | {underline}"
