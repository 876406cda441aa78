"""Reports to OpenTelemetry: a trace from each event to the requests that deliver it, and hookgw's metrics.

It needs ``pip install hookgw[otel]`` and an endpoint; without one it is switched off, and costs nothing::

    plugins: {options: {otel: {endpoint: "http://collector:4318", servers: ["http://collector:4318"]}}}

docs/operations.md describes the options. An example of ``hookgw_accept``, of the observers, of
``hookgw_prepare``, and of ``hookgw_run`` with a client and clean-up of its own.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from hookgw import Attempt, Delivery, Event, Gateway, Outgoing, Registration, hookimpl

from .exporter import Exporter
from .options import read_options
from .tracing import Tracer


class _State:
    """What :func:`hookgw_configure` makes; the other hooks are not called before it."""

    exporter: Exporter
    tracer: Tracer


@hookimpl
def hookgw_secret_options() -> list[str]:
    """Mask the headers, which have the key of the collector."""
    return ["headers"]


@hookimpl
def hookgw_configure(options: dict[str, Any]) -> bool:
    """Read the options; without an endpoint there is nothing to do."""
    if not options:
        return False
    found = read_options(options)
    _State.exporter = Exporter(found)
    _State.tracer = Tracer(found, _State.exporter.add)
    return True


@hookimpl
def hookgw_reconfigure(options: dict[str, Any]) -> Callable[[], None]:
    """Check changed options, such as another token in ``headers``."""
    if not options:
        raise ValueError("restart hookgw to switch this off, or set traces and metrics to false.")
    found = read_options(options)

    def use() -> None:
        _State.exporter.use(found)
        _State.tracer.use(found)

    return use


@hookimpl
def hookgw_accept(events: list[Event], headers: dict[str, str]) -> None:
    """Begin the span of each event, in the producer's trace if it sent one."""
    _State.tracer.begin(events, headers.get("traceparent"), headers.get("tracestate"))


@hookimpl
def hookgw_event_accepted(event: Event) -> None:
    """End the event's span."""
    _State.tracer.accepted(event)


@hookimpl
def hookgw_prepare(request: Outgoing, event: Event, registration: Registration) -> None:
    """Pass the trace on to the receiver."""
    _State.tracer.prepare(request, event, registration)


@hookimpl
def hookgw_attempt(attempt: Attempt, delivery: Delivery, registration: Registration) -> None:
    """Report the span of an attempt."""
    _State.tracer.attempted(attempt, delivery, registration)


@hookimpl
def hookgw_delivered(delivery: Delivery, registration: Registration) -> None:
    """Report the span of a delivery."""
    _State.tracer.finished(delivery, registration, None)


@hookimpl
def hookgw_dead_letter(delivery: Delivery, registration: Registration | None, reason: str) -> None:
    """Report the span of a delivery that became a dead letter."""
    _State.tracer.finished(delivery, registration, reason)


@hookimpl
async def hookgw_run(gateway: Gateway) -> None:
    """Send what was collected, until the end."""
    await _State.exporter.run(gateway)
