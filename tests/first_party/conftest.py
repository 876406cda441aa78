"""Fixtures: the first-party plugins, loaded by the real loader and called through the real hooks."""

import json
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from hookgw import Event, Registration
from hookgw.testing import FakeSession
from plugins.evolution.connector import Evolution
from plugins.evolution.webhook import PROOF
from tests.first_party.evolution import CATALOG, OPTIONS, Take, connected, served
from tests.first_party.matrix import Homeserver
from tests.first_party.runs import post
from tests.networks.evolution import Evolution as EvolutionServer
from tests.public.config import PluginsSettings
from tests.public.kernel import parse_rfc3339
from tests.public.plugins import ContainedConnector, Hooks, LoadedPlugins, load_plugins
from tests.public.records import BUILT_IN_KINDS, Catalog

PAYLOADS = Path(__file__).parents[1] / "payloads"


@pytest.fixture
def loaded(tmp_path: Path) -> LoadedPlugins:
    return load_plugins(PluginsSettings(), base=tmp_path)


@pytest.fixture
def hooks(loaded: LoadedPlugins) -> Hooks:
    hooks = Hooks(loaded)
    hooks.configure({})
    return hooks


@pytest.fixture
def simulator(hooks: Hooks) -> ContainedConnector:
    return hooks.connectors()["simulator"]


@pytest.fixture
def module_of(loaded: LoadedPlugins) -> Callable[[str], ModuleType]:
    """Return a function that finds a plugin's module, for tests of more than its hooks."""

    def find(name: str) -> ModuleType:
        module = loaded.manager.get_plugin(name)
        assert isinstance(module, ModuleType)
        return module

    return find


@pytest.fixture
def catalog(hooks: Hooks) -> Catalog:
    return Catalog([*BUILT_IN_KINDS, *hooks.kinds()])


@pytest.fixture
def payload(catalog: Catalog) -> Callable[[str], tuple[dict[str, Any], Event]]:
    """Return a function that reads a payload file, and returns it with the event for it."""

    def read(name: str) -> tuple[dict[str, Any], Event]:
        envelope = json.loads((PAYLOADS / f"{name}.json").read_text())
        event = Event(
            id="msg_1",
            kind=catalog.resolve(envelope["event"], "event").name,
            instance=envelope["instance"],
            data_json=json.dumps(envelope["data"]).encode(),
            time=parse_rfc3339(envelope["date_time"]),
            sender=envelope["sender"],
            server_url=envelope["server_url"],
        )
        return envelope, event

    return read


@pytest.fixture
def registered() -> Callable[..., Registration]:
    """Return a function that makes a registration with options for plugins."""

    def make(**plugins: Any) -> Registration:
        return Registration(id="reg_1", instance="loja1", url="https://app.example/hook", plugins=plugins)

    return make


@pytest.fixture
def connector() -> Evolution:
    return Evolution()


@pytest.fixture
def session() -> FakeSession:
    return FakeSession(options=OPTIONS, catalog=CATALOG)


@pytest.fixture
async def evolution(connector: Evolution, session: FakeSession) -> AsyncIterator[EvolutionServer]:
    """The server, whose events come to the connector."""
    async with served(connector, session) as evolution:
        yield evolution


@pytest.fixture
async def taking(
    connector: Evolution, session: FakeSession, evolution: EvolutionServer
) -> AsyncIterator[Take]:
    """Run the connector; return a function that posts a body with the right proof."""
    async with connected(connector, session):

        async def take(body: Any, path: str = "") -> int:
            raw = body if isinstance(body, bytes) else json.dumps(body).encode()
            return await post(connector, session, raw, {PROOF: session.stored["secret"]}, path)

        yield take


@pytest.fixture
def homeserver() -> Homeserver:
    return Homeserver()
