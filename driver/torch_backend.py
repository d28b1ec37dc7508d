"""``torch.compile(module, backend="burnish")``: graphs that TorchDynamo captures, compiled here.

The entry point ``torch_dynamo_backends`` of the package names ``burnish_backend``. Dynamo guards
what it captured and breaks the graph at what it cannot capture; each graph comes here by itself.
Weights are constants of the compiled graph as long as nobody writes them: one that was written is
an input from then on. Writes are known by the tensor's version counter, which those through
``.data`` pass by: reset Dynamo after them. Graphs for training, those that give inputs or
views of them, and those that cannot be imported run as PyTorch runs them; a warning says so.
Operators that cannot be compiled run in torch (``fallback="torch"``), the rest of their graph here.

``torch.compile(module, backend="burnish", options={"precision": "bfloat16", "threads": 2})`` takes
the options of ``burnish.compile`` that do not describe the inputs.
"""

from __future__ import annotations

import threading
import warnings
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from ..support.errors import ArgumentError, FrontendError, nearest
from .auto_precision import AUTO
from .compile import check_options, compile
from .compiled_model import CompiledModel
from .precision import fits

MOST_NUMBERS = 8
"""How many values of the numbers in a graph it is compiled for."""


OPTIONS = (
    *("precision", "max_error", "threads", "target", "fallback", "checked", "check"),
    *("passes", "database"),
)
"""What ``options=`` may have: the options of ``burnish.compile`` that a part of a model takes."""


def burnish_backend(
    gm: Any,
    example_inputs: Sequence[Any],
    *,
    options: Mapping[str, Any] | None = None,
    mode: str | None = None,
) -> Callable[..., Any]:
    """A callable for a captured graph; it is compiled at its first call.

    ``options`` are those of ``burnish.compile`` in ``OPTIONS``, and count for each graph by
    itself; layers in a mapping of ``precision`` have the names that their module gives them, and
    what fits no weight of a graph is left out there. ``precision="auto"`` bounds the error of each
    graph, on the inputs of its first call.

    Warns where the graph runs as PyTorch runs it instead. Raises ArgumentError and TargetError for
    options that there are not, and for ``mode``, which is Inductor's; and at the first call what
    else ``burnish.compile`` does. Weights written through ``.data`` are not seen.
    """
    import torch

    from ..frontend.torch.captured import gives_new_tensors, wants_gradients

    chosen_options = _checked(options, mode)
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
        chosen: Callable[..., Any] = untraced(_Compiled(gm, chosen_options).__call__)
        return chosen
    eager: Callable[..., Any] = gm.forward
    return eager


class _Compiled:
    """A captured graph, compiled when it is called and again when a weight has changed."""

    def __init__(self, gm: Any, options: Mapping[str, Any]) -> None:
        self._gm = gm
        self._options = options
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
        except (FrontendError, ArgumentError) as error:
            self._is_refused = True
            return self._eagerly(args, error)
        try:
            return model(*[args[i] for i in graph.inputs])
        except (FrontendError, ArgumentError) as error:  # before any work of the call
            return self._eagerly(args, error)

    def _eagerly(self, args: Sequence[Any], error: Exception) -> Any:
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
        graph = CapturedGraph(self._gm, args, self._written)
        inputs = tuple([args[i] for i in graph.inputs])
        options = self._options_of(graph)
        shapes = graph.dynamic_shapes()
        if shapes is not None:
            try:
                return graph, _compiled(graph, inputs, shapes, options)
            except FrontendError:  # it compiles for these sizes, and for others when they come
                pass
        return graph, _compiled(graph, inputs, None, options)

    def _options_of(self, graph: Any) -> dict[str, Any]:
        """The options, without the layers that other graphs have."""
        precision = self._options.get("precision")
        if not isinstance(precision, Mapping):
            return dict(self._options)
        own = {p: word for p, word in precision.items() if fits(p, (*graph.names, ""))}
        for pattern in [p for p in precision if p not in own]:
            _warn(
                f"precision: no weight of a graph fits {pattern!r}; it has "
                f"{', '.join(sorted(graph.names)) or 'none'}. Other graphs may have it."
            )
        return {**self._options, "precision": own}


def _compiled(
    graph: Any, inputs: tuple[Any, ...], shapes: Any, options: Mapping[str, Any]
) -> CompiledModel:
    if options.get("precision") == AUTO:
        return compile(graph.module, inputs, dynamic_shapes=shapes, **options)
    model = compile(graph.module, dynamic_shapes=shapes, **options)
    model._select(inputs, {})
    return model


def _checked(options: Mapping[str, Any] | None, mode: str | None) -> dict[str, Any]:
    """The options of ``burnish.compile``. Raises ArgumentError for others."""
    if mode is not None:
        raise ArgumentError(
            f"mode={mode!r} chooses among what Inductor does. Leave it out with "
            f'backend="burnish", and choose by options={{...}}: {", ".join(OPTIONS)}.'
        )
    given = dict(options or {})
    for name in given:
        if name not in OPTIONS:
            raise ArgumentError(
                f"options: expected some of {', '.join(OPTIONS)}; found {name!r}."
                f"{nearest(str(name), OPTIONS)}"
            )
    check_options(**{k: v for k, v in given.items() if k != "checked"})
    return {"fallback": "torch", **given}


def _warn(reason: str) -> None:
    warnings.warn(f"burnish: {reason}", UserWarning, stacklevel=3)
