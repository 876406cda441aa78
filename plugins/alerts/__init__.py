"""Tells people what is wrong: by e-mail, Slack, Teams, Discord, Telegram, ntfy, any URL, or WhatsApp.

The block ``alerts`` of the configuration has channels and rules; docs/alerts.md describes both::

    alerts:
      channels: {phone: {type: ntfy, url: "https://ntfy.example/hookgw"}}
      rules: [{on: instance_closed, for: 5m, to: [phone]}]

An example of ``hookgw_run_on_one_node``, of records that last, of a form in the dashboard, and of a command.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from hookgw import DashboardPage, Event, Gateway, hookimpl
from hookgw.kernel.language import N_

from .service import Alerts

if TYPE_CHECKING:
    import click
    from quart_trio import QuartTrio


class _State:
    """What :func:`hookgw_configure` makes; the other hooks are not called before it."""

    alerts: Alerts


@hookimpl
def hookgw_configure(options: dict[str, Any]) -> None:
    """Read the options."""
    _State.alerts = Alerts(options)


@hookimpl
def hookgw_reconfigure(options: dict[str, Any]) -> Callable[[], None]:
    """Check changed channels and rules."""
    return _State.alerts.reconfigured(options)


@hookimpl
def hookgw_secret_options() -> list[str]:
    """Mask the channels: most of their URLs are secrets."""
    return ["channels"]


@hookimpl
def hookgw_operational_event(event: Event) -> None:
    """Count dead letters."""
    _State.alerts.observe(event)


@hookimpl
async def hookgw_run(gateway: Gateway) -> None:
    """Store the counts of this node."""
    await _State.alerts.count(gateway)


@hookimpl
async def hookgw_run_on_one_node(gateway: Gateway) -> None:
    """Watch, and tell."""
    await _State.alerts.watch(gateway)


@hookimpl
def hookgw_dashboard_pages() -> list[DashboardPage]:
    """Add the page of alerts."""
    from .page import Page

    page = Page(lambda: _State.alerts)
    return [DashboardPage(title=N_("Alerts"), path="alerts", render=page.render, submit=page.submit)]


@hookimpl
def hookgw_routes(app: QuartTrio, gateway: Gateway) -> None:
    """Add ``GET /alerts/list`` and ``POST /alerts/test``."""
    from .routes import add_routes

    add_routes(app, gateway, _State.alerts)


@hookimpl
def hookgw_commands(group: click.Group) -> None:
    """Add ``hookgw alerts``."""
    from .command import alerts

    group.add_command(alerts)
