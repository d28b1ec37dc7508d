"""Ctrl-C ends a call that would run for minutes, and leaves all usable. In processes of their own:
the signal is the real one, and a call that cannot be ended shows as a process that does not end."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

LIMIT = 120
"""Seconds until a process counts as one that does not end; each call below would take longer."""

HEAD = """
import os, signal, threading, time
import numpy as np
import burnish
from burnish import te

def interrupted(call):
    try:
        threading.Timer(0.3, os.kill, (os.getpid(), signal.SIGINT)).start()
        call()
    except KeyboardInterrupt:
        return True
    return False

def square(n):
    return np.random.default_rng(0).random((n, n), np.float32)
"""

NAIVE = """
n = te.var("n")
a, b = (te.placeholder((n, n), name=x) for x in "AB")
k = te.reduce_axis((0, n), "k")
c = te.compute((n, n), lambda i, j: te.sum(a[i, k] * b[k, j], axis=[k]), name="C")
naive = te.create_prim_func([a, b, c])
"""

LIBRARY = """
lib = burnish.build(naive, target="native -threads=THREADS")
x, y = square(6000), square(30)
out, small = np.empty_like(x), np.empty_like(y)
assert interrupted(lambda: lib["main"](x, x, out))
for _ in range(2):
    lib["main"](y, y, small)
    np.testing.assert_allclose(small, y @ y, rtol=1e-4)
assert interrupted(lambda: lib["main"](x, x, out))
"""

EXTENTS_IN_MEMORY = """
lib = burnish.build(burnish.parse('''
@T.prim_func
def main(D: T.Buffer((3,), "int64"), A: T.Buffer((64,), "float32")):
    for i in range(2):
        for k in range(D[i], D[i + 1]):
            A[k % 64] = A[k % 64] * T.float32(1.0001) + T.float32(1)
'''), target="native -threads=THREADS")
long, short, a = np.array([0, 1, 10**12]), np.array([0, 1, 2]), np.zeros(64, np.float32)
assert interrupted(lambda: lib["main"](long, a))
a[:] = 0
lib["main"](short, a)
assert a.sum() == 2
"""

MACHINE = """
module = burnish.parse('''
@I.ir_module
class M:
    @T.prim_func
    def twice(A: T.handle, B: T.handle):
        n = T.int64()
        a = T.match_buffer(A, (n, n), "float32")
        b = T.match_buffer(B, (n, n), "float32")
        for i, j, k in T.grid(n, n, n):
            with T.block("b"):
                vi, vj, vk = T.axis.remap("SSR", [i, j, k])
                with T.init():
                    b[vi, vj] = T.float32(0)
                b[vi, vj] = b[vi, vj] + a[vi, vk] * a[vk, vj]

    @R.function
    def main(x: R.Tensor(("n", "n"), "float32")):
        n = T.int64()
        with R.dataflow():
            y = R.call_dps(cls.twice, (x,), out_type=R.Tensor((n, n), "float32"))
            z = R.call_dps(cls.twice, (y,), out_type=R.Tensor((n, n), "float32"))
            R.output(z)
        return z
''')
vm = burnish.VirtualMachine(burnish.build(module, target="native -threads=THREADS"))
x, y = square(6000), square(30)
assert interrupted(lambda: vm["main"](x))
for _ in range(2):
    np.testing.assert_allclose(vm["main"](y).numpy(), (y @ y) @ (y @ y), rtol=1e-4)
"""

MODEL = """
import torch
class Chain(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.w = torch.nn.Parameter(torch.rand(4096, 4096) / 2048)
    def forward(self, x):
        for _ in range(40):
            x = torch.relu(x @ self.w)
        return x
module = Chain().eval()
model = burnish.compile(module, (torch.rand(2, 4096),), dynamic_shapes=({0: "b"},), threads=THREADS)
x, y = torch.rand(16384, 4096), torch.rand(2, 4096)
expected = module(y).detach()
torch.testing.assert_close(model(y), expected, rtol=1e-3, atol=1e-4)
assert interrupted(lambda: model(x))
for _ in range(2):
    torch.testing.assert_close(model(y), expected, rtol=1e-3, atol=1e-4)
"""


@pytest.mark.parametrize(
    ("program", "threads"),
    [
        pytest.param(NAIVE + LIBRARY, 1, id="library"),
        pytest.param(NAIVE + LIBRARY, 2, id="library-2"),
        pytest.param(EXTENTS_IN_MEMORY, 1, id="extents-in-memory"),
        pytest.param(MACHINE, 2, id="machine"),
        pytest.param(MODEL, 1, id="model"),
    ],
)
def test_a_long_call_ends_and_the_next_one_is_right(
    program: str, threads: int, tmp_path: Path
) -> None:
    path = os.pathsep.join(p for p in sys.path if p)
    code = (HEAD + program).replace("THREADS", str(threads))
    script = tmp_path / "program.py"
    script.write_text(code + "\nprint('done')\n", encoding="utf-8")
    run = subprocess.run(
        [sys.executable, str(script)],
        env={**os.environ, "PYTHONPATH": path},
        capture_output=True,
        text=True,
        timeout=LIMIT,
        check=False,
    )
    assert (run.stdout, run.returncode) == ("done\n", 0), run.stderr
