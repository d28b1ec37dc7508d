"""burnish.compile: a model in, a callable out.

    model = burnish.compile(module)             lazy: compiled at the first call of each signature
    model = burnish.compile(module, (x,))       compiled now, for this signature alone
    model = burnish.compile(module, {"x": x})   the same, and called by keyword
    model = burnish.compile("mlp.onnx")         the file states its signature

What comes back is in ``compiled_model``, how it is called in ``callable_model``.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from ..frontend.imported import Imported
from ..graphir.passes.pass_list import PassList, as_pass_list
from ..support.errors import (
    ArgumentError,
    FrontendError,
    nearest,
)
from ..support.keywords import hinted
from ..support.target import Target
from ..tuner.analytic import schedule_analytically
from ..tuner.records.database import TuningDatabase
from ..tuner.records.records_io import as_records
from .auto_precision import AUTO, check_bound, choose_precision, with_choice
from .compiled_model import CompiledModel
from .given_sizes import Sizes
from .kernels import resolve_target
from .precision import Precision, Selection
from .sources import (
    check_kind,
    check_torch_module,
    import_source,
    import_torch_module,
    importer_of,
    is_torch_module,
    split_examples,
)
from .specialize import check_sizes
from .stages import ScheduleChoice
from .threads import thread_count
from .tune import ScheduledBy


@hinted
def compile(
    model: Any,
    example_inputs: Sequence[Any] | Mapping[str, Any] | None = None,
    *,
    example_kwargs: Mapping[str, Any] | None = None,
    dynamic_shapes: Any = None,
    target: Target | str = "native",
    threads: int | None = None,
    precision: Precision = "fast",
    max_error: float | None = None,
    samples: Sequence[Sequence[Any]] | None = None,
    fallback: str | None = None,
    checked: bool = False,
    check: str | None = None,
    passes: Any = None,
    specialize: Any = (),
    database: TuningDatabase | str | Path | None = None,
) -> CompiledModel:
    """Compile a model for the CPU.

    ``model`` is a torch ``nn.Module``, a torch ``ExportedProgram``, an IRModule, or an ONNX model
    (a path, bytes, or a ModelProto). With ``example_inputs`` (a tuple of tensors or arrays) the
    signature is fixed: other shapes and dtypes are errors. Inputs by keyword are a dict in their
    place, ``burnish.compile(module, {"ids": ids, "mask": mask})``, or beside them,
    ``example_kwargs={"mask": mask}``; a model whose first input is itself a dict takes
    ``(inputs,)``. None, numbers and strings among them become part of the program, and inputs that
    are left out are the defaults of ``forward()``. Without examples a torch module compiles at its
    first call, once for each signature. ``dynamic_shapes`` names dims that vary:
    ``({0: "batch"},)``, and ``"2*h"`` one that is twice ``h``; one compilation then serves every
    size, 0 and 1 included, or those that a
    ``torch.export.Dim("batch", min=2, max=64)`` states: calls of others are refused. An entry for
    an input that holds tensors (a list, a cache of transformers) is for each of them. Without
    examples, inputs of another structure, dtype or plain value compile once more.
    ``module.forward = burnish.compile(module)`` puts the model in the module's place.

    A compiled model has the weights that the module had at its first compilation, in every
    signature, whatever becomes of the module afterwards: a new signature whose module has other
    weights by then is refused, and ``model.refresh()`` takes the present ones for all. Compared
    are the tensors that the module holds, in lists, tuples and dicts too; those of plain objects
    (``self.options.w``) and closures, and NumPy arrays, are not seen to change. ``threads``
    bounds the threads of a call. ``precision="fast"`` lets convolutions of 3 x
    3 be computed by Winograd's algorithm where that is faster, with errors several times as large;
    ``"strict"`` computes all operators as they are defined. ``"bfloat16"`` rounds the operands of
    matrix products to bfloat16 and sums them in float32: faster where the CPU has an instruction
    for that, with errors some thousand times as large; inputs and results keep their dtypes.
    ``"float16"`` does so with that type, and ``"int8"`` multiplies bytes, whose ranges are those of
    each row of activations and each output of weights (``burnish.quantize`` takes them from
    samples).
    ``"float32-split"`` computes products as exactly as float32 of three bfloat16 a number, where
    the CPU has AMX, and is ``"fast"`` elsewhere.
    ``"int8-weights"`` and ``"int4-weights"`` round the constant weights of linear layers to
    integers with scales (``"int4-weights:128"``: one for 128 of them), and nothing else: a quarter
    and about a sixth of the bytes, which few rows wait for; ``model.report.notes`` says how far
    weights are off. A mapping gives layers words of their own, by name or pattern, the first that
    fits: ``{"head": "float32", "*": "int8-weights"}``. ``"auto"`` chooses these words by itself:
    the fastest whose outputs, of a torch module, differ from those in float64 by at most
    ``max_error`` relative to the largest element, on the example inputs or on ``samples``, a list
    of such tuples. It compiles and runs the model many times; ``model.report`` has the table,
    ``model.precision`` the words.

    ``fallback="torch"`` lets torch run the operators of a torch model that cannot be compiled (FFT,
    factorisations, operators of your own), and compiles the rest; ``model.report.notes`` names
    each, its line and what it costs. ``fallback="onnx"`` lets ONNX's reference evaluator, which is
    slow, run the nodes of an ONNX model that cannot be compiled. Such a model cannot be saved.

    An index that is out of range is taken to the nearest element, where eager PyTorch raises.
    ``checked=True`` looks at all indices first, and at the class numbers of one_hot, and raises
    IndexRangeError, which names the operator and its line, for what eager PyTorch or ONNX refuses;
    ``model.report.notes`` says what that costs.

    ``passes`` are graph passes of your own: a list, which runs in front of the compiler's, or
    ``burnish.transform.pipeline()`` with passes inserted by name.

    ``specialize=[{"batch": 1}]`` compiles programs for given values of named sizes beside the one
    for all, up to eight; a call of these sizes takes its own.

    ``database`` (a TuningDatabase, or a path) has the records of ``model.tune``: kernels that were
    tuned for this target get their best schedules, the others analytic ones. ``model.report`` says
    which is which, and why where no record applies.

    ``check="first-call"`` compares the first call of each signature with eager PyTorch (with ONNX's
    reference evaluator), raises VerificationError where they differ, and says in
    ``model.report.notes`` that they agree; ``model.verify`` looks closer.

    Raises FrontendError and UnsupportedOpError (all unsupported operators at once), TargetError,
    ArgumentError, TuningError for a ``database`` that is none. Whatever is wrong with a model is
    raised here, or at the first call.
    """
    options = check_options(
        target=target,
        threads=threads,
        precision=precision,
        max_error=max_error,
        samples=samples,
        fallback=fallback,
        check=check,
        passes=passes,
        specialize=specialize,
        database=database,
    )
    resolved, count, listed = options.target, options.threads, options.passes
    again = None
    args, named = split_examples(example_inputs, example_kwargs)
    if not is_torch_module(model):
        _refuse_examples(model, example_inputs, example_kwargs, dynamic_shapes)
        imported: Imported | None = import_source(model, fallback=fallback)
    elif args is None:
        check_torch_module(model)
        imported = None
    else:
        imported = import_torch_module(model, args, named, dynamic_shapes, fallback)
        again = importer_of(model, args, named, dynamic_shapes, fallback)
    if precision == AUTO:
        assert max_error is not None
        if named:
            raise ArgumentError(
                'precision="auto" takes inputs by position: give those by keyword '
                f"({', '.join(named)}) in the order of forward()."
            )
        calls = [args or ()] if samples is None else samples
        choice = choose_precision(model, imported, calls, resolved, count, max_error, listed)
        assert imported is not None
        assert again is not None
        plain = again
        imported, precision = with_choice(imported, choice), choice.words
        again = lambda: with_choice(plain(), choice)  # noqa: E731
    return CompiledModel(
        *(model, imported, dynamic_shapes, resolved, count, precision, again, fallback, checked),
        check=check,
        passes=listed,
        specialize=options.specialize,
        schedule=options.schedule,
    )


class CheckedOptions(NamedTuple):
    """What the options of ``compile`` stand for."""

    target: Target
    threads: int
    passes: PassList | None
    specialize: tuple[Sizes, ...]
    schedule: ScheduleChoice


def check_options(
    *,
    target: Target | str = "native",
    threads: int | None = None,
    precision: Precision = "fast",
    max_error: float | None = None,
    samples: Sequence[Sequence[Any]] | None = None,
    fallback: str | None = None,
    check: str | None = None,
    passes: Any = None,
    specialize: Any = (),
    database: TuningDatabase | str | Path | None = None,
) -> CheckedOptions:
    """Options of ``compile``, looked at before there is a model. Raises what it does for these."""
    resolved = resolve_target(target)
    count = thread_count(resolved, threads)
    check_bound(precision, max_error, samples)
    if precision != AUTO:
        Selection(resolved, precision)  # refuses another word now, not at the first call
    listed = None if passes is None else as_pass_list(passes)
    sizes = check_sizes(specialize)
    records = None if database is None else as_records(database)
    for option, word, words in (
        ("fallback", fallback, ("torch", "onnx")),
        ("check", check, ("first-call",)),
    ):
        if word not in (None, *words):
            *known, last = "None", *[f'"{w}"' for w in words]
            raise ArgumentError(
                f"{option} is {', '.join(known)} or {last}; found {word!r}."
                f"{nearest(str(word), words)}"
            )
    schedule = schedule_analytically if records is None else ScheduledBy(records)
    return CheckedOptions(resolved, count, listed, sizes, schedule)


def _refuse_examples(
    model: Any, example_inputs: Any, example_kwargs: Any, dynamic_shapes: Any
) -> None:
    check_kind(model)
    known = {
        "example_inputs": example_inputs is not None,
        "example_kwargs": example_kwargs is not None,
        "dynamic_shapes": bool(dynamic_shapes),
    }
    for given in [name for name, is_given in known.items() if is_given]:
        raise FrontendError(
            f"{given} goes with a torch.nn.Module; a model given as {type(model).__name__} states "
            f"its own signature. Leave {given} out."
        )
