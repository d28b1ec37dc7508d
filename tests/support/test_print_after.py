"""The names that BURNISH_PRINT_AFTER may have."""

from __future__ import annotations

import pytest

from burnish.support.errors import ConfigError
from burnish.support.print_after import printed_passes, printed_stages

PASSES = ("fuse-ops", "import")
STAGES = ("00-import", "30-fused", "60-llvm")


@pytest.mark.parametrize(
    ("asked", "passes", "stages"),
    [
        ("", (), ()),
        ("fuse-ops", ("fuse-ops",), ()),
        ("30-fused", (), ("30-fused",)),
        ("fused", (), ("30-fused",)),
        ("60, fuse-ops,fused", ("fuse-ops",), ("30-fused", "60-llvm")),
        ("import", ("import",), ()),
        ("00-import", (), ("00-import",)),
        ("all", ("all",), ()),
    ],
)
def test_passes_and_stages(
    asked: str, passes: tuple[str, ...], stages: tuple[str, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("BURNISH_PRINT_AFTER", asked)
    assert printed_passes(PASSES, STAGES) == passes
    assert printed_stages(PASSES, STAGES) == stages


@pytest.mark.parametrize(
    ("asked", "meant"), [("fuse-op", "fuse-ops"), ("fusd", "fused"), ("30-fuse", "30-fused")]
)
def test_other_names_are_errors(asked: str, meant: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("BURNISH_PRINT_AFTER", f"fuse-ops,{asked}")
    for ask in (printed_passes, printed_stages):
        with pytest.raises(ConfigError) as caught:
            ask(PASSES, STAGES)
        assert str(caught.value) == (
            "BURNISH_PRINT_AFTER expects all, or names of passes: fuse-ops, import; or of stages: "
            f"00-import, 30-fused, 60-llvm; found {asked!r}. Did you mean {meant!r}?"
        )
