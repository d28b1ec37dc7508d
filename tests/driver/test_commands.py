"""What the commands do, on a tiny ONNX file."""

from __future__ import annotations

import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from burnish.driver import commands
from burnish.driver.cli import main
from burnish.driver.compile import compile as compile_model
from burnish.driver.compiled_model import CompiledModel
from burnish.driver.tune import TuneResult
from burnish.support.errors import ArtifactError
from burnish.support.host import native_target
from burnish.support.memory import Probe
from burnish.support.target import Target
from burnish.tuner.measuring import remote
from burnish.tuner.records.database import TuningDatabase
from burnish.tuner.task import target_key

onnx = pytest.importorskip("onnx")


def save(path: Path, shape: list[int | str], *, op: str = "Relu") -> Path:
    """A model ``y = op(x + b)`` of rows of three."""
    from onnx import TensorProto, helper, numpy_helper

    graph = helper.make_graph(
        [helper.make_node("Add", ["x", "b"], ["s"]), helper.make_node(op, ["s"], ["y"])],
        "tiny",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, shape)],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, shape)],
        [numpy_helper.from_array(np.array([-1, 0, 1], np.float32), "b")],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    onnx.save(model, path)
    return path


@pytest.fixture
def tiny(tmp_path: Path) -> str:
    return str(save(tmp_path / "tiny.onnx", [2, 3]))


def run(capsys: pytest.CaptureFixture[str], *arguments: str) -> tuple[int, str, str]:
    code = main(arguments)
    captured = capsys.readouterr()
    return code, captured.out, captured.err


def test_compile_prints_the_report(tiny: str, capsys: pytest.CaptureFixture[str]) -> None:
    code, out, _ = run(capsys, "compile", tiny)
    assert code == 0
    assert out.startswith("compiled in ")
    assert "kernels: fused_add_relu" in out


def test_compiled_models_are_saved_inspected_and_run(
    tiny: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    saved = str(tmp_path / "tiny.burnish")
    variants = ["--variant", "native", "--variant", "x86-64"]
    page = tmp_path / "page.html"
    asked = ["-o", saved, *variants, "--report", str(page)]
    code, out, _ = run(capsys, "compile", tiny, *asked)
    assert code == 0
    assert f"wrote {page}" in out
    assert "<h2>Time</h2>" in page.read_text()
    assert f"wrote {saved}" in out
    code, out, _ = run(capsys, "inspect", saved)
    assert code == 0
    assert "for x86-64" in out
    assert "hashes are right" in out
    lines = [" ".join(line.split()) for line in out.splitlines()]
    assert any("input x float32 (2, 3)" in line for line in lines), out
    assert any("output 0 float32 (2, 3)" in line for line in lines), out
    np.save(tmp_path / "x.npy", np.array([[-2, 0, 1], [3, 4, 5]], np.float32))
    code, out, _ = run(capsys, "run", saved, "--input", str(tmp_path / "x.npy"))
    assert out == "output 0: float32 (2, 3)\n[[0. 0. 2.]\n [2. 4. 6.]]\n"
    trace = tmp_path / "trace.json"
    asked = ["--seconds", "0.01", "--trace", str(trace)]
    code, out, _ = run(capsys, "profile", saved, *asked)
    assert code == 0
    assert "fused_add_relu" in out
    assert trace.exists()
    code, out, _ = run(capsys, "show", saved, "--stage", "70-bytecode")
    assert "kernel:fused_add_relu" in out
    code, _, err = run(capsys, "compile", tiny, *variants)
    assert code == 2
    assert "--variant is for the file that is saved" in err
    Path(saved).write_bytes(Path(saved).read_bytes()[:-1])
    code, _, err = run(capsys, "inspect", saved)
    assert code == 2
    assert "ArtifactError" in err
    assert "is truncated" in err


def test_run_prints_outputs(tiny: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    np.save(tmp_path / "x.npy", np.array([[-2, 0, 1], [3, 4, 5]], np.float32))
    code, out, _ = run(capsys, "run", tiny, "--input", str(tmp_path / "x.npy"))
    assert code == 0
    assert out == "output 0: float32 (2, 3)\n[[0. 0. 2.]\n [2. 4. 6.]]\n"


def test_run_keeps_outputs(tiny: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    target = tmp_path / "out.npz"
    code, out, _ = run(capsys, "run", tiny, "--output", str(target))
    assert (code, out) == (0, f"1 outputs in {target}\n")
    with np.load(target) as kept:
        assert kept["output_0"].shape == (2, 3)
        assert (kept["output_0"] >= 0).all()


class _Nested(torch.nn.Module):
    """Dicts, lists, plain values and a counter, in and out."""

    steps: torch.Tensor

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("steps", torch.zeros(1))

    def forward(self, x: dict[str, Any], scale: int, *, y: torch.Tensor) -> dict[str, Any]:
        self.steps += 1
        total = x["a"] * scale + y
        return {"total": total, "parts": (x["bs"][0], [self.steps + 0], None), "scale": scale}


def test_nested_outputs_are_named_by_the_way_to_them(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    model = compile_model(_Nested().eval())
    one = torch.ones(2)
    model({"a": one, "bs": [one]}, 3, y=one)
    saved, kept = str(tmp_path / "nested.burnish"), str(tmp_path / "out.npz")
    model.save(saved)
    files = []
    for value in (1, 5, 10):
        files += ["--input", str(tmp_path / f"{value}.npy")]
        np.save(files[-1], np.full(2, value, np.float32))
    code, out, err = run(capsys, "run", saved, *files)
    assert (code, err) == (0, "")
    assert out == (
        "output 0.total: float32 (2,)\n[13. 13.]\n"
        "output 0.parts.0: float32 (2,)\n[5. 5.]\n"
        "output 0.parts.1.0: float32 (1,)\n[2.]\n"
        "output 0.parts.2: None\n"
        "output 0.scale: 3\n"
    )
    code, out, _ = run(capsys, "run", saved, *files, "--output", kept)
    assert (code, out) == (0, f"4 outputs in {kept}\n")
    with np.load(kept, allow_pickle=False) as found:
        assert found["output_0.total"].tolist() == [13, 13]
        assert found["output_0.parts.1.0"].tolist() == [2]
        assert found["output_0.scale"] == 3
    for command in (["run"], ["bench"], ["profile", "--seconds", "0.01"]):
        assert run(capsys, *command, saved)[0] == 0
    code, _, err = run(capsys, "run", saved, *files[:2])
    assert code == 2
    assert "the model takes 3 input tensors (x, scale, y); got 1." in err


def test_outputs_of_a_dtype_that_numpy_lacks(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    class Constant(torch.nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return (x * 0 + 1.5).bfloat16()

    saved, kept = str(tmp_path / "half.burnish"), str(tmp_path / "out.npz")
    compile_model(Constant().eval(), (torch.ones(2).bfloat16(),)).save(saved)
    assert run(capsys, "run", saved)[:2] == (0, "output 0: bfloat16 (2,)\n[1.5 1.5]\n")
    assert run(capsys, "run", saved, "--output", kept)[0] == 0
    with np.load(kept, allow_pickle=False) as found:
        assert (found["output_0"] == np.full(2, 1.5, np.float32)).all()


def test_run_takes_symbolic_models_with_inputs_only(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = str(save(tmp_path / "dynamic.onnx", ["batch", 3]))
    code, _, err = run(capsys, "run", path)
    assert code == 2
    assert "ArgumentError: input 'x' has the named size 'batch'" in err
    np.save(tmp_path / "x.npy", np.zeros((4, 3), np.float32))
    assert run(capsys, "run", path, "--input", str(tmp_path / "x.npy"))[0] == 0


def test_named_sizes_are_given_by_name(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = str(save(tmp_path / "dynamic.onnx", ["batch", 3]))
    code, out, _ = run(capsys, "run", path, "--sizes", "batch=2")
    assert (code, out.partition("\n")[0]) == (0, "output 0: float32 (2, 3)")
    code, out, _ = run(capsys, "bench", path, "--sizes", "batch=5")
    assert (code, out.partition(" ")[0]) == (0, "minimum")
    code, _, err = run(capsys, "bench", path, "--sizes", "rows=5")
    assert code == 2
    assert "--sizes: no input has a size 'rows'; there are batch." in err
    with pytest.raises(SystemExit):
        run(capsys, "bench", path, "--sizes", "batch")
    assert "expected NAME=N,..., as in batch=8; found 'batch'" in capsys.readouterr().err
    records = str(tmp_path / "records.db")
    arguments = ("--trials", "2", "-q", "--sizes", "batch=1", "--sizes", "batch=9")
    assert run(capsys, "tune", path, "--database", records, *arguments)[0] == 0
    with TuningDatabase(records) as database:
        assert {r.target.partition(" sizes=")[2] for r in database.records()} == {"1;9"}


def test_each_of_several_sizes_has_its_turn(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = str(save(tmp_path / "dynamic.onnx", ["batch", 3]))
    several = ("--sizes", "batch=2", "--sizes", "batch=0")
    code, out, _ = run(capsys, "run", path, *several)
    assert code == 0
    assert [line for line in out.splitlines() if line[0] not in " ["] == [
        *("batch=2:", "output 0: float32 (2, 3)", "batch=0:", "output 0: float32 (0, 3)"),
    ]
    starts = {"bench": "minimum", "verify": "dynamic.onnx", "profile": "dynamic.onnx"}
    for command, first in starts.items():
        more = ("--seconds", "0.01") if command == "profile" else ()
        code, out, _ = run(capsys, command, path, *several, *more)
        assert code == 0
        assert out.startswith(f"batch=2:\n{first}")
        assert f"\nbatch=0:\n{first}" in out
    kept = str(tmp_path / "kept")
    for command, option in (("run", "--output"), ("profile", "--trace")):
        code, out, err = run(capsys, command, path, *several, option, kept)
        assert (code, out) == (2, "")
        assert f"{option} keeps one call; give --sizes once, found 2." in err
    np.save(tmp_path / "x.npy", np.zeros((4, 3), np.float32))
    code, _, err = run(capsys, "run", path, *several, "--input", str(tmp_path / "x.npy"))
    assert code == 2
    assert "--sizes are of random inputs" in err


def test_saved_models_are_compared_with_their_source(
    tiny: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    saved = str(tmp_path / "tiny.burnish")
    assert run(capsys, "compile", tiny, "-o", saved)[0] == 0
    code, out, _ = run(capsys, "verify", saved, "--source", tiny)
    assert code == 0
    assert out.startswith(f"{saved} agrees, beside ONNX's reference evaluator\n")
    assert "a file keeps no values on the way" in out
    other = str(save(tmp_path / "other.onnx", [2, 3], op="Abs"))
    code, out, _ = run(capsys, "verify", saved, "--source", other)
    assert (code, out.splitlines()[0]) == (1, f"{saved} DIFFERS, beside ONNX's reference evaluator")
    code, _, err = run(capsys, "verify", saved)
    assert code == 2
    assert "does not hold the model that it was saved from, tiny.onnx" in err
    code, _, err = run(capsys, "verify", tiny, "--source", tiny)
    assert code == 2
    assert "--source is for a saved model" in err
    for wrong, said in ((tmp_path / "no.onnx", "cannot be read"), (saved, "this is no ONNX model")):
        code, _, err = run(capsys, "verify", saved, "--source", str(wrong))
        assert code == 2
        assert err.startswith(f"burnish: FrontendError: {wrong}")
        assert said in err


def test_a_model_saved_from_torch_is_compared_in_python(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    torch = pytest.importorskip("torch")
    model = compile_model(torch.nn.ReLU(), (torch.ones(2, 3),))
    saved = str(tmp_path / "relu.burnish")
    model.save(saved)
    code, _, err = run(capsys, "verify", saved)
    assert code == 2
    assert "was saved from ReLU, which is no ONNX file. Compare it in Python" in err
    assert "--source" not in err


@pytest.mark.parametrize("command", [["compile"], ["tune", "--trials", "1"]])
def test_what_needs_the_graph_refuses_a_saved_model(
    command: list[str], tiny: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    saved = str(tmp_path / "tiny.burnish")
    assert run(capsys, "compile", tiny, "-o", saved)[0] == 0
    code, out, err = run(capsys, *command, saved)
    assert (code, out) == (2, "")
    assert f"FrontendError: {saved} is a saved model" in err
    assert "Give what it was saved from: tiny.onnx." in err


def test_a_saved_model_shows_the_stage_that_it_has(
    tiny: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    saved = str(tmp_path / "tiny.burnish")
    assert run(capsys, "compile", tiny, "-o", saved)[0] == 0
    assert "fused_add_relu" in run(capsys, "show", saved)[1]
    code, _, err = run(capsys, "show", saved, "--stage", "30-fused")
    assert code == 2
    assert "has the stages 40-scheduled and 70-bytecode" in err


def test_bench_prints_a_time(tiny: str, capsys: pytest.CaptureFixture[str]) -> None:
    code, out, _ = run(capsys, "bench", tiny, "--threads", "1", "--target", "native -threads=1")
    assert code == 0
    assert out.startswith("minimum ")
    assert out.rstrip().endswith("a call")


@pytest.mark.parametrize(
    ("stage", "text"),
    [("00-import", "R.add("), ("30-fused", "fused_add_relu"), ("70-bytecode", "builtin:alloc")],
)
def test_show_prints_a_stage(
    tiny: str, capsys: pytest.CaptureFixture[str], stage: str, text: str
) -> None:
    code, out, _ = run(capsys, "show", tiny, "--stage", stage)
    assert code == 0
    assert text in out


def test_info_prints_the_machine(capsys: pytest.CaptureFixture[str]) -> None:
    code, out, _ = run(capsys, "info")
    assert code == 0
    for word in ("cpu", "caches", "L1", "threads of a call", "numpy", "burnish"):
        assert word in out
    for word in ("multiply-adds", "of one core", "of the table; --probe measures"):
        assert word in out


def test_a_probe_is_kept_and_counts_from_then_on(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    table = native_target()
    probe = Probe(table.cpu, table.cores, 2.5, (50.0, 40.0, 30.0, 2.0), (20.0, 10.0))
    monkeypatch.setenv("BURNISH_CACHE_DIR", str(tmp_path))
    monkeypatch.setattr(commands, "probe_memory", lambda target: probe)
    try:
        code, out, _ = run(capsys, "info", "--probe")
        assert code == 0
        assert f"wrote {tmp_path}" in out
        for shown in ("measured, at 2.5 GHz", "L3 30, memory 2 (5 GB/s)", "memory 10 (25 GB/s)"):
            assert shown in out
        found = native_target()
        assert found.memory.one_core == probe.bandwidth
        assert found == table.with_options(bandwidth=probe.bandwidth, shared_bandwidth=(20, 10))
        assert Target(str(found)) == found
        assert target_key(found) == target_key(table)
    finally:
        native_target.cache_clear()


@pytest.mark.tuning
def test_tune_prints_its_tasks(
    tiny: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    records = str(tmp_path / "records.db")
    code, out, _ = run(capsys, "tune", tiny, "--trials", "1", "--database", records)
    assert code == 0
    assert "fused_add_relu" in out
    assert "Inside the model:" in out
    assert f"records in {records}; the same command goes on from them" in out
    assert Path(records).exists()
    folder, saved = tmp_path / "report", tmp_path / "tuned.burnish"
    kept = ("--report", str(folder), "-o", str(saved))
    code, out, _ = run(capsys, "tune", tiny, "--trials", "1", "--database", records, "-q", *kept)
    assert code == 0
    assert out.splitlines()[-1] == f"wrote {saved}"
    assert run(capsys, "run", str(saved))[0] == 0
    first, *files = out.splitlines()
    assert first.endswith(("in use", "present ones"))
    assert files[0] == f"wrote {folder / 'report.txt'}"
    assert (folder / "time_over_trials.svg").read_text().startswith("<svg")


def test_tune_looks_first_where_its_results_are_to_go(
    tiny: str, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def tune(model: CompiledModel, **options: object) -> TuneResult:
        pytest.fail("it searches")

    monkeypatch.setattr(CompiledModel, "tune", tune)
    arguments = ("tune", tiny, "--trials", "1", "-q", "--database", str(tmp_path / "r.db"))
    for option, place, said in (
        ("-o", tmp_path / "none" / "t.burnish", "nothing can be written into"),
        ("-o", tmp_path, "is a folder"),
        ("--report", Path(tiny) / "report", "nothing can be written into"),
    ):
        code, _, err = run(capsys, *arguments, option, str(place))
        assert code == 2
        assert said in err


def test_tune_prints_what_it_found_before_it_is_saved(
    tiny: str, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def save_nothing(model: CompiledModel, path: str) -> None:
        raise ArtifactError("the disk is full")

    monkeypatch.setattr(CompiledModel, "tune", lambda model, **options: TuneResult())
    monkeypatch.setattr(CompiledModel, "save", save_nothing)
    records = str(tmp_path / "r.db")
    arguments = ("tune", tiny, "--trials", "1", "--database", records)
    code, out, err = run(capsys, *arguments, "-o", str(tmp_path / "t.burnish"))
    assert code == 2
    assert "the disk is full" in err
    assert f"records in {records}" in out


def test_tune_passes_on_the_address_of_a_cluster(
    tiny: str, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[object] = []

    def tune(model: CompiledModel, **options: object) -> TuneResult:
        asked.append(options["cluster"])
        return TuneResult()

    monkeypatch.setattr(CompiledModel, "tune", tune)
    arguments = ("tune", tiny, "--trials", "1", "-q", "--database", str(tmp_path / "r.db"))
    assert run(capsys, *arguments)[0] == 0
    assert run(capsys, *arguments, "--cluster", "tcp://host:8786")[0] == 0
    assert asked == [None, "tcp://host:8786"]


def test_a_cluster_that_does_not_answer_is_named(
    tiny: str, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("distributed")
    monkeypatch.setattr(remote, "CONNECT_SECONDS", 0.5)
    arguments = ("tune", tiny, "--trials", "1", "-q", "--database", str(tmp_path / "r.db"))
    code, _, err = run(capsys, *arguments, "--cluster", "tcp://127.0.0.1:1")
    assert code == 2
    assert "No dask scheduler answers at 'tcp://127.0.0.1:1'" in err


@pytest.mark.tuning
def test_an_interrupted_tune_ends_in_order_and_goes_on_later(tmp_path: Path) -> None:
    tiny = str(save(tmp_path / "larger.onnx", [64, 3], op="Softmax"))
    records = tmp_path / "records.db"
    command = [sys.executable, "-m", "burnish", "tune", tiny, "--database", str(records), "-v"]
    process = subprocess.Popen(
        [*command, "--minutes", "5"], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )
    assert process.stderr is not None
    for line in process.stderr:
        if "trials, best" in line:
            break
    process.send_signal(signal.SIGINT)
    out, err = process.communicate(timeout=120)
    assert process.returncode == 0, err
    assert "interrupted" in out.splitlines()[0]
    assert "Inside the model:" in out
    with TuningDatabase(records, must_exist=True) as database:
        before = [r.candidate for r in database.records()]
    assert before
    again = subprocess.run([*command, "--trials", "2"], capture_output=True, text=True, check=False)
    assert again.returncode == 0, again.stderr
    with TuningDatabase(records) as database:
        after = [r.candidate for r in database.records()]
    assert set(before) <= set(after)
    assert len(after) == len(set(after)) > len(before)


# -- errors ---------------------------------------------------------------------------------------
def test_errors_exit_with_2_and_say_their_class(
    tmp_path: Path, tiny: str, capsys: pytest.CaptureFixture[str]
) -> None:
    nothing = str(tmp_path / "nothing.onnx")
    for arguments, message in (
        (("compile", nothing), "burnish: FrontendError: "),
        (("compile", tiny, "--target", "cuda"), "burnish: TargetError: "),
        (("compile", tiny, "--precision", "x"), "burnish: ArgumentError: --precision: expected"),
        (("run", tiny, "--input", nothing), "cannot be read: No such file"),
        (("run", tiny, "--input", tiny), "cannot be read as .npy"),
        (("tune", tiny, "--trials", "1", "--database", str(tmp_path)), "burnish: TuningError: "),
        (("demo", "--data", str(tmp_path)), "burnish: DataError: "),
    ):
        code, out, err = run(capsys, *arguments)
        assert (code, out) == (2, "")
        assert message in err
        assert "Traceback" not in err


def test_an_input_of_a_wrong_shape(
    tiny: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    np.save(tmp_path / "x.npy", np.zeros((3, 3), np.float32))
    code, _, err = run(capsys, "run", tiny, "--input", str(tmp_path / "x.npy"))
    assert code == 2
    assert "ShapeMismatchError" in err
    assert "(2, 3)" in err


def test_unsupported_operators_are_listed(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = str(save(tmp_path / "random.onnx", [3, 3], op="RandomNormalLike"))
    code, _, err = run(capsys, "compile", path)
    assert code == 2
    assert "UnsupportedOpError" in err
    assert "RandomNormalLike (x1)" in err


def test_a_reader_may_go_away(tiny: str) -> None:
    """``burnish show model | head -1``."""
    command = f"{sys.executable} -m burnish show {tiny} --stage 40-scheduled | head -1"
    result = subprocess.run(command, shell=True, capture_output=True, text=True, check=True)
    assert result.stdout.startswith("#")
    assert result.stderr == ""


def test_models_that_are_compiled_with_their_inputs_say_so(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Which axis is summed is a value of an input: there is no program before there are inputs."""
    made = onnx.parser.parse_model(
        '<ir_version: 8, opset_import: ["" : 17]>'
        "g (float[n, 3] x, int64[1] axes) => (float[] y) { y = ReduceSum (x, axes) }"
    )
    path = str(tmp_path / "sum.onnx")
    onnx.save(made, path)
    for command in ("run", "bench"):
        code, _, err = run(capsys, command, path, "--sizes", "n=2")
        assert code == 2
        assert "pass them: --input FILE.npy for each, in their order" in err
    for command in ("show", "compile"):
        code, _, err = run(capsys, command, path)
        assert code == 2
        assert "burnish run, profile and verify take them as --input FILE" in err
    np.save(tmp_path / "x.npy", np.ones((2, 3), np.float32))
    np.save(tmp_path / "axes.npy", np.array([1]))
    files = ("--input", str(tmp_path / "x.npy"), "--input", str(tmp_path / "axes.npy"))
    code, out, _ = run(capsys, "run", path, *files)
    assert (code, out.splitlines()[0]) == (0, "output 0: float32 (2, 1)")
