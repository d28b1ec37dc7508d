"""Running a compiled model: ``run``, ``out=``, threads."""

from __future__ import annotations

import os
import threading
import warnings
from typing import Any

import numpy as np
import pytest
import torch
from torch import nn

import burnish
from burnish import errors
from burnish.driver.compiled_model import CompiledModel
from burnish.tests.driver.programs import Add, DLPackOnly, read_only


# -- run ------------------------------------------------------------------------------------------
def test_run_is_a_call(static: CompiledModel, image: torch.Tensor) -> None:
    wanted = static(image)
    for inputs in (image, (image,), [image], {"input": image}):
        assert torch.equal(static.run(inputs), wanted)


@pytest.mark.parametrize(
    "make",
    [
        lambda: np.empty((1, 10), np.float32),
        lambda: np.empty((10, 1), np.float32).T,
        lambda: np.empty((1, 20), np.float32)[:, ::2],
        lambda: torch.empty(1, 10),
        lambda: burnish.empty((1, 10)),
        lambda: DLPackOnly(np.empty((1, 10), np.float32)),
    ],
)
def test_run_writes_to_out(static: CompiledModel, image: torch.Tensor, make: Any) -> None:
    out = make()
    assert static.run(image, out=out) is out
    held = out.array if isinstance(out, DLPackOnly) else np.asarray(out)
    np.testing.assert_array_equal(held, static(image.numpy()))


def test_an_out_that_does_not_fit_is_refused(static: CompiledModel, image: torch.Tensor) -> None:
    with pytest.raises(errors.ShapeMismatchError, match=r"out: expected shape \(1, 10\)"):
        static.run(image, out=np.empty((1, 11), np.float32))
    with pytest.raises(errors.DTypeMismatchError, match="out: expected dtype float32"):
        static.run(image, out=np.empty((1, 10)))
    with pytest.raises(errors.ArgumentError, match="out: the array is read-only"):
        static.run(image, out=read_only(torch.empty(1, 10)))
    with pytest.raises(errors.ArityError, match="gives 1 output; 2 arrays were passed"):
        static.run(image, out=[np.empty((1, 10), np.float32)] * 2)
    with pytest.raises(errors.ArgumentError, match="found int"):
        static.run(image, out=3)


def test_out_is_checked_before_any_of_it_is_written(structured: CompiledModel) -> None:
    out = [np.zeros(3, np.float32), np.zeros(3, np.float32), np.zeros(4, np.float32)]
    with pytest.raises(errors.ShapeMismatchError, match=r"out\[2\]"):
        structured.run([torch.ones(3), torch.ones(3)], out=out)
    assert not out[0].any()


def test_out_may_be_an_input() -> None:
    model = burnish.compile(Add().eval(), (torch.zeros(5),))
    x = np.zeros(5, np.float32)
    model.run(x, out=x)
    np.testing.assert_array_equal(x, np.ones(5))


# -- threads --------------------------------------------------------------------------------------
@pytest.fixture(scope="module")
def two_threads(module: nn.Module, image: torch.Tensor) -> CompiledModel:
    """The MLP compiled for at most two threads."""
    model: CompiledModel = burnish.compile(
        module, (image,), dynamic_shapes=({0: "batch"},), threads=2
    )
    return model


def test_threads_do_not_change_bits(dynamic: CompiledModel, two_threads: CompiledModel) -> None:
    for batch in (1, 33, 400):
        x = torch.rand(batch, 1, 28, 28)
        wanted = dynamic.run(x, threads=1)
        for y in (two_threads(x), two_threads.run(x, threads=1), two_threads.run(x, threads=64)):
            assert torch.equal(y, wanted)


def test_the_targets_threads_do_not_change_bits(
    module: nn.Module, image: torch.Tensor, dynamic: CompiledModel
) -> None:
    dims = ({0: "batch"},)
    model = burnish.compile(module, (image,), dynamic_shapes=dims, target="native -threads=1")
    for batch in (1, 33, 400):
        x = torch.rand(batch, 1, 28, 28)
        assert torch.equal(model(x), dynamic(x))


def test_bad_thread_counts_are_refused(module: nn.Module, static: CompiledModel) -> None:
    for threads in (0, -1, 1.5, True):
        with pytest.raises(errors.ArgumentError, match="expected a whole number of at least 1"):
            static.run(torch.rand(1, 1, 28, 28), threads=threads)  # type: ignore[arg-type]
    with pytest.raises(errors.ArgumentError, match="threads=0"):
        burnish.compile(module, threads=0)


def test_concurrent_calls_do_not_share_memory(two_threads: CompiledModel) -> None:
    x = torch.rand(64, 1, 28, 28)
    wanted = two_threads(x).numpy()
    wrong: list[int] = []

    def work(start: int) -> None:
        for step in range(30):
            i = (start * 7 + step) % 50
            part = x[i : i + 1 + step % 9]
            rows = two_threads(part if start % 2 else part.numpy())
            if not np.allclose(np.asarray(rows), wanted[i : i + len(part)], rtol=1e-5, atol=1e-6):
                wrong.append(i)

    workers = [threading.Thread(target=work, args=(n,)) for n in range(4)]
    for w in workers:
        w.start()
    for w in workers:
        w.join()
    assert wrong == []


def test_a_forked_child_can_call(two_threads: CompiledModel) -> None:
    x = np.random.default_rng(0).random((100, 1, 28, 28), np.float32)
    wanted = two_threads(x)
    with warnings.catch_warnings():
        # From Python 3.12 on a fork of a process with threads warns: this is what is tested here.
        warnings.simplefilter("ignore", DeprecationWarning)
        child = os.fork()
    if child == 0:
        os._exit(0 if np.array_equal(two_threads(x), wanted) else 1)
    _, status = os.waitpid(child, 0)
    assert status == 0
