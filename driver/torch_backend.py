"""``torch.compile(module, backend="burnish")``: graphs that TorchDynamo captures, compiled here.

The entry point ``torch_dynamo_backends`` of the package names ``burnish_backend``. Dynamo guards
what it captured and breaks the graph at what it cannot capture; each graph comes here by itself.
Weights are constants of the compiled graph as long as nobody writes them: one that was written is
an input from then on. Writes are known by the tensor's version counter, which those through
``.data`` pass by: reset Dynamo after them. Graphs for training, those that give inputs or
views of them, and those that cannot be imported run as PyTorch runs them; a warning says so.
Operators that cannot be compiled run in torch (``fallback="torch"``), the rest of their graph here.
"""

from __future__ import annotations

import threading
import warnings
from collections.abc import Callable, Sequence
from typing import Any

from ..support.errors import ArgumentError, FrontendError
from .compile import compile
from .compiled_model import CompiledModel

MOST_NUMBERS = 8
"""How many values of the numbers in a graph it is compiled for."""


def burnish_backend(gm: Any, example_inputs: Sequence[Any]) -> Callable[..., Any]:
    """A callable for a captured graph; it is compiled at its first call.

    Warns where the graph runs as PyTorch runs it instead. Raises, at that call, what else
    ``burnish.compile`` does. Weights written through ``.data`` are not seen.
    """
    import torch

    from ..frontend.torch.captured import gives_new_tensors, wants_gradients

    trains = wants_gradients(example_inputs)
    if trains:
        _warn(
            "a graph that needs gradients runs as PyTorch runs it. Call the model under "
            "torch.inference_mode() or torch.no_grad(), which compile for inference."
        )
    elif not gives_new_tensors(gm):
        _warn("a graph that gives its inputs, views of them, or no tensor runs as PyTorch runs it.")
    else:
        untraced: Any = torch.compiler.disable
        chosen: Callable[..., Any] = untraced(_Compiled(gm).__call__)
        return chosen
    eager: Callable[..., Any] = gm.forward
    return eager


class _Compiled:
    """A captured graph, compiled when it is called and again when a weight has changed."""

    def __init__(self, gm: Any) -> None:
        self._gm = gm
        self._made: list[tuple[Any, CompiledModel]] = []
        """The graph with weights of its own, and what it was compiled to; of each of the numbers
        that calls gave, one."""
        self._written: list[int] = []
        """The weights that were seen to change."""
        self._is_refused = False
        self._lock = threading.Lock()

    def __call__(self, *args: Any) -> Any:
        if self._is_refused:
            return self._gm(*args)
        try:
            graph, model = self._current(args)
            return model(*[args[i] for i in graph.inputs])
        except (FrontendError, ArgumentError) as error:  # before any work of the call
            self._is_refused = isinstance(error, FrontendError)
            _warn(f"a graph runs as PyTorch runs it: {error}")
            return self._gm(*args)

    def _current(self, args: Sequence[Any]) -> tuple[Any, CompiledModel]:
        made = self._find(args)
        if made is None:
            with self._lock:
                made = self._find(args)  # another thread may have been first
                if made is None:
                    made = self._compile(args)
                    self._made = [*self._made, made]
        return made

    def _find(self, args: Sequence[Any]) -> tuple[Any, CompiledModel] | None:
        for made in self._made:
            if not made[0].changed(args) and made[0].has_numbers(args):
                return made
        return None

    def _compile(self, args: Sequence[Any]) -> tuple[Any, CompiledModel]:
        from ..frontend.torch.captured import CapturedGraph

        changed = self._made[0][0].changed(args) if self._made else []
        if changed:
            self._written += changed
            self._made = []
        if len(self._made) == MOST_NUMBERS:
            raise FrontendError(
                f"a number that it depends on had {MOST_NUMBERS} values already. Pass it as a "
                "tensor, or leave out dynamic=True, with which numbers are inputs."
            )
        graph = CapturedGraph(self._gm, args, self._written).eval()
        shapes = graph.dynamic_shapes()
        model = compile(graph, dynamic_shapes=shapes, fallback="torch")
        if shapes is not None:
            try:
                model._select(tuple([args[i] for i in graph.inputs]), {})
            except FrontendError:  # it compiles for these sizes, and for others when they come
                model = compile(graph, fallback="torch")
        return graph, model


def _warn(reason: str) -> None:
    warnings.warn(f"burnish: {reason}", UserWarning, stacklevel=3)
