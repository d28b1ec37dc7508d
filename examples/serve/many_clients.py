"""A saved model, served over HTTP, and asked by several processes through a client of others.

The server is ``burnish serve``; the client is Triton's (``pip install 'tritonclient[http]'``),
which knows nothing of burnish. Every answer is compared with the model's own.

    python examples/serve/many_clients.py [--clients N] [--requests N]
"""

from __future__ import annotations

import argparse
import re
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from urllib.request import urlopen

import numpy as np
from tritonclient import http

import burnish


def save_model(path: Path) -> None:
    """An MLP for any number of rows, which are named ``batch``: the server joins requests."""
    import torch

    torch.manual_seed(0)
    module = torch.nn.Sequential(
        torch.nn.Linear(64, 256), torch.nn.GELU(), torch.nn.Linear(256, 10)
    )
    x = torch.randn(4, 64)
    burnish.compile(module.eval(), (x,), dynamic_shapes=({0: "batch"},)).save(path)


def ask(address: str, path: str, requests: int, seed: int) -> None:
    """One client: requests of one to four rows, with binary tensors and with JSON in turn."""
    model, rng = burnish.load(path, threads=1), np.random.default_rng(seed)
    ((name, _, _),) = model.inputs
    with http.InferenceServerClient(address) as client:
        if not client.is_model_ready("model"):
            raise SystemExit("the server has no model that is called model")
        for number in range(requests):
            x = rng.standard_normal((1 + number % 4, 64), np.float32)
            given = http.InferInput(name, list(x.shape), "FP32")
            wanted = http.InferRequestedOutput("output_0", binary_data=number % 2 == 0)
            given.set_data_from_numpy(x, binary_data=number % 2 == 0)
            answer = client.infer("model", [given], outputs=[wanted])
            np.testing.assert_allclose(answer.as_numpy("output_0"), model(x), rtol=1e-5, atol=1e-6)


def main() -> None:
    """Save, serve, ask from processes, and tell how the server joined their requests."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--clients", type=int, default=4, help="processes that ask (4)")
    parser.add_argument("--requests", type=int, default=100, help="of each of them (100)")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "model.burnish"
        save_model(path)
        command = [sys.executable, "-m", "burnish", "serve", str(path), "--port", "0"]
        with subprocess.Popen(command, stderr=subprocess.PIPE, text=True) as server:
            try:
                lines = iter(server.stderr.readline, "")
                known = (re.search(r"http://([\d.]+:\d+)", line) for line in lines)
                address = next(found[1] for found in known if found)
                start = time.perf_counter()
                asked = [sys.executable, __file__, "ask", address, path, str(options.requests)]
                clients = [subprocess.Popen([*asked, str(seed)]) for seed in range(options.clients)]
                failed = sum(client.wait() != 0 for client in clients)
                seconds = time.perf_counter() - start
                with urlopen(f"http://{address}/metrics") as answer:
                    text = answer.read().decode()
            finally:
                server.send_signal(signal.SIGTERM)
        calls = int(re.search(r"burnish_batch_rows_count\S* (\d+)", text)[1])
    count = options.clients * options.requests
    if failed:
        raise SystemExit(f"{failed} of {options.clients} clients failed")
    print(f"{count} requests of {options.clients} processes in {seconds:.1f} s, all right")
    print(f"the model was called {calls} times; the server ended with {server.returncode}")


if __name__ == "__main__":
    if sys.argv[1:2] == ["ask"]:
        ask(sys.argv[2], sys.argv[3], int(sys.argv[4]), int(sys.argv[5]))
    else:
        main()
