"""Object code: emitted once, shared, described for each who asks."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import burnish
from burnish import errors
from burnish.driver import kernels
from burnish.driver.emit import Emitted
from burnish.driver.kernels import _Cache, compile_kernels, resolve_target
from burnish.driver.report import CompileReport
from burnish.support.dump import Dump
from burnish.support.target import Target
from burnish.tensorir.function import PrimFunc
from burnish.tests.driver.programs import add_one

NATIVE = resolve_target("native")
SYMBOLIC = """
@T.prim_func
def {f}(a: T.handle, b: T.handle):
    {n} = T.int64()
    {x} = T.match_buffer(a, ({n}, 3), "float32")
    {y} = T.match_buffer(b, ({n} * 3,), "float32")
    t = T.alloc_buffer(({n}, 3), "float32")
    for i, j in T.grid({n}, 3):
        with T.block("t"):
            vi, vj = T.axis.remap("SS", [i, j])
            t[vi, vj] = {x}[vi, vj] * T.float32(3)
    for i, j in T.grid({n}, 3):
        with T.block("y"):
            vi, vj = T.axis.remap("SS", [i, j])
            {y}[vi * 3 + vj] = t[vi, 2 - vj]
"""


@pytest.fixture(autouse=True)
def own_cache(monkeypatch: pytest.MonkeyPatch) -> None:
    """No test sees what others emitted."""
    monkeypatch.setattr(kernels, "_cache", _Cache(8))


def symbolic(**names: str) -> PrimFunc:
    func = burnish.parse(SYMBOLIC.format(**names))[names["f"]]
    assert isinstance(func, PrimFunc)
    return func


def compiled(*functions: PrimFunc, dump: Dump | None = None) -> tuple[object, CompileReport]:
    report = CompileReport()
    named = [(f.name, f) for f in functions]
    return compile_kernels(named, NATIVE, report, dump or Dump(None)), report


def test_equal_functions_share_one_object() -> None:
    found, report = compiled(add_one("f"), add_one("g"), add_one("h", 9))
    assert report.compilations == 2
    assert isinstance(found, dict)
    assert found["f"].image is found["g"].image
    assert found["f"].image is not found["h"].image
    assert found["g"].kernel.name == "g"
    assert found["g"].kernel.symbol == found["f"].kernel.symbol
    assert compiled(add_one("k"))[1].compilations == 0


def test_every_function_keeps_the_names_of_its_own() -> None:
    """Also where its code was emitted for another: errors speak of the caller's names."""
    first = symbolic(f="first", n="n", x="A", y="B")
    second = symbolic(f="second", n="rows", x="image", y="result")
    found, report = compiled(first, second)
    assert report.compilations == 1
    assert isinstance(found, dict)
    kernel = found["second"].kernel
    assert kernel.dims == ("rows",)
    assert [p.name for p in kernel.params] == ["image", "result"]
    assert "rows" in kernel.shared_bytes
    assert "n" in found["first"].kernel.dims
    lib = burnish.build(burnish.IRModule({"first": first, "second": second}))
    x, y = np.arange(12, dtype=np.float32).reshape(4, 3), np.zeros(12, np.float32)
    lib["second"](x, y)
    np.testing.assert_array_equal(y.reshape(4, 3), x[:, ::-1] * 3)
    with pytest.raises(errors.ShapeMismatchError, match=r"'result'.*rows \* 3.*rows = 4"):
        lib["second"](x, np.zeros(11, np.float32))


def test_a_dump_is_complete_also_where_all_is_known(tmp_path: Path) -> None:
    compiled(add_one())
    for name in ("one", "two"):
        _, report = compiled(add_one(), dump=Dump(tmp_path / name))
        assert report.compilations == 1
        assert "define" in (tmp_path / name / "60-llvm" / "add_one.ll").read_text()
        assert (tmp_path / name / "50-lowered" / "add_one.py").exists()
    _, report = compiled(add_one("a"), add_one("b"), dump=Dump(tmp_path / "three"))
    assert report.compilations == 1


def test_the_cache_drops_the_oldest() -> None:
    cache = _Cache(2)
    for name in ("a", "b", "c"):
        cache.put((name,), Emitted(name, b""))
    assert cache.get(("a",)) is None
    assert cache.get(("c",)) == Emitted("c", b"")


def test_another_target_is_another_object() -> None:
    compiled(add_one())
    report = CompileReport()
    other = resolve_target("llvm -mcpu=x86-64")
    compile_kernels([("f", add_one())], other, report, Dump(None))
    assert report.compilations == 1


def test_targets_are_resolved() -> None:
    assert resolve_target("native").is_resolved
    assert resolve_target("native -threads=1").threads == 1
    given = Target("llvm -mcpu=haswell", cores=2)
    assert resolve_target(given) is given
    with pytest.raises(errors.TargetError):
        resolve_target("cuda")


def test_a_target_is_a_text_or_a_target() -> None:
    with pytest.raises(errors.TargetError, match="found NoneType"):
        resolve_target(None)  # type: ignore[arg-type]
