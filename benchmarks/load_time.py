"""How long a fresh process takes to the first result of a saved model.

    python -m burnish.benchmarks.load_time [--models mlp-784x128x10-1] [--rounds 9] [--folder DIR]

burnish's file beside an ONNX Runtime session (of the model, and of what it saved optimized),
OpenVINO's cached model and an AOTInductor package, on one thread, in turns. Each starts Python,
imports what it needs, loads, runs once, and says so: the time is from the start of the process to
that word, as who waits for it sees it, and the parts are by the process's own clock. The files are
in the page cache. ``numpy`` starts Python and imports NumPy, which all of them do. With a folder,
files that are there already are not made again. What fails stands as failed, with its reason.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from .cases import CASES

MODELS = ("mlp-784x128x10-1", "bert-6x384-128", "resnet50-224")

_BEGIN = """
import sys, time
start = time.perf_counter()
folder = sys.argv[1]
"""
_END = """
ran = time.perf_counter()
print(float(result.ravel()[0]), imported - start, loaded - imported, ran - loaded, flush=True)
"""
_INPUTS = """
inputs = [np.load(f"{folder}/input{i}.npy") for i in range(int(sys.argv[2]))]
"""

LOADERS = {
    "numpy": """
import numpy as np
imported = loaded = time.perf_counter()
result = np.zeros(1)
""",
    "burnish": f"""
import numpy as np, burnish
imported = time.perf_counter()
model = burnish.load(f"{{folder}}/model.burnish", threads=1)
loaded = time.perf_counter()
{_INPUTS}
result = model(*inputs)
result = result if isinstance(result, np.ndarray) else result[0]
""",
    **{
        name: f"""
import numpy as np, onnxruntime
imported = time.perf_counter()
options = onnxruntime.SessionOptions()
options.intra_op_num_threads = options.inter_op_num_threads = 1
{level}
session = onnxruntime.InferenceSession(f"{{folder}}/{file}", options, ["CPUExecutionProvider"])
loaded = time.perf_counter()
{_INPUTS}
result = session.run(None, dict(zip([x.name for x in session.get_inputs()], inputs)))[0]
"""
        for name, file, level in (
            ("onnxruntime", "model.onnx", ""),
            (
                "onnxruntime optimized",
                "optimized.onnx",
                "options.graph_optimization_level = "
                "onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL",
            ),
        )
    },
    "openvino cached": f"""
import numpy as np, openvino
imported = time.perf_counter()
core = openvino.Core()
core.set_property({{"CACHE_DIR": f"{{folder}}/openvino"}})
known = {{"INFERENCE_NUM_THREADS": 1, "PERFORMANCE_HINT": "LATENCY"}}
known["INFERENCE_PRECISION_HINT"] = "f32"
model = core.compile_model(f"{{folder}}/model.onnx", "CPU", known)
loaded = time.perf_counter()
{_INPUTS}
result = model(inputs)[0]
""",
    "AOTInductor": f"""
import numpy as np, torch
imported = time.perf_counter()
torch.set_num_threads(1)
model = torch._inductor.aoti_load_package(f"{{folder}}/model.pt2")
loaded = time.perf_counter()
{_INPUTS}
result = model(*[torch.from_numpy(x) for x in inputs])
result = (result if torch.is_tensor(result) else result[0]).numpy()
""",
}
"""What a fresh process does; ``folder`` has the files."""


def _save_burnish(module: Any, tensors: tuple[Any, ...], folder: Path) -> None:
    import burnish

    burnish.compile(module, tensors, threads=1).save(folder / "model.burnish")


def _save_onnx(module: Any, tensors: tuple[Any, ...], folder: Path) -> None:
    from .contenders import _onnx_bytes

    (folder / "model.onnx").write_bytes(_onnx_bytes(module, tensors))


def _save_optimized(module: Any, tensors: tuple[Any, ...], folder: Path) -> None:
    import onnxruntime

    if not (folder / "model.onnx").exists():
        _save_onnx(module, tensors, folder)
    options = onnxruntime.SessionOptions()
    options.optimized_model_filepath = str(folder / "optimized.onnx")
    onnxruntime.InferenceSession(folder / "model.onnx", options, ["CPUExecutionProvider"])


def _save_openvino(module: Any, tensors: tuple[Any, ...], folder: Path) -> None:
    if not (folder / "model.onnx").exists():
        _save_onnx(module, tensors, folder)
    # The first load writes the cache.
    subprocess.run(_command("openvino cached", folder, len(tensors)), check=True)


def _save_aoti(module: Any, tensors: tuple[Any, ...], folder: Path) -> None:
    import torch

    with torch.no_grad():
        program = torch.export.export(module, tensors)
        torch._inductor.aoti_compile_and_package(program, package_path=str(folder / "model.pt2"))


SAVERS: dict[str, tuple[str, Callable[[Any, tuple[Any, ...], Path], None]]] = {
    "burnish": ("model.burnish", _save_burnish),
    "onnxruntime": ("model.onnx", _save_onnx),
    "onnxruntime optimized": ("optimized.onnx", _save_optimized),
    "openvino cached": ("openvino", _save_openvino),
    "AOTInductor": ("model.pt2", _save_aoti),
}
"""What a contender's loader reads, and what makes it."""


def _command(name: str, folder: Path, inputs: int) -> list[str]:
    return [sys.executable, "-c", _BEGIN + LOADERS[name] + _END, str(folder), str(inputs)]


def save(case: str, contender: str, folder: Path) -> None:
    """Write a contender's files and the inputs, in this process."""
    import torch

    module, arrays = CASES[case].build()
    for i, x in enumerate(arrays):
        np.save(folder / f"input{i}.npy", x)
    SAVERS[contender][1](module, tuple([torch.from_numpy(x) for x in arrays]), folder)


def first_result(name: str, folder: Path) -> tuple[float, list[float]]:
    """Seconds to the first result, and of its parts: importing, loading, running.

    Raises RuntimeError with the last words of a process that failed.
    """
    inputs = len(list(folder.glob("input*.npy")))
    environment = dict(os.environ, OMP_NUM_THREADS="1")
    # An installed package has its bytecode beside it.
    environment.pop("PYTHONDONTWRITEBYTECODE", None)
    start = time.perf_counter()
    with subprocess.Popen(
        _command(name, folder, inputs),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        env=environment,
        text=True,
    ) as process:
        assert process.stdout is not None
        line = process.stdout.readline()
        seconds = time.perf_counter() - start
        _, errors = process.communicate()
    if not line:
        raise RuntimeError((errors.strip().splitlines() or ["without a word"])[-1][:200])
    return seconds, [float(text) for text in line.split()[1:]]


def _prepared(case: str, folder: Path) -> dict[str, str]:
    """Why contenders cannot be measured, by name; the others have their files."""
    failures = {}
    for contender, (file, _) in SAVERS.items():
        if (folder / file).exists():
            continue
        command = [sys.executable, "-m", __spec__.name, "--save", case, contender, str(folder)]
        made = subprocess.run(command, capture_output=True, text=True, check=False)
        if made.returncode:
            lines = made.stderr.strip().splitlines() or [f"ended with {made.returncode}"]
            failures[contender] = lines[-1][:200]
    return failures


def measure(case: str, folder: Path, rounds: int) -> list[dict[str, Any]]:
    """A row for each contender, the rounds of all of them in turns."""
    failures = _prepared(case, folder)
    times: dict[str, list[tuple[float, list[float]]]] = {name: [] for name in LOADERS}
    for _ in range(rounds):
        for name in LOADERS:
            if name in failures:
                continue
            try:
                times[name].append(first_result(name, folder))
            except RuntimeError as error:
                failures[name] = str(error)
    rows = []
    for name, found in times.items():
        row: dict[str, Any] = {"model": case, "contender": name}
        if name in failures:
            row["failed"] = failures[name]
        else:
            best = min(found)
            row |= {"seconds": best[0], "median": statistics.median([t for t, _ in found])}
            row |= dict(zip(("import", "load", "run"), best[1], strict=True))
        rows.append(row)
    return rows


def _print(row: dict[str, Any]) -> None:
    if "failed" in row:
        text = f"failed: {row['failed']}"
    else:
        parts = ", ".join(f"{part} {row[part] * 1e3:.0f}" for part in ("import", "load", "run"))
        text = f"{row['seconds'] * 1e3:7.0f} {row['median'] * 1e3:7.0f}   ({parts})"
    print(f"{row['model']:18} {row['contender']:22} {text}", flush=True)


def main() -> None:
    """Print the table: milliseconds, minimum and median, and the parts of the fastest round."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--models", nargs="+", choices=sorted(CASES), default=MODELS)
    parser.add_argument("--rounds", type=int, default=9)
    parser.add_argument("--folder", type=Path, help="where the files are kept")
    parser.add_argument("--json", type=Path, help="write the rows there too")
    parser.add_argument("--save", nargs=3, metavar=("MODEL", "CONTENDER", "DIR"))
    options = parser.parse_args()
    if options.save:
        case, contender, folder = options.save
        return save(case, contender, Path(folder))
    rows = []
    with tempfile.TemporaryDirectory() as scratch:
        for case in options.models:
            folder = (options.folder or Path(scratch)) / case
            folder.mkdir(parents=True, exist_ok=True)
            for row in measure(case, folder, options.rounds):
                _print(row)
                rows.append(row)
    if options.json:
        options.json.write_text(json.dumps(rows, indent=1))
    return None


if __name__ == "__main__":
    main()
