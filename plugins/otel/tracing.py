"""Spans of events, deliveries and attempts. No I/O.

A trace has this form::

    (the producer's span)
    └─ accept MESSAGES_UPSERT      from accepting the event until it is on disk
       ├─ deliver MESSAGES_UPSERT  from there until the delivery is finished: one for each registration
       │  ├─ POST crm.example      an attempt; its ids are the traceparent that the receiver gets
       │  └─ POST crm.example
       └─ deliver MESSAGES_UPSERT

A delivery may last for days and over restarts, and nothing about its trace is on disk. So every id is a hash
of what is: of the event, the registration and the number of the attempt. Only a producer's own trace must be
remembered, and the newest :data:`REMEMBERED` are.
"""

from __future__ import annotations

import re
import time
from collections import OrderedDict
from collections.abc import Callable
from hashlib import blake2b
from typing import NamedTuple
from urllib.parse import urlsplit

import msgspec

from hookgw import Attempt, Delivery, Event, Outcome, Outgoing, Registration

from .options import Options

REMEMBERED = 20_000
"""Events whose producer's trace, or whose start, is remembered: 8 MB."""

# https://www.w3.org/TR/trace-context/: later versions may append fields.
_TRACEPARENT = re.compile(r"(?!ff)([0-9a-f]{2})-([0-9a-f]{32})-([0-9a-f]{16})-([0-9a-f]{2})(-.*)?", re.ASCII)
# What a header can carry. The producer's value goes into every request: a wrong one would fail deliveries.
_TRACESTATE = re.compile(r"[!-~]([ -~]{0,510}[!-~])?", re.ASCII)
# https://opentelemetry.io/docs/specs/otel/trace/tracestate-probability-sampling/
_RANDOM_BITS = 56
"""The lowest bits of a trace id: samplers keep the traces in which they are not below a threshold."""

CLIENT, PRODUCER, CONSUMER = 3, 4, 5
"""Kinds of spans, as OTLP numbers them."""

Attributes = dict[str, str | int | float | bool]


class Span(NamedTuple):
    """A finished span.

    Attributes:
        trace, id, parent: bytes; the parent is empty for the root.
        start, end: in seconds since the epoch.
        error: why it failed; ``None`` if it did not.
    """

    trace: bytes
    id: bytes
    parent: bytes
    state: str
    name: str
    kind: int
    start: float
    end: float
    attributes: Attributes
    error: str | None = None


class Context(NamedTuple):
    """The trace of an event.

    Attributes:
        trace: its id.
        parent: the producer's span; empty without one.
        is_sampled: whether its spans are sent.
        state: the producer's ``tracestate``, or the threshold.
    """

    trace: bytes
    parent: bytes
    is_sampled: bool
    state: str = ""


class _Begun(msgspec.Struct):
    """An event that was about to be stored, or is."""

    context: Context
    start: float
    is_accepted: bool = False


class Tracer:
    """Makes spans from what the hooks tell.

    Args:
        options: whether to make spans, and of how many traces.
        add: takes each finished span.
    """

    def __init__(self, options: Options, add: Callable[[Span], None]) -> None:
        self.use(options)
        self._add = add
        # Nothing tells when the last delivery of an event is finished: the oldest entries are dropped.
        self._begun: OrderedDict[tuple[str, str], _Begun] = OrderedDict()

    def use(self, options: Options) -> None:
        self._is_on = options.traces
        self._threshold = round((1 - options.sample) * 2**_RANDOM_BITS)
        # By it, a collector that samples again, or counts, knows how many traces this one stands for.
        self._state = f"ot=th:{self._threshold:014x}".rstrip("0") if self._threshold else ""

    def begin(self, events: list[Event], traceparent: str | None, tracestate: str | None) -> None:
        """Note that events are about to be stored."""
        if not self._is_on:
            return
        given = _TRACEPARENT.fullmatch(traceparent) if traceparent else None
        now = time.time()
        for event in events:
            context = self._context_of(event)
            if given is not None:
                version, trace, parent, flags, more = given.groups()
                if int(trace, 16) and int(parent, 16) and not (version == "00" and more):
                    context = Context(
                        bytes.fromhex(trace),
                        bytes.fromhex(parent),
                        bool(int(flags, 16) & 1),
                        tracestate if tracestate and _TRACESTATE.fullmatch(tracestate) else "",
                    )
            key = event.instance, event.id
            begun = self._begun.get(key)
            # A repeated event keeps its first trace, because its deliveries are in it. An event that was
            # refused has none yet.
            if begun is None or not begun.is_accepted:
                self._begun[key] = _Begun(context, now)
        while len(self._begun) > REMEMBERED:
            self._begun.popitem(last=False)

    def accepted(self, event: Event) -> None:
        """Make the span of an event that is on disk."""
        context, now = self._context_of(event), time.time()
        begun = self._begun.get((event.instance, event.id)) or _Begun(context, now)
        begun.is_accepted = True
        if self._is_on and context.is_sampled:
            attributes = {**_names(event), "messaging.operation.type": "create"}
            attributes["messaging.message.body.size"] = len(event.data_json)
            self._add(
                Span(
                    context.trace,
                    _span_id(context, "accept"),
                    context.parent,
                    context.state,
                    f"accept {event.kind}",
                    PRODUCER,
                    begun.start,
                    now,
                    attributes,
                )
            )

    def prepare(self, request: Outgoing, event: Event, registration: Registration) -> None:
        """Pass the trace on, also if it is not sampled: the receiver must know that it is not."""
        # A registration's own header is the operator's choice.
        if self._is_on and "traceparent" not in request.headers:
            context = self._context_of(event)
            span = _attempt_id(context, registration.id, request.attempt)
            flags = "01" if context.is_sampled else "00"
            request.headers["traceparent"] = f"00-{context.trace.hex()}-{span.hex()}-{flags}"
            if context.state:
                request.headers["tracestate"] = context.state

    def attempted(self, attempt: Attempt, delivery: Delivery, registration: Registration) -> None:
        context = self._context_of(delivery.event)
        if not (self._is_on and context.is_sampled):
            return
        target = urlsplit(registration.address)
        is_request = target.scheme in ("http", "https")
        attributes = {
            **_names(delivery.event),
            # Without the query, in which many receivers have a secret.
            "url.full": target._replace(query="", fragment="").geturl(),
            "hookgw.registration": registration.id,
            "hookgw.label": registration.label,
            "hookgw.delivery": delivery.id,
            "hookgw.outcome": attempt.outcome.value,
        }
        if is_request:
            attributes["http.request.method"] = "POST"
            attributes["http.request.resend_count"] = attempt.number - 1
        if target.hostname is not None:
            attributes["server.address"] = target.hostname
        if target.port is not None:
            attributes["server.port"] = target.port
        if attempt.status is not None:
            attributes["http.response.status_code"] = attempt.status
        is_delivered = attempt.outcome is Outcome.DELIVERED
        if not is_delivered:
            attributes["error.type"] = str(attempt.status or attempt.outcome.value)
        self._add(
            Span(
                context.trace,
                _attempt_id(context, registration.id, attempt.number),
                _delivery_id(context, delivery),
                context.state,
                # "pull", and "amqp host": what a receiver fetches, or a plugin sends, is no request.
                f"{'POST' if is_request else target.scheme} {target.hostname or ''}".rstrip(),
                CLIENT,
                attempt.at,
                attempt.at + attempt.duration,
                attributes,
                None if is_delivered else attempt.error or attempt.outcome.value,
            )
        )

    def finished(self, delivery: Delivery, registration: Registration | None, reason: str | None) -> None:
        """Make the span of a delivery; ``reason`` says why it is a dead letter, if it is one."""
        context = self._context_of(delivery.event)
        if not (self._is_on and context.is_sampled):
            return
        attributes = {
            **_names(delivery.event),
            "messaging.operation.type": "send",
            "hookgw.registration": delivery.registration,
            "hookgw.delivery": delivery.id,
        }
        if registration is not None:
            attributes["hookgw.label"] = registration.label
        if reason is not None:
            attributes["error.type"] = "dead letter"
        now = time.time()
        self._add(
            Span(
                context.trace,
                _delivery_id(context, delivery),
                _span_id(context, "accept"),
                context.state,
                f"deliver {delivery.event.kind}",
                CONSUMER,
                # After a restart, the clock may say that the delivery began in the future.
                min(delivery.queued_at, now),
                now,
                attributes,
                reason,
            )
        )

    def _context_of(self, event: Event) -> Context:
        begun = self._begun.get((event.instance, event.id))
        if begun is not None:
            return begun.context
        # With the time, because a producer may use an id again once hookgw has forgotten it.
        named = f"{event.instance}\0{event.id}\0{event.time!r}".encode()
        trace = blake2b(named, digest_size=16, person=b"hookgw trace").digest()
        bits = int.from_bytes(trace, "big") & (2**_RANDOM_BITS - 1)
        is_sampled = bits >= self._threshold
        return Context(trace, b"", is_sampled, self._state if is_sampled else "")


def _names(event: Event) -> Attributes:
    return {
        "messaging.system": "hookgw",
        "messaging.destination.name": event.kind,
        "messaging.message.id": event.id,
        "hookgw.instance": event.instance,
    }


def _delivery_id(context: Context, delivery: Delivery) -> bytes:
    # A replay has another position: another span of the same trace.
    return _span_id(context, f"deliver {delivery.seq} {delivery.position}")


def _attempt_id(context: Context, registration: str, number: int) -> bytes:
    return _span_id(context, f"attempt {registration} {number}")


def _span_id(context: Context, name: str) -> bytes:
    return blake2b(name.encode(), digest_size=8, key=context.trace).digest()
