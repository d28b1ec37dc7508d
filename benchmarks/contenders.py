"""The contenders of a benchmark: each prepares a model and gives a function that runs it once.

Every contender gets its best public settings for latency at a given number of threads, and the
same input arrays. All of them take NumPy and give NumPy (eager and torch.compile: a tensor made
once, their fastest form).
"""

from __future__ import annotations

import io
import warnings
from collections.abc import Callable
from typing import Any

import numpy as np

Prepared = Callable[[], Any]


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


def eager(module: Any, inputs: tuple[np.ndarray, ...], threads: int) -> Prepared:
    """PyTorch eager in inference mode."""
    torch = _torch(threads)
    tensors = tuple(torch.from_numpy(x) for x in inputs)

    def run() -> Any:
        with torch.inference_mode():
            return module(*tensors)

    return run


def torch_compile(module: Any, inputs: tuple[np.ndarray, ...], threads: int) -> Prepared:
    """torch.compile with the Inductor backend and frozen weights."""
    torch = _torch(threads)
    import torch._inductor.config as config

    config.freezing = True
    tensors = tuple(torch.from_numpy(x) for x in inputs)
    compiled = torch.compile(module)

    def run() -> Any:
        with torch.inference_mode():
            return compiled(*tensors)

    return run


def onnxruntime(module: Any, inputs: tuple[np.ndarray, ...], threads: int) -> Prepared:
    """ONNX Runtime, all graph optimisations."""
    torch = _torch(threads)
    import onnxruntime as ort

    options = ort.SessionOptions()
    options.intra_op_num_threads = threads
    options.inter_op_num_threads = 1
    options.graph_optimization_level = ort.GraphOptimizationLevel.ORT_ENABLE_ALL
    model = _onnx_bytes(module, tuple(torch.from_numpy(x) for x in inputs))
    session = ort.InferenceSession(model, options, providers=["CPUExecutionProvider"])
    feed = {i.name: x for i, x in zip(session.get_inputs(), inputs, strict=True)}
    return lambda: session.run(None, feed)


def openvino(module: Any, inputs: tuple[np.ndarray, ...], threads: int) -> Prepared:
    """OpenVINO with the latency hint, float32, inputs shared."""
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
    return lambda: request.infer(tensors, share_inputs=True)


def burnish(module: Any, inputs: tuple[np.ndarray, ...], threads: int) -> Prepared:
    """burnish, untuned, with the signature fixed by the inputs."""
    torch = _torch(threads)
    import burnish

    model = burnish.compile(module, tuple(torch.from_numpy(x) for x in inputs), threads=threads)
    return lambda: model(*inputs)


def burnish_dynamic(module: Any, inputs: tuple[np.ndarray, ...], threads: int) -> Prepared:
    """burnish, untuned, compiled once with a named dynamic batch."""
    torch = _torch(threads)
    import burnish

    model = burnish.compile(
        module,
        tuple(torch.from_numpy(x) for x in inputs),
        dynamic_shapes=tuple({0: "batch"} for _ in inputs),
        threads=threads,
    )
    return lambda: model(*inputs)


CONTENDERS: dict[str, Callable[[Any, tuple[np.ndarray, ...], int], Prepared]] = {
    "burnish": burnish,
    "burnish-dynamic": burnish_dynamic,
    "eager": eager,
    "torch.compile": torch_compile,
    "onnxruntime": onnxruntime,
    "openvino": openvino,
}
OURS = ("burnish", "burnish-dynamic")
