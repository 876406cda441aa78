"""The sender against a real receiver, with small objects as plugins."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from http import HTTPStatus
from typing import Any

import msgspec
import pytest
import trio
from trio.testing import MockClock, wait_all_tasks_blocked

from hookgw import Attempt, Delivery, Event, Outcome, Outgoing, OutgoingDelivery, Registration, Response
from hookgw.testing import Answer, Receiver, answer, close, hang, redirect, reset
from tests.public.concurrency import Clock
from tests.public.delivery import MOST_BEGINNINGS as MOST_KEPT
from tests.public.delivery import (
    AddressGuard,
    AttemptResult,
    DeliverySender,
    Dialer,
    LaneTransport,
    RequestTemplate,
    template_for,
)
from tests.public.kernel import MASK, PluginFailed, Secret
from tests.public.records import Condition, FilterOp, edited_id, new_secret

EVENT = Event(id="e1", kind="MESSAGES_UPSERT", instance="shop", data_json=b'{"n":1}', time=1_700_000_000.0)


class NoPlugins:
    """Hooks without plugins; tests override the ones they need."""

    generation = 0
    schemes = ()
    needed = frozenset({"hookgw_filter", "hookgw_transform", "hookgw_encode"})

    def concerned(self, registration: Registration) -> frozenset[str]:
        return self.needed

    def secrets_of(self, registration: Registration) -> tuple[str, ...]:
        return ()

    async def filter(self, event: Event, registration: Registration) -> bool:
        return True

    async def transform(self, event: Event, registration: Registration) -> Event:
        return event

    async def encode(self, event: Event, registration: Registration) -> bytes | None:
        return None

    async def prepare(self, request: Outgoing, event: Event, registration: Registration) -> None:
        raise AssertionError("nobody implements it")

    async def send(self, scheme: str, outgoing: OutgoingDelivery) -> Response:
        raise AssertionError("nobody sends")


KEPT_HEADS = 600
CERTIFICATE = (
    "It requires a client certificate: set tls.clientCertificate and tls.clientKey of the registration."
)
HTTPS = "Its port wants TLS: use https:// in the URL."
SERVER_NAME = (
    "TLS asked for another name than the host of the URL. Register a URL with the name of tls.serverName; "
    "or let the proxy before the receiver pass the name on (SNI)."
)
CSRF = "It wants a CSRF token: exempt the URL from it."
HOST = "It does not serve the host of the URL: add that to the hosts which it allows."
CLOSED = (
    "If a tunnel leads there, it is closed, or nothing listens at its end: start that. "
    "If the tunnel has a new URL then, register that."
)
CLOUDFLARE = (
    "Cloudflare takes hookgw for a bot, or blocks it: let requests with hookgw's address, or to this path, "
    "skip its checks."
)
FIREWALL = (
    "A firewall of the hosting or the site blocks it: let requests with hookgw's address, or to this "
    "path, pass."
)
SUPABASE = (
    "It wants a key: set authorization in headers of the registration; or, if it is a function of Supabase, "
    "deploy it with --no-verify-jwt."
)
VERCEL = (
    "It wants a login: exempt the URL from it. Deployment Protection of Vercel lets requests with a header "
    "pass: set x-vercel-protection-bypass in headers of the registration."
)
NO_QUEUE = (
    "No queue is bound to the exchange for its routing key: bind one, or correct plugins.rabbitmq of the "
    "registration."
)
NO_ROUTE = (
    "It has no route for POST at this path, as n8n while it starts. In Node-RED: deploy the flow, with POST "
    "in http in."
)
NO_ITEM = (
    "The workflow of n8n ended without an item, as behind a filter: set Always Output Data in its last node, "
    "or let it respond immediately. Each attempt runs it from the start."
)
CREDENTIALS = (
    "The Webhook node of n8n wants other credentials: set them in headers of the registration. If its Ignore "
    "Bots is on, switch that off."
)
ADDRESS = (
    "The Webhook node of n8n does not allow hookgw's address: add that to its IP(s) Allowlist (before n8n 2, "
    "Whitelist)."
)
RESPOND = (
    "In n8n, what Respond of the Webhook node says does not fit the workflow: "
    "choose Immediately, or connect a Respond to Webhook node."
)


def sender_with(hooks: Any) -> DeliverySender:
    return DeliverySender(
        hooks, Clock(), server_url="https://gateway.example", kept_answer=16, kept_heads=KEPT_HEADS
    )


def registration_for(url: str, **more: Any) -> Registration:
    return Registration(id="reg_1", instance="shop", url=url, secrets=(new_secret(),), **more)


@asynccontextmanager
async def transport(*networks: str) -> AsyncIterator[LaneTransport]:
    opened = LaneTransport(Dialer(AddressGuard(networks or ("127.0.0.0/8",)), connect_timeout=5))
    try:
        yield opened
    finally:
        opened.close_nowait()


async def rendered_body(sender: DeliverySender, event: Event, template: RequestTemplate) -> bytes | None:
    body = sender.render_body(event, template)
    return body if isinstance(body, bytes) else await body


async def send(
    registration: Registration,
    *,
    hooks: NoPlugins | None = None,
    event: Event = EVENT,
    number: int = 1,
    timeout: float = 5,  # noqa: ASYNC109
    networks: tuple[str, ...] = (),
) -> AttemptResult:
    sender = sender_with(hooks or NoPlugins())
    template = template_for(registration)
    body = await rendered_body(sender, event, template)
    assert body is not None
    delivery = Delivery(
        seq=1,
        event=event,
        registration="reg_1",
        lane=registration.url,
        accepted_at=0.0,
        position=1,
        queued_at=0.0,
    )
    headers = await sender.prepare(delivery, body, template, number)
    async with transport(*networks) as lane:
        return await sender.send(
            delivery, body, template, lane, number=number, timeout=timeout, headers=headers
        )


async def test_a_request_carries_envelope_signature_and_headers(hookgw_receiver: Receiver) -> None:
    registration = registration_for(
        hookgw_receiver.url, headers={"Authorization": "Bearer t", "User-Agent": "own/1"}
    )
    sent = await send(registration, number=3)
    [request] = hookgw_receiver.requests
    assert (sent.attempt.outcome, sent.attempt.status, sent.attempt.number) == (Outcome.DELIVERED, 200, 3)
    assert sent.attempt.error is None
    assert request.json["data"] == {"n": 1}
    assert request.json["server_url"] == "https://gateway.example"
    hookgw_receiver.verify(request, registration.secrets[0].value)
    expected = {
        "content-type": "application/json",
        "user-agent": "own/1",
        "authorization": "Bearer t",
        "webhook-id": "e1",
        "x-event-type": "MESSAGES_UPSERT",
        "x-instance-name": "shop",
        "x-attempt": "3",
    }
    assert {name: request.header(name) for name in expected} == expected


async def test_one_template_serves_all_kinds_instances_and_attempts(hookgw_receiver: Receiver) -> None:
    registration = registration_for(
        hookgw_receiver.url, headers={"X-Attempt": "9", "X-Event-Type": "mine", "Webhook-Id": "mine"}
    )
    template, sender = template_for(registration), sender_with(NoPlugins())
    numbers = range(MOST_KEPT + 2)
    async with transport() as lane:
        for number in (*numbers, 0):
            event = msgspec.structs.replace(
                EVENT, id=f"e{number}", kind=f"K{number % 3}", instance=f"i{number}"
            )
            delivery = Delivery(
                seq=1, event=event, registration="reg_1", lane="", accepted_at=0.0, position=1, queued_at=0.0
            )
            body = await rendered_body(sender, event, template)
            assert body is not None
            await sender.send(delivery, body, template, lane, number=number + 1, timeout=5)
    for number, request in zip((*numbers, 0), hookgw_receiver.requests, strict=True):
        hookgw_receiver.verify(request, registration.secrets[0].value)
        assert request.json["instance"] == f"i{number}"
        sent = [(name, value) for name, value in request.headers if name.startswith(("x-", "webhook-id"))]
        assert sent == [
            ("x-event-type", f"K{number % 3}"),
            ("x-instance-name", f"i{number}"),
            ("webhook-id", f"e{number}"),
            ("x-attempt", str(number + 1)),
        ]


class Unconcerned(NoPlugins):
    needed = frozenset()


def delivery_of(number: int, **more: Any) -> Delivery:
    event = more.pop("event", msgspec.structs.replace(EVENT, id=f"e{number}"))
    return Delivery(
        seq=number,
        event=event,
        registration="reg_1",
        lane="",
        accepted_at=0.0,
        position=number,
        queued_at=0.0,
        **more,
    )


@pytest.mark.parametrize("later", [0.9, 1.0], ids=["the same second", "the next second"])
async def test_a_request_that_was_prepared_is_sent_within_its_second(
    hookgw_receiver: Receiver, later: float
) -> None:
    registration, now = registration_for(hookgw_receiver.url), float(int(Clock().wall()))
    hooks: Any = Unconcerned()
    sender = DeliverySender(hooks, Clock(lambda: now), server_url=None, kept_answer=16)
    template, first, second = template_for(registration), delivery_of(1), delivery_of(2)
    body = await rendered_body(sender, first.event, template)
    assert body is not None
    async with transport() as lane:
        for _ in range(2):  # the first one makes what all heads begin with
            await sender.send(first, body, template, lane, number=1, timeout=5, upcoming=second)
        prepared = second.prepared
        assert prepared is not None
        assert prepared.registration is registration
        assert prepared.body == await rendered_body(sender, second.event, template)
        assert "webhook-signature" not in repr(second)
        mark = prepared.head.replace(b"x-attempt: 1", b"x-attempt: 1\r\nx-mark: 1")
        now += later
        await sender.send(
            second,
            prepared.body,
            template,
            lane,
            number=1,
            timeout=5,
            prepared=msgspec.structs.replace(prepared, head=mark),
        )
    request = hookgw_receiver.requests[-1]
    hookgw_receiver.verify(request, registration.secrets[0].value)
    assert (request.header("webhook-id"), request.header("x-attempt")) == ("e2", "1")
    assert request.header("webhook-timestamp") == str(int(now))
    assert request.header("x-mark") == ("1" if later < 1 else None)


@pytest.mark.parametrize(
    ("hooks", "registered", "upcoming"),
    [
        (NoPlugins(), {}, {}),
        (Unconcerned(), {"filter": (Condition("/data/n", FilterOp.EQUALS, 2),)}, {}),
        (Unconcerned(), {}, {"attempts": 1}),
        (Unconcerned(), {}, {"body": b"{}"}),
        # A beginning that fails must not fail the attempt in flight.
        (Unconcerned(), {}, {"event": msgspec.structs.replace(EVENT, kind="OTHER")}),
    ],
    ids=["a plugin", "a filter", "tried before", "a stored body", "another kind"],
)
async def test_only_what_cannot_fail_is_prepared(
    hookgw_receiver: Receiver, hooks: NoPlugins, registered: dict[str, Any], upcoming: dict[str, Any]
) -> None:
    template = template_for(registration_for(hookgw_receiver.url, **registered))
    sender, following = sender_with(hooks), delivery_of(2, **upcoming)
    async with transport() as lane:
        result = await sender.send(
            delivery_of(1), b"{}", template, lane, number=1, timeout=5, upcoming=following
        )
    assert result.attempt.outcome is Outcome.DELIVERED
    assert following.prepared is None


async def test_what_others_send_has_the_headers_of_a_request(hookgw_receiver: Receiver) -> None:
    """A receiver that fetches, and a plugin that sends, get the headers that hookgw would send itself."""
    event = msgspec.structs.replace(EVENT, id=edited_id("evt_0", b"{}"))
    delivery = Delivery(
        seq=1, event=event, registration="reg_1", lane="", accepted_at=0.0, position=1, queued_at=0.0
    )
    names = ("webhook-id", "webhook-signature", "x-attempt", "x-edited-from", "x-event-type", "x-token")
    for secrets in ((new_secret(),), ()):
        registration = msgspec.structs.replace(
            registration_for(hookgw_receiver.url, headers={"x-token": "abc"}), secrets=secrets
        )
        await send(registration, event=event)
        headers = sender_with(NoPlugins()).signed_headers(
            delivery, b"{}", template_for(registration), number=1
        )
        request = hookgw_receiver.requests[-1]
        assert {name for name in names if name in headers} == {name for name in names if request.header(name)}
        assert headers["x-edited-from"] == request.header("x-edited-from") == "evt_0"


async def test_every_secret_in_force_signs_and_none_that_expired(hookgw_receiver: Receiver) -> None:
    new, old, expired = new_secret(), new_secret(), new_secret()
    secrets = (new, Secret(old.value, Clock().wall() + 60), Secret(expired.value, Clock().wall() - 1))
    registration = msgspec.structs.replace(registration_for(hookgw_receiver.url), secrets=secrets)
    await send(registration)
    [request] = hookgw_receiver.requests
    for secret in (new, old):
        hookgw_receiver.verify(request, secret.value)
    assert len((request.header("webhook-signature") or "").split(" ")) == 2


WHATEVER = (
    "It answers 400 whatever its program raises, and 400 is not tried again: let the program answer 500 "
    "or 503 to what may pass, then replay the dead letters."
)
OTHER_FORM = (
    "It expects a body of another form: let a program or a workflow between them form it; or, if the "
    "receiver is yours, let it take what hookgw sends."
)


@pytest.mark.parametrize(
    ("status", "page", "advice"),
    [
        # nginx: the handshake succeeds without the certificate.
        (400, b"<title>400 No required SSL certificate was sent</title>", CERTIFICATE),
        (400, b"<title>400 The plain HTTP request was sent to HTTPS port</title>", HTTPS),  # nginx
        (400, b"Client sent an HTTP request to an HTTPS server.\n", HTTPS),  # Go, Caddy
        (
            400,
            b"<p>Reason: You're speaking plain HTTP to an SSL-enabled server port.<br /></p>",
            HTTPS,
        ),  # Apache
        (400, b"Bad Request\nThis combination of host and port requires TLS.\n", HTTPS),  # Tomcat
        (400, b"<title>Error 400 Invalid SNI</title>", SERVER_NAME),  # Jetty
        (400, b"<h1>Bad Message 400</h1><pre>reason: Host does not match SNI</pre>", SERVER_NAME),  # Jetty 9
        (403, b"<h1>Forbidden</h1><p>CSRF verification failed. Request aborted.</p>", CSRF),  # Django
        (422, b"<title>The change you wanted was rejected (422)</title>", CSRF),  # Rails
        # Rails, in development.
        (422, b"<h1>ActionController::InvalidAuthenticityToken in Hooks#create</h1>", CSRF),
        (403, b"<pre>ForbiddenError: invalid csrf token</pre>", CSRF),  # Express
        (403, b"<pre>Error: CSRF token missing<br>", CSRF),  # lusca of Express, and Sails
        (403, b'{"code":"FST_CSRF_MISSING_SECRET","message":"Missing csrf secret"}', CSRF),  # Fastify
        (403, b'{"status_code":403,"detail":"CSRF token verification failed"}', CSRF),  # Litestar, Starlette
        (403, b"<h2>Missing or incorrect CSRF cookie type.</h2>", CSRF),  # CakePHP
        (403, b"<tr><td>No valid crumb was included in the request</td></tr>", CSRF),  # Jenkins
        (400, b"<h1>Bad Request</h1>\n<p>The CSRF token is missing.</p>", CSRF),  # Flask-WTF
        (400, b"<h1>400 Bad Request</h1>\nBad CSRF token received.  Access is denied.", CSRF),  # Pyramid
        (400, b"<p>Session expired (invalid CSRF token)</p>", CSRF),  # Odoo
        (
            400,
            b'{"name":"Bad Request","message":"Unable to verify your data submission."}',
            CSRF,
        ),  # Yii, Craft
        (400, b"<title>DisallowedHost at /hook/</title>", HOST),  # Django, in development
        (403, b"<h1>Blocked hosts: hooks.example:3000</h1>", HOST),  # Rails, in development
        (403, b'Blocked request. This host ("hooks.example") is not allowed.', HOST),  # Vite
        (400, b"Invalid host header", HOST),  # Starlette
        (403, b"Invalid Host header", HOST),  # webpack-dev-server
        (403, b"Host not permitted", HOST),  # Sinatra, in development
        (400, b"<p>Host &#39;hooks.example&#39; is not trusted.</p>", HOST),  # Flask
        (400, b"<BODY><h2>Bad Request - Invalid Hostname</h2>", HOST),  # IIS, and ASP.NET's AllowedHosts
        (
            404,
            b'{"code":404,"message":"The requested webhook \\"POST loja1\\" is not registered."}',
            (
                "No workflow of n8n listens: activate it (in n8n 2, publish it), and register its production "
                "URL."
            ),
        ),
        (
            404,
            b'{"message":"This webhook is not registered for POST requests. Did you mean GET?"}',
            "The workflow of n8n takes another method: set the HTTP Method of its Webhook node to POST.",
        ),
        (
            500,
            b'{"message":"Error in workflow"}',
            "The workflow of n8n failed: its executions say why. Each attempt runs it from the start.",
        ),
        (500, b'{"code":0,"message":"No item to return was found","stacktrace":"Error"}', NO_ITEM),
        (500, b'{"code":0,"message":"No item was found to return","stacktrace":"Error"}', NO_ITEM),
        (403, b"Authorization data is wrong!", CREDENTIALS),
        (401, b"Authorization is required!", CREDENTIALS),
        (401, b"Authentication data is wrong!", CREDENTIALS),
        (
            500,
            b"No authentication data defined on node!",
            "The Webhook node of n8n has no credential for its authentication: choose one there.",
        ),
        (403, b"IP is not whitelisted to access the webhook!", ADDRESS),
        (403, b"IP is not allowed to access the webhook!", ADDRESS),
        (500, b'{"code":0,"message":"No Respond to Webhook node found in the workflow"}', RESPOND),
        (500, b'{"code":0,"message":"Unused Respond to Webhook node found in the workflow"}', RESPOND),
        (
            400,
            b'{"error":{"code":"WorkflowTriggerIsNotEnabled","message":"Could not execute workflow"}}',
            "The flow is off: turn it on. If it was deleted, register the URL of the new one.",
        ),
        (
            410,
            b"There is no scenario listening for this webhook.",
            "The scenario of Make is off: switch it on, then enable the webhook.",
        ),
        (404, b"The endpoint abc.ngrok-free.app is offline.\r\n\r\nERR_NGROK_3200\r\n", CLOSED),
        (
            404,
            b"<!DOCTYPE html>" + b" " * 3500 + b"<p><em>Faithfully yours, frp.</em></p>\n</body>\n</html>\n",
            CLOSED,
        ),
        (404, b"404", CLOSED),  # localtunnel
        (404, b"<pre>Cannot POST /hook</pre>", NO_ROUTE),  # Express, Node-RED
        (404, b'{"message":"Cannot POST /hook","error":"Not Found","statusCode":404}', NO_ROUTE),  # NestJS
        (
            404,
            b"404 page not found\n",
            "It has no such path, or Traefik has no route to it: correct the URL, or start it.",
        ),
        (403, b'<!DOCTYPE html><html lang="en-US"><head><title>Just a moment...</title>', CLOUDFLARE),
        (503, b"<title>Just a moment...</title>", CLOUDFLARE),
        (403, b"<head>\n<title>Attention Required! | Cloudflare</title>\n", CLOUDFLARE),
        (403, b"error code: 1010", CLOUDFLARE),
        (406, b"<h1>Not Acceptable!</h1><p>This error was generated by Mod_Security.</p>", FIREWALL),
        (403, b'{"message":"Access denied by Imunify360 bot-protection. IPs used for auto"}', FIREWALL),
        (403, b"<title>Access Denied - Sucuri Website Firewall</title>", FIREWALL),
        (403, b"<p>Generated by Wordfence at Mon, 30 Nov 2026</p>", FIREWALL),
        (401, b'{"code":"UNAUTHORIZED_NO_AUTH_HEADER","message":"Missing authorization header"}', SUPABASE),
        (401, b'{"code":401,"message":"Missing authorization header"}', SUPABASE),
        (401, b'{"code":401,"message":"Invalid JWT"}', SUPABASE),
        (401, b"<!doctype html><html lang=en><title>Authentication Required</title>", VERCEL),
        (
            403,
            b'{"message":"Missing Authentication Token"}',
            "API Gateway of AWS has no route for POST at this path: correct the URL, or deploy the stage.",
        ),
        (
            404,
            b'{"status":"error","code":404,"message":"Application not found","request_id":"jRQkN"}',
            "Nothing runs at this host of Railway: deploy it, or correct the URL.",
        ),
        (
            404,
            b"The broker returned the message: 312 NO_ROUTE",  # RabbitMQ
            NO_QUEUE,
        ),
        (
            404,
            b"The broker refused: 404 NOT_FOUND - no exchange 'nowhere' in vhost '/'.",
            "Declare the exchange on the broker, or correct plugins.rabbitmq.exchange of the registration.",
        ),
        (
            400,
            b"400: Bad Request",
            (
                "If it is Home Assistant behind a reverse proxy, add that to its trusted_proxies, then "
                "replay the dead letters."
            ),
        ),
        (
            400,
            b"Queue is full.",
            "The queue of Make is full: let the scenario run more often, then replay the dead letters.",
        ),
        *(
            (400, page, WHATEVER)
            for page in (
                b'{"code":141,"error":"connect ECONNREFUSED"}',  # a function of Parse Server
                b'{"data":{},"message":"Something went wrong while processing your request.","status":400}',
                b'{"code":"P0001","details":null,"hint":null,"message":"busy"}',  # PostgREST
            )
        ),
        *(
            (status, page, OTHER_FORM)
            for status, page in (
                (
                    422,
                    b'{"detail":[{"type":"missing","loc":["body","text"],"msg":"Field required"}]}',
                ),  # FastAPI
                (422, b'{"exception_detail":[{"type":"extra_forbidden","loc":["body","event"]}]}'),  # Prefect
                (400, b'{"status_code":400,"detail":"Validation failed for POST /m"}'),  # Litestar
                (400, b'{"title":"One or more validation errors occurred.","errors":{"Text":[]}}'),  # ASP.NET
                (400, b'{"message":["property event should not exist"],"statusCode":400}'),  # NestJS
                (422, b'{"message":"The text field is required.","errors":{}}'),  # Laravel
                (400, b'{"text":["This field is required."]}'),  # Django REST framework
                (400, b"no_text"),  # Slack
                (400, b'{"message": "Cannot send an empty message", "code": 50006}'),  # Discord
                (400, b'{"id":"web.incoming_webhook.text.app_error","message":"No text specified"}'),
                (400, b'{"error":{"code":400,"message":"Invalid JSON payload received. Unknown name"}}'),
                (400, b'{"ok":false,"description":"Bad Request: message text is empty"}'),  # Telegram
                (400, b"No GraphQL query found in the request"),  # Dagster
                (400, b'{"errors":[{"message":"GraphQL operations must contain a non-empty `query`"}]}'),
            )
        ),
        (
            403,
            b'<title>Sign In</title><form method="GET" action="/oauth2/start">',  # oauth2-proxy
            "It wants a login: exempt the URL from it.",
        ),
    ],
)
async def test_a_page_of_what_stands_in_the_way_is_named(
    hookgw_receiver: Receiver, status: int, page: bytes, advice: str
) -> None:
    hookgw_receiver.will(answer(status, page))
    result = await send(registration_for(hookgw_receiver.url))
    assert result.attempt.error == f"The receiver answered {status} {HTTPStatus(status).phrase}. {advice}"


_TIME_LIMIT = (
    "It took long, so a time limit there may have ended the work: raise it, or let the receiver answer "
    "before it does the work."
)


@pytest.mark.parametrize(
    ("end", "error"),
    [
        (answer(503), "The receiver answered 503 Service Unavailable."),  # Pekko, Armeria, Sanic, Go
        (answer(408), "The receiver answered 408 Request Timeout."),
        (answer(502), "The receiver answered 502 Bad Gateway."),  # nginx, before PHP-FPM
        (answer(504), "The receiver answered 504 Gateway Timeout."),
        (close(), "The receiver closed the connection without responding."),  # Go with WriteTimeout
        (reset(), "The receiver broke the connection without responding: Connection reset by peer."),
    ],
)
async def test_what_a_time_limit_of_the_receiver_may_have_ended_says_so(
    hookgw_receiver: Receiver, mock_clock: MockClock, end: Answer, error: str
) -> None:
    def work(seconds: float) -> Answer:
        mock_clock.jump(seconds)
        return end

    hookgw_receiver.will(lambda _: work(4.9), lambda _: work(5.1))
    registration = registration_for(hookgw_receiver.url)
    soon = (await send(registration, timeout=30)).attempt.error
    late = (await send(registration, timeout=30)).attempt.error
    assert (soon or "").startswith(error)
    assert "time limit" not in (soon or "")
    assert late == f"{error} {_TIME_LIMIT}"


@pytest.mark.parametrize("status", [429, 500, 404])
async def test_another_late_status_says_nothing_of_a_time_limit(
    hookgw_receiver: Receiver, mock_clock: MockClock, status: int
) -> None:
    def work() -> Answer:
        mock_clock.jump(10)
        return answer(status)

    hookgw_receiver.will(lambda _: work())
    result = await send(registration_for(hookgw_receiver.url), timeout=30)
    assert "time limit" not in (result.attempt.error or "")


async def test_an_answer_of_401_says_what_the_receiver_may_want(hookgw_receiver: Receiver) -> None:
    hookgw_receiver.will(answer(401, b'{"message":"Missing or invalid credentials"}'))  # Strapi
    result = await send(registration_for(hookgw_receiver.url))
    assert result.attempt.error == (
        "The receiver answered 401 Unauthorized. It wants credentials, or finds the signature wrong: set "
        "authorization in headers of the registration, or give it the secret of the registration."
    )


async def test_a_token_in_the_head_of_a_page_is_no_refusal_for_its_lack(hookgw_receiver: Receiver) -> None:
    hookgw_receiver.will(answer(403, b'<meta name="csrf-token" content="a"><h1>No access</h1>'))
    result = await send(registration_for(hookgw_receiver.url))
    assert result.attempt.error == "The receiver answered 403 Forbidden."


async def test_the_same_words_with_another_status_advise_nothing(hookgw_receiver: Receiver) -> None:
    hookgw_receiver.will(answer(500, b"CSRF verification failed"))
    result = await send(registration_for(hookgw_receiver.url))
    assert result.attempt.error == "The receiver answered 500 Internal Server Error."


@pytest.mark.parametrize(
    ("status", "by_events", "is_named"),
    [(404, True, True), (405, True, True), (404, False, False), (403, True, False)],
)
async def test_a_path_that_by_events_made_and_the_receiver_lacks_is_named(
    hookgw_receiver: Receiver, status: int, by_events: bool, is_named: bool
) -> None:
    hookgw_receiver.will(
        answer(status, b'{"message":"The requested webhook \\"POST a/b\\" is not registered."}')
    )
    result = await send(registration_for(hookgw_receiver.url, by_events=by_events))
    assert (result.attempt.error or "").endswith(
        "if the receiver has no such path, switch byEvents off."
    ) is is_named


async def test_by_events_adds_the_kind_to_the_path(hookgw_receiver: Receiver) -> None:
    registration = registration_for(hookgw_receiver.url + "hook/?a=1", by_events=True)
    template = template_for(registration)
    other = msgspec.structs.replace(EVENT, kind="SEND_MESSAGE")
    assert template.beginning(other)[0].path == "/hook/send-message?a=1"
    assert template.beginning(other) is template.beginnings[other.kind, other.instance]
    sent = await send(registration)
    assert hookgw_receiver.requests[0].target == "/hook/messages-upsert?a=1"
    assert sent.attempt.url == f"{hookgw_receiver.url}hook/messages-upsert?a=1"


async def test_the_url_of_an_attempt_hides_user_and_password(hookgw_receiver: Receiver) -> None:
    hookgw_receiver.will(answer(302))
    url = hookgw_receiver.url.replace("://", "://ana:secret@")
    sent = await send(registration_for(url))
    assert sent.attempt.url == hookgw_receiver.url.replace("://", f"://{MASK}@")
    unreachable = await send(registration_for("http://ana:secret@127.0.0.1:1/hook"))
    assert unreachable.attempt.outcome is Outcome.UNREACHABLE
    assert unreachable.attempt.url == f"http://{MASK}@127.0.0.1:1/hook"


@pytest.mark.parametrize(
    ("body", "shown"),
    [
        ("Página não há".encode(), "Página não há"),
        ("Página não há".encode("windows-1252"), "Página não há"),  # IIS, older PHP
        ("Olá".encode("windows-1252"), "Olá"),  # begins a character of UTF-8, which does not go on
        (b"\x81" + "não".encode("windows-1252"), "\ufffdnão"),  # which windows-1252 does not have
        (b"xx" + "não".encode() * 8, "xx" + "não" * 3 + "n"),  # cut within a character
    ],
)
async def test_an_answer_is_readable_in_the_encoding_of_older_sites(
    hookgw_receiver: Receiver, body: bytes, shown: str
) -> None:
    hookgw_receiver.will(answer(500, body))
    result = await send(registration_for(hookgw_receiver.url))
    assert result.attempt.answer == shown


async def test_the_start_of_the_response_is_kept(hookgw_receiver: Receiver) -> None:
    hookgw_receiver.default = answer(500, body=b"\xff" + b"x" * 100)
    sent = await send(registration_for(hookgw_receiver.url))
    assert sent.attempt.answer == "ÿ" + "x" * 15
    assert sent.attempt.outcome is Outcome.FAILED
    assert "500" in (sent.attempt.error or "")


async def test_a_redirect_is_a_failure_that_says_where_it_pointed(hookgw_receiver: Receiver) -> None:
    hookgw_receiver.default = redirect(302, "https://elsewhere.example/")
    sent = await send(registration_for(hookgw_receiver.url))
    assert sent.attempt.outcome is Outcome.FAILED
    assert "https://elsewhere.example/" in (sent.attempt.error or "")


async def test_retry_after_is_reported(hookgw_receiver: Receiver) -> None:
    hookgw_receiver.default = answer(429, headers={"retry-after": "30"})
    sent = await send(registration_for(hookgw_receiver.url))
    assert (sent.attempt.outcome, sent.retry_after) == (Outcome.UNREACHABLE, 30.0)


async def test_a_delivery_ignores_retry_after(hookgw_receiver: Receiver) -> None:
    hookgw_receiver.default = answer(200, headers={"retry-after": "30"})
    assert (await send(registration_for(hookgw_receiver.url))).retry_after is None


async def test_a_refused_connection_is_unreachable(hookgw_receiver: Receiver) -> None:
    url = hookgw_receiver.url
    await hookgw_receiver.stop_listening()
    sent = await send(registration_for(url))
    assert (sent.attempt.outcome, sent.attempt.status) == (Outcome.UNREACHABLE, None)
    assert sent.attempt.error


async def test_a_timeout_after_the_whole_request_is_unanswered(
    hookgw_receiver: Receiver, nursery: trio.Nursery, mock_clock: MockClock
) -> None:
    hookgw_receiver.default = hang()

    @nursery.start_soon
    async def time_out() -> None:
        await hookgw_receiver.wait_for(1)
        await wait_all_tasks_blocked()
        mock_clock.jump(5)

    sent = await send(registration_for(hookgw_receiver.url))
    assert sent.attempt.outcome is Outcome.UNANSWERED
    assert sent.timed_out


async def test_a_refused_address_is_blocked(hookgw_receiver: Receiver) -> None:
    sent = await send(registration_for(hookgw_receiver.url), networks=("10.0.0.0/8",))
    assert sent.attempt.outcome is Outcome.BLOCKED
    assert "allow_networks" in (sent.attempt.error or "")
    assert hookgw_receiver.requests == []


async def test_plugins_change_the_event_the_body_and_the_headers(hookgw_receiver: Receiver) -> None:
    class Plugins(NoPlugins):
        needed = NoPlugins.needed | {"hookgw_prepare"}

        async def transform(self, event: Event, registration: Registration) -> Event:
            return event.replace(data={"n": 2})

        async def encode(self, event: Event, registration: Registration) -> bytes | None:
            return b"<" + event.data_json + b">"

        async def prepare(self, request: Outgoing, event: Event, registration: Registration) -> None:
            request.headers["x-event-type"] = "messages.upsert"
            request.headers["x-more"] = f"{request.attempt} {len(request.body)}"
            del request.headers["user-agent"]

    registration = registration_for(hookgw_receiver.url)
    await send(registration, hooks=Plugins())
    [request] = hookgw_receiver.requests
    assert request.body == b'<{"n":2}>'
    assert (request.header("x-event-type"), request.header("x-more")) == ("messages.upsert", "1 9")
    assert request.header("user-agent") is None
    assert [name for name, _ in request.headers].count("x-event-type") == 1
    hookgw_receiver.verify(request, registration.secrets[0].value)


async def test_a_kind_that_a_plugin_changes_is_in_the_body_alone(hookgw_receiver: Receiver) -> None:
    class Plugins(NoPlugins):
        async def transform(self, event: Event, registration: Registration) -> Event:
            return event.replace(kind="CALL")

    await send(registration_for(hookgw_receiver.url, by_events=True), hooks=Plugins())
    [request] = hookgw_receiver.requests
    assert request.json["event"] == "CALL"
    # As in a retry, which knows the kind that was accepted, and the body.
    assert (request.target, request.header("x-event-type")) == ("/messages-upsert", "MESSAGES_UPSERT")


async def test_a_plugin_that_prepares_nothing_changes_nothing(hookgw_receiver: Receiver) -> None:
    class Plugins(NoPlugins):
        needed = NoPlugins.needed | {"hookgw_prepare"}

        async def prepare(self, request: Outgoing, event: Event, registration: Registration) -> None:
            return None

    registration = registration_for(hookgw_receiver.url, headers={"x-own": "1"})
    await send(registration)
    await send(registration, hooks=Plugins())
    without, beside = ({n for n, _ in r.headers} for r in hookgw_receiver.requests)
    assert without == beside


async def test_a_token_that_a_plugin_adds_is_masked_in_the_answer(hookgw_receiver: Receiver) -> None:
    class Minting(NoPlugins):
        needed = NoPlugins.needed | {"hookgw_prepare"}

        async def prepare(self, request: Outgoing, event: Event, registration: Registration) -> None:
            request.headers |= {"authorization": "Bearer minted-1", "x-when": "someday"}

    hookgw_receiver.will(answer(200, "minted-1 someday"))
    result = await send(registration_for(hookgw_receiver.url), hooks=Minting())
    assert hookgw_receiver.requests[0].header("authorization") == "Bearer minted-1"
    assert result.attempt.answer == "******** someday"[:16]


async def test_a_failed_attempt_keeps_what_was_sent_and_answered_without_secrets(
    hookgw_receiver: Receiver,
) -> None:
    class Minting(NoPlugins):
        needed = NoPlugins.needed | {"hookgw_prepare"}

        async def prepare(self, request: Outgoing, event: Event, registration: Registration) -> None:
            request.headers |= {"x-token": "minted-1", "x-when": "someday"}

    registration = registration_for(hookgw_receiver.url, headers={"X-Own": "hush-hush"})
    hookgw_receiver.will(
        answer(503, headers={"retry-after": "30", "x-echo": "hush-hush", "set-cookie": "a=b"})
    )
    attempt = (await send(registration, hooks=Minting())).attempt
    head, [request] = attempt.request_head or "", hookgw_receiver.requests
    lines = head.split("\n")
    assert lines[0] == "POST / HTTP/1.1"
    sent = [f"{name}: {value}" for name, value in request.headers]
    shown = {f"{name}: {MASK}" for name in ("webhook-signature", "x-own", "x-token")}
    assert {*lines[1:]} == {one for one in sent if one.partition(":")[0] not in str(shown)} | shown
    answered = (attempt.response_headers or "").split("\n")
    assert {"retry-after: 30", f"x-echo: {MASK}", f"set-cookie: {MASK}"} <= {*answered}
    delivered = (await send(registration)).attempt
    assert (delivered.request_head, delivered.response_headers) == (None, None)


async def test_what_a_failed_attempt_keeps_is_bounded(hookgw_receiver: Receiver) -> None:
    hookgw_receiver.will(answer(503, headers={f"x-{number}": "é" * 40 for number in range(20)}))
    attempt = (await send(registration_for(hookgw_receiver.url))).attempt
    assert KEPT_HEADS - 2 < len((attempt.response_headers or "").encode()) <= KEPT_HEADS
    nowhere = (await send(registration_for("http://127.0.0.1:1/"))).attempt
    assert (nowhere.outcome, nowhere.request_head) == (Outcome.UNREACHABLE, None)


async def test_a_plugin_that_fails_to_prepare_sends_nothing(hookgw_receiver: Receiver) -> None:
    class Plugins(NoPlugins):
        needed = NoPlugins.needed | {"hookgw_prepare"}

        async def prepare(self, request: Outgoing, event: Event, registration: Registration) -> None:
            raise PluginFailed("mint", "hookgw_prepare", "no key")

    with pytest.raises(PluginFailed, match="mint"):
        await send(registration_for(hookgw_receiver.url), hooks=Plugins())
    assert hookgw_receiver.requests == []


async def test_a_filter_drops_events_and_a_failing_filter_is_recorded() -> None:
    class Drops(NoPlugins):
        async def filter(self, event: Event, registration: Registration) -> bool:
            return False

    assert (
        await rendered_body(sender_with(Drops()), EVENT, template_for(registration_for("http://a/"))) is None
    )
    attempt = sender_with(NoPlugins()).unsent(2, PluginFailed("f", "hookgw_filter", "boom"))
    assert isinstance(attempt, Attempt)
    assert (attempt.number, attempt.outcome, attempt.status) == (2, Outcome.FAILED, None)
    assert "hookgw_filter" in (attempt.error or "")


async def test_cancelling_leaves_no_connection(hookgw_receiver: Receiver) -> None:
    hookgw_receiver.default = hang()
    registration = registration_for(hookgw_receiver.url)
    sender = sender_with(NoPlugins())
    delivery = Delivery(
        seq=1, event=EVENT, registration="reg_1", lane="", accepted_at=0.0, position=1, queued_at=0.0
    )
    async with transport() as lane, trio.open_nursery() as nursery:

        async def attempt() -> None:
            await sender.send(delivery, b"{}", template_for(registration), lane, number=1, timeout=60)

        nursery.start_soon(attempt)
        await hookgw_receiver.wait_for(1)
        nursery.cancel_scope.cancel()
    assert not lane.connected


@pytest.mark.parametrize("name", ["Webhook-Id", "webhook-signature"])
async def test_headers_of_a_registration_never_replace_the_signature(
    hookgw_receiver: Receiver, name: str
) -> None:
    class Plugins(NoPlugins):
        needed = NoPlugins.needed | {"hookgw_prepare"}

        async def prepare(self, request: Outgoing, event: Event, registration: Registration) -> None:
            request.headers["x-more"] = "1"

    registration = registration_for(hookgw_receiver.url, headers={name: "forged"})
    await send(registration)
    await send(registration, hooks=Plugins())
    assert [request.header("x-more") for request in hookgw_receiver.requests] == [None, "1"]
    for request in hookgw_receiver.requests:
        hookgw_receiver.verify(request, registration.secrets[0].value)


async def test_secrets_that_the_receiver_repeats_are_not_kept(hookgw_receiver: Receiver) -> None:
    url = hookgw_receiver.url.replace("://", "://annabel:password-in-url@")
    registration = registration_for(url, headers={"authorization": "Bearer planted-token"})
    echo = b"x planted-token password-in-url"
    location = "https://annabel:password-in-url@x.test/planted-token"
    hookgw_receiver.default = answer(302, body=echo, headers={"location": location})
    sent = await send(registration)
    assert sent.attempt.answer == "x ******** *****"
    assert sent.attempt.error == (
        "The receiver answered 302 Found to https://********@x.test/********; redirects are not followed. "
        "Register the final URL."
    )
    (request,) = hookgw_receiver.requests
    assert b"annabel" not in request.body
    assert b"password-in-url" not in request.body


async def test_a_stored_header_that_cannot_be_sent_is_a_failed_attempt() -> None:
    result = await send(registration_for("http://127.0.0.1:9/", headers={"Expect": "100-continue"}))
    assert result.attempt.outcome is Outcome.FAILED
    assert result.attempt.error == "The header expect is reserved: hookgw sets it itself. Remove it."


async def test_what_a_plugin_changes_in_a_registration_is_gone_with_the_next_attempt() -> None:
    class Plugins(NoPlugins):
        needed = NoPlugins.needed | {"hookgw_prepare"}

        def concerned(self, registration: Registration) -> frozenset[str]:
            registration.plugins.clear()
            return super().concerned(registration)

        async def filter(self, event: Event, registration: Registration) -> bool:
            chats: list[str] = registration.plugins.pop("mine")["chats"]
            return chats.pop() == "a"

        async def prepare(self, request: Outgoing, event: Event, registration: Registration) -> None:
            request.headers["x-chat"] = registration.plugins.pop("mine")["chats"].pop()

    template = template_for(registration_for("http://a/", plugins={"mine": {"chats": ["a"]}}))
    sender = sender_with(Plugins())
    delivery = Delivery(
        seq=1, event=EVENT, registration="reg_1", lane="", accepted_at=0.0, position=1, queued_at=0.0
    )
    for number in (1, 2):
        assert await rendered_body(sender, EVENT, template)
        headers = await sender.prepare(delivery, b"{}", template, number)
        assert headers is not None
        assert headers["x-chat"] == "a"


async def test_what_concerns_no_plugin_is_not_shown_to_any() -> None:
    class Plugins(NoPlugins):
        needed = frozenset()
        asked = 0

        def concerned(self, registration: Registration) -> frozenset[str]:
            self.asked += 1
            return super().concerned(registration)

        async def filter(self, event: Event, registration: Registration) -> bool:
            return False

    hooks, template = Plugins(), template_for(registration_for("http://a/"))
    sender = sender_with(hooks)
    assert b'"event":' in (await rendered_body(sender, EVENT, template) or b"")
    assert await rendered_body(sender, EVENT, template) is not None
    assert hooks.asked == 1
    # The options of a plugin have changed.
    hooks.needed, hooks.generation = frozenset({"hookgw_filter"}), 1
    assert await rendered_body(sender, EVENT, template) is None
    assert hooks.asked == 2
