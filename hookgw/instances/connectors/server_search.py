"""Look for the servers of connectors at a few usual addresses, when an operator asks for it."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from typing import Any, NamedTuple

import httpx
import msgspec
import trio

from hookgw.config.settings import Settings
from hookgw.kernel.collaborator import Collaborator
from hookgw.kernel.json_text import decode_strict
from hookgw.kernel.target_url import Origin

PATIENCE = 1.0
"""Seconds for the two requests to a candidate, with the lookup of its name."""
_LARGEST = 64 * 1024


class FoundServer(msgspec.Struct, frozen=True, rename="camel"):
    """A server that answers as one of a connector's does.

    Attributes:
        connector: the connector.
        url: of the server.
        version: as the server says; `null` if it says none to a stranger.
        is_listed: whether the configuration lists the server already.
        configuration: the lines to add to the configuration, in YAML; empty for a listed one.
    """

    connector: str
    url: str
    version: str | None
    is_listed: bool
    configuration: str


class _Product(NamedTuple):
    """How a connector's server is recognised.

    Attributes:
        path: what it answers without a key.
        recognise: returns whether an answer is its, and its version.
        options: the lines that give hookgw a key.
    """

    path: str
    recognise: Callable[[httpx.Response, Any], tuple[bool, str | None]]
    options: tuple[str, ...]


def _recognise_gowa(response: httpx.Response, answer: Any) -> tuple[bool, str | None]:
    # Its framework's challenge, before anything that says more.
    challenge = response.headers.get("www-authenticate", "").lower()
    if response.status_code == 401:
        return challenge.startswith('basic realm="restricted"'), None
    results = answer.get("results") if isinstance(answer, dict) else None
    if not isinstance(results, dict) or not {"base_path", "chatwoot_enabled"} <= results.keys():
        return False, None
    return True, _text(results.get("version"))


def _recognise_evolution(_: httpx.Response, answer: Any) -> tuple[bool, str | None]:
    message = answer.get("message") if isinstance(answer, dict) else None
    is_evolution = isinstance(message, str) and "Evolution API" in message
    return is_evolution, _text(answer.get("version")) if is_evolution else None


def _text(value: Any) -> str | None:
    return value[:64] if isinstance(value, str) else None


_PRODUCTS = {
    "waha": _Product(
        "/ping", lambda _, answer: (answer == {"message": "pong"}, None), ('api_key: "${WAHA_API_KEY}"',)
    ),
    "gowa": _Product("/app/info", _recognise_gowa, ("user: hookgw", 'password: "${GOWA_PASSWORD}"')),
    "evolution": _Product("/", _recognise_evolution, ('api_key: "${AUTHENTICATION_API_KEY}"',)),
}
_CANDIDATES: Mapping[tuple[str, int], tuple[str, ...]] = {
    ("waha", 3000): ("waha",),
    ("gowa", 3000): ("gowa",),
    ("evolution", 8080): ("evolution",),
    ("127.0.0.1", 3000): ("waha", "gowa"),
    ("127.0.0.1", 8080): ("evolution",),
}
"""Hosts and ports, with the products that may be there. Each product costs one request."""
CANDIDATES: tuple[Origin, ...] = tuple(("http", host, port) for host, port in _CANDIDATES)


def recognise(connector: str, response: httpx.Response) -> tuple[bool, str | None]:
    """Return whether an answer is that of a connector's server to a stranger, and its version."""
    # Another hookgw may answer as Evolution API does.
    if "x-hookgw-version" in response.headers or len(response.content) > _LARGEST:
        return False, None
    try:
        answer = decode_strict(response.content)
    except ValueError:
        answer = None
    return _PRODUCTS[connector].recognise(response, answer)


class ServerSearch(Collaborator):
    """Asks the candidates, and nobody else.

    Args:
        http: reaches :data:`CANDIDATES` at whatever address they have, but not hookgw itself.
        connectors: the names of those that the gateway has.
        listed: returns the servers that the configuration lists for a connector.
        settings: of the gateway.
    """

    _http: httpx.AsyncClient
    _connectors: Collection[str]
    _listed: Callable[[str], Collection[Origin]]
    _settings: Settings

    def __post_init__(self) -> None:
        self._turn = trio.Lock()

    async def find(self) -> list[FoundServer]:
        """Return the servers that answer within :data:`PATIENCE` seconds, in the order of the candidates."""
        found: dict[tuple[str, int], FoundServer] = {}

        async def ask(place: tuple[str, int], connectors: tuple[str, ...]) -> None:
            with trio.move_on_after(PATIENCE):
                for connector in connectors:
                    if connector in self._connectors and (one := await self._ask(*place, connector)):
                        found[place] = one
                        return

        async with self._turn, trio.open_nursery() as nursery:
            for place, connectors in _CANDIDATES.items():
                nursery.start_soon(ask, place, connectors)
        return [found[place] for place in _CANDIDATES if place in found]

    async def _ask(self, host: str, port: int, connector: str) -> FoundServer | None:
        product, url = _PRODUCTS[connector], f"http://{host}:{port}"
        try:
            # Without credentials: anybody may listen there.
            response = await self._http.get(url + product.path, follow_redirects=False)
        except httpx.HTTPError:
            return None
        is_it, version = recognise(connector, response)
        if not is_it:
            return None
        is_listed = ("http", host, port) in self._listed(connector)
        lines = "" if is_listed else self._configuration(connector, url, product.options)
        return FoundServer(connector, url, version, is_listed, lines)

    def _configuration(self, connector: str, url: str, options: tuple[str, ...]) -> str:
        lines = []
        if self._settings.server.public_url is None:
            lines.append("server:")
            lines.append(
                f"  public_url: http://127.0.0.1:8080  # an address at which {connector} reaches hookgw"
            )
        if "WHATSAPP-BAILEYS" not in self._settings.instances.integrations:
            lines.append("instances:")
            lines.append(f"  integrations: {{WHATSAPP-BAILEYS: {connector}}}")
        lines.append("plugins:")
        lines.append("  options:")
        lines.append(f"    {connector}:")
        lines.append(f"      base_url: {url}")
        lines += [f"      {line}" for line in options]
        lines.append(f'      servers: ["{url}"]')
        return "\n".join(lines)
