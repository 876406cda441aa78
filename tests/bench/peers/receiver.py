"""The receiver of the comparison: the one of the other benches, which also reads marks.

``GET /arrivals`` gives a list of ``[publisher, number, sent, arrived]``, one for each request that was
answered 200, in their order, and forgets it. ``GET /fail/20`` makes it answer 503 to 20 % of all later
requests, at random. It prints its port, and ends when its standard input does.
"""

import json
import resource
import time

from tests.bench.peers.marks import MARK
from tests.bench.receiver import Counter, serve


class Recorder(Counter):
    """What came so far, event by event."""

    def __init__(self) -> None:
        super().__init__(record=True, failing=0.0)
        self._rows: list[tuple[int, int, int, int]] = []

    def answer_get(self, head: bytes) -> bytes:
        """Do what the path says; any other path is a system that looks whether its destination is there."""
        path = head.split(b" ", 2)[1]
        body = b"{}"
        if path == b"/arrivals":
            body = json.dumps(self._rows, separators=(",", ":")).encode()
            self._rows = []
        elif path.startswith(b"/fail/"):
            self.failing = int(path[6:]) / 100
        return b"HTTP/1.1 200 OK\r\ncontent-length: %d\r\n\r\n%b" % (len(body), body)

    def count(self, data: bytes, end: int, size: int) -> None:
        """Record the event in the body, if it has one: some systems try a new destination first."""
        found = MARK.search(data, end, size)
        if found is not None:
            self._rows.append((int(found[1]), int(found[2]), int(found[3]), time.monotonic_ns()))


if __name__ == "__main__":
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    serve(Recorder(), 0)
