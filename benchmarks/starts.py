"""Several starts at once against one after the other, ratio in one run.

Starts run in worker processes of one core each; at a ratio of one that brings nothing.
"""

import argparse
import json
import os
import time
from pathlib import Path

import sparsid


def main() -> None:
    """Time the starts with one worker and with all cores."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--starts", type=int, default=8)
    parser.add_argument("--out", type=Path)
    args = parser.parse_args()
    record = sparsid.datasets.load("cascaded-tanks").estimation

    def seconds(workers: int) -> float:
        began = time.perf_counter()
        sparsid.NARX(starts=args.starts, workers=workers).fit(record)
        return time.perf_counter() - began

    cores = os.cpu_count() or 1
    seconds(cores)  # compiles
    one, all_cores = seconds(1), seconds(cores)
    result = {
        "starts": args.starts,
        "cores": cores,
        "one_worker_seconds": one,
        "all_cores_seconds": all_cores,
        "ratio": one / all_cores,
    }
    print(f"| workers | {args.starts} starts (s) |\n|---|---|")
    print(f"| 1 | {one:.1f} |\n| {cores} | {all_cores:.1f} |")
    print(f"\nratio {result['ratio']:.2f}")
    if args.out:
        args.out.parent.mkdir(parents=True, exist_ok=True)
        args.out.write_text(json.dumps(result, indent=2) + "\n")


if __name__ == "__main__":
    main()
