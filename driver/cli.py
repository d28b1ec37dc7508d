"""The command line: ``burnish compile``, ``run``, ``tune`` and the others.

This file parses; what a command does is in ``commands``, ``db_commands``, ``cache_commands`` and
``serve_commands``, which are imported when it runs.
"""

from __future__ import annotations

import argparse
import os
import sys
import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from importlib import import_module
from typing import Any, NoReturn

from ..support.choices import STAGES, TASK_SCHEDULERS
from ..support.config import describe_flags
from ..support.errors import BurnishError, nearest
from ..support.wording import command_line
from .option_types import number, place, precision, sizes, whole_number

_RECORDS = "a database, or a file of JSON lines"


def main(argv: Sequence[str] | None = None) -> int:
    """Run a command; the exit code is 0, 1 for a failed check, 2 for an error (told on stderr),
    130 where it was interrupted."""
    arguments = list(sys.argv[1:] if argv is None else argv)
    if arguments == ["worker"]:
        from ..support.worker import main as serve

        serve()
        return 0
    options, unknown = _parser().parse_known_args(arguments)
    if unknown:
        options.parser.error(f"unrecognized arguments: {' '.join(unknown)}")
    module, name = options.command
    try:
        with command_line(), _plain_warnings():
            command = getattr(import_module(f".{module}", __package__), f"run_{name}")
            return int(command(options))
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
    except OSError as error:
        print(f"burnish: {_of_system(error)}", file=sys.stderr)
        return 2
    except MemoryError as error:
        print(
            f"burnish: the system gives no more memory{f': {error}' if str(error) else ''}. "
            "Smaller models, inputs and --sizes need less.",
            file=sys.stderr,
        )
        return 2


def _of_system(error: OSError) -> str:
    """What the system refused: a full disk, a file that went away meanwhile."""
    place = "" if error.filename is None else f"{error.filename}: "
    return f"{place}{error.strerror or error}."


@contextmanager
def _plain_warnings() -> Iterator[None]:
    """Warnings as one line each, without the place in a file of the library."""
    before = warnings.formatwarning
    warnings.formatwarning = lambda message, *rest, **more: f"burnish: warning: {message}\n"
    try:
        yield
    finally:
        warnings.formatwarning = before


class _Parser(argparse.ArgumentParser):
    """One whose errors name what was meant."""

    def __init__(self, *args: Any, **options: Any) -> None:
        super().__init__(*args, **options)
        self._arguments: list[str] = []
        self.set_defaults(parser=self)

    def parse_known_args(  # type: ignore[override]
        self, args: Sequence[str] | None = None, namespace: Any = None
    ) -> tuple[Any, list[str]]:
        self._arguments = list(args or ())
        return super().parse_known_args(args, namespace)

    def _check_value(self, action: argparse.Action, value: Any) -> None:
        try:
            super()._check_value(action, value)
        except argparse.ArgumentError as error:
            error.message += f".{nearest(str(value), map(str, action.choices or ()))}"
            raise

    def error(self, message: str) -> NoReturn:
        known = [name for action in self._actions for name in action.option_strings]
        given = [a.partition("=")[0] for a in self._arguments if a.startswith("--")]
        # An option may be shortened to what no other begins with.
        strange = [a for a in given if not any(name.startswith(a) for name in known)]
        hints = "".join([nearest(a, known) for a in strange])
        super().error(f"{message}.{hints}" if hints else message)


def _parser() -> argparse.ArgumentParser:
    parser = _Parser(
        prog="burnish",
        description="Compile PyTorch and ONNX models for the CPU.",
        epilog="Environment flags:\n" + describe_flags(),
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    commands = parser.add_subparsers(required=True, metavar="command")

    def add(name: str, text: str) -> argparse.ArgumentParser:
        sub = commands.add_parser(name, help=text, description=text)
        sub.set_defaults(command=("commands", name))
        return sub

    def add_sizes(sub: argparse.ArgumentParser, text: str) -> None:
        sub.add_argument(
            "--sizes", action="append", default=[], type=sizes, metavar="NAME=N,...", help=text
        )

    at = "what named sizes are in random inputs, e.g. batch=8,length=128; repeatable: one by one"
    sub = add("compile", "Compile a model and print the report.")
    _add_model(sub, saved=False)
    sub.add_argument(
        *("-o", "--output"), type=place, metavar="FILE.burnish", help="save the compiled model"
    )
    sub.add_argument(
        "--report", type=place, metavar="FILE.html", help="keep a page with all there is to see"
    )
    sub.add_argument(
        "--variant",
        action="append",
        metavar="TARGET",
        help="a CPU that the saved file has kernels for, e.g. x86-64-v3; repeatable",
    )
    sub = add("inspect", "Check a saved model and print what is in it.")
    sub.add_argument("file", metavar="FILE.burnish")
    sub = add("run", "Run a model on .npy inputs (or random ones) and print or keep the outputs.")
    _add_model(sub)
    _add_inputs(sub)
    add_sizes(sub, at)
    sub.add_argument(
        "--output",
        type=place,
        metavar="FILE.npz",
        help="keep the outputs as output_0, output_1, ... (output_0.KEY of a dict, output_0.0 of a "
        "list; bfloat16 as float32)",
    )
    sub = add("bench", "Time a model on random inputs.")
    _add_model(sub)
    add_sizes(sub, at)
    sub = add("profile", "Show where the time of a call goes, kernel by kernel.")
    _add_model(sub)
    _add_inputs(sub)
    add_sizes(sub, at)
    sub.add_argument("--seconds", type=number(), default=0.5, help="how long to measure (0.5)")
    sub.add_argument(
        "--trace", type=place, metavar="FILE.json", help="keep a run for chrome://tracing"
    )
    sub = add("verify", "Compare a model with ONNX's reference evaluator, value by value.")
    _add_model(sub)
    sub.add_argument(
        "--source", metavar="FILE.onnx", help="what a saved model is compared with, by its outputs"
    )
    _add_inputs(sub)
    add_sizes(sub, at)
    sub.add_argument(
        "--tolerance",
        type=number(may_be_zero=True),
        help="the largest error, relative to a value's largest element",
    )
    sub.add_argument(
        "--full", action="store_true", help="whole names and places, wider than the terminal"
    )
    sub = add("show", "Print a model's IR at a stage.")
    _add_model(sub)
    sub.add_argument(
        "--stage",
        choices=STAGES,
        help="30-fused if not given; 50-lowered and 60-llvm are of each kernel; a saved model has "
        "40-scheduled, which is shown if none is given, and 70-bytecode",
    )
    sub = add("tune", "Tune a model's kernels into a database. Ctrl-C keeps what was found.")
    _add_model(sub, saved=False, tunes=True)
    add_sizes(sub, "named sizes to measure at, e.g. batch=1; repeatable: one program for all")
    sub.add_argument("--minutes", type=number(), help="budget in minutes")
    sub.add_argument("--trials", type=whole_number(), help="budget in measured candidates")
    sub.add_argument(
        "--database", type=place, default="burnish-records.db", help="where records are kept"
    )
    sub.add_argument(
        *("-o", "--output"), type=place, metavar="FILE.burnish", help="save the tuned model"
    )
    sub.add_argument(
        "--report", type=place, metavar="DIR", help="keep the report and its plots there"
    )
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
    sub = add("worker", "Build and time candidates for searches on other machines.")
    sub.add_argument("--connect", metavar="ADDRESS", required=True, help="of a dask scheduler")
    sub.add_argument("--builders", type=whole_number(0), help="candidates built at once")
    sub.add_argument("--runners", type=whole_number(0), default=1, help="candidates timed at once")
    sub = add("serve", "Serve saved models over HTTP (Open Inference protocol). SIGHUP reloads.")
    sub.set_defaults(command=("serve_commands", "serve"))
    _add_serving(sub)
    sub = commands.add_parser(
        "db", help="Look into tuning databases, export, import, merge, prune."
    )
    _add_db_commands(sub)
    sub = commands.add_parser("cache", help="Look into the cache of compiled code, or empty it.")
    _add_cache_commands(sub)
    sub = add("info", "Print the machine as burnish sees it, and versions.")
    sub.add_argument(
        "--probe", action="store_true", help="measure its memory, and keep the figures (a second)"
    )
    sub = add("demo", "The Fashion-MNIST MLP: compile, check, time, tune, time again.")
    sub.add_argument(
        "--data", metavar="DIR", help="FashionMNIST/raw/*-ubyte[.gz], or fashion_mnist_900.npz"
    )
    sub.add_argument(
        "--download", action="store_true", help="fetch the data set (into --data, or ./data)"
    )
    sub.add_argument("--trials", type=whole_number(0), default=48, help="candidates to measure")
    sub.add_argument("--threads", type=whole_number(), default=1, help="threads of a call")
    return parser


def _add_model(sub: argparse.ArgumentParser, *, saved: bool = True, tunes: bool = False) -> None:
    """A model, and what ``burnish.compile`` takes beside it."""
    sub.add_argument("model", help="an ONNX file" + (", or one of burnish's" if saved else ""))
    sub.add_argument(
        "--target", help="e.g. 'native -threads=1', 'llvm -mcpu=haswell', znver4 (this machine)"
    )
    sub.add_argument("--threads", type=whole_number(), help="threads of a call")
    sub.add_argument(
        "--precision",
        type=precision,
        metavar="WORD",
        help="fast (the default), strict, bfloat16, float16, int8, int8-weights, ...; or by layer: "
        "'head=float32,*=int8-weights'",
    )
    sub.add_argument(
        "--fallback", choices=("onnx",), help="let ONNX's evaluator run what cannot be compiled"
    )
    sub.add_argument("--checked", action="store_true", help="refuse indices that are out of range")
    sub.add_argument(
        "--specialize",
        action="append",
        default=[],
        type=sizes,
        metavar="NAME=N,...",
        help="named sizes to compile a program of their own for, e.g. batch=1; repeatable",
    )
    sub.set_defaults(tunes=tunes)
    if not tunes:
        sub.add_argument(
            "--database", type=place, metavar="FILE", help="records of burnish tune to schedule by"
        )


def _add_cache_commands(sub: argparse.ArgumentParser) -> None:
    """The commands of ``burnish cache``."""
    commands = sub.add_subparsers(required=True, metavar="command")

    def add(name: str, text: str) -> argparse.ArgumentParser:
        made = commands.add_parser(name, help=text, description=text)
        made.set_defaults(command=("cache_commands", name))
        return made

    made = add("list", "List what is kept, what was used last first.")
    made.add_argument(
        "-n",
        "--limit",
        type=whole_number(0),
        default=20,
        help="entries to list (20); a line says how many more there are",
    )
    made.add_argument("--all", action="store_true", help="list every entry")
    add("clear", "Remove everything that is kept.")
    made = add("explain", "Compile a model, and say what of it was kept, and why the rest was not.")
    _add_model(made, saved=False)


def _add_serving(sub: argparse.ArgumentParser) -> None:
    """The options of ``burnish serve``."""
    sub.add_argument("models", nargs="+", metavar="[NAME=]FILE.burnish", help="saved models")
    sub.add_argument("--host", default="127.0.0.1", help="address to listen at (127.0.0.1)")
    sub.add_argument(
        "--port", type=whole_number(0, 65535), default=8000, help="port to listen at (8000)"
    )
    sub.add_argument("--threads", type=whole_number(), help="threads of a call")
    sub.add_argument(
        "--batch", default="batch", metavar="DIM", help="dim that requests are joined along (batch)"
    )
    sub.add_argument(
        "--max-batch", type=whole_number(), default=32, help="rows run together; 1: none (32)"
    )
    sub.add_argument(
        "--batch-ms",
        type=number(may_be_zero=True),
        default=2.0,
        help="how long a request waits for others (2)",
    )
    sub.add_argument(
        "--max-requests", type=whole_number(), default=256, help="requests in flight (256)"
    )
    sub.add_argument("--max-mb", type=number(), default=64, help="of one request (64)")
    sub.add_argument("--max-total-mb", type=number(), default=512, help="of all in flight (512)")
    sub.add_argument("--timeout", type=number(), default=30, help="seconds of a request (30)")


def _add_inputs(sub: argparse.ArgumentParser) -> None:
    sub.add_argument(
        "--input",
        action="append",
        default=[],
        metavar="FILE",
        help="an input tensor, in order (those of lists and dicts one by one): .npy, or .pt or "
        ".safetensors, which may hold several; repeatable",
    )


def _add_db_commands(sub: argparse.ArgumentParser) -> None:
    """The commands of ``burnish db``."""
    commands = sub.add_subparsers(required=True, metavar="command")

    def add(name: str, text: str, file: str = _RECORDS) -> argparse.ArgumentParser:
        made = commands.add_parser(name, help=text, description=text)
        made.set_defaults(command=("db_commands", name))
        made.add_argument("file", help=file)
        return made

    add("stats", "Count records by workload and target, and why candidates failed.")
    made = add("best", "List the best record of each workload.")
    made.add_argument("--target", help="only targets whose key contains this")
    made = add("show", "Print a record's schedule as Python.")
    made.add_argument("workload", nargs="?", help="a name, or the first digits of a hash")
    made.add_argument("--target", help="only targets whose key contains this")
    made.add_argument("--rank", type=whole_number(), default=1, help="1 is the fastest record")
    made.add_argument("--text", action="store_true", help="print the workload's program too")
    add("export", "Write all records as JSON lines.").add_argument("output")
    made = add("import", "Take over records from JSON lines.", "a database; made if new")
    made.add_argument("source", nargs="+")
    made = add("merge", "Take over the records of other files.", "a database; made if new")
    made.add_argument("source", nargs="+", help=_RECORDS)
    made = add("prune", "Keep the best records of each workload only.", "a database")
    made.add_argument("--keep", type=whole_number(), default=1, help="how many of a workload (1)")
