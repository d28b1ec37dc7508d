"""burnish and the peers in reduced precision, each its own way: ``make bench PRECISION=bfloat16``.

    python -m burnish.benchmarks.reduced --precision int8 --cases bert-6x384-128 --threads 1,2

As ``run`` does, every contender lives in a process of its own and rounds take turns; here each one
rounds by itself, so beside its times stands its error: the largest difference of a result to the
module's in float64, relative to the largest element. burnish in float32 is a row, too. In int8 the
ranges of activations are those of the case's own input, for burnish, OpenVINO (NNCF) and ONNX
Runtime's QDQ alike. It is a look: printed, and nothing is written.
"""

from __future__ import annotations

import argparse
import copy
import statistics
import tempfile
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from . import contenders
from .cases import CASES, Case
from .contenders import Inputs, Prepared, Ways
from .processes import Way, Worker, measure_workers, worker_command
from .results import geometric_mean
from .run import ROUNDS, SECONDS, cpu_name, versions

PRECISIONS = ("bfloat16", "float16", "int8")
SHOWN = (
    *("bert-6x384-128", "gpt2-6x768-64", "resnet50-224", "vit-12x192-224"),
    "linear-gelu-128x768x3072",
)
"""The cases of a run that names none."""
BASE = "burnish"
"""The row in float32."""


def burnish_as(word: str, module: Any, inputs: Inputs, threads: int) -> Ways:
    """burnish with ``precision=word``, in float16 a ``module`` of that type too; in int8 quantised
    by the inputs, what is not of bytes in float32 ``and bfloat16``, with ranges of each call
    (``dynamic``), and with ``weights`` of bytes alone."""
    import torch

    import burnish

    from ..driver.quantize import quantize

    examples = tuple([torch.from_numpy(x) for x in inputs])

    def compiled(precision: Any) -> Prepared:
        model = burnish.compile(module, examples, precision=precision, threads=threads)
        return lambda: model(*inputs)

    def quantized(rest: str = "float32") -> Prepared:
        model = quantize(module, [examples], threads=threads, precision=rest)
        return lambda: model(*inputs)

    if word == "float16":
        narrow = copy.deepcopy(module).half()
        halves = tuple([x.astype(np.float16) if x.dtype == np.float32 else x for x in inputs])
        half_examples = tuple([torch.from_numpy(x) for x in halves])

        def prepare() -> Prepared:
            model = burnish.compile(narrow, half_examples, threads=threads)
            return lambda: model(*halves)

        return {"plain": lambda: compiled(word), "module": prepare}

    if word == "int8":
        return {
            "plain": quantized,
            "and bfloat16": lambda: quantized("bfloat16"),
            "dynamic": lambda: compiled("int8"),
            "weights": lambda: compiled("int8-weights"),
        }
    return {"plain": lambda: compiled(word)}


def inductor_as(word: str, module: Any, inputs: Inputs, threads: int) -> Ways:
    """torch.compile of the module in that type, weights frozen; the type of inputs follows."""
    import torch

    dtype = getattr(torch, word)
    narrow = copy.deepcopy(module).to(dtype)
    tensors = [torch.from_numpy(x) for x in inputs]
    tensors = [t.to(dtype) if t.is_floating_point() else t for t in tensors]
    torch.set_num_threads(threads)
    import torch._inductor.config as config

    config.freezing = True

    def prepare(mode: str) -> Prepared:
        compiled: Any = torch.compile(copy.deepcopy(narrow), mode=mode)

        def run() -> Any:
            with torch.inference_mode():
                result = compiled(*tensors)
                return result.float() if isinstance(result, torch.Tensor) else result

        run()
        return run

    return {"plain": lambda: prepare("default"), "autotuned": lambda: prepare("max-autotune")}


def _onnx(module: Any, inputs: Inputs) -> bytes:
    import torch

    return contenders._onnx_bytes(module, tuple([torch.from_numpy(x) for x in inputs]))


def openvino_as(hint: str, module: Any, inputs: Inputs, threads: int) -> Ways:
    """OpenVINO with the precision hint ``bf16`` or ``f16``; for ``int8`` a model from NNCF."""
    import io

    import openvino as ov

    core = ov.Core()
    model = core.read_model(io.BytesIO(_onnx(module, inputs)))
    if hint == "int8":
        import nncf

        sample = dict(enumerate(inputs)) if len(inputs) > 1 else inputs[0]
        model = nncf.quantize(model, nncf.Dataset([sample]), subset_size=1)
        hint = "f32"
    settings = {
        "PERFORMANCE_HINT": "LATENCY",
        "INFERENCE_NUM_THREADS": threads,
        "INFERENCE_PRECISION_HINT": hint,
    }
    request = core.compile_model(model, "CPU", settings).create_infer_request()
    tensors = {i: ov.Tensor(x) for i, x in enumerate(inputs)}
    return {"plain": lambda: lambda: request.infer(tensors, share_inputs=True)}


def onnxruntime_int8(module: Any, inputs: Inputs, threads: int) -> Ways:
    """ONNX Runtime: ``dynamic`` ranges, and those of the input as ``QDQ``."""
    import onnxruntime as ort
    from onnxruntime import quantization

    folder = tempfile.TemporaryDirectory()
    source = Path(folder.name, "float.onnx")
    source.write_bytes(_onnx(module, inputs))
    options = ort.SessionOptions()
    options.intra_op_num_threads = threads

    class Samples(quantization.CalibrationDataReader):  # type: ignore[misc]
        def __init__(self) -> None:
            names = [i.name for i in ort.InferenceSession(str(source)).get_inputs()]
            self.left = [dict(zip(names, inputs, strict=True))]

        def get_next(self) -> dict[str, np.ndarray] | None:
            return self.left.pop() if self.left else None

    def dynamic(path: str) -> None:
        quantization.quantize_dynamic(str(source), path, weight_type=quantization.QuantType.QInt8)

    def static(path: str) -> None:
        prepared = str(Path(folder.name, "prepared.onnx"))
        quantization.quant_pre_process(str(source), prepared)
        quantization.quantize_static(
            prepared, path, Samples(), quant_format=quantization.QuantFormat.QDQ, per_channel=True
        )

    def prepare(quantize: Callable[[str], None]) -> Prepared:
        path = str(Path(folder.name, f"{quantize.__name__}.onnx"))
        quantize(path)
        session = ort.InferenceSession(path, options, providers=["CPUExecutionProvider"])
        feed = {i.name: x for i, x in zip(session.get_inputs(), inputs, strict=True)}
        return lambda: session.run(None, feed)

    return {"dynamic": lambda: prepare(dynamic), "QDQ": lambda: prepare(static)}


REDUCED: dict[str, dict[str, Callable[[Any, Inputs, int], Ways]]] = {
    "bfloat16": {
        "burnish bfloat16": partial(burnish_as, "bfloat16"),
        "torch.compile bfloat16": partial(inductor_as, "bfloat16"),
        "openvino bf16": partial(openvino_as, "bf16"),
    },
    "float16": {
        "burnish float16": partial(burnish_as, "float16"),
        "torch.compile float16": partial(inductor_as, "float16"),
        "openvino f16": partial(openvino_as, "f16"),
    },
    "int8": {
        "burnish int8": partial(burnish_as, "int8"),
        "openvino int8": partial(openvino_as, "int8"),
        "onnxruntime int8": onnxruntime_int8,
    },
}
"""What is compared in each precision."""


def show(case: Case, ways: Sequence[Way], threads: int) -> float | None:
    """Print one case; the best peer's shortest time in those of our best row, if both ran."""
    print(f"\n{case.name}, {threads} thread{'s' if threads > 1 else ''}")
    print(f"  {'':28} {'min us':>10} {'median us':>10} {'error':>9} {'prepare s':>9}")
    best: dict[bool, float] = {}
    for way in ways:
        if way.error:
            print(f"  {way.title:28} failed: {way.error[:200]}")
            continue
        least = min(way.times)
        print(
            f"  {way.title:28} {least * 1e6:10.2f} {statistics.median(way.times) * 1e6:10.2f} "
            f"{way.difference:9.1e} {way.prepare_seconds:9.2f}"
        )
        if way.contender != BASE:
            ours = way.contender.startswith(BASE)
            best[ours] = min(best.get(ours, least), least)
    if len(best) < 2:
        return None
    print(f"  best peer / best of ours: {best[False] / best[True]:.2f} of minima", flush=True)
    return best[False] / best[True]


def measured(
    case: str, names: Sequence[str], threads: int, options: argparse.Namespace
) -> list[Way]:
    """The times of a case, interleaved, and its differences to float64."""
    workers = {c: Worker(worker_command(case, c, threads, rounds=True), threads) for c in names}
    try:
        return measure_workers(workers, options.rounds, options.seconds)
    finally:
        for worker in workers.values():
            worker.close()


def main(argv: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--precision", choices=PRECISIONS, required=True)
    parser.add_argument("--threads", default="1,2", help="comma-separated thread counts")
    parser.add_argument("--cases", default=",".join(SHOWN), help="comma-separated")
    parser.add_argument("--rounds", type=int, default=ROUNDS)
    parser.add_argument("--seconds", type=float, default=SECONDS, help="of a round")
    options = parser.parse_args(argv)
    print(cpu_name(), versions(), sep="\n")
    names = [BASE, *REDUCED[options.precision]]
    for threads in map(int, options.threads.split(",")):
        ratios = []
        for name in options.cases.split(","):
            ways = measured(name, names, threads, options)
            ratio = show(CASES[name], ways, threads)
            ratios += [ratio] if ratio is not None else []
        if ratios:
            print(f"\nGeometric mean of the best peer / ours: {geometric_mean(ratios):.2f}")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
