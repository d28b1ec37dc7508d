"""Passes of one's own among the compiler's: where they stand, and that they run there."""

from __future__ import annotations

import numpy as np
import pytest

import burnish
from burnish import graph
from burnish.graphir.module import IRModule
from burnish.graphir.passes.pass_list import PassList, as_pass_list
from burnish.graphir.passes.pipeline import stages
from burnish.graphir.text.parser import parse_module
from burnish.patterns import is_op, rewrite_call, wildcard
from burnish.support.errors import ConfigError
from burnish.support.passes import Pass, PassContext, Pipeline

MODULE = parse_module("""
@I.ir_module
class Module:
    @R.function
    def main(x: R.Tensor((2, 8))):
        with R.dataflow():
            y = R.relu(x)
            R.output(y)
        return y
""")


@burnish.module_pass(name="relu-to-sigmoid")
def to_sigmoid(mod: IRModule, ctx: PassContext) -> IRModule:
    x = wildcard()
    return rewrite_call(is_op("relu")(x), lambda value, m: graph.op("sigmoid", m[x]), mod)


def order(passes: PassList, stage: str) -> list[str]:
    made = passes.apply(stages("default"))
    return [p.name for p in made[stage]]


def test_places() -> None:
    names = order(PassList(), "10-canonical")
    first = PassList().insert_after("canonicalize", to_sigmoid)
    assert order(first, "10-canonical") == [names[0], "relu-to-sigmoid", *names[1:]]
    last = PassList().insert_before("canonicalize", to_sigmoid, last=True)
    at = len(names) - 1 - names[::-1].index("canonicalize")
    assert order(last, "10-canonical").index("relu-to-sigmoid") == at
    ends = PassList().insert_before("30-fused", to_sigmoid).insert_after("30-fused", to_sigmoid)
    fused = order(ends, "30-fused")
    assert fused[0] == fused[-1] == "relu-to-sigmoid"
    assert [p.name for p in ends.inserted] == ["relu-to-sigmoid"] * 2
    assert repr(ends) == "<passes of burnish, 2 inserted>"
    chained = first.insert_after("relu-to-sigmoid", Pass())
    assert order(chained, "10-canonical")[1:3] == ["relu-to-sigmoid", "pass"]


def test_what_passes_takes() -> None:
    assert as_pass_list(None) == PassList()
    for given in (to_sigmoid, [to_sigmoid], Pipeline([to_sigmoid])):
        names = order(as_pass_list(given), "10-canonical")
        assert names[names.index("relu-to-sigmoid") + 1] == "fold-scale"
    known = PassList().insert_after("legalize-ops", to_sigmoid)
    assert as_pass_list(known) is known


def test_errors() -> None:
    with pytest.raises(ConfigError, match=r"no pass 'fold-scales' to insert at; .* 'fold-scale'\?"):
        PassList().insert_after("fold-scales", to_sigmoid)
    with pytest.raises(ConfigError, match="insert at least one pass"):
        PassList().insert_after("fold-scale")
    with pytest.raises(ConfigError, match="A pipeline holds passes"):
        as_pass_list([len])
    with pytest.raises(ConfigError, match="passes takes a pass, a list of passes"):
        as_pass_list("relu-to-sigmoid")


def test_they_run_in_a_compilation_and_are_printed(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("BURNISH_PRINT_AFTER", "relu-to-sigmoid")
    x = np.linspace(-1, 1, 16, dtype=np.float32).reshape(2, 8)
    expected = 1 / (1 + np.exp(-x))
    model = burnish.compile(MODULE, passes=[to_sigmoid])
    np.testing.assert_allclose(model(x), expected, rtol=1e-5)
    assert "# -- after relu-to-sigmoid" in capsys.readouterr().err
    built = burnish.build(MODULE, passes=to_sigmoid)
    np.testing.assert_allclose(
        burnish.VirtualMachine(built)["main"](x).numpy(), expected, rtol=1e-5
    )


def test_a_saved_model_has_them_for_every_cpu(tmp_path: object) -> None:
    model = burnish.compile(MODULE, passes=[to_sigmoid])
    path = f"{tmp_path}/m.burnish"
    model.save(path, targets=["x86-64-v3", "native"])
    x = np.ones((2, 8), np.float32)
    np.testing.assert_allclose(burnish.load(path)(x), 1 / (1 + np.exp(-x)), rtol=1e-5)
