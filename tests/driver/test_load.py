"""load: the best kernels of a file, without torch and without a compiler."""

from __future__ import annotations

import os
import subprocess
import sys
import textwrap
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

import burnish
from burnish.support.errors import (
    ArgumentError,
    ArtifactError,
    BurnishError,
    TargetError,
)
from burnish.vm.artifact import read_artifact, write_artifact


def test_kernels_for_several_targets(small: Any, tmp_path: Path) -> None:
    compiled, x, expected = small
    targets = ["x86-64", "neoverse-n1", "native"]
    saved = compiled.save(tmp_path / "m.burnish", targets=targets)
    best = burnish.load(saved.path)
    assert torch.equal(best(x), expected)
    assert best.target == compiled.executable.target
    assert "compiled for aarch64" in str(best.report)
    plain = burnish.load(saved.path, target="x86-64")
    assert plain.target.cpu == "x86-64"
    torch.testing.assert_close(plain(x), expected)
    with pytest.raises(TargetError, match=r"no kernels that can be used here.*aarch64"):
        burnish.load(saved.path, target="neoverse-n1")
    listed = "x86-64, neoverse-n1, "
    other = "haswell" if best.target.cpu != "haswell" else "znver3"
    with pytest.raises(TargetError, match=f"for {other}, which was asked for.*for {listed}.*Leave"):
        burnish.load(saved.path, target=other)
    one = compiled.save(tmp_path / "one.burnish", targets=["neoverse-n1"])
    with pytest.raises(TargetError, match=r"no kernels that can be used here.*aarch64"):
        burnish.load(one.path)


def test_it_loads_without_torch_and_without_the_compiler(small: Any, tmp_path: Path) -> None:
    compiled, x, expected = small
    saved = compiled.save(tmp_path / "m.burnish")
    np.save(tmp_path / "x.npy", x.numpy())
    program = """
        import sys
        import numpy as np
        for name in ("torch", "onnx", "networkx", "xgboost", "rich", "scipy"):
            sys.modules[name] = None
        import burnish
        folder = sys.argv[1]
        model = burnish.load(folder + "/m.burnish", threads=2)
        np.save(folder + "/y.npy", model(np.load(folder + "/x.npy")))
        names = ("burnish.graphir.passes", "burnish.tensorir.schedule", "burnish.tuner")
        print(sorted(m for m in sys.modules if m.startswith(names)))
    """
    command = [sys.executable, "-c", textwrap.dedent(program), str(tmp_path)]
    done = subprocess.run(command, check=True, capture_output=True, text=True)
    assert done.stdout.strip() == "[]"
    np.testing.assert_array_equal(np.load(tmp_path / "y.npy"), expected.numpy())
    assert saved.path.exists()


def test_llvm_is_not_imported_where_it_has_told_about_the_machine(
    small: Any, tmp_path: Path
) -> None:
    compiled, x, expected = small
    if not compiled.executable.target.triple.startswith("x86_64"):
        pytest.skip("other objects are linked by LLVM")
    compiled.save(tmp_path / "m.burnish")
    np.save(tmp_path / "x.npy", x.numpy())
    program = """
        import sys
        import numpy as np
        import burnish
        folder = sys.argv[1]
        model = burnish.load(folder + "/m.burnish", threads=2)
        np.save(folder + "/y.npy", model(np.load(folder + "/x.npy")))
        print(sorted({"llvmlite", "numpy.ma", "networkx"} & set(sys.modules)))
    """
    command = [sys.executable, "-c", textwrap.dedent(program), str(tmp_path)]
    environment = os.environ | {"BURNISH_CACHE": "1", "BURNISH_CACHE_DIR": str(tmp_path / "cache")}
    for known in ("['llvmlite']", "[]"):
        done = subprocess.run(command, check=True, capture_output=True, text=True, env=environment)
        assert done.stdout.strip() == known
        np.testing.assert_array_equal(np.load(tmp_path / "y.npy"), expected.numpy())


@pytest.mark.parametrize("found", [None, 3, b"model.brn", torch.nn.ReLU()])
def test_what_is_no_path(found: Any) -> None:
    with pytest.raises(ArgumentError, match=rf"path .* found {type(found).__name__}\."):
        burnish.load(found)


def test_a_description_that_somebody_made_up(small: Any, tmp_path: Path) -> None:
    compiled, *_ = small
    saved = compiled.save(tmp_path / "m.burnish")
    artifact = read_artifact(saved.path)
    parts = {name: artifact.part(name) for name in artifact.names}
    for change in ({"signatures": 3}, {"signatures": [{"variants": []}]}, {"signatures": []}):
        write_artifact(tmp_path / "bad", artifact.model | change, parts)
        with pytest.raises((ArtifactError, TargetError), match=r"its description|no kernels"):
            burnish.load(tmp_path / "bad")
    write_artifact(tmp_path / "old", artifact.model | {"abi": 0}, parts)
    with pytest.raises(ArtifactError, match="version 0 of the kernel ABI"):
        burnish.load(tmp_path / "old")


def test_what_only_a_compiled_model_can_do_says_how_to_do_it(small: Any, tmp_path: Path) -> None:
    compiled, x, _ = small
    loaded = burnish.load(compiled.save(tmp_path / "m.burnish").path)
    for asked, message in (
        (lambda: loaded.tune(trials=2), "cannot be tuned: compile the model"),
        (loaded.refresh, "change the module, compile it, and save it again"),
        (lambda: loaded.verify(x), r"model\.verify\(\*inputs, source=module\)"),
    ):
        with pytest.raises(BurnishError, match=message):
            asked()
