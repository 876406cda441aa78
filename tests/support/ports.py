"""Ports for servers that cannot be told 0: they start later, or again on the same port."""

import random
import socket

# Those that bind() chooses are also given to connections: another test would soon have the port, for an
# instant or for long. Linux gives them 32768 to 60999 (ip_local_port_range).
_PORTS = range(20_000, 30_000)
_left = random.SystemRandom().sample(_PORTS, len(_PORTS))


def own_address() -> dict[str, list[str]]:
    """Return ``server`` of a gateway that is killed and started again.

    While it is down, no other process gets its port: a producer that goes on would reach the gateway of
    another test.
    """
    return {"bind": [f"127.0.0.1:{free_port()}"]}


def free_port() -> int:
    """Return a port of 127.0.0.1 that is free and that the kernel gives to nobody: another one each time."""
    while True:
        port = _left.pop()
        with socket.socket() as probe:
            try:
                probe.bind(("127.0.0.1", port))
            except OSError:
                continue
            return port
