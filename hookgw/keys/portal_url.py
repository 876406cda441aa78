"""The address of the page behind portal links."""

from __future__ import annotations

from quart import request

from hookgw.config.settings import Settings
from hookgw.kernel.errors import Conflict

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
    if server.public_url is not None:
        return f"{server.address}{PORTAL_PATH}"
    return f"{request.scheme}://{request.host[:255]}{server.base_path}{PORTAL_PATH}"
