"""Tells systemd, or another service manager with its protocol, when hookgw is ready and when it stops."""

from __future__ import annotations

import os
import socket

import structlog

logger = structlog.get_logger("hookgw")

READY = "READY=1"
STOPPING = "STOPPING=1"


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
