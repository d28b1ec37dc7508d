"""The command behind ``make mutated-onnx``: ONNX files that somebody spoiled.

Each is one of ONNX's own node tests with its bytes or its parts changed at random
(``mutated_file``), compiled, and called where that gives a model. What may happen is a model, or a
BurnishError; any other exception, a process that ends, hangs or takes more memory than the budget
is a failure. Files go to worker processes in chunks, as the programs of ``fuzz/programs.py`` do.
"""

from __future__ import annotations

import argparse
import json
import random
import resource
import sys
import tempfile
import traceback
import warnings
from collections import Counter
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
from google.protobuf.message import DecodeError
from onnx import AttributeProto, GraphProto, ModelProto, NodeProto, TensorProto
from onnx.defs import get_all_schemas

import burnish
from burnish.tests.frontend.onnx.node_suite import cases, model_of
from burnish.tests.fuzz.schedules import ending_of, lines_of, run_worker
from burnish.tests.fuzz.worker import arm_watchdog, watch

CHUNK = 50
LIMIT = 60.0
"""Seconds of the processor that a file may take."""
BUDGET = 8 << 30
"""Bytes of addresses that a process may take."""
OPERATORS = sorted({schema.name for schema in get_all_schemas()})
NUMBERS = (0, 1, -1, 2, 3, 7, 255, -128, 2**31 - 1, -(2**31), 2**40, 2**63 - 1, -(2**63))


@dataclass
class Spoiled:
    """What became of one file."""

    seed: int
    how: str = ""
    ending: str = ""
    """``model``, the class of a BurnishError, or nothing where it failed."""
    failure: str = ""


def mutated_file(seed: int) -> tuple[str, bytes]:
    """What was done to which case, and the file's bytes."""
    rng = random.Random(seed)
    while True:
        name = rng.choice(sorted(cases()))
        model = ModelProto()
        original = model_of(cases()[name]).SerializeToString()
        if len(original) < 1 << 20:
            break
    if rng.random() < 0.25:
        how, data = _bytes_changed(rng, original)
        return f"{name}: {how}", data
    model.ParseFromString(original)
    done = [_part_changed(rng, model) for _ in range(rng.randint(1, 3))]
    return f"{name}: {', '.join(done)}", model.SerializeToString()


def _bytes_changed(rng: random.Random, data: bytes) -> tuple[str, bytes]:
    changed = bytearray(data)
    kind = rng.choice(("flipped", "cut", "repeated", "overwritten"))
    at = rng.randrange(max(len(data), 1))
    match kind:
        case "flipped":
            for _ in range(rng.randint(1, 8)):
                changed[rng.randrange(len(data))] ^= 1 << rng.randrange(8)
        case "cut":
            del changed[at:]
        case "repeated":
            changed[at:at] = changed[at : at + rng.randint(1, 64)]
        case _:
            changed[at : at + rng.randint(1, 16)] = rng.randbytes(rng.randint(1, 16))
    return f"{kind} at {at}", bytes(changed)


def _part_changed(rng: random.Random, model: ModelProto) -> str:
    """Change one part of a model; what was done."""
    graph = rng.choice(_graphs(model.graph))
    changes = (_change_node, _change_node, _change_attribute, _change_tensor, _change_value,
               _change_graph, _change_model)  # fmt: skip
    return rng.choice(changes)(rng, graph, model)


def _graphs(graph: GraphProto) -> list[GraphProto]:
    inner = [a.g for node in graph.node for a in node.attribute if a.HasField("g")]
    return [graph, *[g for each in inner for g in _graphs(each)]]


def _names(graph: GraphProto) -> list[str]:
    """Names that a node could read, and some that it could not."""
    made = [name for node in graph.node for name in node.output]
    return [*made, *[i.name for i in graph.input], *[i.name for i in graph.initializer], "", "none"]


def _change_node(rng: random.Random, graph: GraphProto, model: ModelProto) -> str:
    if not graph.node:
        return "no node"
    node: NodeProto = rng.choice(graph.node)
    match rng.randrange(8):
        case 0:
            node.op_type = rng.choice(OPERATORS)
        case 1 if node.input:
            node.input[rng.randrange(len(node.input))] = rng.choice(_names(graph))
        case 2 if node.input:
            del node.input[rng.randrange(len(node.input))]
        case 3:
            node.input.append(rng.choice(_names(graph)))
        case 4 if node.output:
            node.output[rng.randrange(len(node.output))] = rng.choice(_names(graph))
        case 5:
            graph.node.append(node)
        case 6:
            node.domain = rng.choice(("com.microsoft", "ai.onnx.ml", "someone's"))
        case _:
            del node.attribute[:]
    return f"a node became {node.op_type} {list(node.input)} -> {list(node.output)}"[:200]


def _change_attribute(rng: random.Random, graph: GraphProto, model: ModelProto) -> str:
    attributes = [a for node in graph.node for a in node.attribute]
    if not attributes:
        return "no attribute"
    a: AttributeProto = rng.choice(attributes)
    match rng.randrange(5):
        case 0:
            a.i = rng.choice(NUMBERS)
        case 1:
            a.ints[:] = [rng.choice(NUMBERS) for _ in range(rng.randint(0, 5))]
        case 2:
            a.f = rng.choice((0.0, -1.0, float("nan"), float("inf"), 1e38))
        case 3:
            a.s = rng.choice((b"", b"SAME_UPPER", b"linear", b"\xff\xfe", b"ik,kj->ij"))
        case _:
            a.type = rng.choice(AttributeProto.AttributeType.values())
    return f"attribute {a.name}"


def _change_tensor(rng: random.Random, graph: GraphProto, model: ModelProto) -> str:
    inside = [a.t for node in graph.node for a in node.attribute if a.HasField("t")]
    tensors = [*graph.initializer, *inside]
    if not tensors:
        return "no tensor"
    t: TensorProto = rng.choice(tensors)
    match rng.randrange(5):
        case 0:
            t.dims[:] = [rng.choice(NUMBERS) for _ in range(rng.randint(0, 4))]
        case 1:
            t.data_type = rng.choice(TensorProto.DataType.values())
        case 2:
            t.raw_data = rng.randbytes(rng.randint(0, 64))
        case 3:
            t.int64_data[:] = [rng.choice(NUMBERS) for _ in range(rng.randint(0, 4))]
        case _:
            t.data_location = TensorProto.EXTERNAL
            entry = t.external_data.add()
            entry.key = rng.choice(("location", "offset", "length"))
            entry.value = rng.choice(("../secret", "/etc/passwd", "none", "-1", "99999999999", "x"))
    return f"tensor {t.name}"


def _change_value(rng: random.Random, graph: GraphProto, model: ModelProto) -> str:
    values = [*graph.input, *graph.output, *graph.value_info]
    if not values:
        return "no value"
    value = rng.choice(values)
    tensor = value.type.tensor_type
    match rng.randrange(6):
        case 0:
            tensor.elem_type = rng.choice(TensorProto.DataType.values())
        case 1 if tensor.shape.dim:
            rng.choice(tensor.shape.dim).dim_value = rng.choice(NUMBERS)
        case 2 if tensor.shape.dim:
            rng.choice(tensor.shape.dim).dim_param = rng.choice(("n", "", "2", "a b", "n+1"))
        case 3:
            tensor.ClearField("shape")
        case 4:
            value.name = rng.choice(_names(graph))
        case _:
            value.ClearField("type")
    return f"value {value.name}"


def _change_graph(rng: random.Random, graph: GraphProto, model: ModelProto) -> str:
    kind = rng.choice(("node", "input", "output", "initializer"))
    parts: Any = getattr(graph, kind)
    if not parts:
        return f"no {kind}"
    at = rng.randrange(len(parts))
    if rng.random() < 0.5:
        del parts[at]
        return f"without {kind} {at}"
    parts.append(parts[at])
    return f"{kind} {at} twice"


def _change_model(rng: random.Random, graph: GraphProto, model: ModelProto) -> str:
    match rng.randrange(4):
        case 0:
            del model.opset_import[:]
        case 1 if model.opset_import:
            model.opset_import[0].version = rng.choice((0, 1, 5, 7, 9, 12, 13, 30, -3, 2**40))
        case 2:
            model.ir_version = rng.choice((0, 1, 99, -1))
        case _:
            _nest(rng, graph)
            return "nested"
    return "the model's versions"


def _nest(rng: random.Random, graph: GraphProto) -> None:
    """Put the graph's nodes into many Ifs, one inside of another."""
    if not graph.output:
        return
    inner = GraphProto()
    inner.CopyFrom(graph)
    del inner.input[:], inner.initializer[:]
    for _ in range(rng.choice((1, 3, 12))):
        outer = GraphProto(name="outer")
        outer.output.extend(inner.output)
        node = outer.node.add(op_type="If", input=[rng.choice(_names(graph))])
        node.output.extend([o.name for o in inner.output])
        for branch in ("then_branch", "else_branch"):
            a = node.attribute.add(name=branch, type=AttributeProto.GRAPH)
            a.g.CopyFrom(inner if branch == "then_branch" else graph)
        inner = outer
        if inner.ByteSize() > 1 << 20:
            break
    del graph.node[:]
    graph.node.extend(inner.node)


# -- checking ---------------------------------------------------------------------------------
def check_file(seed: int) -> Spoiled:
    """Compile and call the file of a seed, in this process."""
    how, data = mutated_file(seed)
    found = Spoiled(seed, how)
    with tempfile.TemporaryDirectory() as folder, warnings.catch_warnings():
        warnings.simplefilter("ignore")
        path = Path(folder) / "model.onnx"
        path.write_bytes(data)
        try:
            model = burnish.compile(str(path))
            found.ending = "model"
            with np.errstate(all="ignore"):
                model(*_inputs_of(seed, data))
        except burnish.errors.InternalError:
            found.failure = traceback.format_exc(limit=-6)
        except burnish.errors.BurnishError as error:
            found.ending = found.ending or type(error).__name__
        except Exception:
            found.failure = traceback.format_exc(limit=-6)
    return found


def _inputs_of(seed: int, data: bytes) -> Sequence[np.ndarray]:
    """Inputs as the file describes them, or a few that it does not."""
    rng = np.random.default_rng(seed)
    model = ModelProto()
    try:
        model.ParseFromString(data)
    except DecodeError:
        return ()
    stored = {t.name for t in model.graph.initializer}
    inputs = []
    for value in model.graph.input:
        if value.name in stored:
            continue
        dims = [d.dim_value if d.HasField("dim_value") else 3
                for d in value.type.tensor_type.shape.dim]  # fmt: skip
        small = all(0 <= d < 4096 for d in dims) and np.prod([1.0, *dims]) < 1 << 22
        kind = _DTYPES.get(value.type.tensor_type.elem_type, np.float32)
        inputs.append((rng.standard_normal(dims if small else ()) * 3).astype(kind))
    return inputs


_DTYPES = {
    TensorProto.FLOAT: np.float32,
    TensorProto.DOUBLE: np.float64,
    TensorProto.FLOAT16: np.float16,
    TensorProto.INT64: np.int64,
    TensorProto.INT32: np.int32,
    TensorProto.INT8: np.int8,
    TensorProto.UINT8: np.uint8,
    TensorProto.BOOL: np.bool_,
}


def run_chunk(first: int, count: int) -> Iterator[Spoiled]:
    """The files of a range of seeds, each in some process."""
    last = first + count
    while first < last:
        done = run_worker("burnish.tests.fuzz.onnx_files", "--work", first, last - first)
        said = lines_of(done)
        yield from [Spoiled(**line) for line in said if "how" in line]
        if done.returncode == 0:
            return
        begun = [line["begin"] for line in said if "begin" in line]
        seed = begun[-1] if begun else first
        yield Spoiled(seed, mutated_file(seed)[0], "", ending_of(done) + done.stderr[-1500:])
        first = seed + 1


def work(first: int, count: int) -> None:
    """What a worker process does: a line of JSON for each file, and one before it."""
    resource.setrlimit(resource.RLIMIT_AS, (BUDGET, BUDGET))
    for seed in range(first, first + count):
        print(json.dumps({"begin": seed}), flush=True)
        watch(LIMIT)
        print(json.dumps(asdict(check_file(seed))), flush=True)


def report(found: Sequence[Spoiled]) -> str:
    """Counts, and the failures by their last line."""
    endings = Counter(f.ending for f in found if not f.failure)
    failed = [f for f in found if f.failure]
    lines = [f"{len(found)} files: {len(failed)} failures; " +
             ", ".join([f"{name} {count}" for name, count in endings.most_common()])]  # fmt: skip
    for f in failed:
        lines.append(f"FAILED seed {f.seed}, {f.how}\n{f.failure.rstrip()}")
    return "\n".join(lines)


def main() -> None:
    """See the module."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--count", type=int, default=5000)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--work", nargs=2, type=int, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.work:
        arm_watchdog()
        work(*options.work)
        return
    starts = range(options.seed, options.seed + options.count, CHUNK)
    with ThreadPoolExecutor(options.jobs) as pool:
        chunks = pool.map(
            lambda at: list(run_chunk(at, min(CHUNK, options.seed + options.count - at))), starts
        )
        found = [spoiled for chunk in chunks for spoiled in chunk]
    print(report(found))
    sys.exit(any(f.failure for f in found))


if __name__ == "__main__":
    main()
