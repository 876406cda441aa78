"""A producer that floods a server: ``python -m tests.bench.flood PORT PATH SECONDS``, a process of its own.

Half of its connections send batches of a hundred events, the others one event a request, each as fast as the
server answers. It prints a line when it begins, and at its end its figures as JSON.
"""

from __future__ import annotations

import json
import sys

from tests.bench.load import EVENT, drive_all, request_of

BATCH = b"[" + b",".join([EVENT] * 100) + b"]"
CONNECTIONS = 16
"""Of each kind."""


def main(port: str, path: str, seconds: str) -> None:
    """Flood, then print."""
    requests = [request_of(path, BATCH), request_of(path, EVENT)] * CONNECTIONS
    print("begins", flush=True)
    load = drive_all(int(port), requests, seconds=float(seconds))
    batches, singles = sum(load.answers[::2]), sum(load.answers[1::2])
    print(json.dumps({"events_per_second": (100 * batches + singles) / load.seconds}), flush=True)


if __name__ == "__main__":
    main(*sys.argv[1:])
