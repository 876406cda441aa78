"""The URL at which a network calls hookgw for one instance. No I/O."""

from __future__ import annotations

import secrets

from hookgw.config.settings import ServerSettings
from hookgw.plugins.contained_connector import ContainedConnector
from hookgw.records.instances import Instance

INGEST_PATH = "/ingest/"

_TOKEN_BYTES = 16


def new_ingest_token() -> str:
    """Return a new token of 128 random bits, in characters that a path may contain."""
    return secrets.token_urlsafe(_TOKEN_BYTES)


def takes_requests(connector: ContainedConnector | None) -> bool:
    return connector is not None and "ingest" in connector.methods


class IngestUrls:
    """Makes the URLs of instances. Without ``server.public_url``, they are paths."""

    def __init__(self, server: ServerSettings) -> None:
        self.public_url = server.public_url
        self._base = server.address

    def url(self, instance: Instance, connector: ContainedConnector | None) -> str | None:
        """Return an instance's URL; ``None`` if its connector takes no requests."""
        # A connector that takes none any more, after an update, leaves the token behind.
        if not instance.ingest_token or not takes_requests(connector):
            return None
        return f"{self._base}{INGEST_PATH}{instance.name}/{instance.ingest_token}"
