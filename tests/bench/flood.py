"""A producer that floods a server, as a process: ``python -m tests.bench.flood PORT PATH SECONDS KIND``.

Each of its connections sends its next request as soon as the last one is answered. Of the kind ``batches``,
half of 32 connections send batches of a hundred events, the others one event a request. Of the kind
``publishers``, all of 128 send one event a request. It prints a line when it begins, and at its end its
figures as JSON.
"""

import json
import sys

from tests.bench.load import EVENT, drive_all, request_of

BATCH = b"[" + b",".join([EVENT] * 100) + b"]"
KINDS = {"batches": [BATCH, EVENT] * 16, "publishers": [EVENT] * 128}
"""The body that each connection sends."""


def main(port: str, path: str, seconds: str, kind: str) -> None:
    """Flood, then print."""
    bodies = KINDS[kind]
    print("begins", flush=True)
    load = drive_all(int(port), [request_of(path, body) for body in bodies], seconds=float(seconds))
    answers = zip(bodies, load.answers, strict=True)
    events = sum(count * (100 if body is BATCH else 1) for body, count in answers)
    print(json.dumps({"events_per_second": events / load.seconds}), flush=True)


if __name__ == "__main__":
    main(*sys.argv[1:])
