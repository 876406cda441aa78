"""Whether requests are forwarded to other nodes. A gateway that is alone does not load what does it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from hookgw.web.server.exchange import RequestResponse

if TYPE_CHECKING:
    from quart import Quart

    from hookgw.app.gateway import Gateway
    from hookgw.web.forwarding import Forwarder


class NoForwarding:
    """Forwards nothing, on a node that has every instance; see ``Forwarder``."""

    def install(self, app: Quart) -> None:
        pass

    def admit(self, exchange: RequestResponse) -> None:
        pass

    async def close_response(self, exchange: RequestResponse) -> None:
        pass

    def close(self) -> None:
        pass


def forwarding_of(gateway: Gateway) -> Forwarder | NoForwarding:
    """Return what forwards the requests of a gateway."""
    if gateway.peers is None:
        return NoForwarding()
    from hookgw.web.forwarding import Forwarder  # loads Quart

    return Forwarder(gateway, gateway.peers)
