"""Tells systemd, or others with its protocol, that hookgw is ready, stops, or takes longer to start."""

from __future__ import annotations

import os
import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager

import structlog

logger = structlog.get_logger("hookgw")

SERVICE_READY = "READY=1"
SERVICE_STOPPING = "STOPPING=1"

SERVICE_EXTEND_BY = 60
"""Seconds that a start may take from each note on."""

EXTEND_EVERY = 15.0
"""Seconds between two notes."""


@contextmanager
def extended_start() -> Iterator[None]:
    """Have the service manager wait for a start until the block ends, however long it takes.

    Without this, it would kill a long migration (``TimeoutStartSec``, 90 s by default) again and again.
    """
    if not os.environ.get("NOTIFY_SOCKET"):
        yield
        return
    state = f"EXTEND_TIMEOUT_USEC={SERVICE_EXTEND_BY * 1_000_000}"
    notify(state)  # before the work begins
    ended = threading.Event()

    def extend() -> None:
        while not ended.wait(EXTEND_EVERY):
            notify(state)

    # The block blocks its own thread.
    thread = threading.Thread(target=extend, name="service manager", daemon=True)
    thread.start()
    try:
        yield
    finally:
        ended.set()
        thread.join()


def notify(state: str) -> None:
    """Send a state to the service manager; do nothing without one (``$NOTIFY_SOCKET``).

    See sd_notify(3). Only a service of ``Type=notify`` has such a socket.
    """
    address = os.environ.get("NOTIFY_SOCKET")
    if not address:
        return
    if address.startswith("@"):  # an abstract socket
        address = f"\0{address[1:]}"
    try:
        with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as sender:
            # A service manager that does not read must not stop hookgw.
            sender.setblocking(False)
            sender.sendto(state.encode(), address)
    except OSError as error:
        logger.warning("the service manager cannot be notified", state=state, reason=str(error))
