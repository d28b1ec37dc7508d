"""``torch.compile(module, backend="burnish")``: graphs that TorchDynamo captures, compiled here.

The entry point ``torch_dynamo_backends`` of the package names ``burnish_backend``. Dynamo guards
what it captured and breaks the graph at what it cannot capture; each graph comes here by itself.
Weights are constants of the compiled graph as long as nobody writes them: one that was written is
an input from then on. Graphs for training, and those that give views of their inputs, run as
PyTorch runs them.
"""

from __future__ import annotations

import threading
import warnings
from collections.abc import Callable, Sequence
from typing import Any

from ..support.errors import FrontendError
from .compile import CompiledModel, compile


def burnish_backend(gm: Any, example_inputs: Sequence[Any]) -> Callable[..., Any]:
    """A callable for a captured graph; it is compiled at its first call.

    Raises, at that call, what ``burnish.compile`` does.
    """
    import torch

    from ..frontend.torch.captured import gives_new_tensors, wants_gradients

    trains = wants_gradients(example_inputs)
    if trains:
        warnings.warn(
            "burnish compiles for inference: a graph that needs gradients runs as PyTorch runs it. "
            "Call the model under torch.inference_mode() or torch.no_grad().",
            UserWarning,
            stacklevel=2,
        )
    if trains or not gives_new_tensors(gm):
        chosen: Callable[..., Any] = gm.forward
    else:
        untraced: Any = torch.compiler.disable
        chosen = untraced(_Compiled(gm).__call__)
    return chosen


class _Compiled:
    """A captured graph, compiled when it is called and again when a weight has changed."""

    def __init__(self, gm: Any) -> None:
        self._gm = gm
        self._graph: Any = None
        self._model: CompiledModel | None = None
        self._written: list[int] = []
        """The weights that were seen to change."""
        self._lock = threading.Lock()

    def __call__(self, *args: Any) -> Any:
        graph, model = self._graph, self._model
        if model is None or graph.changed(args):
            with self._lock:
                graph, model = self._compile(args)
        return model(*[args[i] for i in graph.inputs])

    def _compile(self, args: Sequence[Any]) -> tuple[Any, CompiledModel]:
        from ..frontend.torch.captured import CapturedGraph

        if self._graph is not None:
            self._written += self._graph.changed(args)
        graph = CapturedGraph(self._gm, args, self._written).eval()
        shapes = graph.dynamic_shapes()
        model = compile(graph, dynamic_shapes=shapes)
        if shapes is not None:
            try:
                model._select(tuple([args[i] for i in graph.inputs]), {})
            except FrontendError:  # it compiles for these sizes, and for others when they come
                model = compile(graph)
        self._graph, self._model = graph, model
        return graph, model
