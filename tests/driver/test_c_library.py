"""The texts of a C library: names, tables and refusals. That they compile and run is in
``test_export_library``."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from torch import nn

import burnish
from burnish.driver import export_library
from burnish.support.errors import CodegenError


def test_fixed_sizes_are_in_the_tables(tmp_path: Path) -> None:
    model = burnish.compile(nn.Linear(3, 2), (torch.ones(4, 3),))
    model.export_library(tmp_path, name="net")
    source, header = (tmp_path / "net.c").read_text(), (tmp_path / "net.h").read_text()
    assert '{"input", "float32", 2, input_shape0, 48},' in source
    assert '{"output_0", "float32", 2, output_shape0, 32},' in source
    assert (
        "void net_run(net_model *model, const void *const *inputs, void *const *outputs);" in header
    )
    assert "dims" not in header


def test_named_sizes_are_arguments(tmp_path: Path) -> None:
    model = burnish.compile(nn.Linear(3, 2), (torch.ones(4, 3),), dynamic_shapes=({0: "rows"},))
    model.export_library(tmp_path)
    source, header = (tmp_path / "model.c").read_text(), (tmp_path / "model.h").read_text()
    assert "in the order that dims has their values in: rows." in header
    assert "static const int64_t input_shape0[] = {-1, 3};" in source
    assert 'if (d[0] < 0) return "rows is negative";' in source


def test_a_system_without_a_pool(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(target: object) -> bytes:
        raise CodegenError("no threads")

    monkeypatch.setattr(export_library, "emit_thread_pool", refuse)
    model = burnish.compile(nn.Linear(3, 2), (torch.ones(4, 3),))
    assert "pool.o" not in model.export_library(tmp_path).files
    for file in ("model.h", "model.c", "example.c"):
        assert "set_threads" not in (tmp_path / file).read_text()
