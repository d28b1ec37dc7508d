"""Targets: the text form, sizes by CPU name, and resolution against a host."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from burnish.support.errors import TargetError
from burnish.support.target import CPUS, Target

HOST = Target("llvm -mcpu=znver5", features=("+avx512f", "-prefer-256-bit"), cores=8)


def test_native_is_open_until_resolved() -> None:
    t = Target()
    assert str(t) == "native"
    assert not t.is_resolved
    assert t == Target("native") == Target("native", threads=0)


def test_native_takes_everything_from_the_host_but_its_own_options() -> None:
    t = Target("native -threads=1 -l2=512K -mattr=+fma,+avx512f").resolved(HOST)
    assert t.is_resolved
    assert (t.kind, t.cpu, t.cores, t.threads) == ("llvm", "znver5", 8, 1)
    assert (t.l1_bytes, t.l2_bytes, t.vector_bits) == (48 * 1024, 512 * 1024, 512)
    assert t.features == ("+avx512f", "-prefer-256-bit", "+fma")
    assert t.resolved(HOST) == t


def test_llvm_without_a_cpu_is_the_machine_at_hand() -> None:
    t = Target("llvm --num-cores=1")
    assert not t.is_resolved
    assert t.resolved(HOST) == Target("native -threads=1").resolved(HOST)


def test_a_cpu_name_implies_its_sizes() -> None:
    t = Target("llvm -mcpu=haswell")
    assert (t.vector_bits, t.vector_registers, t.l1_bytes) == (256, 16, 32 * 1024)
    assert t.is_x86
    assert t.vector_lanes("float32") == 8
    assert t.vector_lanes("float64") == 4
    assert str(t) == "llvm -mcpu=haswell"
    assert t.resolved(HOST) == t.with_options(cores=8)
    assert Target("llvm -mcpu=neoverse-n1").is_aarch64


@pytest.mark.parametrize(
    ("text", "fused"),
    [
        ("llvm -mcpu=x86-64", False),
        ("llvm -mcpu=x86-64-v2", False),
        ("llvm -mcpu=x86-64-v2 -mattr=+avx,+fma", True),
        ("llvm -mcpu=haswell", True),
        ("llvm -mcpu=haswell -mattr=-fma", False),
        ("llvm -mcpu=znver4", True),
        ("llvm -mcpu=generic", True),
    ],
)
def test_which_cpus_multiply_and_add_at_once(text: str, fused: bool) -> None:
    assert Target(text).instructions.fma is fused


def test_options_override_the_table() -> None:
    t = Target("llvm -mcpu=skylake-avx512 -vector-bits=256 -l1=48K -l2=2M")
    assert (t.vector_bits, t.l1_bytes, t.l2_bytes) == (256, 48 * 1024, 2 * 1024 * 1024)
    assert str(t) == "llvm -mcpu=skylake-avx512 -vector-bits=256 -l1=49152 -l2=2097152"


def test_what_memory_can_do_is_data() -> None:
    t = Target("llvm -mcpu=znver4 -bandwidth=60,30.5,15,5")
    assert t.memory.one_core == (60, 30.5, 15, 5)
    assert t.memory.all_cores == Target("llvm -mcpu=znver4").memory.all_cores
    assert str(t) == "llvm -mcpu=znver4 -bandwidth=60,30.5,15,5"
    assert str(Target("llvm -mcpu=znver4", bandwidth=CPUS["znver4"].bandwidth)) == (
        "llvm -mcpu=znver4"
    )
    exact = t.with_options(bandwidth=(1 / 3, 0.3, 0.2, 1e-9))
    assert Target(str(exact)) == exact
    # A machine that nothing is known of has figures too, and native has the host's.
    assert len(Target("llvm -mcpu=future9").memory.one_core) == 4
    assert Target("native").resolved(t.with_options(cores=2)).bandwidth == t.bandwidth


def test_targets_are_values() -> None:
    a, b = Target("llvm -mcpu=znver4 -threads=2"), Target("llvm --threads=2 --mcpu=znver4")
    assert a == b
    assert hash(a) == hash(b)
    assert repr(a) == "Target('llvm -mcpu=znver4 -threads=2')"
    assert Target(a) == a
    with pytest.raises(AttributeError):
        a.threads = 3  # type: ignore[misc]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "Expected a target such as 'native -threads=1'"),
        ("nativ", "Did you mean 'native'?"),
        ("toaster", "a kind, one of native, llvm"),
        ("llvm -cpu=haswell", "has no option '-cpu'. Did you mean '-mcpu'?"),
        ("llvm haswell", "has no option 'haswell'."),
        ("native -threads=0", "-threads needs a value, as in -threads=1."),
        ("native -threads", "-threads cannot be ''."),
        ("native -threads=-2", "-threads needs a value"),
        ("native -threads=many", "-threads cannot be 'many'."),
        ("native -threads=1 -num-cores=2", "gives -num-cores twice."),
        ("llvm -mattr=avx2", "-mattr cannot be 'avx2'."),
        ("llvm -bandwidth=1,2,3", "-bandwidth cannot be '1,2,3'."),
        ("llvm -shared-bandwidth=1,0", "-shared-bandwidth cannot be '1,0'."),
        ("llvm -bandwidth=1,2,3,inf", "-bandwidth cannot be '1,2,3,inf'."),
        ("native -mcpu=haswell", "native is this machine's CPU; write 'llvm -mcpu=haswell'."),
    ],
)
def test_texts_that_are_no_target(text: str, message: str) -> None:
    with pytest.raises(TargetError) as caught:
        Target(text)
    assert message in str(caught.value)


def test_fields_that_do_not_exist() -> None:
    with pytest.raises(TargetError, match=r"has no field 'thread'\. Did you mean 'threads'"):
        Target("native", thread=1)
    with pytest.raises(TargetError, match="found 'gpu'"):
        Target("native", kind="gpu")
    with pytest.raises(TargetError, match=r"found 'nativ'\. Did you mean 'native'"):
        Target("native", kind="nativ")


def test_an_unknown_target_lists_the_cpus_by_likeness() -> None:
    with pytest.raises(TargetError, match=r"Known CPUs are znver4, znver3, znver5, ") as caught:
        Target("zen4")
    assert all(name in str(caught.value) for name in CPUS)


def test_a_quote_that_has_no_end() -> None:
    with pytest.raises(TargetError, match="cannot be read: no closing quotation"):
        Target("llvm -mcpu='haswell")


def test_an_unknown_cpu_must_give_its_sizes() -> None:
    t = Target("llvm -mcpu=future9 -vector-bits=1024")
    with pytest.raises(TargetError) as caught:
        t.resolved(HOST)
    text = str(caught.value)
    assert text.startswith("The CPU 'future9' is not in the table of burnish, which has ")
    assert set(CPUS) == set(text.split(" has ")[1].split(". Name")[0].split(", "))
    assert text.endswith(
        ". Name one of these, or give its sizes too: "
        "-mtriple=... -vector-registers=... -l1=... -l2=... -l3=..."
    )
    with pytest.raises(TargetError, match=r"in the table of burnish, which has haswell, "):
        Target("llvm -mcpu=hasswell").resolved(HOST)
    with pytest.raises(TargetError, match="Expected a resolved host target, found 'native'"):
        Target().resolved(Target())


@settings(max_examples=60, deadline=None, derandomize=True)
@given(
    st.sampled_from(["", *CPUS, "future9"]),
    st.lists(st.sampled_from(["+avx2", "-fma", "+sse4.2"]), unique=True),
    st.fixed_dictionaries(
        {},
        optional={
            name: st.integers(1, 2**20)
            for name in ("vector_bits", "vector_registers", "l1_bytes", "l3_bytes", "threads")
        },
    ),
)
def test_the_text_round_trips(cpu: str, features: list[str], sizes: dict[str, int]) -> None:
    t = Target("llvm", cpu=cpu, features=tuple(features), **sizes)
    assert Target(str(t)) == t
    assert str(Target(str(t))) == str(t)


@pytest.mark.parametrize("cpu", CPUS)
def test_every_cpu_of_the_table_resolves(cpu: str) -> None:
    t = Target(f"llvm -mcpu={cpu}")
    assert t.is_resolved
    assert t.l1_bytes < t.l2_bytes < t.l3_bytes
    assert t.vector_bits in (128, 256, 512)


def test_a_dict_of_options_is_a_target() -> None:
    options = {"kind": "llvm", "mcpu": "haswell", "-mattr": ["+aes", "-bmi"], "num-cores": 2}
    assert Target(options) == Target("llvm -mcpu=haswell -mattr=+aes,-bmi -threads=2")
    assert Target("haswell", host="llvm") == Target({"kind": "haswell", "host": "llvm"})
    with pytest.raises(TargetError, match="has no option '-speed'"):
        Target({"kind": "llvm", "speed": 3})


@pytest.mark.parametrize("text", ["cuda", "nvidia/nvidia-a100", "opencl -device=mali"])
def test_other_devices_are_refused_by_name(text: str) -> None:
    with pytest.raises(TargetError, match="burnish compiles for CPUs alone"):
        Target(text)
    with pytest.raises(TargetError, match="burnish compiles for CPUs alone"):
        Target("llvm", host=text)


def test_a_target_is_no_context() -> None:
    words = r"passed to who needs one.*build\(mod, target\)"
    with pytest.raises(TargetError, match=words), Target("llvm -mcpu=haswell"):
        pass
    with pytest.raises(AttributeError, match="'current'; here it is nothing"):
        Target.current()
