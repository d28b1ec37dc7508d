"""The contenders of a benchmark: each prepares a model and gives functions that run it once.

Every contender gets its best public settings for latency at a given number of threads, and the
same input arrays. All of them take NumPy and give NumPy (eager and torch.compile: a tensor made
once, their fastest form). A contender gives one or more *ways* to run: where a peer can keep its
inputs and outputs from call to call, it stands plain and so, and torch.compile with its defaults
and with autotuning; the better one counts. burnish gives results that later calls leave alone.
"""

from __future__ import annotations

import copy
import io
import warnings
from collections.abc import Callable
from typing import Any

import numpy as np

Prepared = Callable[[], Any]
Ways = dict[str, Callable[[], Prepared]]
"""What prepares each way of running, by its name."""
Inputs = tuple[np.ndarray, ...]


def _torch(threads: int) -> Any:
    import torch

    torch.set_num_threads(threads)
    return torch


def _onnx_bytes(module: Any, inputs: tuple[Any, ...]) -> bytes:
    import torch

    buffer: Any = io.BytesIO()  # torch's annotation leaves out the files it accepts
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        torch.onnx.export(module, inputs, buffer, dynamo=False)
    return bytes(buffer.getvalue())


def eager(module: Any, inputs: Inputs, threads: int) -> Ways:
    """PyTorch eager in inference mode."""
    torch = _torch(threads)
    tensors = tuple(torch.from_numpy(x) for x in inputs)

    def run() -> Any:
        with torch.inference_mode():
            return module(*tensors)

    return {"plain": lambda: run}


def torch_compile(module: Any, inputs: Inputs, threads: int) -> Ways:
    """torch.compile with the Inductor backend and frozen weights; ``autotuned`` has Inductor's own
    products among the kernels that it tries."""
    torch = _torch(threads)
    import torch._inductor.config as config

    config.freezing = True
    tensors = tuple(torch.from_numpy(x) for x in inputs)

    def prepare(mode: str) -> Prepared:
        compiled = torch.compile(copy.deepcopy(module), mode=mode)

        def run() -> Any:
            with torch.inference_mode():
                return compiled(*tensors)

        run()
        return run

    return {
        "plain": lambda: prepare("default"),
        "autotuned": lambda: prepare("max-autotune"),
    }


def onnxruntime(module: Any, inputs: Inputs, threads: int) -> Ways:
    """ONNX Runtime, all graph optimisations; ``bound`` has inputs and outputs bound once, so that a
    result is written over by the next call."""
    torch = _torch(threads)
    import onnxruntime as ort

    options = ort.SessionOptions()
    options.intra_op_num_threads = threads
    options.inter_op_num_threads = 1
    options.graph_optimization_level = ort.GraphOptimizationLevel.ORT_ENABLE_ALL
    model = _onnx_bytes(module, tuple(torch.from_numpy(x) for x in inputs))
    session = ort.InferenceSession(model, options, providers=["CPUExecutionProvider"])
    feed = {i.name: x for i, x in zip(session.get_inputs(), inputs, strict=True)}

    def bound() -> Prepared:
        binding = session.io_binding()
        for name, x in feed.items():
            binding.bind_ortvalue_input(name, ort.OrtValue.ortvalue_from_numpy(x))
        results = [np.empty_like(y) for y in session.run(None, feed)]
        for o, y in zip(session.get_outputs(), results, strict=True):
            binding.bind_output(o.name, "cpu", 0, y.dtype, y.shape, y.ctypes.data)

        def run() -> Any:
            session.run_with_iobinding(binding)
            return results

        return run

    return {"plain": lambda: lambda: session.run(None, feed), "bound": bound}


def openvino(module: Any, inputs: Inputs, threads: int) -> Ways:
    """OpenVINO with the latency hint, float32, inputs shared; ``shared`` shares outputs too, so
    that a result is written over by the next call."""
    torch = _torch(threads)
    import openvino as ov

    core = ov.Core()
    model = core.read_model(
        io.BytesIO(_onnx_bytes(module, tuple(torch.from_numpy(x) for x in inputs)))
    )
    compiled = core.compile_model(
        model,
        "CPU",
        {
            "PERFORMANCE_HINT": "LATENCY",
            "INFERENCE_NUM_THREADS": threads,
            "INFERENCE_PRECISION_HINT": "f32",
        },
    )
    request = compiled.create_infer_request()
    tensors = {i: ov.Tensor(x) for i, x in enumerate(inputs)}

    def prepare(share_outputs: bool) -> Prepared:
        return lambda: request.infer(tensors, share_inputs=True, share_outputs=share_outputs)

    return {"plain": lambda: prepare(False), "shared": lambda: prepare(True)}


def burnish(module: Any, inputs: Inputs, threads: int) -> Ways:
    """burnish, untuned, with the signature fixed by the inputs."""
    torch = _torch(threads)
    import burnish

    model = burnish.compile(module, tuple(torch.from_numpy(x) for x in inputs), threads=threads)
    return {"plain": lambda: lambda: model(*inputs)}


def burnish_dynamic(module: Any, inputs: Inputs, threads: int) -> Ways:
    """burnish, untuned, compiled once with a named dynamic batch."""
    torch = _torch(threads)
    import burnish

    model = burnish.compile(
        module,
        tuple(torch.from_numpy(x) for x in inputs),
        dynamic_shapes=tuple({0: "batch"} for _ in inputs),
        threads=threads,
    )
    return {"plain": lambda: lambda: model(*inputs)}


CONTENDERS: dict[str, Callable[[Any, Inputs, int], Ways]] = {
    "burnish": burnish,
    "burnish-dynamic": burnish_dynamic,
    "torch.compile": torch_compile,
    "onnxruntime": onnxruntime,
    "openvino": openvino,
    "eager": eager,
}
OURS = ("burnish", "burnish-dynamic")
PUBLISHED = ("burnish", "torch.compile", "onnxruntime", "openvino", "eager")
"""The columns of a published table; a column that fails says why."""
