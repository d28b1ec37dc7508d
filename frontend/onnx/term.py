"""Formulas over values of an ONNX graph (``frontend.term``)."""

from __future__ import annotations

from .. import term
from .registry import Context


class Term(term.Term):
    """A term whose context is that of the import."""

    context: Context
