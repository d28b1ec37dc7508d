"""ONNX's own backend tests, run through ``burnish.compile``, beside the list of what passes.

    python -m burnish.tests.frontend.onnx.node_suite [--jobs 2] [--match resize] [--write]

Each case runs in a worker process under a time limit; a worker that dies or hangs is replaced, and
its case fails. ``node_suite.txt`` has the names by what is known of them: the cases that pass, the
cases out of scope with the reason, and the others. The first may only grow: a case that passed and
fails now is an error, ``--write`` or not.

The node tests that pass run twice more: ``symbolic``, where each dim of each input has a name of
its own, and ``swapped``, where inputs (all but the first) are initializers and initializers inputs.
Of those that pass the list tells which are compiled anew for each shape.
"""

from __future__ import annotations

import argparse
import json
import re
import subprocess
import sys
import textwrap
import threading
import warnings
from collections.abc import Iterator, Sequence
from functools import cache
from pathlib import Path
from queue import Empty, SimpleQueue
from typing import Any

import ml_dtypes
import numpy as np
import onnx
from onnx import ModelProto, NodeProto, TensorProto, numpy_helper
from onnx.backend.test.case.test_case import TestCase
from onnx.backend.test.loader import load_model_tests
from onnx.backend.test.runner import Runner

import burnish
from burnish.vm.tensor import Tensor

LIST = Path(__file__).with_name("node_suite.txt")
KINDS = ("node", "simple", "pytorch-operator", "pytorch-converted", "real")
VARIANTS = ("symbolic", "swapped")
PASSES = "passes"
ANEW = "passes, and is compiled anew for each shape"
FAILS = "does not pass yet"
SECONDS = 60.0
"""A case that takes longer fails."""
_RANDOM = ("Bernoulli", "Multinomial", "RandomNormal", "RandomNormalLike", "RandomUniform",
           "RandomUniformLike")  # fmt: skip
_WORDS = ("StringNormalizer", "StringConcat", "StringSplit", "RegexFullMatch")
_LIGHT = Path(onnx.__file__).parent.parent


# -- cases -------------------------------------------------------------------------------------
@cache
def cases() -> dict[str, TestCase]:
    """Every case by the name ``kind/name``, without its ``test_``."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return {
            f"{kind}/{case.name.removeprefix('test_')}": case
            for kind in KINDS
            for case in load_model_tests(kind=kind)
        }


def model_of(case: TestCase) -> ModelProto:
    if case.model is not None:
        return case.model
    if case.model_dir is not None:
        return onnx.load(Path(case.model_dir) / "model.onnx")
    return onnx.load(_LIGHT / str(case.url))


def _data_sets(case: TestCase, model: ModelProto) -> Iterator[tuple[list[Any], list[Any]]]:
    """Inputs and expected outputs, as arrays, lists of them, or None."""
    if case.data_sets is not None:
        for inputs, outputs in case.data_sets:
            yield [_array(x) for x in inputs], [_array(x) for x in outputs]
    elif case.model_dir is not None:
        for folder in sorted(Path(case.model_dir).glob("test_data_set*")):
            yield (
                _stored(folder, "input", model.graph.input),
                _stored(folder, "output", model.graph.output),
            )
    else:
        stored = str(_LIGHT / str(case.url)).replace(".onnx", "_output_0.pb")
        held = {t.name for t in model.graph.initializer}
        inputs = [Runner.generate_dummy_data(v) for v in model.graph.input if v.name not in held]
        yield inputs, [_array(onnx.load_tensor(stored))]


def _stored(folder: Path, what: str, values: Sequence[onnx.ValueInfoProto]) -> list[Any]:
    found: list[Any] = []
    for i in range(len(list(folder.glob(f"{what}_*.pb")))):
        data = (folder / f"{what}_{i}.pb").read_bytes()
        if values[i].type.HasField("sequence_type"):
            sequence = onnx.SequenceProto.FromString(data)
            found.append([numpy_helper.to_array(t) for t in sequence.tensor_values])
        else:
            found.append(_array(TensorProto.FromString(data)))
    return found


def _array(x: Any) -> Any:
    if isinstance(x, (list, tuple)):
        return [_array(item) for item in x]
    if isinstance(x, TensorProto):
        return numpy_helper.to_array(x)
    return np.asarray(x) if isinstance(x, np.generic) else x


def out_of_scope(model: ModelProto) -> str | None:
    """Why a model is none that a compiler for inference reads; None for the others."""
    nodes = list(_nodes(model.graph.node))
    for function in model.functions:
        nodes += _nodes(function.node)
    operators = {n.op_type for n in nodes}
    if any(n.domain == "ai.onnx.ml" for n in nodes):
        return "ai.onnx.ml"
    if any("training" in n.domain for n in nodes) or any(_trains(n) for n in nodes):
        return "training"
    if operators.intersection(_RANDOM):
        return "random numbers"
    if "ImageDecoder" in operators:
        return "image files"
    values = [*model.graph.input, *model.graph.output]
    if operators.intersection(_WORDS) or any("elem_type: 8\n" in str(v.type) for v in values):
        return "strings"
    return None


def _nodes(nodes: Sequence[NodeProto]) -> Iterator[NodeProto]:
    for n in nodes:
        yield n
        for a in n.attribute:
            for graph in (a.g, *a.graphs):
                yield from _nodes(graph.node)


def _trains(node: NodeProto) -> bool:
    """Whether a node is in training mode; only such cases give the input that can say so."""
    if node.op_type == "Dropout":
        return len(node.input) > 2
    if node.op_type == "BatchNormalization":
        modes = [a.i for a in node.attribute if a.name == "training_mode"]
        return any(modes)
    return False


def listed() -> list[str]:
    """The names of all cases, and of the node tests' variants where they pass as they are."""
    plain = list(cases())
    known = read_list()
    passing = [n for n in plain if n.startswith("node/") and known.get(n) == PASSES]
    return plain + [f"{variant}:{n}" for variant in VARIANTS for n in passing]


# -- variants ----------------------------------------------------------------------------------
def symbolic(model: ModelProto) -> ModelProto:
    """The model with a name for each dim of each input."""
    made = ModelProto()
    made.CopyFrom(model)
    held = {t.name for t in made.graph.initializer}
    for value in made.graph.input:
        if value.name not in held and value.type.HasField("tensor_type"):
            for i, dim in enumerate(value.type.tensor_type.shape.dim):
                dim.dim_param = f"{value.name}_{i}"
    for value in made.graph.output:
        if value.type.HasField("tensor_type"):
            value.type.tensor_type.ClearField("shape")
    return made


def swapped(model: ModelProto, inputs: Sequence[Any]) -> tuple[ModelProto, list[Any]]:
    """The model whose tensor inputs are initializers, but for the first of several, and whose
    initializers are inputs; and its inputs."""
    made = ModelProto()
    made.CopyFrom(model)
    graph = made.graph
    held = {t.name: t for t in model.graph.initializer}
    values = [v for v in model.graph.input if v.name not in held]
    del graph.initializer[:]
    del graph.input[:]
    given: list[Any] = []
    for i, (value, x) in enumerate(zip(values, inputs, strict=True)):
        if (i or len(values) == 1) and isinstance(x, np.ndarray):
            graph.initializer.append(numpy_helper.from_array(x, value.name))
        else:
            graph.input.append(value)
            given.append(x)
    for name, tensor in held.items():
        kind = onnx.helper.make_tensor_type_proto(tensor.data_type, list(tensor.dims))
        graph.input.append(onnx.helper.make_value_info(name, kind))
        given.append(_array(tensor))
    return made, given


# -- one case ----------------------------------------------------------------------------------
def run(case: TestCase, variant: str = "") -> str:
    """Compile and run a case. Raises whatever is wrong, AssertionError for other numbers; gives
    what is to be said of the way it passes."""
    model, said = model_of(case), PASSES
    for inputs, expected in _data_sets(case, model):
        chosen, given = model, inputs
        if variant == "symbolic":
            chosen = symbolic(model)
        elif variant == "swapped":
            chosen, given = swapped(model, inputs)
        compiled = burnish.compile(chosen)
        found = compiled.run(given)
        if any("for these shapes of the inputs" in note for note in compiled.report.notes):
            said = ANEW
        outputs = list(found) if len(model.graph.output) > 1 else [found]
        assert len(expected) == len(outputs)
        for wanted, output in zip(expected, outputs, strict=True):
            _compare(wanted, _numpy(output), case)
    return said


def _compare(wanted: Any, found: Any, case: TestCase) -> None:
    """By the tolerances of ONNX's own runner; sequences element by element."""
    if isinstance(wanted, list):
        assert isinstance(found, list)
        assert len(found) == len(wanted)
        for one, other in zip(wanted, found, strict=True):
            _compare(one, other, case)
    elif wanted is None or found is None:
        assert wanted is found
    else:
        Runner.assert_similar_outputs([wanted], [found], rtol=case.rtol, atol=case.atol)


def _numpy(x: Any) -> Any:
    if isinstance(x, (list, tuple)):
        return [_numpy(item) for item in x]
    if isinstance(x, Tensor):
        return x.bits().view(ml_dtypes.bfloat16) if x.dtype == "bfloat16" else x.numpy()
    return x


def outcome(name: str) -> str:
    """Empty where the case passes, ANEW where it does so after a compilation for its shapes, else
    what is wrong, in one line."""
    variant, _, plain = name.rpartition(":")
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            said = run(cases()[plain], variant)
    except Exception as error:
        text = " ".join(f"{type(error).__name__}: {error}".split())
        return text[:400] or type(error).__name__
    return ANEW if variant and said == ANEW else ""


# -- many cases --------------------------------------------------------------------------------
def _work() -> None:
    """A worker: names on stdin, outcomes on stdout, a line each."""
    cases()
    for line in sys.stdin:
        print(json.dumps(outcome(line.strip())), flush=True)


class _Worker:
    def __init__(self) -> None:
        self._process = subprocess.Popen(
            [sys.executable, "-W", "ignore", "-m", __spec__.name if __spec__ else "", "--work"],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True,
        )  # fmt: skip
        self._is_fresh = True

    def ask(self, name: str) -> str | None:
        """The outcome of a case; None where the worker is gone, and is to be replaced."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        limit = SECONDS + (60.0 if self._is_fresh else 0.0)
        self._is_fresh = False
        clock = threading.Timer(limit, self._process.kill)
        clock.start()
        try:
            self._process.stdin.write(name + "\n")
            self._process.stdin.flush()
            line = self._process.stdout.readline()
        except BrokenPipeError:
            line = ""
        finally:
            clock.cancel()
        return json.loads(line) if line else None

    def close(self) -> None:
        self._process.kill()
        self._process.wait()


def run_all(names: Sequence[str], jobs: int) -> dict[str, str]:
    """The outcome of each case, by workers."""
    waiting: SimpleQueue[str] = SimpleQueue()
    for name in names:
        waiting.put(name)
    found: dict[str, str] = {}

    def serve() -> None:
        worker = _Worker()
        while True:
            try:
                name = waiting.get_nowait()
            except Empty:
                break
            answer = worker.ask(name)
            if answer is None:
                answer = "the worker crashed, or took too long"
                worker.close()
                worker = _Worker()
            found[name] = answer
            print(f"{name}: {answer or PASSES}", flush=True)
        worker.close()

    threads = [threading.Thread(target=serve) for _ in range(jobs)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    return found


# -- the list ----------------------------------------------------------------------------------
def read_list() -> dict[str, str]:
    """What is known of each case: ``passes``, a reason, or that it does not pass yet."""
    known: dict[str, str] = {}
    heading = kind = ""
    for line in LIST.read_text().splitlines():
        match = re.fullmatch(r"== (\S+): (.*) \(\d+\)", line)
        if match:
            kind, heading = match.groups()
        elif not line.startswith("#"):
            known |= {f"{kind}/{name}": heading for name in line.split()}
    return known


def write_list(known: dict[str, str]) -> None:
    lines = ["# Written by node_suite.py --write. What passes here may never fail again."]
    groups: dict[tuple[str, str], list[str]] = {}
    for name, heading in known.items():
        kind, _, rest = name.partition("/")
        groups.setdefault((kind, heading), []).append(rest)
    kinds = [*KINDS, *[f"{variant}:node" for variant in VARIANTS]]
    order = sorted(groups, key=lambda g: (kinds.index(g[0]), g[1] != PASSES, g[1] == FAILS, g[1]))
    for kind, heading in order:
        names = sorted(groups[kind, heading])
        lines += ["", f"== {kind}: {heading} ({len(names)})"]
        lines += textwrap.wrap(" ".join(names), 100, break_on_hyphens=False)
    LIST.write_text("\n".join(lines) + "\n")


def is_lost(before: str | None, text: str) -> bool:
    """Whether a case is worse than it was: it fails, or one program was for all shapes."""
    return before in (PASSES, ANEW) and text not in (("",) if before == PASSES else ("", ANEW))


def heading(before: str | None, text: str) -> str:
    """Where a case stands in the list from now on."""
    if is_lost(before, text):
        return str(before)
    return ANEW if text == ANEW else FAILS if text else PASSES


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n", 1)[0])
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--match", default="", help="a regular expression for names")
    parser.add_argument("--failing", action="store_true", help="only what does not pass yet")
    parser.add_argument("--write", action="store_true", help="rewrite the list")
    parser.add_argument("--work", action="store_true", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.work:
        _work()
        return 0
    known = read_list() if LIST.exists() else {}
    chosen = [
        n
        for n in listed()
        if re.search(options.match, n) and not (options.failing and known.get(n) == PASSES)
    ]
    reasons = {n: None if ":" in n else out_of_scope(model_of(cases()[n])) for n in chosen}
    found = run_all([n for n in chosen if reasons[n] is None], options.jobs)
    for name, text in sorted(found.items()):
        if text:
            print(f"fails: {name}: {text}")
    lost = [n for n, text in found.items() if is_lost(known.get(n), text)]
    for kind in (*KINDS, *[f"{variant}:node" for variant in VARIANTS]):
        mine = [text for n, text in found.items() if n.startswith(kind + "/")]
        if mine:
            anew = mine.count(ANEW)
            print(f"{kind}: {mine.count('') + anew} of {len(mine)} in scope pass, {anew} anew")
    if lost:
        print(f"passed before: {', '.join(sorted(lost))}")
    if options.write:
        kept = {n: h for n, h in known.items() if n not in reasons and n in listed()}
        now = {n: reasons[n] or heading(known.get(n), found[n]) for n in chosen}
        write_list(kept | now)
    return 1 if lost else 0


if __name__ == "__main__":
    sys.exit(main())
