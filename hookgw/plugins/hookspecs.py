"""The hooks that a plugin may implement.

``docs/plugins.md`` describes each one with an example. An implementation takes any of the listed arguments,
by name, and may be a plain or an async function.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import pluggy

from hookgw.records.connectors import Connector
from hookgw.records.dashboard_pages import DashboardPage
from hookgw.records.deliveries import Attempt, Delivery, LaneState, Outgoing
from hookgw.records.destinations import Send
from hookgw.records.events import Event, EventKind
from hookgw.records.registrations import Registration

# Every plugin imports this module, and quart_trio alone takes half a second to import.
if TYPE_CHECKING:
    import click
    from quart_trio import QuartTrio

    from hookgw.plugins.gateway_protocol import PluginGateway

PROJECT = "hookgw"
hookspec = pluggy.HookspecMarker(PROJECT)
hookimpl = pluggy.HookimplMarker(PROJECT)


@hookspec
def hookgw_event_kinds() -> list[EventKind]:  # type: ignore[empty-body]
    """Return the event kinds that the plugin adds to the catalog.

    Called once at start. A kind that breaks a rule, or whose name exists already, stops the start; the error
    names the plugin.
    """


@hookspec
def hookgw_configure(options: dict[str, Any]) -> bool | None:
    """Take and check the plugin's block ``plugins.options.<name>`` of the configuration.

    Called once at start, before all other hooks but ``hookgw_secret_options``, with ``{}`` if there is no
    such block. To reject the options, raise ``ValueError`` with a sentence that says what is wrong and what
    would be right: the start stops with the path of the key. A block for a plugin without this hook stops the
    start too. Return ``False`` if the plugin has nothing to do with these options: it is switched off, and
    none of its hooks costs anything.
    """


@hookspec
def hookgw_reconfigure(options: dict[str, Any]) -> Callable[[], None]:  # type: ignore[empty-body]
    """Check the plugin's changed block of the configuration, and return a function that puts it into use.

    Called when the configuration is reloaded (SIGHUP) and the block differs. To reject the options, raise
    ``ValueError`` as in ``hookgw_configure``: then nothing of the configuration changes. This hook must not
    change anything itself; hookgw calls the returned function once everything else was checked too. Without
    this hook, changed options need a restart.
    """


@hookspec
def hookgw_check_registration(options: dict[str, Any], registration: Registration) -> None:
    """Check the plugin's block ``plugins.<name>`` of a registration that is being set.

    Called only if the registration has such a block. To reject it, raise ``ValueError``: the caller gets
    400 with the sentence and ``webhook.plugins.<name>`` before it, and nothing is stored.
    """


@hookspec
def hookgw_secret_options() -> list[str]:  # type: ignore[empty-body]
    """Return the names of the plugin's options whose values are secrets.

    They count in both blocks: ``plugins.options.<name>`` of the configuration and ``plugins.<name>`` of
    registrations. Called once at start, before all other hooks. hookgw masks these values wherever it shows
    registrations, in stored responses, and in messages and tracebacks of plugins.
    """


@hookspec
def hookgw_accept(events: list[Event], headers: dict[str, str]) -> None:
    """Observe events that are about to be stored, and will be accepted unless the store refuses them.

    Called once for each request or batch. ``headers`` has the tracing headers of a request to emit, if it has
    any: ``traceparent``, ``tracestate``, ``baggage``. A failure is logged and counted, and changes nothing.
    """


@hookspec
def hookgw_event_accepted(event: Event) -> None:
    """Observe an event that was accepted, once it is on disk.

    A failure is logged and counted, and changes nothing.
    """


@hookspec
def hookgw_concerns(registration: Registration) -> bool | None:
    """Return ``False`` if the plugin does nothing with the deliveries of a registration.

    hookgw asks once for each version of a registration, and again when options of the configuration have
    changed. If no plugin is concerned by a registration, ``hookgw_filter``, ``hookgw_transform``,
    ``hookgw_encode`` and ``hookgw_prepare`` are not called for its deliveries. They may still be called if
    another plugin is concerned. Without this hook, every registration concerns the plugin. An exception is
    logged, and the plugin counts as concerned.
    """


@hookspec
def hookgw_filter(event: Event, registration: Registration) -> bool | None:
    """Return whether the event goes to the registration; ``False`` drops the delivery.

    Runs in the lane, before ``hookgw_transform``, until the delivery's body is fixed.
    An exception is a *failed* attempt that names the plugin and is retried on the schedule.
    """


@hookspec
def hookgw_transform(event: Event, registration: Registration) -> Event | None:
    """Return the event in another form for this registration, or ``None`` to leave it unchanged.

    Each plugin sees the previous plugin's result. Use ``event.replace(data=…)``. An exception
    is a *failed* attempt that names the plugin and is retried on the schedule.
    """


@hookspec
def hookgw_encode(event: Event, registration: Registration) -> bytes | None:
    """Return the body to send instead of hookgw's envelope, or ``None`` for hookgw's envelope.

    The first body is used. It may have at most 64 MiB. The first attempt fixes it: retries and resends send
    the same bytes. An exception is a *failed* attempt that names the plugin.
    """


@hookspec
def hookgw_prepare(request: Outgoing, event: Event, registration: Registration) -> None:
    """Change the headers of one attempt (``request.headers``). Called for each attempt.

    An exception is a *failed* attempt that names the plugin.
    """


@hookspec
def hookgw_attempt(attempt: Attempt, delivery: Delivery, registration: Registration) -> None:
    """Observe an attempt and its outcome. A failure is logged and counted, and changes nothing."""


@hookspec
def hookgw_delivered(delivery: Delivery, registration: Registration) -> None:
    """Observe a completed delivery. A failure is logged and counted, and changes nothing."""


@hookspec
def hookgw_dead_letter(delivery: Delivery, registration: Registration | None, reason: str) -> None:
    """Observe a delivery that became a dead letter in its lane: refused, failed for the last time, too old.

    Changes of many deliveries do not call this hook: a registration is disabled or deleted, a call cancels
    deliveries, or a full backlog drops the oldest. :func:`hookgw_operational_event` gets ``DELIVERY_DEAD``
    with the number of deliveries. A failure is logged and counted, and changes nothing.
    """


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
    """Observe an operational event: a disabled registration, a failing lane, dead letters, and so on.

    Called in order, in a separate task. ``docs/operations.md`` describes ``event.data`` of every kind. A
    failure is logged and counted, and changes nothing.
    """


@hookspec
def hookgw_connectors() -> list[Connector]:  # type: ignore[empty-body]
    """Return the connectors that the plugin provides.

    Called once at start. A connector without ``name``, ``async run(session)`` and ``async send(session,
    message, *, key)``, or with the name of another, stops the start; the error names the plugin.
    """


@hookspec
def hookgw_destinations() -> dict[str, Send]:  # type: ignore[empty-body]
    """Return the schemes of URLs that the plugin sends to, each with ``async send(outgoing)``.

    Called once at start. Registrations may have such URLs then, and their lanes call ``send`` for each
    attempt. It returns a ``Response``, or raises ``OSError`` if the destination cannot be reached: the lane
    waits for it as for an unreachable receiver. Any other exception is a *failed* attempt that names the
    plugin. A scheme that hookgw or another plugin has stops the start; the error names the plugin.
    """


@hookspec
def hookgw_routes(app: QuartTrio, gateway: PluginGateway) -> None:
    """Add routes to the HTTP API, before it starts.

    A route needs the right that :func:`~hookgw.describes` declares, on the ``<instance>`` in its path, or
    over everything. A route that declares none needs any valid key below ``/shared/``, none below
    ``/public/``, and otherwise ``operate``. See ``docs/plugins.md``.
    """


@hookspec
def hookgw_dashboard_pages() -> list[DashboardPage]:  # type: ignore[empty-body]
    """Return the pages that the plugin adds to the dashboard.

    Called once at start. A page that breaks a rule stops the start; the error names the plugin.
    """


@hookspec
def hookgw_commands(group: click.Group) -> None:
    """Add commands to ``hookgw``. Called when the command line is read."""


@hookspec
async def hookgw_run(gateway: PluginGateway) -> None:
    """Run beside the gateway, in a task of the gateway's nursery.

    Started once the gateway accepts events; cancelled at shutdown. An exception is logged and counted, and
    the task starts again after a growing wait. If the function returns, its work is done.
    """


@hookspec
async def hookgw_run_on_one_node(gateway: PluginGateway) -> None:
    """Like ``hookgw_run``, but in a fleet on one node at a time.

    It is cancelled before another node starts it, and has a moment to end: also on a node that cannot reach
    the database for 3 s, where it starts again if no other node has taken over. What a node that was frozen
    still does as it wakes, other than storing records, hookgw cannot prevent.
    """
