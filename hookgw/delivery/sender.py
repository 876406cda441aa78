"""The sender turns a delivery into a request, sends it, and reports the result as an attempt.

It knows plugins, envelope, signature and transport; ``lanes`` knows queues and retries.
"""

from __future__ import annotations

import codecs
from collections.abc import Awaitable, Callable
from functools import partial

import msgspec
import trio

from hookgw._version import __version__
from hookgw.concurrency.clock import Clock
from hookgw.concurrency.light import in_task
from hookgw.delivery.destinations import NEEDS_LONGER, PluginAttempt
from hookgw.delivery.envelope import MOST_BEGINNINGS, Envelope
from hookgw.delivery.failed_response import describe_response
from hookgw.delivery.http.connection import PoolKey
from hookgw.delivery.http.errors import Blocked, DeliveryError, NoAttempt, Reached, TimedOut
from hookgw.delivery.http.response import Response
from hookgw.delivery.http.transport import LaneTransport
from hookgw.delivery.outcome import outcome_of_status, parse_retry_after
from hookgw.delivery.redaction import redact, secrets_sent, shown_head, with_added_headers
from hookgw.delivery.request_head import begin_head, render_head
from hookgw.delivery.signing import sign
from hookgw.kernel.errors import PluginFailed, PluginMissing
from hookgw.kernel.masking import repr_without, with_masked_user
from hookgw.kernel.schemes import HTTP_PORTS
from hookgw.kernel.signing_keys import Secret, SigningKey, signing_key
from hookgw.kernel.target_url import Target, parse_destination
from hookgw.plugins.hooks import Hooks
from hookgw.records.deliveries import DELIVERED_OUTCOME, Attempt, Delivery, Outcome, Outgoing, PreparedRequest
from hookgw.records.event_filters import EventFilter
from hookgw.records.events import Event, edited_from, path_segment
from hookgw.records.inline_media import without_file
from hookgw.records.registrations import Registration
from hookgw.records.tls_identity import NO_IDENTITY

_DEFAULT_HEADERS = {"content-type": "application/json", "user-agent": f"hookgw/{__version__}"}
CUT_OFF = "The attempt was cut off, because the delivery was cancelled. The receiver may have acted on it."
_OF_ATTEMPT = ("webhook-id", "webhook-timestamp", "webhook-signature", "x-attempt")


class RequestTemplate(msgspec.Struct, kw_only=True):
    """The common part of all requests of a registration, made by :func:`template_for` once per lane.

    Attributes:
        is_http: whether hookgw sends the requests, and no plugin.
        origin: the target's scheme, host and port, and its TLS identity if it has one: the pool's key.
        shares_connections: whether another registration may use a connection after this one. Not with
            ``NTLM`` and ``Negotiate``, which may authenticate the connection instead of the request (RFC
            4559, section 6).
        headers: of every request, names in lower case.
        beginnings: for each kind and instance, what :meth:`beginning` has returned.
        envelope: ``None`` until the first one is encoded.
        signing: the secrets with the keys made from them, the newest first.
        lasting: the keys, if there are some and none of the secrets expires.
        hooks: the names of the hooks that plugins need, in a generation of the hooks.
        sent_secrets: masked in responses, which may repeat the request; ``None`` until the first response.
    """

    registration: Registration
    target: Target
    is_http: bool
    origin: PoolKey
    shares_connections: bool
    headers: dict[str, str]
    beginnings: dict[tuple[str, str], tuple[Target, str, str]] = {}
    envelope: Envelope | None = None
    filter: EventFilter | None = None
    signing: tuple[tuple[Secret, SigningKey], ...] = ()
    lasting: list[SigningKey] = []
    hooks: tuple[int, frozenset[str]] = (-1, frozenset())
    sent_secrets: tuple[bytes, ...] | None = None

    __repr__ = repr_without("headers", "beginnings", "signing", "lasting", "sent_secrets")

    def refusal(self, event: Event) -> str | None:
        """Return why the registration's filter drops an event, as a sentence; ``None`` if it passes."""
        if self.filter is None:
            return None
        unmet = self.filter.unmet(event)
        return None if unmet is None else f"The filter dropped it. This condition does not hold: {unmet}."

    def shown_url(self, event: Event) -> str:
        """Return the masked URL of an event's attempts."""
        return self.beginning(event)[2] if self.is_http else with_masked_user(self.target.url)

    def keys(self, now: float) -> list[SigningKey]:
        """Return the signing keys in force at a time in seconds since the epoch, the newest first.

        If there are :attr:`lasting` ones, they are these, at any time.
        """
        return [key for secret, key in self.signing if secret.expires_at is None or secret.expires_at > now]

    def beginning(self, event: Event) -> tuple[Target, str, str]:
        """Make and keep the target, the head up to the headers of the attempt, and the masked URL.

        Raises:
            ValueError: a header is not allowed.
        """
        target = self.target
        if self.registration.by_events:
            target = target.for_kind(path_segment(event.kind))
        if len(self.beginnings) >= MOST_BEGINNINGS:
            self.beginnings.clear()
        # Each attempt has its own ones of these.
        lasting = {name: value for name, value in self.headers.items() if name not in _OF_ATTEMPT}
        text = begin_head(target, lasting | _event_headers(event))
        found = self.beginnings[event.kind, event.instance] = target, text, with_masked_user(target.url)
        return found


def template_for(registration: Registration) -> RequestTemplate:
    """Prepare the common part of all requests of a registration.

    Raises:
        ValueError: the registration's URL or a secret is invalid. Stored registrations were checked.
    """
    headers = {name.lower(): value for name, value in registration.headers.items()}
    if registration.is_pulled:
        headers = {}  # they would tell the receiver its own token, and nothing else
    target = parse_destination(registration.url)
    identity = registration.tls if target.scheme != "http" else NO_IDENTITY
    scheme = headers.get("authorization", "").partition(" ")[0].lower()
    signing = tuple((secret, signing_key(secret.value)) for secret in registration.secrets)
    expires = any(secret.expires_at is not None for secret in registration.secrets)
    return RequestTemplate(
        registration=registration,
        target=target,
        is_http=target.scheme in HTTP_PORTS,
        # A registration without a certificate, authorities or name can use any connection.
        origin=(target.scheme, target.host, target.port, identity if identity != NO_IDENTITY else None),
        shares_connections=scheme not in ("ntlm", "negotiate"),
        headers={**_DEFAULT_HEADERS, **headers},
        filter=EventFilter(registration.filter, with_files=registration.base64)
        if registration.filter
        else None,
        signing=signing,
        lasting=[] if expires else [key for _, key in signing],
    )


class AttemptResult(msgspec.Struct, frozen=True):
    """The result of one attempt.

    Attributes:
        retry_after: the wait that the receiver asked for, in seconds and not limited; ``None`` if it asked
            for none, or accepted the delivery.
        ended_at: by ``trio.current_time()``; ``None`` if that was just now.
        broke_off: whether the request broke or stalled in mid-body.
        timed_out: whether the deadline passed after the whole request was sent.
        late: makes the attempt's record from a late response; ``None`` unless the transport waits for one.
    """

    attempt: Attempt
    retry_after: float | None = None
    ended_at: float | None = None
    broke_off: bool = False
    timed_out: bool = False
    late: Callable[[Response], Attempt] | None = None


class DeliverySender:
    """Renders and sends deliveries. One sender serves all lanes, and keeps no state about any of them.

    Args:
        server_url: this gateway's address for envelopes; ``None`` leaves it out.
        kept_answer: bytes of a response body that are kept in the attempt.
        kept_heads: bytes of the head of a request that did not deliver, and of the response to it.
    """

    def __init__(
        self,
        hooks: Hooks,
        clock: Clock,
        *,
        server_url: str | None,
        kept_answer: int,
        kept_heads: int = 0,
    ) -> None:
        self._hooks = hooks
        self._clock = clock
        self._server_url = server_url
        self._kept_answer = kept_answer
        self._kept_heads = kept_heads

    def concerned(self, template: RequestTemplate) -> frozenset[str]:
        """Return which hooks plugins need for deliveries with this template."""
        generation = self._hooks.generation
        if template.hooks[0] != generation:
            template.hooks = generation, self._hooks.concerned(template.registration.detached())
        return template.hooks[1]

    def render_body(self, event: Event, template: RequestTemplate) -> bytes | Awaitable[bytes | None]:
        """Run the filters and transforms, and render the body.

        Return the body at once if no plugin is concerned. Otherwise return what runs the plugins and returns
        it; ``None`` if a filter drops the event.

        Call this once per delivery, before its first attempt. If that attempt fails, the caller stores the
        body with the delivery: every retry must send the same bytes, also after plugins changed.

        Raises:
            PluginFailed: a plugin raised, returned something invalid, or exceeded its timeout. Record it with
                :meth:`unsent`.
        """
        if not template.registration.base64:
            event = without_file(event)
        if template.envelope is None:
            # address, not url: the envelope must not show the receiver's user and password to its users.
            template.envelope = Envelope(template.registration.address, self._server_url)
        if self.concerned(template):
            return self._run_plugins(event, template, template.envelope)
        return template.envelope.encode(event)

    async def _run_plugins(self, event: Event, template: RequestTemplate, envelope: Envelope) -> bytes | None:
        registration, hooks = template.registration.detached(), self.concerned(template)
        if "hookgw_filter" in hooks and not await self._hooks.filter(event, registration):
            return None
        if "hookgw_transform" in hooks:
            event = await self._hooks.transform(event, registration)
        if "hookgw_encode" in hooks:
            body = await self._hooks.encode(event, registration)
            if body is not None:
                return body
        return envelope.encode(event)

    async def prepare(
        self, delivery: Delivery, body: bytes, template: RequestTemplate, number: int
    ) -> dict[str, str] | None:
        """Run the ``hookgw_prepare`` hooks for one attempt.

        Return the headers as the plugins left them, or ``None`` if they changed nothing.

        Raises:
            PluginFailed: see :meth:`render_body`.
        """
        if "hookgw_prepare" not in self.concerned(template):
            return None
        event = delivery.event
        defaults = _headers_of(template, event, number)
        registration = template.registration.detached()
        request = Outgoing(url=registration.url, body=body, headers=defaults.copy(), attempt=number)
        await self._hooks.prepare(request, event, registration)
        return None if request.headers == defaults else request.headers

    def signed_headers(
        self,
        delivery: Delivery,
        body: bytes,
        template: RequestTemplate,
        *,
        number: int,
        headers: dict[str, str] | None = None,
    ) -> dict[str, str]:
        """Return the headers, signed as of now, of an attempt that a plugin changes or makes, or of a fetch.

        Args:
            body, number, headers: as for :meth:`send`.
        """
        event, timestamp = delivery.event, int(self._clock.wall())
        if headers is None:
            headers = _headers_of(template, event, number)
        signature = sign(template.keys(timestamp), event.id, timestamp, body)
        signed_by = {"webhook-signature": signature} if signature else {}
        return {**headers, "webhook-id": event.id, "webhook-timestamp": str(timestamp), **signed_by}

    async def send(  # noqa: C901 -- reads once from top to bottom
        self,
        delivery: Delivery,
        body: bytes,
        template: RequestTemplate,
        transport: LaneTransport,
        *,
        number: int,
        timeout: float,  # noqa: ASYNC109  (the receiver's rule, recorded with the attempt; not a convenience)
        headers: dict[str, str] | None = None,
        prepared: PreparedRequest | None = None,
        upcoming: Delivery | None = None,
    ) -> AttemptResult:
        """Make one attempt.

        No failure of the receiver or the network is raised: it becomes an outcome.

        Args:
            delivery: its event names the kind, the instance and the ``webhook-id``. It is not changed.
            body: from :meth:`render_body`, or as stored by an earlier attempt.
            transport: a connection in exclusive use; the caller owns it. It stays open if the receiver allows
                that, and the registration's headers.
            number: of this attempt, from 1; sent as ``x-attempt``.
            timeout: seconds for the whole exchange, from resolving to the last byte.
            prepared: what an earlier call has prepared for this delivery and this template's registration.
            upcoming: the delivery that most likely comes next, with the same template. If no plugin and no
                filter is concerned, its request is prepared while the receiver works.

        Returns:
            The attempt. Its ``error`` is a sentence unless the outcome is ``DELIVERED``.

        Raises:
            NoAttempt: no socket could be opened, or this node may no longer send. The receiver got no whole
                request, and is not at fault.
            trio.Cancelled: the caller was cancelled. The connection is closed, and whether the receiver got
                the request is unknown.
            trio.ClosedResourceError: the transport was closed meanwhile, with the same consequence.
        """
        started_at, wall = self._clock.trio_time(), self._clock.wall()
        event, timestamp = delivery.event, int(wall)
        transport.started_at = started_at
        # Not that of the event: the name of a global webhook is the operator's.
        transport.looks_up_for = template.registration.instance
        if not template.is_http:
            headers = self.signed_headers(delivery, body, template, number=number, headers=headers)
            registration, ends = template.registration.detached(), started_at + timeout
            outgoing = PluginAttempt(
                template.target, registration, event, body, headers.copy(), number, transport, ends
            )
            return await self._send_by_plugin(outgoing, template, headers, number, started_at, wall)
        url: str | None = None
        try:
            kept = template.beginnings.get((event.kind, event.instance))
            target, beginning, url = kept or template.beginning(event)
            # Signed after the hooks ran, and rendered last: neither a plugin nor a registration's headers can
            # replace the signature. Each attempt has its own timestamp, or a late retry would be refused as a
            # replay.
            if prepared is not None and prepared.timestamp == timestamp:
                head = prepared.head
            elif headers is None:
                head = _signed_head(template, beginning, event, body, number, timestamp)
            else:
                # A plugin may also remove headers, which the rendered head cannot do.
                signed = self.signed_headers(delivery, body, template, number=number, headers=headers)
                head = render_head(target, signed, len(body))
        except ValueError as refusal:
            # A header that was allowed when the registration was stored.
            return AttemptResult(
                _attempt(number, wall, started_at, Outcome.FAILED, error=str(refusal), url=url)
            )
        meanwhile = None
        if upcoming is not None and not template.filter and not self.concerned(template):
            meanwhile = partial(self._prepare_ahead, upcoming, template)
        try:
            response = await transport.exchange(
                target,
                head,
                body,
                deadline=started_at + timeout,
                started_at=started_at,
                now=self._clock.trio_time,
                meanwhile=meanwhile,
            )
        except DeliveryError as failure:
            outcome = Outcome.BLOCKED if isinstance(failure, Blocked) else Outcome.UNREACHABLE
            if failure.reached is Reached.ALL:
                outcome = Outcome.UNANSWERED
            elif isinstance(failure, NoAttempt):
                raise
            timed_out = isinstance(failure, TimedOut) and failure.reached is Reached.ALL
            error, late = str(failure), None
            if timed_out:
                error += NEEDS_LONGER
            if transport.awaits_response:
                late = partial(self._answered, template, headers, number, wall, started_at, url, head=head)
            # Where nothing arrived, nothing was sent that the receiver could have misread.
            shown = None if failure.reached is Reached.NOTHING else self._shown_head(head, template, headers)
            return AttemptResult(
                _attempt(number, wall, started_at, outcome, error=error, url=url, request_head=shown),
                broke_off=failure.reached is Reached.PART,
                timed_out=timed_out,
                late=late,
            )
        if not template.shares_connections:
            transport.close_nowait()
        attempt = self._answered(
            template, headers, number, wall, started_at, url, response, head=head, ended_at=transport.ended_at
        )
        if attempt.outcome is DELIVERED_OUTCOME:
            return AttemptResult(attempt, None, transport.ended_at)
        # A date in retry-after is compared to the time of the response, not to that of the request.
        return AttemptResult(attempt, parse_retry_after(response.header("retry-after"), self._clock.wall()))

    def _prepare_ahead(self, delivery: Delivery, template: RequestTemplate) -> None:
        event = delivery.event
        kept = template.beginnings.get((event.kind, event.instance))
        # A beginning that fails is this delivery's failure, and not that of the one in flight.
        if kept is None or delivery.attempts or delivery.body is not None:
            return
        timestamp, body = int(self._clock.wall()), self.render_body(event, template)
        assert isinstance(body, bytes)  # noqa: S101 -- or a plugin would be concerned
        delivery.prepared = PreparedRequest(
            registration=template.registration,
            timestamp=timestamp,
            body=body,
            head=_signed_head(template, kept[1], event, body, 1, timestamp),
        )

    async def _send_by_plugin(
        self,
        outgoing: PluginAttempt,
        template: RequestTemplate,
        headers: dict[str, str],
        number: int,
        started_at: float,
        wall: float,
    ) -> AttemptResult:
        await in_task()
        # From here on, the plugin may have changed what it got: nothing of it is used.
        result, url = await outgoing.make(self._hooks), with_masked_user(template.target.url)
        if isinstance(result, Response):
            return AttemptResult(self._answered(template, headers, number, wall, started_at, url, result))
        _, error = self._masked(b"", result.error, template, headers)
        attempt = _attempt(number, wall, started_at, result.outcome, error=error, url=url)
        return AttemptResult(attempt, timed_out=result.timed_out)

    def _answered(
        self,
        template: RequestTemplate,
        headers: dict[str, str] | None,
        number: int,
        wall: float,
        started_at: float,
        url: str | None,
        response: Response,
        *,
        head: bytes | None = None,
        ended_at: float | None = None,
    ) -> Attempt:
        """Return the record of an attempt with a response. It ended just now unless ``ended_at`` says
        otherwise.
        """
        outcome, answer, error = outcome_of_status(response.status), response.body, None
        duration = (trio.current_time() if ended_at is None else ended_at) - started_at
        request_head = response_headers = None
        if outcome is not DELIVERED_OUTCOME:
            error = describe_response(
                response.status,
                response.header("location"),
                answer,
                duration,
                by_events=template.is_http and template.registration.by_events,
            )
            if head is not None and self._kept_heads:
                received = b"\r\n".join(b"%b: %b" % header for header in response.headers)
                request_head = self._shown_head(head, template, headers)
                response_headers = self._shown_head(received, template, headers) or None
        if answer or error is not None:
            answer, error = self._masked(answer, error, template, headers)
        return Attempt(
            number=number,
            at=wall,
            duration=duration,
            outcome=outcome,
            status=response.status,
            error=error,
            answer=_text_of(
                answer[: self._kept_answer], is_whole=response.complete and len(answer) <= self._kept_answer
            ),
            url=url,
            request_head=request_head,
            response_headers=response_headers,
        )

    def _shown_head(
        self, head: bytes, template: RequestTemplate, headers: dict[str, str] | None
    ) -> str | None:
        """Return what an attempt keeps of a head: of its request's, or of the response's."""
        if not self._kept_heads:
            return None
        own = {name.lower() for name in template.registration.headers}
        return shown_head(head, own, self._secrets(template, headers), self._kept_heads)

    def _masked(
        self, answer: bytes, error: str | None, template: RequestTemplate, headers: dict[str, str] | None
    ) -> tuple[bytes, str | None]:
        """Mask the secrets of a request in the answer to it, and in the error that quotes it."""
        secrets = self._secrets(template, headers)
        if not secrets:
            return answer, error
        # Before the answer is cut: a secret across the cut would leave its first half unmasked. A redirect's
        # location may repeat secrets as well.
        return redact(answer, secrets), error and redact(error.encode(), secrets).decode()

    def _secrets(self, template: RequestTemplate, headers: dict[str, str] | None) -> tuple[bytes, ...]:
        if template.sent_secrets is None:
            options = self._hooks.secrets_of(template.registration)
            template.sent_secrets = secrets_sent(template.registration, template.target, options)
        secrets = template.sent_secrets
        return secrets if headers is None else with_added_headers(secrets, template.headers, headers)

    def unsent(self, number: int, failure: PluginFailed | DeliveryError) -> Attempt:
        """Return the record of an attempt that sent nothing: a plugin failed, or the host is unreachable."""
        outcome = Outcome.FAILED if isinstance(failure, PluginFailed) else Outcome.UNREACHABLE
        if isinstance(failure, PluginMissing):
            outcome = Outcome.BLOCKED
        return _attempt(number, self._clock.wall(), trio.current_time(), outcome, error=str(failure))

    def cut_off(self, number: int, started_at: float, event: Event, template: RequestTemplate) -> Attempt:
        """Return the record of an attempt that was cut off, because its delivery is being cancelled.

        Args:
            started_at: by ``trio.current_time()``.
        """
        url = template.shown_url(event)
        wall = self._clock.wall() - (trio.current_time() - started_at)
        return _attempt(number, wall, started_at, Outcome.UNANSWERED, error=CUT_OFF, url=url)


def _headers_of(template: RequestTemplate, event: Event, number: int) -> dict[str, str]:
    headers = {**template.headers, **_event_headers(event), "x-attempt": str(number)}
    if (original := edited_from(event.id)) is not None:
        headers["x-edited-from"] = original
    return headers


def _signed_head(
    template: RequestTemplate, beginning: str, event: Event, body: bytes, number: int, timestamp: int
) -> bytes:
    signature = sign(template.lasting or template.keys(timestamp), event.id, timestamp, body)
    # What is sent elsewhere once has no secret.
    signed_by = f"webhook-signature: {signature}\r\n" if signature else ""
    # An event's id has letters, digits, "_" and "-" alone.
    original = edited_from(event.id)
    edited = "" if original is None else f"x-edited-from: {original}\r\n"
    return (
        f"{beginning}webhook-id: {event.id}\r\nwebhook-timestamp: {timestamp}\r\n"
        f"{signed_by}x-attempt: {number}\r\n{edited}"
        f"content-length: {len(body)}\r\n\r\n"
    ).encode()


def _text_of(answer: bytes, *, is_whole: bool) -> str:
    try:
        # A character that the cut divided is left out.
        return codecs.utf_8_decode(answer, "strict", is_whole)[0]
    except UnicodeDecodeError:  # IIS and older PHP; most do not name their encoding
        return answer.decode("windows-1252", "replace")


def _event_headers(event: Event) -> dict[str, str]:
    return {"x-event-type": event.kind, "x-instance-name": event.instance}


def _attempt(
    number: int,
    wall: float,
    started_at: float,
    outcome: Outcome,
    *,
    error: str | None,
    url: str | None = None,
    request_head: str | None = None,
) -> Attempt:
    duration = trio.current_time() - started_at
    return Attempt(
        number=number,
        at=wall,
        duration=duration,
        outcome=outcome,
        error=error,
        url=url,
        request_head=request_head,
    )
