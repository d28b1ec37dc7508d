"""Matrix products by size: GFLOP/s, and how much of the FMA peak that is.

    python -m benchmarks.matmul_sizes [--sizes 256,512,1000] [--kinds constant,ab] [--rounds 10]

One thread, float32. Kinds: ``constant`` has a weight that is known at compile time; of ``ab``,
``abt`` (``a @ b.T``) and ``atb`` (``a.T @ b``) both operands are inputs. Contenders live in
processes of their own and take turns, as in ``run``; the peak is the best of what multiply-adds on
registers reach before each size, in the same run.
"""

from __future__ import annotations

import argparse

from .cases import PRODUCTS, product
from .contenders import OURS
from .machine import fma_peak
from .processes import measure
from .run import cpu_name, versions

SIZES = (256, 384, 500, 512, 768, 1000, 1024, 1536, 2048)
PEERS = ("eager", "onnxruntime", "openvino")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--sizes", default=",".join(map(str, SIZES)))
    parser.add_argument("--kinds", default=",".join(PRODUCTS))
    parser.add_argument("--contenders", default=",".join(("burnish", *PEERS)))
    parser.add_argument("--rounds", type=int, default=10)
    parser.add_argument("--seconds", type=float, default=0.1, help="length of a round")
    options = parser.parse_args()
    names = options.contenders.split(",")
    print(cpu_name(), versions(), sep="\n")
    heads = "".join([f"{name:>22}" for name in names])
    print(f"\n{'kind':10}{'size':>6}{'peak':>8}{heads}   best peer / burnish")
    peak = 0.0
    for kind in options.kinds.split(","):
        for size in map(int, options.sizes.split(",")):
            peak = max(peak, fma_peak(0.2))
            case = product(kind, size)
            ways = measure(case, names, 1, options.rounds, options.seconds)
            cells, times = [], {}
            for name in names:
                found = [w for w in ways if w.contender == name and w.times]
                if not found:
                    cells.append(f"{'failed':>22}")
                    continue
                times[name] = min(min(w.times) for w in found)
                speed = case.flop / times[name] / 1e9
                cells.append(f"{speed:13.1f} {speed / peak:8.1%}")
            peers = [t for name, t in times.items() if name not in OURS]
            ours = times.get(OURS[0])
            ratio = f"{min(peers) / ours:21.2f}" if peers and ours else ""
            print(f"{kind:10}{size:6}{peak:8.1f}{''.join(cells)}{ratio}", flush=True)


if __name__ == "__main__":
    main()
