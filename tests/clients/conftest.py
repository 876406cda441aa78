"""Gateways as processes, for real clients of Evolution API. ``nox -s clients`` installs the clients."""

import time
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from tests.support.gateway_process import Server, serving
from tests.support.processes import PATIENCE

NAMES = ("evolutionapi", "pyevolutionapi", "evolution-whatsapp", "cliente", "n8n", "toolkit", "mcp")
TOKENS = {name: f"B6D711FCDE4D4FD5936544120E713976-{name}" for name in NAMES}
"""The instance of each client, and the key that it chooses."""
URL = "https://crm.example/hook"
EVENTS = ["MESSAGES_UPSERT", "CONNECTION_UPDATE"]
NUMBER = "5511988887777"
WITH, WITHOUT = "the simulator", "no network"
EVOLUTION = f"{WITH}, as Evolution API"


@pytest.fixture(scope="session", params=[WITH, WITHOUT, EVOLUTION])
def server(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """A gateway whose clients get the simulator, although they ask for WHATSAPP-BAILEYS; then one without.

    The last one has ``server.compatibility: evolution``.
    """
    names = ("WHATSAPP-BAILEYS", "WHATSAPP-BUSINESS", "EVOLUTION")
    integrations = dict.fromkeys(names, "simulator") if WITH in request.param else {}
    # The code is shown for long enough that each client sees the instance connecting.
    simulator = {"connect_delay": "3s", "rate": 0}
    with serving(
        tmp_path_factory.mktemp("gateway"),
        server={"compatibility": "evolution" if request.param == EVOLUTION else "hookgw"},
        instances={"integrations": integrations},
        plugins={"options": {"simulator": simulator}},
    ) as server:
        yield server


@pytest.fixture
def has_network(server: Server, request: pytest.FixtureRequest) -> bool:
    """Whether the instances that clients create have a connector."""
    return WITH in request.node.name


@pytest.fixture
def is_evolution(request: pytest.FixtureRequest) -> bool:
    """Whether the gateway has ``server.compatibility: evolution``."""
    return EVOLUTION in request.node.name


def until_open(state: Callable[[], Any]) -> None:
    """Wait until a client says that its instance is connected."""
    ends = time.monotonic() + PATIENCE
    while (found := state()) != "open":
        assert found == "connecting"
        assert time.monotonic() < ends
        time.sleep(0.1)
