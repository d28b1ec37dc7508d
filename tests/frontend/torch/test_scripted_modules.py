"""Modules of TorchScript inside of others: scripted, traced and frozen, with any sizes."""

from __future__ import annotations

import io
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn

import burnish
from burnish.frontend.torch import import_module
from burnish.frontend.torch.export import export_module
from burnish.frontend.torch.registry import location
from burnish.frontend.torch.scripted_modules import scripts_alone
from burnish.support.errors import FrontendError
from burnish.tests.frontend.torch.oracle import compare, evaluate

pytestmark = pytest.mark.filterwarnings(
    "ignore::DeprecationWarning", "ignore::torch.jit.TracerWarning"
)
X = torch.linspace(-1, 1, 18).reshape(3, 6)
OTHERS = [(torch.linspace(-2, 1, 6 * n).reshape(n, 6),) for n in (1, 2, 7)]


class Holds(nn.Module):
    def __init__(self, part: Any) -> None:
        super().__init__()
        self.part = part
        self.head = nn.Linear(5, 2)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y: torch.Tensor = self.head(self.part(x))
        return y


class Looks(nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        for i in range(x.shape[0]):
            x = x + i
        return x


def agrees(module: nn.Module, dynamic_shapes: Any = None) -> None:
    imported = import_module(module, (X,), dynamic_shapes)
    for (x,) in ((X,), *(OTHERS if dynamic_shapes else ())):
        (found,) = evaluate(imported, x)
        assert not compare("module", found, module(x).detach())


def layers(*more: nn.Module) -> nn.Module:
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(6, 4), nn.BatchNorm1d(4), nn.GELU(), *more, nn.Linear(4, 5))


@pytest.mark.parametrize("made", ["scripted", "traced", "frozen"])
def test_parts_that_are_torchscript(made: str) -> None:
    plain = layers().eval()
    script = torch.jit.trace(plain, X) if made == "traced" else torch.jit.script(plain)
    module = Holds(torch.jit.freeze(script) if made == "frozen" else script).eval()
    part = module.part
    agrees(module, ({0: "n"},))
    assert module.part is part


def test_scripts_that_loop_over_a_size_keep_it() -> None:
    whole = torch.jit.script(layers(Looks()).eval())
    for module in (Holds(whole), whole):
        agrees(module)
        with pytest.raises(FrontendError, match=r"specialized it to be a constant") as caught:
            burnish.compile(module, (X,), dynamic_shapes=({0: "n"},))
        said = str(caught.value)
        assert "compile the Python module that it was made of, or leave the dim out" in said
        assert "/driver/" not in said
        assert "/frontend/torch/" not in said.replace("/tests/frontend/torch/", "")


def test_lines_of_scripts_are_no_lines_of_this_front_end() -> None:
    whole = torch.jit.script(layers().eval())
    gelu = torch.ops.aten.gelu.default
    for module, said in ((Holds(whole).eval(), "self.head(self.part(x))"), (whole, "node 'gelu'")):
        program, _ = export_module(module, (X,))
        (node,) = program.graph.find_nodes(op="call_function", target=gelu)
        assert said in location(node)


def test_parts_stand_again_where_they_stood() -> None:
    module = nn.Sequential(torch.jit.script(layers()), nn.ReLU())
    parts = list(module)
    with scripts_alone(module):
        assert module[0] is not parts[0]
        assert module[0].state_dict().keys() == parts[0].state_dict().keys()
    assert all(a is b for a, b in zip(module, parts, strict=True))


class Shares(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.layer = nn.Linear(6, 4)
        self.register_buffer("seen", torch.zeros(()))

    def forward(
        self, x: torch.Tensor, mask: torch.Tensor | None = None, scale: float = 2.0
    ) -> dict[str, torch.Tensor]:
        self.seen.add_(1)
        y = self.layer(x) * scale
        if mask is not None:
            y = y * mask
        return {"y": y, "seen": self.seen.clone()}


def test_whole_models_that_are_torchscript(tmp_path: Path) -> None:
    file = tmp_path / "model.pt"
    torch.jit.script(Shares().eval()).save(file)
    module = torch.jit.load(file)
    mask = torch.tensor([1.0, 0.0, 1.0])[:, None]
    shapes = {"x": {0: "n"}, "mask": {0: "n"}}
    model = burnish.compile(module, (X,), example_kwargs={"mask": mask}, dynamic_shapes=shapes)
    assert [name for name, _, _ in model.inputs] == ["x", "mask"]
    for seen, n in enumerate((3, 1, 5)):
        x, mask = torch.rand(n, 6), torch.rand(n, 1)
        found = model(x, mask=mask)
        assert found["seen"] == seen + 1 == module.seen
        torch.testing.assert_close(found["y"], module(x, mask)["y"])
        module.seen.sub_(1)


def test_whole_models_that_are_traced_or_frozen() -> None:
    plain = layers().eval()
    for module in (torch.jit.trace(plain, X), torch.jit.freeze(torch.jit.script(plain))):
        model = burnish.compile(module, (X,), dynamic_shapes=({0: "n"},))
        assert model.inputs
        torch.testing.assert_close(model(X[:2]), plain(X[:2]))


def test_what_a_script_cannot_be_exported_for_is_told() -> None:
    class Branches(nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return x if bool(x.sum() > 0) else -x

    with pytest.raises(FrontendError, match="Branches does not export") as caught:
        burnish.compile(torch.jit.script(Branches()), (X,))
    assert "torch.where" in str(caught.value)


class Writes(nn.Module):
    """Writes what a script can write and no buffer is."""

    def __init__(self) -> None:
        super().__init__()
        self.layer = nn.Linear(6, 5)
        self.last = torch.zeros(1)
        self.count = 1
        self.seen = [1]

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        self.last = x
        self.count += 1
        self.seen.append(2)
        y: torch.Tensor = self.layer(x) * self.count
        return y


def loaded(script: Any) -> Any:
    file = io.BytesIO()
    torch.jit.save(script, file)
    file.seek(0)
    return torch.jit.load(file)


@pytest.mark.parametrize("made", ["held", "whole", "loaded", "loaded and held"])
def test_scripts_are_left_as_they_were(made: str) -> None:
    script: Any = torch.jit.script(Writes().eval())
    script = loaded(script) if "loaded" in made else script
    module = Holds(script).eval() if "held" in made else script
    last, weights = script.last, list(module.parameters())
    kinds = [type(p) for p in weights]
    model = burnish.compile(module, (X,), dynamic_shapes=({0: "n"},))
    assert script.last is last
    assert (script.count, script.seen, script.training) == (1, [1], False)
    assert all(a is b for a, b in zip(module.parameters(), weights, strict=True))
    assert [type(p) for p in module.parameters()] == kinds
    expected = module(X)
    torch.testing.assert_close(model(X), expected)
    torch.testing.assert_close(model(X), expected)
    prefix = "part." if "held" in made else ""
    assert f"{prefix}last" in str(model.report)
    assert f"{prefix}count" in str(model.report)


def test_attributes_that_python_has_given_a_part_are_there() -> None:
    class Reads(Holds):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            y: torch.Tensor = self.part(x) * self.part.extra
            return y

    module = Reads(torch.jit.script(layers())).eval()
    module.part.extra = 5
    agrees(module)


@pytest.mark.parametrize("made", ["scripted", "traced", "loaded", "traced and loaded"])
@pytest.mark.parametrize("kind", [nn.BatchNorm1d(6), nn.Dropout(0.5), nn.AlphaDropout(0.5)])
def test_scripts_in_training_mode_are_refused(made: str, kind: nn.Module) -> None:
    plain = nn.Sequential(nn.Linear(6, 6), kind).train()
    script: Any = torch.jit.script(plain)
    if "traced" in made:
        script = torch.jit.trace(plain, X, check_trace=False)
    script = loaded(script) if "loaded" in made else script
    said = rf"1 \({type(kind).__name__}\) is in training mode"
    with pytest.raises(FrontendError, match=f"^{said}"):
        burnish.compile(script, (X,))
    with pytest.raises(FrontendError, match=rf"^0\.{said}"):
        burnish.compile(nn.Sequential(script), (X,))


@pytest.mark.parametrize("made", ["scripted", "traced"])
def test_training_that_changes_nothing_is_none(made: str) -> None:
    plain = nn.Sequential(nn.Dropout(0.0), nn.InstanceNorm1d(6)).train()
    x = X.reshape(1, 3, 6).mT
    script = torch.jit.trace(plain, x) if made == "traced" else torch.jit.script(plain)
    (found,) = evaluate(import_module(script, (x,)), x)
    assert not compare("module", found, plain(x))


def test_a_script_without_forward_tells_its_methods() -> None:
    class Encodes(nn.Module):
        @torch.jit.export
        def encode(self, x: torch.Tensor) -> torch.Tensor:
            return x + 1

    with pytest.raises(FrontendError, match=r"Encodes has no forward\(\).*are: encode\. Call one"):
        burnish.compile(torch.jit.script(Encodes()), (X,))


class Counts(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("seen", torch.zeros(()))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        self.seen = self.seen + 1
        return x * self.seen


def test_buffers_that_scripts_set_are_kept_up() -> None:
    whole = torch.jit.script(Counts().eval())
    for module in (whole, loaded(whole), nn.Sequential(torch.jit.script(Counts().eval()))):
        (seen,) = module.buffers()
        model = burnish.compile(module, (X,), dynamic_shapes=({0: "n"},))
        (after,) = module.buffers()
        assert after is seen
        assert seen == 0
        for count in (1, 2, 3):
            torch.testing.assert_close(model(X), X * count)
        assert "the script writes" not in str(model.report)


def test_buffers_of_other_shapes_are_refused() -> None:
    class Grows(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.register_buffer("seen", torch.zeros(1))

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            self.seen = torch.cat([self.seen, x[0]])
            return x

    with pytest.raises(FrontendError, match=r"Grows sets its buffer seen from .*\[1\] to .*\[7\]"):
        burnish.compile(torch.jit.script(Grows().eval()), (X,))
