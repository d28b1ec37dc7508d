"""Imports may only point down the table of docs/architecture.md.

The table here is the enforced form of it. Imports are read with ``ast``, so a file is checked
without being run, inside functions and under TYPE_CHECKING too.
"""

from __future__ import annotations

import ast
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
ROOMS = ("driver", "faces", "frontend", "models", "graphir", "tuner", "tensorir", "vm", "support")
VM_OF_KERNELS = tuple(
    [f"vm.{name}" for name in ("binding", "native", "parallel", "program", "tensor", "timing")]
)
"""What single kernels are loaded, called and timed with."""

MAY_IMPORT: dict[str, tuple[str, ...]] = {
    "faces": ("faces", "driver", "graphir", "tuner", "tensorir", "support"),
    "driver": tuple(room for room in ROOMS if room != "faces"),
    "frontend": ("frontend", "graphir", "tensorir", "support"),
    "models": ("models", "support"),
    "graphir": ("graphir", "tensorir", "support", "vm.program", "vm.assembler"),
    "tuner": ("tuner", "tensorir", "support", *VM_OF_KERNELS),
    "tensorir": ("tensorir", "support"),
    "vm": ("vm", "support"),
    "support": ("support",),
    "__main__.py": ("driver",),
    "__init__.py": (
        *ROOMS,
        "graph",
        "patterns",
        "script",
        "te",
    ),  # for type checkers: see test_public_face
    "auto_scheduler.py": ("faces",),
    "autotvm.py": ("faces",),
    "graph.py": ("graphir", "support"),
    "patterns.py": ("graphir",),
    "script.py": ("graphir", "tensorir", "support"),
    "te.py": ("tensorir", "support", "driver"),
}
"""Room (or module at the root) to the rooms and modules of burnish that it may import."""

MAY_IMPORT_PACKAGE: dict[str, tuple[str, ...]] = {
    "torch": ("frontend/torch/", "models/"),
    "torchvision": ("models/",),
    "onnx": ("frontend/onnx/",),
    "llvmlite": ("tensorir/codegen/", "vm/llvm_linker.py", "support/host.py"),
    "xgboost": ("tuner/",),
    "networkx": ("graphir/", "tensorir/"),
    "rich": ("driver/",),
    "starlette": ("driver/serving/app.py",),
    "uvicorn": ("driver/serve_commands.py",),
    "pygments": ("driver/", "support/display.py"),
}
"""Package to the places that may import it. driver may import torch and onnx inside functions."""

ONLY_FROM: dict[str, tuple[str, ...]] = {
    "tensorir.stages": ("tensorir/stages/", "driver/", "te.py"),
    "tensorir.schedule.by_hand": (
        "tensorir/schedule/by_hand/",
        "tensorir/schedule/by_hand_methods.py",
    ),
    "tensorir.schedule": (
        "tensorir/schedule/",
        "tensorir/stages/",
        "tuner/",
        "driver/",
        "faces/",
        "graphir/",
        "__init__.py",
    ),
    "tuner.measuring": (
        "tuner/measuring/",
        "tuner/search/",
        "tuner/best_record.py",
        "tuner/progress.py",
        "tuner/session.py",
        "driver/",
    ),
    "tuner.search": ("tuner/search/", "tuner/session.py", "driver/", "faces/"),
}
"""What serves older faces and schedules written by hand is no part of the core, what is known of
blocks stands below schedules, rules and records below measuring, and that below searches: who may
import each of these rooms."""

VM_FORBIDDEN = (
    "torch",
    "onnx",
    "networkx",
    "burnish.tensorir",
    "burnish.graphir",
    "burnish.driver",
)


def source_files() -> list[Path]:
    """The package's own files, without tests, benchmarks and examples."""
    files = [p for p in ROOT.glob("*.py") if p.name != "setup.py"]
    for room in ROOMS:
        files += (ROOT / room).rglob("*.py")
    return sorted(files)


def place(path: Path) -> str:
    return path.relative_to(ROOT).as_posix()


def imports(path: Path) -> Iterator[tuple[int, str, bool]]:
    """(line, absolute dotted module, whether at module level) of every import in a file."""
    package = ["burnish", *path.relative_to(ROOT).parent.parts]
    tree = ast.parse(path.read_text(encoding="utf-8"), str(path))
    inner = {
        id(n)
        for f in ast.walk(tree)
        if isinstance(f, (ast.FunctionDef, ast.AsyncFunctionDef))
        for n in ast.walk(f)
    }
    for n in ast.walk(tree):
        if isinstance(n, ast.Import):
            for alias in n.names:
                yield n.lineno, alias.name, id(n) not in inner
        elif isinstance(n, ast.ImportFrom):
            base = package[: len(package) - n.level + 1] if n.level else []
            module = ".".join([*base, *([n.module] if n.module else [])])
            for alias in n.names:
                yield n.lineno, f"{module}.{alias.name}", id(n) not in inner


def room_of(path: Path) -> str:
    return path.relative_to(ROOT).parts[0]


def forbidden_rooms(path: Path) -> list[str]:
    """The imports of burnish's own modules that point up or across."""
    allowed = MAY_IMPORT[room_of(path)]
    found = []
    for line, module, _ in imports(path):
        if not module.startswith("burnish."):
            continue
        target = module.removeprefix("burnish.")
        if target.split(".")[0] not in (*ROOMS, "script", "te"):
            continue
        if not any(target == a or target.startswith(f"{a}.") for a in allowed):
            found.append(f"{place(path)}:{line} imports {module}")
    return found


def forbidden_packages(path: Path) -> list[str]:
    """The imports of packages that only some places may import."""
    found = []
    for line, module, at_top in imports(path):
        package = module.split(".")[0]
        allowed = MAY_IMPORT_PACKAGE.get(package)
        if allowed is None or place(path).startswith(allowed):
            continue
        if room_of(path) == "driver" and package != "llvmlite" and not at_top:
            continue
        found.append(f"{place(path)}:{line} imports {module}")
    return found


def test_every_room_has_a_row() -> None:
    folders = {p.name for p in ROOT.iterdir() if (p / "__init__.py").exists()}
    assert folders - {"tests", "benchmarks", "examples"} == set(ROOMS)
    assert {p.name for p in ROOT.glob("*.py")} <= set(MAY_IMPORT)


@pytest.mark.parametrize("room", MAY_IMPORT)
def test_imports_point_down(room: str) -> None:
    found = [x for p in source_files() if room_of(p) == room for x in forbidden_rooms(p)]
    if found:
        pytest.fail("\n".join(found), pytrace=False)


def test_packages_are_imported_only_where_they_belong() -> None:
    found = [x for p in source_files() for x in forbidden_packages(p)]
    if found:
        pytest.fail("\n".join(found), pytrace=False)


def test_the_core_does_without_older_faces_and_schedules_by_hand() -> None:
    found = [
        f"{place(p)}:{line} imports {module}"
        for p in source_files()
        for line, module, _ in imports(p)
        for room, allowed in ONLY_FROM.items()
        if module.startswith(f"burnish.{room}.") and not place(p).startswith(allowed)
    ]
    assert found == []


def test_vm_uses_only_the_binding_of_llvmlite() -> None:
    places = (ROOT / "vm" / "llvm_linker.py", ROOT / "support" / "host.py")
    used = [m for p in places for _, m, _ in imports(p) if m.startswith("llvmlite")]
    assert [m for m in used if not m.startswith("llvmlite.binding")] == []


def test_inside_the_package_imports_are_relative() -> None:
    absolute = [
        f"{place(p)}:{n.lineno}"
        for p in source_files()
        for n in ast.walk(ast.parse(p.read_text(encoding="utf-8")))
        if (
            isinstance(n, ast.ImportFrom)
            and not n.level
            and (n.module or "").split(".")[0] == "burnish"
        )
        or (isinstance(n, ast.Import) and any(a.name.split(".")[0] == "burnish" for a in n.names))
    ]
    assert absolute == []


def test_the_vm_imports_without_the_compiler() -> None:
    modules = [
        "burnish." + place(p).removesuffix(".py").replace("/", ".")
        for p in (ROOT / "vm").glob("*.py")
        if p.name != "__init__.py"
    ]
    program = (
        "import importlib, sys\n"
        f"for name in {sorted(modules)!r}: importlib.import_module(name)\n"
        "print('\\n'.join(sys.modules))"
    )
    result = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=False
    )
    assert result.returncode == 0, result.stderr
    loaded = result.stdout.split()
    assert "burnish.vm.program" in loaded
    bad = [m for m in loaded if any(m == f or m.startswith(f"{f}.") for f in VM_FORBIDDEN)]
    assert bad == []


def test_compiling_imports_nothing_of_older_faces_and_schedules_by_hand() -> None:
    program = (
        "import sys, burnish\n"
        "assert [m for m in sys.modules if m.startswith('burnish.')] == []\n"
        "import torch\n"
        "model = burnish.compile(torch.nn.Linear(4, 3), (torch.rand(2, 4),))\n"
        "assert model(torch.rand(2, 4)).shape == (2, 3)\n"
        "print('\\n'.join(sys.modules))"
    )
    result = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=False
    )
    assert result.returncode == 0, result.stderr
    loaded = [m.removeprefix("burnish.") for m in result.stdout.split()]
    assert "tensorir.schedule.schedule" in loaded
    older = ("faces", "tensorir.stages", "tensorir.schedule.by_hand.", "te", "frontend.onnx")
    room = tuple([o if o.endswith(".") else f"{o}." for o in older])
    assert [m for m in loaded if m in older or m.startswith(room)] == []


def test_a_wrong_import_is_found(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(globals(), "ROOT", tmp_path)
    (tmp_path / "tensorir" / "arith").mkdir(parents=True)
    path = tmp_path / "tensorir" / "arith" / "bad.py"
    path.write_text("from ...vm import native\nfrom ... import graphir\nimport torch\n")
    assert forbidden_rooms(path) == [
        "tensorir/arith/bad.py:1 imports burnish.vm.native",
        "tensorir/arith/bad.py:2 imports burnish.graphir",
    ]
    assert forbidden_packages(path) == ["tensorir/arith/bad.py:3 imports torch"]
