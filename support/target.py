"""Target: which CPU to compile for. Data only; ``support.host`` looks at the machine.

The text form is a kind and options: ``native -threads=1``, ``llvm -mcpu=haswell``. It round-trips:
``Target(str(t)) == t``, and prints only what differs from what the rest of the text implies.

* ``native`` is the machine at hand; ``llvm`` without ``-mcpu`` is the same.
* ``llvm -mcpu=NAME`` takes sizes from the table below; options override them. The name alone will
  do.
* ``target.resolved(host)`` fills in what is still open from the host's description.
"""

from __future__ import annotations

import shlex
from collections.abc import Callable, Mapping
from dataclasses import dataclass, fields, replace
from difflib import SequenceMatcher
from typing import Any, NoReturn

from .dtype import DType
from .errors import TargetError, nearest
from .instructions import Instructions, instructions_of
from .memory import Memory
from .other_names import OtherName

KINDS = ("native", "llvm")
_KIB, _MIB = 1024, 1024 * 1024
_X86, _ARM = "x86_64-unknown-linux-gnu", "aarch64-unknown-linux-gnu"


@dataclass(frozen=True, slots=True)
class CPU:
    """What a schedule wants to know of a CPU; caches in bytes, the L3 that of a core complex. The
    bytes a cycle of its memory are as in ``Memory``."""

    triple: str
    vector_bits: int
    vector_registers: int
    l1_bytes: int
    l2_bytes: int
    l3_bytes: int
    bandwidth: tuple[float, ...] = (64.0, 32.0, 16.0, 4.0)
    shared_bandwidth: tuple[float, ...] = (64.0, 12.0)


_MESH = ((128.0, 48.0, 12.0, 4.0), (48.0, 16.0))
"""Of Intel's servers: large L2 caches, and an L3 that is in slices all over the chip."""

CPUS: dict[str, CPU] = {
    "x86-64": CPU(_X86, 128, 16, 32 * _KIB, 256 * _KIB, 4 * _MIB),
    "x86-64-v2": CPU(_X86, 128, 16, 32 * _KIB, 256 * _KIB, 4 * _MIB),
    "x86-64-v3": CPU(_X86, 256, 16, 32 * _KIB, 256 * _KIB, 8 * _MIB),
    "x86-64-v4": CPU(_X86, 512, 32, 32 * _KIB, 1 * _MIB, 16 * _MIB),
    "haswell": CPU(_X86, 256, 16, 32 * _KIB, 256 * _KIB, 8 * _MIB),
    "skylake-avx512": CPU(_X86, 512, 32, 32 * _KIB, 1 * _MIB, 16 * _MIB, *_MESH),
    "cascadelake": CPU(_X86, 512, 32, 32 * _KIB, 1 * _MIB, 16 * _MIB, *_MESH),
    "icelake-server": CPU(_X86, 512, 32, 48 * _KIB, 1280 * _KIB, 24 * _MIB, *_MESH),
    "sapphirerapids": CPU(_X86, 512, 32, 48 * _KIB, 2 * _MIB, 32 * _MIB, *_MESH),
    "emeraldrapids": CPU(_X86, 512, 32, 48 * _KIB, 2 * _MIB, 64 * _MIB, *_MESH),
    "graniterapids": CPU(_X86, 512, 32, 48 * _KIB, 2 * _MIB, 64 * _MIB, *_MESH),
    "znver3": CPU(_X86, 256, 16, 32 * _KIB, 512 * _KIB, 32 * _MIB),
    "znver4": CPU(_X86, 512, 32, 32 * _KIB, 1 * _MIB, 32 * _MIB),
    "znver5": CPU(_X86, 512, 32, 48 * _KIB, 1 * _MIB, 32 * _MIB, (128.0, 64.0, 16.0, 4.0)),
    "generic": CPU(_ARM, 128, 32, 64 * _KIB, 512 * _KIB, 2 * _MIB, (32.0, 16.0, 16.0, 4.0)),
    "neoverse-n1": CPU(_ARM, 128, 32, 64 * _KIB, 1 * _MIB, 32 * _MIB, (32.0, 16.0, 16.0, 4.0)),
}
"""CPUs one may cross-compile for, by LLVM's name. ``generic`` is baseline AArch64."""


@dataclass(frozen=True, init=False)
class Target:
    """A CPU and how much of it a kernel may use.

    ``features`` are LLVM's (``"+avx2"``, ``"-prefer-256-bit"``), in addition to those the CPU name
    implies. Sizes are in bytes. 0, "" and () mean: not known yet (``is_resolved`` is false) or, for
    ``threads``, no limit; ``threads`` only chooses grain sizes and never the order of sums.
    """

    kind: str
    triple: str
    cpu: str
    features: tuple[str, ...]
    vector_bits: int
    vector_registers: int
    l1_bytes: int
    l2_bytes: int
    l3_bytes: int
    bandwidth: tuple[float, ...]
    shared_bandwidth: tuple[float, ...]
    cores: int
    threads: int
    mcpu = OtherName("cpu")
    num_cores = OtherName("cores")
    attrs = OtherName("the target's own attributes: cpu, features, vector_bits, ...")
    current = OtherName("nothing: a target is passed to who needs one, build(mod, target)")

    def __enter__(self) -> NoReturn:
        raise TargetError(
            f"with Target({str(self)!r}): a target is passed to who needs one and holds for "
            "nothing else: build(mod, target), tune_tir(mod, target), DefaultSchedule(target)."
        )

    def __exit__(self, *_: object) -> None:
        """Of a with that never begins."""

    def __init__(
        self,
        text: str | Target | Mapping[str, Any] = "native",
        /,
        host: str | Target | Mapping[str, Any] | None = None,
        **settings: Any,
    ) -> None:
        """Parse ``text``, or a dict of its options (``{"kind": "llvm", "mcpu": "haswell"}``), and
        then set fields by keyword. A ``host``, where programs for other devices have one, is a
        target too: a CPU is its own host, so nothing follows from it. Raises TargetError for what
        is not a target."""
        if host is not None:
            Target(host)
        values: dict[str, Any] = _parse(_written(text) if isinstance(text, Mapping) else str(text))
        known = {f.name for f in fields(Target)}
        for name in settings:
            if name not in known:
                raise TargetError(f"Target has no field {name!r}.{nearest(name, known)}")
        values.update(settings)
        if values.get("kind") not in KINDS:
            raise TargetError(
                f"Expected a target kind, one of {', '.join(KINDS)}; found {values.get('kind')!r}."
                f"{nearest(str(values.get('kind')), KINDS)}"
            )
        values = _implied(values) | {k: v for k, v in values.items() if v}
        for f in fields(Target):
            listed = f.type.startswith("tuple")
            default: Any = () if listed else 0 if f.type == "int" else ""
            value = values.get(f.name, default)
            object.__setattr__(self, f.name, tuple(value) if listed else value)

    @property
    def is_resolved(self) -> bool:
        """Whether everything codegen and the analytic schedule ask for is known."""
        return bool(
            self.kind == "llvm" and self.cpu and self.triple and self.vector_bits and self.l1_bytes
        )

    def resolved(self, host: Target) -> Target:
        """This target with everything still open taken from ``host``, itself a resolved target.

        A target for a CPU of its own takes nothing but the core count.
        """
        if not host.is_resolved:
            raise TargetError(f"Expected a resolved host target, found {str(host)!r}.")
        if self.cpu and not self.is_resolved:
            sizes = [
                o for o, (name, _) in _OPTIONS.items() if name in _SIZES and not getattr(self, name)
            ]
            raise TargetError(
                f"The CPU {self.cpu!r} is not in the table of burnish, which has "
                f"{known_cpus(self.cpu)}. Name one of these, or give its sizes too: "
                + " ".join(
                    f"{option}=..." for option in sizes if option == _SHOWN[_OPTIONS[option][0]]
                )
            )
        if self.cpu:
            return self if self.cores else self.with_options(cores=host.cores)
        own = {f.name: getattr(self, f.name) for f in fields(self) if getattr(self, f.name)}
        features = (*host.features, *[f for f in self.features if f not in host.features])
        merged = {f.name: getattr(host, f.name) for f in fields(host)} | own
        return Target("llvm", **(merged | {"kind": "llvm", "features": features}))

    def with_options(self, **settings: Any) -> Target:
        """A copy with some fields changed."""
        return replace(self, **settings)

    @property
    def apart_lanes(self) -> int:
        """The bfloat16 that are two registers of float32, where those at even places and those at
        odd ones are widened by one instruction each and all together by more; else 0."""
        return self.vector_bits // 16 if self.is_x86 and self.vector_bits >= 256 else 0

    def vector_lanes(self, dtype: str) -> int:
        """How many elements of a dtype one vector register holds (at least 1)."""
        return max(1, self.vector_bits // DType(dtype).bits)

    @property
    def is_x86(self) -> bool:
        return self.triple.startswith(("x86_64", "i686", "amd64"))

    @property
    def is_aarch64(self) -> bool:
        return self.triple.startswith(("aarch64", "arm64"))

    @property
    def memory(self) -> Memory:
        """What the memory can do."""
        row = _implied({"cpu": self.cpu}) or {f.name: f.default for f in fields(CPU)}
        return Memory(
            (self.l1_bytes, self.l2_bytes, self.l3_bytes),
            self.bandwidth or row["bandwidth"],
            self.shared_bandwidth or row["shared_bandwidth"],
        )

    @property
    def instructions(self) -> Instructions:
        """What the CPU's instructions can do."""
        return instructions_of(
            *(self.cpu, self.features, self.vector_bits, self.vector_registers),
            x86=self.is_x86,
            arm=self.is_aarch64,
        )

    def __str__(self) -> str:
        """The shortest text that parses back to this target."""
        parts = [self.kind]
        implied = _implied({"kind": self.kind, "cpu": self.cpu})
        for f in fields(self):
            value = getattr(self, f.name)
            if f.name == "kind" or not value or value == implied.get(f.name):
                continue
            text = str(value)
            if isinstance(value, tuple):
                text = ",".join([str(v).removesuffix(".0") for v in value])
            parts.append(f"{_SHOWN[f.name]}={text}")
        return " ".join(parts)

    def __repr__(self) -> str:
        return f"Target({str(self)!r})"


def _implied(values: dict[str, Any]) -> dict[str, Any]:
    """The sizes and the triple that a CPU name implies."""
    row = CPUS.get(values.get("cpu", ""))
    return {} if row is None else {f.name: getattr(row, f.name) for f in fields(row)}


def _size(text: str) -> int:
    """``49152``, ``48K`` or ``2M``."""
    unit = {"K": _KIB, "M": _MIB}.get(text[-1:].upper(), 1)
    value = int(text[:-1] if unit != 1 else text) * unit
    if value < 0:
        raise ValueError(text)
    return value


def _features(text: str) -> tuple[str, ...]:
    names = tuple([part.strip() for part in text.split(",") if part.strip()])
    if any(name[0] not in "+-" for name in names):
        raise ValueError(text)
    return names


def _rates(count: int) -> Callable[[str], tuple[float, ...]]:
    def read(text: str) -> tuple[float, ...]:
        found = tuple([float(part) for part in text.split(",")])
        if len(found) != count or not all(0 < v < float("inf") for v in found):
            raise ValueError(text)
        return found

    return read


_OPTIONS: dict[str, tuple[str, Callable[[str], Any]]] = {
    "-mtriple": ("triple", str),
    "-mcpu": ("cpu", str),
    "-mattr": ("features", _features),
    "-vector-bits": ("vector_bits", int),
    "-vector-registers": ("vector_registers", int),
    "-l1": ("l1_bytes", _size),
    "-l2": ("l2_bytes", _size),
    "-l3": ("l3_bytes", _size),
    "-bandwidth": ("bandwidth", _rates(4)),
    "-shared-bandwidth": ("shared_bandwidth", _rates(2)),
    "-cores": ("cores", int),
    "-threads": ("threads", int),
    "-num-cores": ("threads", int),
}
"""Option to (field, reader). ``-num-cores`` is another name of ``-threads``; a second dash is
allowed."""

_OTHER_DEVICES = ("cuda", "nvidia", "opencl", "vulkan", "metal", "rocm", "webgpu", "hexagon")
_SHOWN = {name: option for option, (name, _) in reversed(_OPTIONS.items())}
_SIZES = ("triple", "vector_bits", "vector_registers", "l1_bytes", "l2_bytes", "l3_bytes")


def known_cpus(name: str) -> str:
    """The CPUs of the table, those with names that are most like ``name`` first."""
    alike = {k: SequenceMatcher(None, name.lower(), k).ratio() for k in CPUS}
    return ", ".join(sorted(CPUS, key=lambda k: -alike[k]))


def _written(options: Mapping[str, Any]) -> str:
    """A dict of options as text: lists are joined by commas."""
    parts = [str(options.get("kind", ""))]
    for key, value in options.items():
        listed = ",".join(map(str, value)) if isinstance(value, (list, tuple)) else str(value)
        if key == "host":
            Target(value)
        elif key != "kind":
            parts.append(shlex.quote(f"-{str(key).lstrip('-')}={listed}"))
    return " ".join(parts)


def _words(text: str) -> list[str]:
    try:
        return shlex.split(text) or [""]
    except ValueError as error:
        raise TargetError(f"Target {text!r} cannot be read: {str(error).lower()}.") from None


def _parse(text: str) -> dict[str, Any]:
    kind, *options = _words(text)
    if kind in CPUS:
        kind, options = "llvm", [f"-mcpu={kind}", *options]
    if kind.split("/")[0] in _OTHER_DEVICES:
        raise TargetError(
            f"Target {text!r}: burnish compiles for CPUs alone. Write 'native' or "
            "'llvm -mcpu=NAME'; loops that are bound to threads of a GPU run as loops."
        )
    if kind not in KINDS:
        raise TargetError(
            f"Expected a target such as 'native -threads=1' or 'llvm -mcpu=haswell' (a kind, one "
            f"of {', '.join(KINDS)}, or the name of a CPU, then options); found {text!r}."
            f"{nearest(kind, (*KINDS, *CPUS))} Known CPUs are {known_cpus(kind)}."
        )
    values: dict[str, Any] = {"kind": kind}
    for option in options:
        key, equals, value = option.partition("=")
        key = key.removeprefix("-") if key.startswith("--") else key
        if key not in _OPTIONS:
            raise TargetError(
                f"Target {text!r} has no option {key!r}.{nearest(key, _OPTIONS)} "
                f"Options are {', '.join(_OPTIONS)}."
            )
        name, reader = _OPTIONS[key]
        if name in values:
            raise TargetError(f"Target {text!r} gives {key} twice.")
        try:
            values[name] = reader(value)
        except ValueError:
            raise TargetError(f"Target {text!r}: {key} cannot be {value!r}.") from None
        if not equals or not values[name] or (isinstance(values[name], int) and values[name] < 0):
            raise TargetError(f"Target {text!r}: {key} needs a value, as in {key}=1.")
    if kind == "native" and "cpu" in values:
        raise TargetError(
            f"Target {text!r}: native is this machine's CPU; write 'llvm -mcpu={values['cpu']}'."
        )
    return values
