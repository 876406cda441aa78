"""The address of the page behind portal links."""

from __future__ import annotations

from hookgw.config.settings import Settings
from hookgw.kernel.errors import Conflict
from hookgw.site.addresses import address_of_request

PORTAL_PATH = "/dashboard/portal"


def portal_url(settings: Settings) -> str:
    """Return the URL of the page; below ``server.public_url``, or the address of the current request.

    Raises:
        Conflict: the dashboard is off.
    """
    if not settings.dashboard.enabled:
        raise Conflict.of(
            "portal.dashboard_off", "A portal link opens the dashboard, which is off (dashboard.enabled)."
        )
    server = settings.server
    address = address_of_request(server) if server.public_url is None else server.address
    return f"{address}{PORTAL_PATH}"
