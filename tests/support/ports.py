"""Ports for servers that cannot be told 0: they start later, or again on the same port, or never."""

import fcntl
import os
import random
import socket
import tempfile
from pathlib import Path
from typing import TextIO

# Those that bind() chooses are also given to connections: another test would soon have the port, for an
# instant or for long. Linux gives them 32768 to 60999 (ip_local_port_range). hookgw refuses those of MongoDB,
# from 27017 on.
_PORTS = range(20_000, 27_000)
_AT_ONCE = 100
"""Ports that a process takes at once, by one lock: it has them until it ends."""
_locks: list[TextIO] = []
_left: list[int] = []


def own_address() -> dict[str, list[str]]:
    """Return ``server`` of a gateway that is killed and started again.

    While it is down, no other process gets its port: a producer that goes on would reach the gateway of
    another test.
    """
    return {"bind": [f"127.0.0.1:{free_port()}"]}


def free_port() -> int:
    """Return a port of 127.0.0.1 that is free, and that neither the kernel nor other tests give to anybody.

    It is another one each time.
    """
    while True:
        if not _left:
            _left.extend(_take_ports())
        port = _left.pop()
        with socket.socket() as probe:
            try:
                probe.bind(("127.0.0.1", port))
            except OSError:
                continue
            return port


def _take_ports() -> range:
    folder = Path(tempfile.gettempdir()) / f"hookgw-ports-{os.getuid()}"
    folder.mkdir(mode=0o700, exist_ok=True)
    for first in random.SystemRandom().sample(_PORTS[::_AT_ONCE], len(_PORTS) // _AT_ONCE):
        lock = (folder / str(first)).open("a")
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            lock.close()
        else:
            _locks.append(lock)
            return range(first, first + _AT_ONCE)
    raise RuntimeError("All ports for tests are taken.")
