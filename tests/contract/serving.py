"""A gateway and a receiver for tools that read ``/openapi.json``."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from tests.support.gateway_process import Server, receiving, serving


@contextmanager
def gateway() -> Iterator[tuple[Server, str]]:
    """Run a gateway and a receiver; yield the gateway, and the receiver's URL."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        with receiving(folder) as receiver, serving(folder, **settings(receiver.root)) as server:
            yield server, receiver.root


def settings(receiver: str) -> dict[str, dict[str, object]]:
    """Return settings with which every route can succeed.

    Wrong keys are part of the trial, so they are not limited. Plugins that check their options of
    registrations stay out: no schema says what each takes.
    """
    return {
        "auth": {"failed_attempts": 0},
        "operations": {"url": f"{receiver}/operations"},
        "plugins": {"disabled": ["evolution_envelope", "message_filters"]},
    }
