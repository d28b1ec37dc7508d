"""``burnish demo``: the Fashion-MNIST MLP through the whole corridor, and then tuned."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from ..support.errors import MissingExtraError
from ..tuner.records.database import TuningDatabase
from .compile import compile
from .compiled_model import CompiledModel
from .console import format_seconds, print_table, progress
from .timing import Timing, time_interleaved


def run_demo(data_dir: str | Path | None, *, download: bool, trials: int, threads: int) -> int:
    """Show the module before and after fusion, classify the test images, time a call beside
    PyTorch's, tune, and time again.

    Returns the exit code: 1 if a prediction differs from PyTorch's. Raises DataError and
    MissingExtraError.
    """
    try:
        import torch
    except ImportError:
        raise MissingExtraError("torch", "torch", "The demo") from None
    from ..models import fashion_mnist, mlp

    torch.set_num_threads(threads)
    data = fashion_mnist.load(data_dir, download=download)
    print(f"Data: {data.source}")
    if data.weights is not None:
        module, _ = mlp.build(data.weights)
    else:
        assert data.train_images is not None
        assert data.train_labels is not None
        print(f"Training the MLP on {len(data.train_images)} images ...")
        module = mlp.train(data.train_images[:20000], data.train_labels[:20000])
    images = torch.from_numpy(data.images.astype(np.float32) / 255).reshape(-1, 1, 28, 28)

    model = compile(module, (images[:1],), dynamic_shapes=({0: "batch"},), threads=threads)
    _show_stages(model)
    failed = _classify(model, module, images, data.labels)
    single = compile(module, (images[:1],), threads=threads)
    times = _time("Before tuning", single, module, images[:1])
    if trials > 0 and _tune(single, trials):
        times = _time("After tuning", single, module, images[:1])
    print(f"\n{_gain(times)}")
    return failed


def _gain(times: dict[str, Timing]) -> str:
    """What it was all for, in a line."""
    ours, theirs = (times[name].minimum for name in ("burnish", "PyTorch"))
    return (
        f"One image takes {format_seconds(ours)}; PyTorch takes {format_seconds(theirs)}, which is "
        f"{theirs / ours:.1f} times as long."
    )


def _show_stages(model: CompiledModel) -> None:
    print("\nThe module as imported:\n")
    print(model.script("00-import"))
    print("\nAfter fusion:\n")
    print(model.script("30-fused"))
    report = model.report
    print(
        f"{len(report.kernels)} kernels: {', '.join(report.kernels)}. "
        f"Compiled in {report.seconds:.2f} s."
    )


def _classify(model: CompiledModel, module: Any, images: Any, labels: np.ndarray) -> int:
    import torch

    with torch.inference_mode():
        expected = module(images).argmax(1).numpy()
    found = model(images.numpy()).argmax(1)
    correct, different = int((found == labels).sum()), int((found != expected).sum())
    print(f"\n{correct} of {len(labels)} images classified correctly.")
    if different:
        print(f"{different} predictions differ from PyTorch's.")
        return 1
    print("Every prediction is the same as PyTorch's.")
    return 0


def _time(title: str, model: CompiledModel, module: Any, image: Any) -> dict[str, Timing]:
    import torch

    array = image.numpy()

    def eager() -> Any:
        with torch.inference_mode():
            return module(image)

    times = time_interleaved({"burnish": lambda: model(array), "PyTorch": eager})
    rows = [
        [
            name,
            format_seconds(t.minimum),
            format_seconds(t.median),
            f"{times['PyTorch'].minimum / t.minimum:.2f}",
        ]
        for name, t in times.items()
    ]
    print()
    print_table(f"{title}: one image", ["", "minimum", "median", "PyTorch / this"], rows)
    return times


def _tune(model: CompiledModel, trials: int) -> bool:
    """Tune, and say what came of it; whether the model is another one now."""
    print(f"\nTuning, {trials} trials ...")
    with progress("tuning", trials) as display:
        result = model.tune(
            trials=trials,
            database=TuningDatabase(),
            on_progress=lambda done, text: display.update(done, text),
        )
    for task in result.tasks:
        best = format_seconds(task.best) if task.best is not None else "no candidate ran"
        print(
            f"  {task.task.name}: {task.done} candidates measured, {task.failed} failed, "
            f"best {best}"
        )
    print(f"  {result.verdict}")
    return result.kept
