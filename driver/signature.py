"""One compiled signature of a model, and what tells one signature from another."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from inspect import Parameter, Signature
from operator import itemgetter
from typing import TYPE_CHECKING, Any

from ..support.errors import (
    ArgumentError,
    ArityError,
    ArtifactError,
    InternalError,
    ShapeMismatchError,
)
from ..vm.fast_entry import NUMPY
from ..vm.interpreter import VirtualMachine
from ..vm.tensor import Tensor
from .arrays import check_written, to_tensors, torch_kind, write_outputs
from .runnable import check_runnable
from .threads import check_threads, runtime

if TYPE_CHECKING:
    from ..frontend.imported import Imported
    from ..vm.program import Param
    from .executable import Executable
    from .kernel_facts import KernelFacts
    from .loaded_model import SavedCalls, SavedProgram

Entry = Callable[..., Any]
_SOME_DIMS = '({0: "batch"}, ...)'
"""What to give where the form of a call is not told: an entry for each input."""
_OTHER_RANK = (
    "A program takes one number of dims for each input. Compile another for these, or leave "
    "example_inputs out: a torch.nn.Module is then compiled at the first call of each signature."
)


class CompiledSignature:
    """A program for one signature, with its entries for NumPy arrays and torch tensors."""

    def __init__(
        self,
        imported: Imported | SavedCalls,
        executable: Executable | SavedProgram,
        threads: int,
    ) -> None:
        self.imported = imported
        self.executable = executable
        self.threads = threads
        self._machines: dict[int, VirtualMachine] = {}
        self._entries: dict[str, Entry] = {}

    @property
    def facts(self) -> dict[str, KernelFacts]:
        """What is known of the kernels, by symbol."""
        raise InternalError(f"{type(self).__name__} knows nothing of its kernels.")

    @property
    def floor(self) -> int | None:
        """What intermediates need at least, in bytes; None where that is not known."""
        return None

    def machine(self, threads: int | None = None) -> VirtualMachine:
        """The machine that runs with at most ``threads`` threads; its native code is linked once
        for each number of them. Raises ArgumentError for a number below 1."""
        check_threads(threads)
        count = self.threads if threads is None else min(threads, self.threads)
        found = self._machines.get(count)
        if found is None:
            check_runnable(self.executable.target)
            found = VirtualMachine(self.executable.program, runtime=runtime(count))
            self._machines[count] = found
        return found

    def entry(self, kind: str, slow: Entry) -> Entry:
        """The fastest callable for positional arrays of one library (``numpy`` or ``torch``);
        ``slow`` handles the rest, and all where there is none."""
        found = self._entries.get(kind)
        if found is None:
            found = self._entries[kind] = self._make_entry(kind, slow)
        return found

    def _make_entry(self, kind: str, slow: Entry) -> Entry:
        known = self.imported
        if not known.positional_only:
            return slow
        array_kind = torch_kind() if kind == "torch" else NUMPY
        if known.single_output or known.bare_tuple:
            fast = self.machine().fast_entry("main", slow, kind=array_kind)
            return slow if fast is None else fast.call
        fast = self.machine().fast_entry("main", lambda *args: _Slow(slow(*args)), kind=array_kind)
        return slow if fast is None else _structured(fast.call, known.unflatten_outputs)

    def run(self, values: Sequence[object], threads: int | None = None) -> list[Tensor]:
        """Run on flattened inputs, checked; the flat list of outputs. Inputs and state that the
        model changes are written.

        Raises ArityError, ShapeMismatchError, DTypeMismatchError, ArgumentError.
        """
        names = self.imported.input_names
        if len(values) != len(names):
            raise ArityError(
                f"the model takes {len(names)} input{'s' if len(names) != 1 else ''} "
                f"({', '.join(names)}); got {len(values)}."
            )
        written, called = self.imported.written, [f"input {n!r}" for n in names]
        tensors = to_tensors(values, called)
        check_written(values, called, written)
        machine = self.machine(threads)
        try:
            result = machine["main"](*tensors)
        except ShapeMismatchError as error:
            params = self.executable.program.functions["main"].params
            advice = size_advice(self.imported, params, [t.shape for t in tensors])
            if not advice:
                raise
            raise ShapeMismatchError(error.arg, error.expected, error.got, advice) from None
        results = list(result) if isinstance(result, tuple) else [result]
        if written:
            write_outputs([values[i] for i in written], results[: len(written)])
        return results[len(written) :]


class _Slow:
    """A result that has its structure already."""

    __slots__ = ("value",)

    def __init__(self, value: Any) -> None:
        self.value = value


def _structured(call: Entry, unflatten: Callable[[list[Any]], Any]) -> Entry:
    """An entry whose flat outputs are put into the model's own structure."""

    def entry(*args: Any) -> Any:
        result = call(*args)
        kind = type(result)
        if kind is _Slow:
            return result.value
        return unflatten(list(result) if kind is tuple else [result])

    return entry


def listed_inputs(
    calls: Imported | SavedCalls, params: Sequence[Param]
) -> tuple[tuple[str, tuple[str, ...], str], ...]:
    """(name, shape, dtype) of each input tensor that callers give."""
    given = params[: len(params) - len(calls.state)]
    return tuple(
        [(n, p.spec.shape, p.spec.dtype) for n, p in zip(calls.input_names, given, strict=False)]
    )


def size_advice(
    calls: Imported | SavedCalls, params: Sequence[Param], shapes: Sequence[tuple[int, ...]]
) -> str:
    """How to have the sizes vary that are fixed in a program and others in a call, with the text to
    write; nothing where no fixed size differs."""
    given = shapes[: len(shapes) - len(calls.state)]
    fixed = [p.spec.shape for p in params[: len(given)]]
    is_torch = calls.source.startswith("torch")
    if any(len(wanted) != len(found) for wanted, found in zip(fixed, given, strict=True)):
        return _OTHER_RANK if is_torch else ""
    pairs = [list(zip(w, map(str, n), strict=True)) for w, n in zip(fixed, given, strict=True)]
    if not any(_is_odd(size, found) for shape in pairs for size, found in shape):
        return ""
    if calls.source == "IRModule":
        return "The sizes of an IRModule vary where its dims are names."
    if not is_torch:
        return (
            "These sizes are fixed in the ONNX file; where they vary, give the dims names there: "
            "torch.onnx.export(..., dynamic_shapes=...), or dim_param in the file."
        )
    how = f"burnish.compile(module, args, dynamic_shapes={_dynamic_form(calls, pairs)})"
    if calls.source == "torch program":
        how = "torch.export.export(..., dynamic_shapes=...), with a torch.export.Dim for each"
    return f"Sizes without a name are fixed at compilation. If they are to vary, name them: {how}."


def _is_odd(size: str, found: str) -> bool:
    return size.isdecimal() and size != found


def _dynamic_form(calls: Imported | SavedCalls, pairs: Sequence[list[tuple[str, str]]]) -> str:
    """What ``dynamic_shapes`` would be to have the dims vary that are odd, and those that do."""
    names: dict[tuple[str, str], str] = {}
    entries: list[dict[int, str] | None] = []
    for shape in pairs:
        entry: dict[int, str] = {}
        for axis, (size, found) in enumerate(shape):
            if size.isidentifier():
                entry[axis] = size
            elif size != found:
                # Sizes that were equal and are equal are taken for the same.
                taken = {*calls.dim_names, *names.values()}
                wished = "batch" if axis == 0 else f"size{axis}"
                free = wished if wished not in taken else f"{wished}_{size}"
                entry[axis] = names.setdefault((size, found), free)
        entries.append(entry or None)
    try:
        form = calls.form()
    except ArtifactError:  # of classes that have no text
        return _SOME_DIMS
    if not form.has_bare_inputs or not all(n.isidentifier() for n in form.names):
        return _SOME_DIMS
    if len(entries) == 1:
        return _shown(tuple(entries))
    return _shown({n: e for n, e in zip(form.names, entries, strict=True) if e})


def _shown(value: Any) -> str:
    return repr(value).replace("'", '"')


def names_by_position(signature: Signature) -> tuple[str, ...]:
    """The parameters of a function that may be given by position and by name."""
    parameters = signature.parameters.values()
    return tuple([p.name for p in parameters if p.kind is Parameter.POSITIONAL_OR_KEYWORD])


def signature_key(
    args: Sequence[Any],
    kwargs: Mapping[str, Any],
    names: Sequence[str] = (),
    *,
    has_sizes: bool = True,
) -> tuple[Any, ...]:
    """What of a call a program depends on: structure, shapes, dtypes, plain values; where sizes
    have names, the number of dims instead of shapes. ``names`` are those of the inputs by
    position, which may also be given by keyword.

    Raises ArgumentError for an input that is neither an array nor a plain value.
    """
    by_position = dict(enumerate(args))
    given = {names[i] if i < len(names) else i: x for i, x in by_position.items()} | dict(kwargs)
    if len(given) < len(args) + len(kwargs):
        given = by_position | dict(kwargs)  # one is given twice, which is told where it is bound
    keys = [(str(k), _key(x, f"input {k!r}", has_sizes)) for k, x in given.items()]
    return tuple(sorted(keys, key=itemgetter(0)))


def _key(x: Any, name: str, has_sizes: bool) -> tuple[Any, ...]:
    shape, dtype = getattr(x, "shape", None), getattr(x, "dtype", None)
    if shape is not None and dtype is not None:
        return (
            "tensor",
            tuple(shape) if has_sizes else len(shape),
            str(dtype).removeprefix("torch."),
        )
    if isinstance(x, (list, tuple)):
        return (type(x), *[_key(item, f"{name}[{i}]", has_sizes) for i, item in enumerate(x)])
    if isinstance(x, Mapping):
        return (type(x), *[(k, _key(v, f"{name}[{k!r}]", has_sizes)) for k, v in x.items()])
    if x is None or isinstance(x, (bool, int, float, complex, str)):
        return ("value", type(x), repr(x))
    from .sources import input_parts  # of modules of torch, which saved models do without

    parts = input_parts(x)
    if parts is not None:
        leaves, structure = parts
        named = [(leaf, f"part {i} of {name}") for i, leaf in enumerate(leaves)]
        return (structure, *[_key(leaf, part, has_sizes) for leaf, part in named])
    raise ArgumentError(
        f"{name}: expected a tensor, an array, or a number; found {type(x).__name__}."
    )
