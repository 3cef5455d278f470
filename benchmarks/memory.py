"""Peak memory of a whole explanation, each in a process of its own.

``python -m benchmarks.memory HEAD DISTRACTORS`` measures one and prints JSON.
"""

from __future__ import annotations

import json
import resource
import subprocess
import sys
import threading
import time
from typing import Any


def measure(name: str, count: int) -> dict[str, Any]:
    """Run one explanation in a fresh process and return its peak memory beyond what was there before."""
    done = subprocess.run(
        [sys.executable, "-m", "benchmarks.memory", name, str(count)], capture_output=True, text=True, check=True
    )
    return json.loads(done.stdout.splitlines()[-1])


def _resident() -> int:
    with open("/proc/self/statm") as file:
        return int(file.read().split()[1]) * resource.getpagesize()


class Peak:
    """Samples resident memory in the background."""

    def __enter__(self) -> Peak:
        self.start = self.top = _resident()
        self.running = True
        self.thread = threading.Thread(target=self._watch, daemon=True)
        self.thread.start()
        return self

    def _watch(self) -> None:
        while self.running:
            self.top = max(self.top, _resident())
            time.sleep(0.002)

    def __exit__(self, *_: object) -> None:
        self.running = False
        self.thread.join()

    @property
    def extra(self) -> int:
        return self.top - self.start


def _main(name: str, count: int) -> None:
    import torch

    from benchmarks.heads import features, given, make
    from partswap import find_counterfactual

    head, shape = make(name)
    query, distractors, query_aux, distractor_aux = features(shape, count)
    with torch.no_grad():
        target = int(head(query[None]).argsort(1)[0, 0])
    start = time.perf_counter()
    with Peak() as peak:
        cf = find_counterfactual(
            *given(head, query), distractors, target, query_aux=query_aux, distractor_aux=distractor_aux, max_edits=4
        )
    seconds = time.perf_counter() - start
    extra = peak.extra / 2**20
    print(json.dumps({"head": name, "distractors": count, "edits": len(cf), "extra_mb": extra, "seconds": seconds}))


if __name__ == "__main__":
    _main(sys.argv[1], int(sys.argv[2]))
