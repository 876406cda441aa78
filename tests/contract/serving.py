"""A gateway and a receiver for tools that read ``/openapi.json``."""

import tempfile
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

from tests.support.gateway_process import Server, receiving, serving
from tests.support.postgres import run_postgres


@contextmanager
def gateway(engine: str = "sqlite", compatibility: str = "hookgw") -> Iterator[tuple[Server, str]]:
    """Run a gateway and a receiver; yield the gateway, and the receiver's URL.

    Args:
        engine: of the gateway's storage; ``postgresql`` also runs a server for it.
        compatibility: its ``server.compatibility``.
    """
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        receiver = stack.enter_context(receiving(folder))
        blocks = settings(receiver.root)
        blocks["server"] = {"compatibility": compatibility}
        if engine == "postgresql":
            postgres = stack.enter_context(run_postgres())
            blocks["storage"] = {"engine": engine, "url": postgres.url()}
        yield stack.enter_context(serving(folder, **blocks)), receiver.root


def settings(receiver: str) -> dict[str, dict[str, object]]:
    """Return settings with which every route can succeed.

    Wrong keys are part of the trial, so they are not limited. Plugins that check their options of
    registrations stay out: no schema says what each takes.
    """
    return {
        "auth": {"failed_attempts": 0},
        "operations": {"url": f"{receiver}/operations"},
        "plugins": {"disabled": ["evolution_envelope", "message_filters", "rabbitmq", "cloudevents"]},
    }
