"""What the commands of ``burnish`` do: each a function from its options to the exit code.

``cli`` parses, and imports this file only when a command runs: to be told of the options must not
take the time of importing a compiler.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from importlib import metadata
from pathlib import Path
from typing import Any

import numpy as np

from ..support.call_form import named_outputs
from ..support.errors import ArgumentError, NotCompiledError
from ..support.host import native_target, why_no_tiles
from ..support.instructions import Instructions
from ..support.memory import load_probe, save_probe
from ..support.target import Target
from ..tuner.measuring.memory_probe import probe_memory
from ..tuner.measuring.remote_worker import serve_cluster
from ..tuner.records.database import TuningDatabase
from ..tuner.task_scheduler import PATIENCE
from ..vm import parallel
from ..vm.artifact import open_artifact, read_artifact
from ..vm.program import Program, ResultSpec, TensorSpec
from ..vm.signature import named_dims
from ..vm.tensor import Tensor
from .arrays import random_inputs
from .compiled_model import CompiledModel
from .console import format_seconds, print_table
from .given_sizes import whole_sizes
from .input_files import read_inputs
from .kernels import resolve_target
from .loaded_model import LoadedModel, program_of
from .model_options import compile_model, load_model
from .places import verify_places
from .timing import time_interleaved
from .tune import verify_budget
from .tune_report import report_text, save_report
from .verification import Verification


def run_compile(options: argparse.Namespace) -> int:
    if options.variant and not options.output:
        raise ArgumentError("--variant is for the file that is saved: name it with -o.")
    for variant in options.variant or ():
        resolve_target(variant)
    verify_places({"-o": options.output, "--report": options.report})
    model = compile_model(options)
    print(model.report)
    if options.output:
        saved = model.save(options.output, targets=options.variant or None)
        print(f"wrote {saved.path}: {saved.size / 1e6:.1f} MB, for {', '.join(saved.targets)}")
    if options.report:
        params = model.executable.program.functions["main"].params
        found = None if named_dims(params) else model.profile(*random_inputs(params))
        print(f"wrote {model.report.to_html(options.report, found)}")
    return 0


def run_inspect(options: argparse.Namespace) -> int:
    artifact = read_artifact(options.file)
    model = artifact.model
    sizes = {name: artifact.part(name).nbytes for name in artifact.names}
    rows = [["model", model["name"]], ["saved by", f"burnish {model['burnish']}"]]
    for number, signature in enumerate(model["signatures"]):
        rows.append([f"signature {number}", f"imported from {signature['source']}"])
        rows += _described(program_of(artifact, signature["variants"][0]), signature)
        for variant in signature["variants"]:
            objects = sum(sizes[n] for n in variant["objects"])
            constants = sum({n: sizes[n] for n, *_ in variant["constants"]}.values())
            text = f"code {objects / 1e3:.1f} kB, constants {constants / 1e6:.2f} MB"
            if variant["environment"]:
                text += f", calls {', '.join(variant['environment'])}"
            rows.append([f"  for {Target(variant['target']).cpu}", text])
    rows.append(["parts", f"{len(sizes)}, {sum(sizes.values()) / 1e6:.2f} MB; hashes are right"])
    print_table(str(options.file), ["", "value"], rows)
    return 0


def _described(program: Program, signature: Mapping[str, Any]) -> list[list[str]]:
    """A row for each input of a signature, each tensor that it keeps, and each output."""
    main = program.functions["main"]
    kept = len(main.params) - len(signature["state"])
    names = [*signature["inputs"][:kept], *signature["state"]]
    rows = [
        [f"  {'input' if i < kept else 'keeps'} {name}", _typed(param.spec)]
        for i, (name, param) in enumerate(zip(names, main.params, strict=True))
    ]
    results = _flat(main.result)[len(signature["written"]) :]
    return rows + [[f"  output {i}", _typed(spec)] for i, spec in enumerate(results)]


def _flat(result: ResultSpec) -> list[TensorSpec]:
    if isinstance(result, TensorSpec):
        return [result]
    return [spec for part in result for spec in _flat(part)]


def _typed(spec: TensorSpec) -> str:
    comma = "," if len(spec.shape) == 1 else ""
    return f"{spec.dtype} ({', '.join(spec.shape)}{comma})"


def _program_of(model: CompiledModel | LoadedModel) -> Any:
    """The program whose inputs are made up. Raises ArgumentError where each call may have its
    own."""
    try:
        return model.executable.program.functions["main"]
    except NotCompiledError:
        raise ArgumentError(
            "the program of this model depends on its inputs, more than on named sizes; pass them: "
            "--input FILE.npy for each, in their order, with the command 'run'."
        ) from None


def _inputs(
    model: CompiledModel | LoadedModel, options: argparse.Namespace, *, kept: str = ""
) -> Iterator[list[Any]]:
    """The inputs of each call that is asked for: the arrays of some files, or random ones of each
    of the sizes, which are printed where there are several. ``kept`` is an option that keeps one
    call."""
    sizes, files = options.sizes, getattr(options, "input", ())
    if files and sizes:
        raise ArgumentError("--sizes are of random inputs; leave them out beside --input.")
    if files:
        arrays = read_inputs(files, _dtypes(model))
        try:
            yield model.arguments(arrays)
        except NotCompiledError:
            # Such a model takes its tensors one by one; these tell its program.
            yield arrays
        return
    # Behind what callers give come the tensors that calls change.
    params = _program_of(model).params[: len(model.inputs)]
    given = whole_sizes(sizes, "--sizes", named_dims(params), least=0)
    if kept and len(given) > 1:
        raise ArgumentError(f"{kept} keeps one call; give --sizes once, found {len(given)}.")
    for one in given or (None,):
        if one is not None and len(given) > 1:
            print(f"{', '.join([f'{name}={size}' for name, size in one.items()])}:")
        tensors = random_inputs(params, size=one)
        yield model.arguments([t.numpy() if t.dtype != "bfloat16" else t for t in tensors])


def _dtypes(model: CompiledModel | LoadedModel) -> list[str]:
    """The dtypes of the inputs, where all calls have one program."""
    try:
        return [str(p.spec.dtype) for p in model.executable.program.functions["main"].params]
    except NotCompiledError:
        return []


def run_run(options: argparse.Namespace) -> int:
    kept_in = options.output
    if kept_in and not kept_in.endswith(".npz"):
        kept_in += ".npz"  # as NumPy would
    verify_places({"--output": kept_in})
    model = load_model(options)
    for inputs in _inputs(model, options, kept="--output" if options.output else ""):
        result = model.run(inputs)
        named = named_outputs(result)
        if options.output:
            kept = {name: _values(leaf) for name, leaf in named if leaf is not None}
            np.savez(kept_in, **kept)
            print(f"{len(kept)} outputs in {kept_in}")
            continue
        for name, leaf in named:
            title = name.replace("_", " ", 1)
            if isinstance(leaf, (np.ndarray, Tensor)):
                print(f"{title}: {leaf.dtype} {leaf.shape}\n{_values(leaf)}")
            else:
                print(f"{title}: {leaf!r}")
    return 0


def _values(leaf: Any) -> Any:
    """An output as NumPy has it: bfloat16, which it has not, as float32 of the same values."""
    return leaf.float32() if isinstance(leaf, Tensor) and leaf.dtype == "bfloat16" else leaf


def run_bench(options: argparse.Namespace) -> int:
    model = load_model(options)
    for inputs in _inputs(model, options):
        timing = time_interleaved({"model": partial(model, *inputs)}, seconds=0.1)["model"]
        minimum, median = (format_seconds(t) for t in (timing.minimum, timing.median))
        print(f"minimum {minimum}, median {median} a call")
    return 0


def run_profile(options: argparse.Namespace) -> int:
    verify_places({"--trace": options.trace})
    model = load_model(options)
    for inputs in _inputs(model, options, kept="--trace" if options.trace else ""):
        found = model.profile(*inputs, seconds=options.seconds)
        print(found)
        if options.trace:
            print(f"wrote {found.to_chrome_trace(options.trace)}")
    return 0


def run_verify(options: argparse.Namespace) -> int:
    model = load_model(options)
    if isinstance(model, LoadedModel):
        verify: Callable[..., Verification] = partial(model.verify, source=_source(options))
    elif options.source:
        raise ArgumentError(f"--source is for a saved model; {options.model} is its own source.")
    else:
        verify = model.verify
    differs = False
    for inputs in _inputs(model, options):
        found = verify(*inputs, tolerance=options.tolerance)
        print(found.text(full=options.full))
        differs |= not found
    return int(differs)


def _source(options: argparse.Namespace) -> Path:
    """The ONNX file that a saved model is compared with."""
    if options.source:
        return Path(options.source)
    name = open_artifact(options.model).model["name"]
    if Path(name).suffix != ".onnx" and name not in ("ModelProto", "bytes"):
        raise ArgumentError(
            f"{options.model} was saved from {name}, which is no ONNX file. Compare it in Python: "
            f"burnish.load({options.model!r}).verify(*inputs, source=module)."
        )
    raise ArgumentError(
        f"{options.model} does not hold the model that it was saved from, {name}; give that too: "
        "--source FILE.onnx."
    )


def run_show(options: argparse.Namespace) -> int:
    model = load_model(options)
    if options.stage:
        model.show(options.stage)
    else:
        model.show()
    return 0


def run_tune(options: argparse.Namespace) -> int:
    verify_budget(options.trials, options.minutes)
    verify_places({"-o": options.output}, {"--report": options.report})
    model = compile_model(options)
    # The database outlives the search: what was measured is in it whatever happens.
    with TuningDatabase(options.database, makes_folders=False) as database:
        result = model.tune(
            trials=options.trials,
            minutes=options.minutes,
            sizes=options.sizes,
            database=database,
            task_scheduler=options.task_scheduler,
            patience=None if options.no_plateau else PATIENCE,
            cluster=options.cluster,
            verbose=0 if options.quiet else 2 if options.verbose else 1,
        )
        print(result.verdict if options.quiet else report_text(result))
        if not options.quiet:
            print(f"records in {options.database}; the same command goes on from them")
        for file in save_report(result, options.report, database) if options.report else ():
            print(f"wrote {file}")
    if options.output:
        print(f"wrote {model.save(options.output).path}")
    return 0


def run_worker(options: argparse.Namespace) -> int:
    serve_cluster(options.connect, builders=options.builders, runners=options.runners)
    return 0


def run_info(options: argparse.Namespace) -> int:
    if options.probe:
        print(f"wrote {save_probe(probe_memory(resolve_target('native')))}")
        native_target.cache_clear()
    target = resolve_target("native")
    caches = {"L1": target.l1_bytes, "L2": target.l2_bytes, "L3": target.l3_bytes}
    rows = [
        ["triple", target.triple],
        ["cpu", target.cpu],
        *_instruction_rows(target.instructions),
        ["caches", ", ".join([f"{name} {size >> 10} KiB" for name, size in caches.items()])],
        *_memory_rows(target),
        ["cores", str(target.cores)],
        ["threads of a call", str(parallel.default_threads())],
        ["python", sys.version.split()[0]],
    ]
    for package in (
        "burnish",
        "numpy",
        "llvmlite",
        "networkx",
        "torch",
        "onnx",
        "xgboost-cpu",
        "xgboost",
        "rich",
    ):
        try:
            rows.append([package, metadata.version(package)])
        except metadata.PackageNotFoundError:
            rows.append([package, "not installed"])
    print_table("burnish", ["", "value"], rows)
    return 0


def _instruction_rows(known: Instructions) -> list[list[str]]:
    """What instructions can do."""
    ports, tiles = known.ports, known.tiles
    operands = {
        "in memory": known.reads_memory,
        "broadcast from memory": known.broadcast_from_memory,
        "masked": known.masks,
    }
    rows = [
        ["vectors", ", ".join([f"{count} of {bits} bits" for bits, count in known.vectors])],
        ["operands", ", ".join([name for name, has in operands.items() if has]) or "in registers"],
        [
            "a cycle",
            f"{ports.fmas:g} {'fused' if known.fma else 'separate'} multiply-adds (latency "
            f"{ports.latency}; {ports.arithmetic:g} with what widens beside them), "
            f"{ports.loads:g} loads, {ports.stores:g} stores of vectors",
        ],
    ]
    rows += [
        [
            d.name,
            f"{d.lanes} {d.result} += {d.elements} x {d.operands[0]} * {d.operands[1]}"
            + (f", {d.rows} x {d.rows} rows" if d.rows > 1 else ""),
        ]
        for d in known.dots
    ]
    if tiles is not None:
        kinds = sorted({f"{first} * {second}" for first, second, _, _ in tiles.products})
        size = f"{tiles.registers} of {tiles.rows} x {tiles.row_bytes} bytes"
        rows.append(["tiles", f"{size}: {', '.join(kinds)}"])
    elif why_no_tiles():
        rows.append(["tiles", f"none: {why_no_tiles()}"])
    return rows


def _memory_rows(target: Target) -> list[list[str]]:
    """What memory can do, and who says so."""
    probe = load_probe(target.cpu, target.cores)
    memory = target.memory

    def shown(names: Sequence[str], rates: Sequence[float]) -> str:
        parts = [f"{name} {rate:g}" for name, rate in zip(names, rates, strict=True)]
        if probe is not None:
            parts[-1] += f" ({rates[-1] * probe.clock:.0f} GB/s)"
        return ", ".join(parts)

    measured = f"measured, at {probe.clock:g} GHz" if probe else "of the table; --probe measures"
    levels = ("L1", "L2", "L3", "memory")
    return [
        ["bytes a cycle", measured],
        ["of one core", shown(levels, memory.one_core)],
        ["of all cores", shown(levels[2:], memory.all_cores)],
    ]


def run_demo(options: argparse.Namespace) -> int:
    from .demo import run_demo

    return run_demo(
        options.data, download=options.download, trials=options.trials, threads=options.threads
    )
