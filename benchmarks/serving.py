"""A small BERT behind ``burnish serve``, asked with sequences of mixed length by many clients.

    python -m burnish.benchmarks.serving [--batches 1 8 32] [--clients 16] [--seconds 5]
    python -m burnish.benchmarks.serving --overload 20

Beside it the same server around ONNX Runtime, which pads the sequences of a batch to the longest
and masks the rest; burnish batches sequences of one length. Lengths are drawn between 8 and 512,
one row a request, binary tensors both ways. The server has one thread for its model; clients
are in a process of their own and ask again as soon as they have an answer, so that the requests a
second are the most that the server gives at so many clients. Every answer is compared with that of
the model. ``--overload`` asks with four times as many clients as the server takes requests, and
prints what was answered, what was refused, and the server's memory.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import statistics
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from burnish.driver.serving.app import Limits, Server
from burnish.driver.serving.batching import Arrays, Batcher, Key
from burnish.driver.serving.protocol import TensorForm
from burnish.driver.serving.served import BatchOptions

LENGTHS = (8, 512)
WIDTH, LAYERS, HEADS, WORDS = 256, 4, 4, 30522
TOLERANCE = 2e-3


def save_models(folder: Path) -> None:
    """Both servers' files, and requests with the answers of eager PyTorch."""
    import torch

    import burnish
    from burnish.models import transformer

    encoder, _ = transformer.bert(
        layers=LAYERS, width=WIDTH, heads=HEADS, tokens=LENGTHS[1], words=WORDS
    )

    class Pooled(torch.nn.Module):
        """The first token's state; ``mask`` says which tokens are there."""

        def __init__(self) -> None:
            super().__init__()
            self.encoder = encoder

        def forward(self, ids: Any, mask: Any = None) -> Any:
            known: Any = self.encoder
            if mask is None:
                return known(ids)[:, 0]
            x = known.norm(known.words(ids) + known.places(torch.arange(ids.shape[1])))
            for layer in known.layers:
                x = layer.norm1(x + _attention(layer.attention, x, mask))
                x = layer.norm2(x + layer.mlp(x))
            return x[:, 0]

    def _attention(part: Any, x: Any, mask: Any) -> Any:
        batch, tokens, width = x.shape
        qkv = part.qkv(x).reshape(batch, tokens, 3, part.heads, width // part.heads)
        q, k, v = qkv.permute(2, 0, 3, 1, 4).unbind(0)
        scores = q @ k.transpose(-1, -2) * (width // part.heads) ** -0.5
        scores = scores.masked_fill(mask[:, None, None, :] == 0, -1e9)
        return part.out((scores.softmax(-1) @ v).transpose(1, 2).reshape(batch, tokens, width))

    model, ids = Pooled().eval(), torch.randint(0, WORDS, (2, 64))
    sizes = ({0: "batch", 1: "seq"},)
    burnish.compile(model, (ids,), dynamic_shapes=sizes, threads=1).save(folder / "bert.burnish")
    names = ["input_ids", "mask"]
    torch.onnx.export(
        model, (ids, torch.ones_like(ids)), str(folder / "bert.onnx"), dynamo=False,
        input_names=names, dynamic_axes={name: {0: "batch", 1: "seq"} for name in names},
    )  # fmt: skip
    rng = np.random.default_rng(0)
    with torch.inference_mode():
        for i in range(200):
            x = rng.integers(0, WORDS, (1, int(rng.integers(LENGTHS[0], LENGTHS[1] + 1))))
            y = model(torch.from_numpy(x)).numpy()
            np.savez(folder / f"request{i}.npz", x=x, y=y)


class _Padding(Batcher):
    """Joins sequences of different lengths: padded to the longest, with a mask."""

    def _key(self, arrays: Arrays) -> Key:
        return ()

    def _together(self, batch: Sequence[Any]) -> list[Arrays]:
        rows = [w.arrays[0] for w in batch]
        width = max(x.shape[1] for x in rows)
        ids = np.concatenate([np.pad(x, ((0, 0), (0, width - x.shape[1]))) for x in rows])
        mask = np.concatenate(
            [np.pad(np.ones_like(x), ((0, 0), (0, width - x.shape[1]))) for x in rows]
        )
        (found,) = self._run((ids, mask))
        ends = np.cumsum([x.shape[0] for x in rows])[:-1]
        return [(part,) for part in np.split(found, ends)]


class _Padded:
    """A model of ONNX Runtime, as the server's repository gives models."""

    name = "bert"
    inputs = (TensorForm("ids", "int64", ("batch", "seq")),)
    outputs = (TensorForm("output_0", "float32", ("batch", str(WIDTH))),)

    def __init__(self, path: Path, options: BatchOptions) -> None:
        import onnxruntime

        known = onnxruntime.SessionOptions()
        known.intra_op_num_threads = known.inter_op_num_threads = 1
        session = onnxruntime.InferenceSession(path, known, ["CPUExecutionProvider"])

        def run(arrays: Arrays) -> Arrays:
            return (session.run(None, dict(zip(("input_ids", "mask"), arrays, strict=True)))[0],)

        self.batcher = _Padding(run, max_rows=options.max_rows, wait=options.wait)

    async def infer(self, arrays: Arrays) -> dict[str, np.ndarray]:
        return {"output_0": (await self.batcher.submit(arrays))[0]}


class _OneModel:
    """A repository of one model that is never exchanged."""

    names = ("bert",)

    def __init__(self, path: Path, options: BatchOptions) -> None:
        self._path, self._options = path, options
        self.model: Any = None

    def __getitem__(self, name: str) -> Any:
        return self.model

    async def load_all(self) -> None:
        self.model = _Padded(self._path, self._options)

    async def close(self) -> None:
        await self.model.batcher.close()


def serve(kind: str, folder: Path, batch: int, requests: int) -> None:
    """The server's process."""
    import uvicorn

    options = BatchOptions(max_rows=batch)
    server = Server(
        {"bert": folder / "bert.burnish"}, threads=1, options=options, limits=Limits(requests)
    )
    if kind == "onnxruntime":
        server.models = _OneModel(folder / "bert.onnx", options)  # type: ignore[assignment]
    uvicorn.run(server.app(), port=0, access_log=False)


def ask(port: int, folder: Path, clients: int, seconds: float) -> None:
    """The clients' process: prints what they found as JSON."""
    prepared = []
    for path in sorted(folder.glob("request*.npz")):
        with np.load(path) as known:
            prepared.append((_request(known["x"]), known["y"]))
    print(json.dumps(asyncio.run(_ask(port, prepared, clients, seconds))))


def _request(x: np.ndarray) -> bytes:
    size = {"binary_data_size": x.nbytes}
    item = {"name": "ids", "datatype": "INT64", "shape": list(x.shape), "parameters": size}
    head = json.dumps({"inputs": [item], "parameters": {"binary_data_output": True}}).encode()
    lines = (
        "POST /v2/models/bert/infer HTTP/1.1",
        "host: localhost",
        f"content-length: {len(head) + x.nbytes}",
        f"inference-header-content-length: {len(head)}",
    )
    return "\r\n".join(lines).encode() + b"\r\n\r\n" + head + x.tobytes()


async def _ask(
    port: int, prepared: list[tuple[bytes, np.ndarray]], clients: int, seconds: float
) -> dict[str, Any]:
    statuses: Counter[str] = Counter()
    times: list[float] = []
    warm = time.monotonic() + min(1.0, seconds / 4)
    end = warm + seconds

    async def client(number: int) -> None:
        rng = np.random.default_rng(number)
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        while time.monotonic() < end:
            request, wanted = prepared[rng.integers(len(prepared))]
            start = time.monotonic()
            writer.write(request)
            status, body = await _answer(reader)
            if status == 200:
                found = np.frombuffer(body[-wanted.nbytes :], np.float32)
                if np.abs(found - wanted.ravel()).max() > TOLERANCE:
                    statuses["wrong"] += 1
            if start >= warm:
                statuses[str(status)] += 1
                if status == 200:
                    times.append(time.monotonic() - start)
            if status in (429, 503):
                await asyncio.sleep(0.01)
        writer.close()

    await asyncio.gather(*[client(i) for i in range(clients)])
    times.sort()
    return {
        "rate": len(times) / seconds,
        "median": statistics.median(times) if times else 0.0,
        "p99": times[int(len(times) * 0.99)] if times else 0.0,
        "statuses": dict(statuses),
    }


async def _answer(reader: asyncio.StreamReader) -> tuple[int, bytes]:
    head = (await reader.readuntil(b"\r\n\r\n")).decode().lower()
    length = next(
        int(line.partition(":")[2])
        for line in head.split("\r\n")
        if line.startswith("content-length:")
    )
    return int(head.split()[1]), await reader.readexactly(length)


class _Served:
    """A server's process, as long as the block lasts."""

    def __init__(self, kind: str, folder: Path, batch: int, requests: int = 256) -> None:
        self._command = [sys.executable, "-m", __spec__.name, "--serve", kind, str(folder)]
        self._command += [str(batch), str(requests)]

    def __enter__(self) -> _Served:
        self.process = subprocess.Popen(self._command, stderr=subprocess.PIPE, text=True)
        assert self.process.stderr is not None
        said = []
        for line in self.process.stderr:
            said.append(line)
            if "running on" in line:
                self.port = int(line.split("http://127.0.0.1:")[1].split()[0])
                return self
        raise SystemExit(f"the server did not start: {''.join(said)[-2000:]}")

    def __exit__(self, *error: object) -> None:
        self.process.terminate()
        self.process.wait()
        if self.process.stderr is not None:
            self.process.stderr.close()

    def ask(self, folder: Path, clients: int, seconds: float) -> dict[str, Any]:
        """What clients in a process of their own find."""
        command = [sys.executable, "-m", __spec__.name, "--ask", str(self.port), str(folder)]
        command += [str(clients), str(seconds)]
        done = subprocess.run(command, stdout=subprocess.PIPE, check=True, text=True)
        found: dict[str, Any] = json.loads(done.stdout)
        return found

    @property
    def resident(self) -> float:
        """Megabytes of the server's memory now."""
        pages = int(Path(f"/proc/{self.process.pid}/statm").read_text().split()[1])
        return pages * 4096 / 1e6


def overload(folder: Path, seconds: float, capacity: int = 32) -> None:
    """Four times as many clients as requests are taken at once, in four parts of the time."""
    with _Served("burnish", folder, 8, capacity) as server:
        server.ask(folder, capacity, 2)
        print(f"{capacity} clients: {server.resident:.0f} MB")
        for _ in range(4):
            found = server.ask(folder, 4 * capacity, seconds / 4)
            print(f"{4 * capacity} clients: {found['statuses']}, {server.resident:.0f} MB")


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--batches", type=int, nargs="+", default=[1, 8, 32])
    parser.add_argument("--clients", type=int, nargs="+", default=[1, 16])
    parser.add_argument("--seconds", type=float, default=5)
    parser.add_argument("--rounds", type=int, default=2)
    parser.add_argument("--overload", type=float, metavar="SECONDS")
    parser.add_argument("--folder", type=Path, help="where the models are kept")
    parser.add_argument("--serve", nargs=4, help=argparse.SUPPRESS)
    parser.add_argument("--ask", nargs=4, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.serve:
        kind, path, batch, requests = options.serve
        return serve(kind, Path(path), int(batch), int(requests))
    if options.ask:
        port, path, clients, seconds = options.ask
        return ask(int(port), Path(path), int(clients), float(seconds))
    with tempfile.TemporaryDirectory() as scratch:
        folder = options.folder or Path(scratch)
        folder.mkdir(parents=True, exist_ok=True)
        if not (folder / "request199.npz").exists():
            save_models(folder)
        if options.overload:
            return overload(folder, options.overload)
        print("server        batch clients  requests/s   median ms    99 % ms")
        for batch in options.batches:
            _compare(folder, batch, options)
    return None


def _compare(folder: Path, batch: int, options: argparse.Namespace) -> None:
    """Rows of both servers at a limit of the batch, the best of rounds in turns."""
    kinds = ("burnish", "onnxruntime")
    best: dict[tuple[str, int], dict[str, Any]] = {}
    with _Served(kinds[0], folder, batch) as ours, _Served(kinds[1], folder, batch) as theirs:
        for _ in range(options.rounds):
            for clients in options.clients:
                for kind, server in zip(kinds, (ours, theirs), strict=True):
                    found = server.ask(folder, clients, options.seconds)
                    known = best.get((kind, clients))
                    if known is None or found["rate"] > known["rate"]:
                        best[kind, clients] = found
    for clients in options.clients:
        for kind in kinds:
            found = best[kind, clients]
            others = {k: n for k, n in found["statuses"].items() if k != "200"}
            print(
                f"{kind:12} {batch:6} {clients:7} {found['rate']:11.1f} "
                f"{found['median'] * 1e3:11.1f} {found['p99'] * 1e3:10.1f}  {others or ''}",
                flush=True,
            )


if __name__ == "__main__":
    main()
