"""How an ONNX converter is tested: a small model as text, imported, verified, evaluated by the
reference interpreter of the graph, and compared with onnx's own reference evaluator."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import pytest
from onnx import ModelProto, numpy_helper, parser
from onnx.reference import ReferenceEvaluator

from burnish.driver.compile import compile
from burnish.driver.compiled_model import CompiledModel
from burnish.frontend.imported import Imported
from burnish.frontend.onnx import import_onnx
from burnish.graphir.analysis import bindings
from burnish.graphir.verify import verify_module
from burnish.support.errors import BurnishError
from burnish.tests.graphir.reference import run

Arrays = Mapping[str, Any]


def model(
    body: str,
    inputs: str = "float[N, 3, 4] x",
    opset: int = 17,
    *,
    outputs: str = "float y",
    weights: Arrays | None = None,
    domains: str = "",
) -> ModelProto:
    """A model from the statements of its graph in ONNX's text form."""
    made = parser.parse_model(
        f'<ir_version: 8, opset_import: ["" : {opset}{domains}]>\n'
        f"g ({inputs}) => ({outputs}) {{\n{body}\n}}"
    )
    for name, array in (weights or {}).items():
        made.graph.initializer.append(numpy_helper.from_array(np.asarray(array), name))
    return made


def evaluate(imported: Imported, values: Arrays) -> list[np.ndarray]:
    """The outputs of the imported graph."""
    result = run(imported.module, "main", *imported.flatten_inputs((), dict(values)))
    return list(result) if isinstance(result, tuple) else [result]


def check(made: ModelProto, *, tolerance: float = 2e-5, **values: Any) -> Imported:
    """Import, verify, and compare dtype, shape and values of every output."""
    arrays = {name: np.asarray(v) for name, v in values.items()}
    imported = import_onnx(made)
    verify_module(imported.module)
    names = [o.name for o in made.graph.output]
    with np.errstate(all="ignore"):
        expected = ReferenceEvaluator(made).run(None, arrays)
    for name, found, wanted in zip(names, evaluate(imported, arrays), expected, strict=True):
        if found.dtype != wanted.dtype or found.shape != wanted.shape:
            pytest.fail(
                f"{name}: {found.dtype} {found.shape}, onnx {wanted.dtype} {wanted.shape}",
                pytrace=False,
            )
        np.testing.assert_allclose(found, wanted, rtol=tolerance, atol=tolerance, err_msg=name)
    return imported


def operators_of(imported: Imported) -> list[str]:
    """The operators of main, in order."""
    values = [b.value for b in bindings(imported.module["main"])]  # type: ignore[arg-type]
    return [v.op for v in values if hasattr(v, "op")]


def refusal(made: ModelProto) -> str:
    """The message of the error that a model is refused with, notes included."""
    with pytest.raises(BurnishError) as caught:
        import_onnx(made)
    return "\n".join([str(caught.value), *getattr(caught.value, "__notes__", [])])


def check_compiled(made: ModelProto, *, tolerance: float = 2e-5, **values: Any) -> CompiledModel:
    """Compile and run, and compare with onnx's reference evaluator: for models that ask for values
    of their inputs."""
    compiled = compile(made)
    compare(compiled, made, tolerance=tolerance, **values)
    return compiled


def compare(
    compiled: CompiledModel, made: ModelProto, *, tolerance: float = 2e-5, **values: Any
) -> None:
    """The outputs of a call, beside those of onnx's reference evaluator."""
    arrays = {name: _as_given(v) for name, v in values.items()}
    with np.errstate(all="ignore"):
        expected = ReferenceEvaluator(made).run(None, arrays)
    result = compiled.run(list(arrays.values()))
    found = list(result) if len(expected) > 1 else [result]
    for name, f, wanted in zip([o.name for o in made.graph.output], found, expected, strict=True):
        parts = zip(f, wanted, strict=True) if isinstance(wanted, list) else [(f, wanted)]
        for one, other in parts:
            assert one.dtype == other.dtype, name
            np.testing.assert_allclose(one, other, rtol=tolerance, atol=tolerance, err_msg=name)


def _as_given(value: Any) -> Any:
    return [np.asarray(v) for v in value] if isinstance(value, list) else np.asarray(value)
