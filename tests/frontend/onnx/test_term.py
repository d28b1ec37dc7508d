"""Terms of an ONNX import: what they make is of the same import (formulas: ``test_term`` above)."""

from __future__ import annotations

from burnish.frontend.onnx.registry import Context
from burnish.frontend.onnx.term import Term
from burnish.frontend.term import stack
from burnish.graphir.builder import BlockBuilder
from burnish.graphir.expr import Var
from burnish.graphir.type import tensor_type


def test_what_a_term_makes_has_its_context() -> None:
    builder, x = BlockBuilder(), Var("x", tensor_type((3, 4)))
    context = Context(builder, {"": 17})
    with builder.function("main", [x]):
        with builder.dataflow():
            term = Term(context, x)
            made = [term + 1, (term > 0).where(term, 2), 1.0 - term, *term.parts(1, 2)]
            assert all(type(m) is Term and m.context is context for m in made)
            result = builder.emit_output(stack(made[:2], 0).atom)
        builder.emit_func_output(result)
    assert builder.get().script().count("R.subtract(") == 1
