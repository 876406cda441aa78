"""Fixtures: a homeserver, a gateway and a receiver, all on loopback ports of their own."""

import importlib.util
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import trio

from tests.networks.gateway import Gateway, running_gateway
from tests.networks.homeserver import PASSWORD
from tests.networks.synapse import Synapse

ConnectUser = Callable[..., Awaitable[None]]
"""Creates and connects an instance: its name, and the name of the homeserver's user."""


@pytest.fixture(scope="session")
def synapse(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Synapse]:
    """A homeserver that all tests share: starting one takes seconds. Each test has users of its own."""
    if importlib.util.find_spec("synapse") is None:
        pytest.skip("matrix-synapse is not installed: run nox -s networks")
    synapse = Synapse(tmp_path_factory.mktemp("synapse"))
    try:
        synapse.start()
        yield synapse
    finally:
        synapse.kill()


@pytest.fixture
async def gateway(tmp_path: Path, synapse: Synapse) -> AsyncIterator[Gateway]:
    """A gateway that may connect to the homeserver."""
    with trio.fail_after(250):
        async with running_gateway(tmp_path, {"matrix": {"servers": [synapse.url]}}) as gateway:
            yield gateway


@pytest.fixture
def connect(gateway: Gateway, synapse: Synapse) -> ConnectUser:
    """Return a function that creates an instance for a user of the homeserver, and waits until it is open."""

    async def connect(instance: str, user: str, **options: Any) -> None:
        options = {"homeserver": synapse.url, "user": user, "password": PASSWORD, **options}
        await gateway.connect(instance, "matrix", **options)

    return connect
