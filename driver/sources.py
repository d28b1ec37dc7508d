"""Sources: whatever a user calls a model, as an ``Imported`` module.

ONNX models, exported programs and IRModules state their signature; a torch module has one only with
inputs to trace it with. torch and onnx are never imported to find out what something is: whoever
holds one of their objects has imported them.
"""

from __future__ import annotations

import sys
import weakref
from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from ..frontend.imported import Imported
from ..frontend.reference import Reference
from ..graphir.expr import Function, Tuple
from ..graphir.module import IRModule
from ..graphir.op import type_of
from ..graphir.type import TensorType, TupleType
from ..support.call_form import TENSOR, CallForm
from ..support.collector import rare_collections
from ..support.errors import ArgumentError, FrontendError, MissingExtraError
from ..support.wording import spoken
from ..vm.artifact import is_artifact, open_artifact
from ..vm.tensor import Tensor, array
from .arrays import is_torch_tensor, tensor_to_torch
from .own_forward import own_forward
from .written_programs import verify_written_programs


def is_torch_module(source: object) -> bool:
    """Whether ``source`` is an ``nn.Module``, whose signature depends on example inputs."""
    torch = sys.modules.get("torch")
    return torch is not None and isinstance(source, torch.nn.Module)


def input_parts(x: object) -> tuple[Sequence[Any], Hashable] | None:
    """What an input of a torch module holds, and what it is beside that, where its type is one that
    torch takes apart or that ``frontend.torch`` tells it of: a dataclass, say, or a cache of
    transformers."""
    if "torch" not in sys.modules:
        return None
    from ..frontend.torch.known_types import taken_apart

    return taken_apart(x)


def check_kind(source: Any) -> None:
    """Raise FrontendError for what is no model that states its signature, with what it would take
    to make it one."""
    torch, onnx = sys.modules.get("torch"), sys.modules.get("onnx")
    models: list[Any] = [str, Path, bytes, IRModule]
    models += [torch.export.ExportedProgram] if torch is not None else []
    models += [onnx.ModelProto] if onnx is not None else []
    if isinstance(source, tuple(models)):
        return
    owner = getattr(source, "__self__", None)
    advice = ""
    if isinstance(source, type):
        advice = f" Make an instance of it: {source.__name__}(...)."
    elif callable(source) and is_torch_module(owner):
        advice = f" Give the module itself, the {type(owner).__name__}, of which this is a method."
    elif callable(source):
        advice = (
            " Put the function into a module: class Model(torch.nn.Module), whose "
            "def forward(self, x) returns function(x); then burnish.compile(Model().eval(), (x,))."
        )
    elif isinstance(source, Mapping):
        advice = " Weights alone are no model: load them into theirs, module.load_state_dict(...)."
    kind = f"the class {source.__name__}" if isinstance(source, type) else type(source).__name__
    raise FrontendError(
        "compile takes a torch.nn.Module, an ExportedProgram, an IRModule, or an ONNX model (path, "
        f"bytes or ModelProto); found {kind}.{advice}"
    )


def check_torch_module(source: Any) -> None:
    """Refuse now what would be refused at the first call: a module in training mode."""
    from ..frontend.torch.importer import check_eval_mode

    check_eval_mode(source)


@rare_collections()
def import_torch_module(
    source: Any,
    args: Sequence[Any] | Mapping[str, Any],
    kwargs: Mapping[str, Any] | None = None,
    dynamic_shapes: Any = None,
    fallback: str | None = None,
) -> Imported:
    """An ``nn.Module`` at the signature of example inputs, which may be arrays of any library;
    ``kwargs`` are those by keyword.

    Raises FrontendError and UnsupportedOpError.
    """
    from ..frontend.torch import import_module

    if fallback != "torch":
        _refuse_fallback(source, fallback)
    if is_torch_tensor(args) or isinstance(args, (np.ndarray, Tensor)):
        raise FrontendError("example_inputs takes a tuple of inputs: write (x,) for a single one.")
    if not isinstance(args, (tuple, list)):
        raise FrontendError(
            "example_inputs takes a tuple of inputs in the order of forward(), or a dict of them "
            f"by name; found {type(args).__name__}."
        )
    example = tuple([as_example(x, f"example input {i}") for i, x in enumerate(args)])
    named = {k: as_example(x, f"example input {k!r}") for k, x in (kwargs or {}).items()}
    with own_forward(source):
        return import_module(
            source, example, dynamic_shapes, example_kwargs=named, fallback=fallback
        )


def split_examples(
    inputs: Sequence[Any] | Mapping[str, Any] | None, named: Mapping[str, Any] | None
) -> tuple[Sequence[Any] | None, dict[str, Any]]:
    """Example inputs by position and by keyword: those of one dict are all by keyword. Raises
    FrontendError where both are said of one dict and another, or what is by keyword is no dict."""
    if named is not None and not isinstance(named, Mapping):
        raise FrontendError(
            f"example_kwargs takes a dict of inputs by name; found {type(named).__name__}."
        )
    if not isinstance(inputs, Mapping):
        return (() if inputs is None and named is not None else inputs), dict(named or {})
    if named is not None:
        raise FrontendError(
            "example_inputs is a dict, of inputs by name, and so is example_kwargs: give all of "
            "them as one. A model whose first input is a dict takes (inputs,)."
        )
    if not all(isinstance(name, str) for name in inputs):
        raise FrontendError(
            "example_inputs is a dict of inputs by name, whose keys are names of forward(); found "
            f"{', '.join(map(repr, inputs))}. A model whose only input is a dict takes (inputs,)."
        )
    return (), dict(inputs)


def importer_of(
    source: Any,
    args: Sequence[Any],
    kwargs: Mapping[str, Any],
    dynamic_shapes: Any,
    fallback: str | None = None,
) -> Callable[[], Imported]:
    """Imports an ``nn.Module`` once more, as ``import_torch_module`` does, without holding it or
    the inputs: their shapes and dtypes are enough. It raises FrontendError where the module is
    gone."""
    held = weakref.ref(source)
    name = type(source).__name__
    shapes = tuple([_without_values(x) for x in args])
    named = {name: _without_values(x) for name, x in kwargs.items()}

    def import_again() -> Imported:
        module = held()
        if module is None:
            raise FrontendError(
                f"The {name} that this model was compiled from is gone, and its weights with it. "
                "Compile another module."
            )
        examples = [_zeros(x) for x in shapes]
        by_name = {key: _zeros(x) for key, x in named.items()}
        return import_torch_module(module, examples, by_name, dynamic_shapes, fallback)

    return import_again


def source_name(source: Any) -> str:
    """What a model is called by its source: the file's name, the module's class."""
    return Path(source).name if isinstance(source, (str, Path)) else type(source).__name__


def origin_of(source: Any) -> Callable[[], Any]:
    """Gives the source of a model again, which it does not hold unless it is a file's path. It
    raises FrontendError where a module is gone, ArgumentError for other sources."""
    kind = type(source).__name__
    if isinstance(source, (str, Path)):
        path = Path(source).resolve()
        return lambda: path
    if not is_torch_module(source):

        def refuse() -> Any:
            raise ArgumentError(
                f"verify: the model does not hold the {kind} that it was compiled from; pass it "
                "as source=."
            )

        return refuse
    held = weakref.ref(source)

    def find() -> Any:
        module = held()
        if module is None:
            raise FrontendError(
                f"verify: the {kind} that this model was compiled from is gone. Keep it as long as "
                "the model, or give it as source=."
            )
        return module

    return find


def reference_of(
    source: Any,
    args: Sequence[Any],
    kwargs: Mapping[str, Any],
    dynamic_shapes: Any,
    *,
    fallback: str | None,
    float64: bool,
) -> Reference:
    """What the source of a model computes for a call. Raises what its import and its call raise,
    and ArgumentError for sources that nothing but burnish runs."""
    torch, onnx = sys.modules.get("torch"), sys.modules.get("onnx")
    if is_torch_module(source) or (
        torch is not None and isinstance(source, torch.export.ExportedProgram)
    ):
        from ..frontend.torch.reference import torch_reference

        example = tuple([as_example(x, f"input {i}") for i, x in enumerate(args)])
        named = {k: as_example(x, f"input {k!r}") for k, x in kwargs.items()}
        return torch_reference(
            source, example, named, dynamic_shapes, fallback=fallback, float64=float64
        )
    is_proto = onnx is not None and isinstance(source, onnx.ModelProto)
    if float64 or not (isinstance(source, (str, Path, bytes)) or is_proto):
        wanted = "a torch.nn.Module" if float64 else "a torch or an ONNX model"
        raise ArgumentError(
            f"verify{'(float64=True)' if float64 else ''} takes {wanted} as source; found "
            f"{type(source).__name__}."
        )
    from ..frontend.onnx.reference import onnx_reference

    return onnx_reference(source, args, kwargs, fallback=fallback)


def _without_values(x: Any) -> Any:
    """An example input with its tensors as tensors of torch's meta device."""
    return _map_tensors(as_example(x, "example input"), lambda t: t.detach().to("meta"))


def _zeros(x: Any) -> Any:
    return _map_tensors(x, lambda t: sys.modules["torch"].zeros_like(t, device="cpu"))


def _map_tensors(x: Any, change: Callable[[Any], Any]) -> Any:
    if is_torch_tensor(x):
        return change(x)
    if isinstance(x, (list, tuple)) and type(x) in (list, tuple):
        return type(x)([_map_tensors(item, change) for item in x])
    if type(x) is dict:
        return {k: _map_tensors(item, change) for k, item in x.items()}
    return x


@rare_collections()
def import_source(
    source: Any, answers: Sequence[Any] = (), *, fallback: str | None = None
) -> Imported:
    """A model that states its signature: an IRModule, an ExportedProgram, or an ONNX model (a path,
    bytes or a ModelProto), which may have a question, and is imported with ``answers`` then.

    Raises FrontendError for anything else and for what cannot be imported, UnsupportedOpError.
    """
    check_kind(source)
    torch = sys.modules.get("torch")
    if torch is not None and isinstance(source, torch.export.ExportedProgram):
        from ..frontend.torch import import_exported_program

        if fallback != "torch":
            _refuse_fallback(source, fallback)
        return import_exported_program(source, fallback=fallback)
    if isinstance(source, IRModule):
        _refuse_fallback(source, fallback)
        return import_ir_module(source)
    if isinstance(source, (str, Path)) and is_artifact(source):
        raise FrontendError(
            f"{source} is a saved model: kernels to run ({spoken('burnish.load', 'burnish run')}), "
            "without the graph that compiling and tuning begin with. Give what it was saved from: "
            f"{open_artifact(source).model.get('name')}."
        )
    try:
        from ..frontend.onnx import import_onnx
    except ImportError as error:
        if error.name is None or error.name.split(".")[0] != "onnx":
            raise
        raise MissingExtraError("onnx", "onnx", "Reading an ONNX model") from None
    if fallback != "onnx":
        _refuse_fallback(source, fallback)
    return import_onnx(source, answers, fallback=fallback)


def _refuse_fallback(source: Any, fallback: str | None) -> None:
    """Refuse a fallback that a source of this kind has not."""
    if fallback is None:
        return
    kind = "torch, whose operators torch can run" if fallback == "torch" else "ONNX"
    raise FrontendError(
        f"fallback={fallback!r} is for models of {kind}; this one is given as "
        f"{type(source).__name__}. Leave it out."
    )


def import_ir_module(module: IRModule) -> Imported:
    """An IRModule as it stands; its graph function ``main`` is what a call runs."""
    func = module["main"]
    if not isinstance(func, Function):
        raise FrontendError(
            "compile needs a graph function 'main'; this one is a prim_func: use burnish.build."
        )
    verify_written_programs(module)
    for p in func.params:
        if not isinstance(p.type, TensorType):
            raise FrontendError(
                f"main takes {p.name!r}, which is no tensor; a compiled model takes tensors only. "
                "Build the module with burnish.build instead."
            )
    result = func.body.result
    fields = [type_of(f) for f in result.fields] if isinstance(result, Tuple) else [type_of(result)]
    if not isinstance(result, Tuple) and isinstance(fields[0], TupleType):
        fields = list(fields[0].fields)
    if not all(isinstance(f, TensorType) for f in fields):
        raise FrontendError(
            "main returns a nested tuple or a shape; a compiled model returns tensors. "
            "Build the module with burnish.build instead."
        )
    is_single = not isinstance(result, Tuple) and isinstance(type_of(result), TensorType)
    form = CallForm.plain([p.name for p in func.params], 1 if is_single else len(fields))
    if len(fields) == 1 and not is_single:
        form = replace(form, result={"tuple": [TENSOR]})
    return Imported(
        module,
        form.names,
        form.flatten,
        form.unflatten,
        form=lambda: form,
        single_output=is_single,
        source="IRModule",
    )


def as_example(x: Any, name: str) -> Any:
    """An example input for torch: arrays, also inside tuples, lists and dicts, as torch tensors (of
    their own: torch must not see memory it may not write); other values pass through."""
    if is_torch_tensor(x):
        return x
    if isinstance(x, (list, tuple)) and type(x) in (list, tuple):
        return type(x)([as_example(item, f"{name}[{i}]") for i, item in enumerate(x)])
    if type(x) is dict:
        return {k: as_example(item, f"{name}[{k!r}]") for k, item in x.items()}
    if isinstance(x, (np.ndarray, Tensor)) or hasattr(x, "__dlpack__"):
        return tensor_to_torch(array(x))
    return x
