"""The command line: ``burnish compile|run|bench|show|tune|worker|db|info|demo``."""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Callable, Sequence
from importlib import metadata
from pathlib import Path
from typing import Any

import numpy as np

from ..support.config import describe_flags
from ..support.errors import ArgumentError, BurnishError
from ..tuner.database import TuningDatabase
from ..tuner.remote_worker import serve_cluster
from ..tuner.task_scheduler import PATIENCE
from ..tuner.task_scheduler import STRATEGIES as TASK_SCHEDULERS
from ..vm import parallel
from .arrays import random_inputs
from .compile import CompiledModel, compile
from .console import format_seconds, print_table
from .db_cli import add_db_commands
from .kernels import resolve_target
from .stages import STAGES
from .timing import time_interleaved
from .tune import verify_budget
from .tune_report import report_text, save_report


def main(argv: Sequence[str] | None = None) -> int:
    """Run a command; the exit code is 0, 1 for a failed check, 2 for an error (told on stderr),
    130 where it was interrupted."""
    arguments = list(sys.argv[1:] if argv is None else argv)
    if arguments == ["worker"]:
        from ..tuner.worker import main as serve

        serve()
        return 0
    options = _parser().parse_args(arguments)
    command: Callable[[argparse.Namespace], int] = options.command
    try:
        return command(options)
    except BrokenPipeError:
        # The reader went away (``burnish show ... | head``): nothing more may be flushed to it.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 0
    except KeyboardInterrupt:
        print("burnish: interrupted", file=sys.stderr)
        return 130
    except BurnishError as error:
        print(f"burnish: {type(error).__name__}: {error}", file=sys.stderr)
        for note in getattr(error, "__notes__", ()):
            print(f"  {note}", file=sys.stderr)
        return 2


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="burnish",
        description="Compile PyTorch and ONNX models for the CPU.",
        epilog="Environment flags:\n" + describe_flags(),
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    commands = parser.add_subparsers(required=True, metavar="command")

    def add(
        name: str, run: Callable[[argparse.Namespace], int], text: str
    ) -> argparse.ArgumentParser:
        sub = commands.add_parser(name, help=text, description=text)
        sub.set_defaults(command=run)
        return sub

    def add_model(sub: argparse.ArgumentParser) -> None:
        sub.add_argument("model", help="an ONNX file")
        sub.add_argument(
            "--target", default="native", help="e.g. 'native -threads=1', 'llvm -mcpu=haswell'"
        )
        sub.add_argument("--threads", type=int, default=None, help="threads of a call")

    sub = add("compile", _compile, "Compile a model and print the report.")
    add_model(sub)
    sub = add(
        "run", _run, "Run a model on .npy inputs (or random ones) and print or keep the outputs."
    )
    add_model(sub)
    sub.add_argument(
        "--input",
        action="append",
        default=[],
        metavar="FILE.npy",
        help="an input, in order; repeatable",
    )
    sub.add_argument(
        "--output", metavar="FILE.npz", help="keep the outputs as output_0, output_1, ..."
    )
    sub = add("bench", _bench, "Time a model on random inputs.")
    add_model(sub)
    sub = add("show", _show, "Print a model's IR at a stage.")
    add_model(sub)
    sub.add_argument(
        "--stage", default="30-fused", choices=[s for s in STAGES if s[:2] not in ("50", "60")]
    )
    sub = add("tune", _tune, "Tune a model's kernels into a database. Ctrl-C keeps what was found.")
    add_model(sub)
    sub.add_argument("--minutes", type=float, help="budget in minutes")
    sub.add_argument("--trials", type=int, help="budget in measured candidates")
    sub.add_argument("--database", default="burnish-records.db", help="where records are kept")
    sub.add_argument("--report", metavar="DIR", help="keep the report and its plots there")
    sub.add_argument(
        "--task-scheduler", choices=TASK_SCHEDULERS, default="gradient", help="who gets the budget"
    )
    sub.add_argument(
        "--no-plateau", action="store_true", help="never leave a kernel alone before the end"
    )
    sub.add_argument(
        "--cluster", metavar="ADDRESS", help="build and time on the workers of this dask scheduler"
    )
    volume = sub.add_mutually_exclusive_group()
    volume.add_argument("-q", "--quiet", action="store_true", help="print the verdict alone")
    volume.add_argument(
        "-v", "--verbose", action="store_true", help="print a line for each measurement"
    )
    sub = add("worker", _worker, "Build and time candidates for searches on other machines.")
    sub.add_argument("--connect", metavar="ADDRESS", required=True, help="of a dask scheduler")
    sub.add_argument("--builders", type=int, help="candidates built at once")
    sub.add_argument("--runners", type=int, default=1, help="candidates timed at once")
    sub = commands.add_parser(
        "db", help="Look into tuning databases, export, import, merge, prune."
    )
    add_db_commands(sub)
    add("info", _info, "Print the machine as burnish sees it, and versions.")
    sub = add("demo", _demo, "The Fashion-MNIST MLP: compile, check, time, tune, time again.")
    sub.add_argument(
        "--data", metavar="DIR", help="FashionMNIST/raw/*-ubyte[.gz], or fashion_mnist_900.npz"
    )
    sub.add_argument(
        "--download", action="store_true", help="fetch the data set (into --data, or ./data)"
    )
    sub.add_argument("--trials", type=int, default=48, help="candidates to measure")
    sub.add_argument("--threads", type=int, default=1, help="threads of a call")
    return parser


def _load(options: argparse.Namespace) -> CompiledModel:
    return compile(Path(options.model), target=options.target, threads=options.threads)


def _compile(options: argparse.Namespace) -> int:
    print(_load(options).report)
    return 0


def _inputs(model: CompiledModel, files: Sequence[str]) -> list[Any]:
    """The arrays of some files, or random ones for a model of static shapes."""
    if not files:
        params = model.executable.program.functions["main"].params
        return [t.numpy() if t.dtype != "bfloat16" else t for t in random_inputs(params)]
    loaded = []
    for name in files:
        try:
            loaded.append(np.load(name, allow_pickle=False))
        except (OSError, ValueError, EOFError) as error:
            raise ArgumentError(f"{name}: cannot be read as .npy: {error}") from error
    return loaded


def _run(options: argparse.Namespace) -> int:
    model = _load(options)
    result = model.run(_inputs(model, options.input))
    outputs = list(result) if isinstance(result, (list, tuple)) else [result]
    if options.output:
        arrays: dict[str, Any] = {f"output_{i}": np.asarray(o) for i, o in enumerate(outputs)}
        np.savez(options.output, **arrays)
        print(f"{len(outputs)} outputs in {options.output}")
        return 0
    for i, output in enumerate(outputs):
        array = np.asarray(output)
        print(f"output {i}: {array.dtype} {array.shape}\n{array}")
    return 0


def _bench(options: argparse.Namespace) -> int:
    model = _load(options)
    inputs = _inputs(model, ())
    timing = time_interleaved({"model": lambda: model(*inputs)}, seconds=0.1)["model"]
    print(
        f"minimum {format_seconds(timing.minimum)}, median {format_seconds(timing.median)} a call"
    )
    return 0


def _show(options: argparse.Namespace) -> int:
    _load(options).show(options.stage)
    return 0


def _tune(options: argparse.Namespace) -> int:
    verify_budget(options.trials, options.minutes)
    model = _load(options)
    # The database outlives the search: what was measured is in it whatever happens.
    with TuningDatabase(options.database) as database:
        result = model.tune(
            trials=options.trials,
            minutes=options.minutes,
            database=database,
            task_scheduler=options.task_scheduler,
            patience=None if options.no_plateau else PATIENCE,
            cluster=options.cluster,
            verbose=0 if options.quiet else 2 if options.verbose else 1,
        )
        files = save_report(result, options.report, database) if options.report else []
    print(result.verdict if options.quiet else report_text(result))
    if not options.quiet:
        print(f"records in {options.database}; the same command goes on from them")
    for file in files:
        print(f"wrote {file}")
    return 0


def _worker(options: argparse.Namespace) -> int:
    serve_cluster(options.connect, builders=options.builders, runners=options.runners)
    return 0


def _info(options: argparse.Namespace) -> int:
    target = resolve_target("native")
    caches = {"L1": target.l1_bytes, "L2": target.l2_bytes, "L3": target.l3_bytes}
    rows = [
        ["triple", target.triple],
        ["cpu", target.cpu],
        ["vectors", f"{target.vector_registers} of {target.vector_bits} bits"],
        ["caches", ", ".join([f"{name} {size >> 10} KiB" for name, size in caches.items()])],
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


def _demo(options: argparse.Namespace) -> int:
    from .demo import run_demo

    return run_demo(
        options.data, download=options.download, trials=options.trials, threads=options.threads
    )
