"""The hooks that a plugin may implement.

Each is described, with an example, in ``docs/plugins.md``. A hook takes any subset of the listed
arguments, by name, and may be a plain or an async function.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pluggy

from hookgw.models.connectors import Connector
from hookgw.models.deliveries import Attempt, Delivery, LaneState, Outgoing
from hookgw.models.events import Event, EventKind
from hookgw.models.registrations import Registration

if TYPE_CHECKING:
    import click
    from quart_trio import QuartTrio

    from hookgw.plugins.gateway_protocol import PluginGateway

PROJECT = "hookgw"
hookspec = pluggy.HookspecMarker(PROJECT)
hookimpl = pluggy.HookimplMarker(PROJECT)


@hookspec
def hookgw_event_kinds() -> list[EventKind]:  # type: ignore[empty-body]
    """Give the event kinds that the plugin adds to the catalog.

    Called once at start. A name that is taken stops the start, naming both plugins.
    """


@hookspec
def hookgw_configure(options: dict[str, Any]) -> None:
    """Take and check the plugin's own block ``plugins.options.<name>`` of the configuration.

    Called once at start, before any other hook, with ``{}`` where there is no such block. Raise
    ``ValueError`` with a sentence that says what is wrong and what would be right: it stops the start
    with the key's path. A block for a plugin without this hook stops the start too.
    """


@hookspec
def hookgw_check_registration(options: dict[str, Any], registration: Registration) -> None:
    """Check the plugin's own block ``plugins.<name>`` of a registration that is being set.

    Called only where the registration has such a block. Raise ``ValueError``: the caller gets 400
    with the sentence and ``webhook.plugins.<name>`` before it, and nothing is stored.
    """


@hookspec
def hookgw_event_accepted(event: Event) -> None:
    """Observe an event that was accepted, once it is on disk.

    A failure is logged and counted and changes nothing.
    """


@hookspec
def hookgw_filter(event: Event, registration: Registration) -> bool | None:
    """Say whether the event goes to the registration: ``False`` drops the delivery.

    Runs in the lane, before ``hookgw_transform``, once for each delivery until its body is fixed.
    An exception is a *failed* attempt with the plugin named, retried on the schedule.
    """


@hookspec
def hookgw_transform(event: Event, registration: Registration) -> Event | None:
    """Give the event in another form for this registration, or ``None`` to leave it as it is.

    Each implementation sees what the one before returned. Use ``event.replace(data=…)``. An exception
    is a *failed* attempt with the plugin named, retried on the schedule.
    """


@hookspec
def hookgw_encode(event: Event, registration: Registration) -> bytes | None:
    """Give the body to send in the place of hookgw's own envelope, or ``None`` for that.

    The first that is not ``None`` is taken. The body is fixed by it: retries and resends send the same
    bytes. An exception is a *failed* attempt with the plugin named.
    """


@hookspec
def hookgw_prepare(request: Outgoing, event: Event, registration: Registration) -> None:
    """Change the headers of one attempt (``request.headers``), for each attempt anew.

    An exception is a *failed* attempt with the plugin named.
    """


@hookspec
def hookgw_attempt(attempt: Attempt, delivery: Delivery, registration: Registration) -> None:
    """Observe an attempt, whatever came of it. A failure is logged and counted and changes nothing."""


@hookspec
def hookgw_delivered(delivery: Delivery, registration: Registration) -> None:
    """Observe a delivery that was delivered. A failure is logged and counted and changes nothing."""


@hookspec
def hookgw_dead_letter(delivery: Delivery, registration: Registration | None, reason: str) -> None:
    """Observe a delivery that was given up. A failure is logged and counted and changes nothing."""


@hookspec
def hookgw_lane_state(
    lane: str, state: LaneState, registration: str, partition: str | None, url: str | None
) -> None:
    """Observe a lane that began to wait, or to deliver again, or ended.

    ``lane`` is its key, ``registration`` the id of the registration that it belongs to, ``partition`` which
    of the registration's lanes it is (``None`` for the only one), and ``url`` the registration's URL
    without user and password (``None`` if it was deleted). A delivery without a wait calls no hook. A
    failure is logged and counted.
    """


@hookspec
def hookgw_operational_event(event: Event) -> None:
    """Observe an operational event: a registration disabled, a lane failing, dead letters, and so on.

    Called in order, in a task of its own. ``event.data`` says what happened; ``docs/operations.md`` has
    every kind. A failure is logged and counted and changes nothing.
    """


@hookspec
def hookgw_connectors() -> list[Connector]:  # type: ignore[empty-body]
    """Give the connectors that the plugin provides; called once at start."""


@hookspec
def hookgw_routes(app: QuartTrio, gateway: PluginGateway) -> None:
    """Add routes to the HTTP interface, before it starts.

    Every route needs the global key, or with ``<instance>`` in its path that instance's; below
    ``/shared/`` any key, below ``/public/`` none. See ``docs/plugins.md``.
    """


@hookspec
def hookgw_commands(group: click.Group) -> None:
    """Add commands to ``hookgw``; called when the command line is read."""


@hookspec
async def hookgw_run(gateway: PluginGateway) -> None:
    """Run beside the gateway, in a task of its own in the gateway's nursery.

    Started once the gateway accepts events; cancelled at shutdown. If it raises, that is logged and
    counted and it is started again after a wait that grows; if it returns, it is done.
    """
