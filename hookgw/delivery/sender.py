"""The courier: turns a delivery into a request, sends it, and says what came of it.

It knows plugins, envelope, signature and transport, and nothing of queues or retries.
"""

from __future__ import annotations

from typing import Protocol

import msgspec
import trio

from hookgw._version import __version__
from hookgw.delivery.envelope import encode_envelope
from hookgw.delivery.http.errors import Blocked, DeliveryError
from hookgw.delivery.http.response import Answer
from hookgw.delivery.http.transport import LaneTransport
from hookgw.delivery.outcome import describe_status, outcome_of_status, parse_retry_after
from hookgw.delivery.redaction import redact, secrets_sent
from hookgw.delivery.request_head import RequestHead
from hookgw.delivery.signing import sign
from hookgw.models.clock import Clock
from hookgw.models.deliveries import Attempt, Delivery, Outcome, Outgoing
from hookgw.models.errors import PluginFailed
from hookgw.models.events import Event, path_segment
from hookgw.models.masking import repr_without
from hookgw.models.registrations import Registration, Secret
from hookgw.models.signing_keys import SigningKey, signing_key
from hookgw.models.target_url import Target, parse_target

_OWN_HEADERS = {"content-type": "application/json", "user-agent": f"hookgw/{__version__}"}


class SenderHooks(Protocol):
    """What the courier asks of plugins; every call may raise :class:`PluginFailed`."""

    async def filter(self, event: Event, registration: Registration) -> bool:
        """Whether the event goes to the registration."""

    async def transform(self, event: Event, registration: Registration) -> Event:
        """The event as the registration is to see it."""

    async def encode(self, event: Event, registration: Registration) -> bytes | None:
        """A body in the place of the envelope."""

    async def prepare(self, request: Outgoing, event: Event, registration: Registration) -> None:
        """Change the headers of one attempt."""

    def implements(self, hook: str) -> bool:
        """Whether any plugin has that hook."""


class RequestTemplate(msgspec.Struct, kw_only=True):
    """What is the same for every request of a registration; made once a lane.

    ``heads`` holds a rendered request head for each path (one, or one a kind with ``byEvents``);
    ``sent_secrets`` what no answer may show that repeats the request.
    """

    registration: Registration
    target: Target
    headers: dict[str, str]
    heads: dict[str, tuple[Target, RequestHead]] = {}
    signing: tuple[tuple[Secret, SigningKey], ...] = ()
    sent_secrets: tuple[bytes, ...] = ()

    __repr__ = repr_without("headers", "heads", "signing", "sent_secrets")

    def keys(self, now: float) -> list[SigningKey]:
        """The signing keys in force, the newest first."""
        return [key for secret, key in self.signing if secret.expires_at is None or secret.expires_at > now]

    def head(self, kind: str) -> tuple[Target, RequestHead]:
        """The target and the head for events of that kind."""
        key = kind if self.registration.by_events else ""
        found = self.heads.get(key)
        if found is None:
            target = self.target.for_kind(path_segment(kind)) if key else self.target
            found = self.heads[key] = (target, RequestHead(target, self.headers))
        return found


def template_for(registration: Registration) -> RequestTemplate:
    """Prepare what all requests of a registration share."""
    headers = {name.lower(): value for name, value in registration.headers.items()}
    target = parse_target(registration.url)
    return RequestTemplate(
        registration=registration,
        target=target,
        sent_secrets=secrets_sent(registration, target),
        headers={**_OWN_HEADERS, **headers},
        signing=tuple((secret, signing_key(secret.value)) for secret in registration.secrets),
    )


class AttemptResult(msgspec.Struct, frozen=True):
    """What came of one attempt.

    Attributes:
        attempt: the record of it.
        retry_after: what the receiver asked for, in seconds, or ``None``.
    """

    attempt: Attempt
    retry_after: float | None = None


class DeliverySender:
    """Packs and sends deliveries. One serves all lanes; it keeps nothing about any of them."""

    def __init__(self, hooks: SenderHooks, clock: Clock, *, server_url: str | None, kept_answer: int) -> None:
        self._hooks = hooks
        self._clock = clock
        self._server_url = server_url
        self._kept_answer = kept_answer
        self._prepares = hooks.implements("hookgw_prepare")

    async def render_body(self, event: Event, registration: Registration) -> bytes | None:
        """Run the filters and transforms and fix the body; ``None`` where a filter drops the event.

        Raises:
            PluginFailed: a plugin raised or ran past its deadline.
        """
        if not await self._hooks.filter(event, registration):
            return None
        shown = await self._hooks.transform(event, registration)
        body = await self._hooks.encode(shown, registration)
        if body is not None:
            return body
        return encode_envelope(shown, destination=registration.address, server_url=self._server_url)

    async def send(
        self,
        delivery: Delivery,
        body: bytes,
        route: RequestTemplate,
        transport: LaneTransport,
        *,
        number: int,
        timeout: float,  # noqa: ASYNC109  (the receiver's rule, recorded with the attempt; not a convenience)
    ) -> AttemptResult:
        """Make one attempt. Never raises for what the receiver, the network or a plugin does."""
        began, wall = trio.current_time(), self._clock.wall()
        try:
            target, head = await self._head(delivery.event, body, route, number, int(wall))
            answer = await transport.exchange(target, head, body, deadline=began + timeout)
        except DeliveryError as error:
            outcome = Outcome.BLOCKED if isinstance(error, Blocked) else Outcome.UNREACHABLE
            return AttemptResult(self._attempt(number, wall, began, outcome, error=str(error)))
        except PluginFailed as failure:
            return AttemptResult(self._attempt(number, wall, began, Outcome.FAILED, error=str(failure)))
        return self._judge(answer, route, number, wall, began)

    def failed(self, number: int, failure: PluginFailed) -> Attempt:
        """The record of an attempt that a plugin failed before anything was sent."""
        now = self._clock.wall()
        return self._attempt(number, now, trio.current_time(), Outcome.FAILED, error=str(failure))

    async def _head(
        self, event: Event, body: bytes, route: RequestTemplate, number: int, timestamp: int
    ) -> tuple[Target, bytes]:
        target, head = route.head(event.kind)
        named = {
            "x-event-type": event.kind,
            "x-instance-name": event.instance,
            "x-attempt": str(number),
        }
        if self._prepares:
            usual = {**route.headers, **named}
            headers = await self._prepared(usual, event, body, route, number)
            if headers != usual:
                head, named = RequestHead(target, headers), {}
        keys = route.keys(timestamp)
        signed = (
            ("webhook-id", event.id),
            ("webhook-timestamp", str(timestamp)),
            ("webhook-signature", sign(keys, event.id, timestamp, body)),
        )
        return target, head.render(len(body), (*signed, *named.items()))

    async def _prepared(
        self, usual: dict[str, str], event: Event, body: bytes, route: RequestTemplate, number: int
    ) -> dict[str, str]:
        registration = route.registration
        request = Outgoing(url=registration.url, body=body, headers=usual.copy(), attempt=number)
        await self._hooks.prepare(request, event, registration)
        return request.headers

    def _judge(
        self, answer: Answer, route: RequestTemplate, number: int, wall: float, began: float
    ) -> AttemptResult:
        outcome = outcome_of_status(answer.status)
        error = describe_status(answer.status, answer.header("location"))
        body = answer.body
        if route.sent_secrets:
            body = redact(body, route.sent_secrets)
            error = error and redact(error.encode(), route.sent_secrets).decode()
        text = body[: self._kept_answer].decode("utf-8", "replace")
        attempt = self._attempt(number, wall, began, outcome, status=answer.status, error=error, answer=text)
        if outcome is Outcome.DELIVERED:
            return AttemptResult(attempt)
        return AttemptResult(attempt, parse_retry_after(answer.header("retry-after"), self._clock.wall()))

    def _attempt(
        self,
        number: int,
        wall: float,
        began: float,
        outcome: Outcome,
        *,
        status: int | None = None,
        error: str | None = None,
        answer: str = "",
    ) -> Attempt:
        return Attempt(
            number=number,
            at=wall,
            duration=trio.current_time() - began,
            outcome=outcome,
            status=status,
            error=error,
            answer=answer,
        )
