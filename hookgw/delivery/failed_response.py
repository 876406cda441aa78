"""Sentences about failed responses: what is wrong, and what to do. No I/O."""

from __future__ import annotations

import re
from http.client import responses

from hookgw.kernel.masking import with_masked_user

NEEDS_CERTIFICATE = (
    "It requires a client certificate: set tls.clientCertificate and tls.clientKey of the registration."
)
_OTHER_NAME = (
    "TLS asked for another name than the host of the URL. Register a URL with the name of tls.serverName; or "
    "let the proxy before the receiver pass the name on (SNI)."
)
_ADVICE = {
    # The page that people see, a URL of another service, a file that a web server serves.
    405: ": it takes no POST there. Correct the URL, or let it take POST.",
    413: ": the event is larger than it takes. Raise its limit for bodies.",
    419: ": it wants a CSRF token. Exempt the URL from it.",  # Laravel's
    421: f": {_OTHER_NAME}",  # Apache; Caddy, nginx and Traefik if sites want different certificates
    # Warp of Haskell, with TLS; ws of Node.js.
    426: (
        ": its port wants TLS, or takes only WebSockets. Use https:// in the URL, or register a URL "
        "that takes POST."
    ),
    # After each one the lane waits for a second or more: a limit of 50/s lets little more than 1/s through.
    429: ": it gets more requests than it takes. Set rate of the registration below its limit.",
    # Of every request: those of fasthttp and Fiber take 4 KiB, as much as a registration's headers may have.
    431: (
        ": the headers are longer than it takes. Raise its limit for headers, or shorten those of the "
        "registration."
    ),
}
LATE = 5.0
"""Seconds from the start of an attempt, after which a time limit of the receiver may have ended it."""
TIME_LIMIT = (
    "It took long, so a time limit there may have ended the work: raise it, or let the receiver answer "
    "before it does the work."
)
# Pekko, Armeria, Sanic and Go's TimeoutHandler answer 503 then, others 408. A proxy answers 502 if a server
# has killed its worker.
_OF_TIME_LIMITS = frozenset({408, 502, 503, 504, 524})
# A web app of Google Apps Script, which has worked on the request and shows its output there.
_SCRIPT_OUTPUT = re.compile(r"https://script\.googleusercontent\.com(?=[/?#]|$)", re.IGNORECASE)
# A page where people log in, which may well answer a POST with 200: never a URL to register. Its path says
# so, or its query: OAuth and OpenID Connect (RFC 6749, section 4.1.1), SAML, WS-Federation, and the name of
# ingress-nginx, oauth2-proxy, Authelia and authentik for the page to return to.
_LOGIN = re.compile(
    r"(?:[^/?#]*//[^/?#]*)?/(?:[^?#]*/)?(?:wp-|service)?(?:log|sign)[-_]?in(?:\.\w+)?(?=[/?#]|$)"
    r"|[^?#]*\?(?:[^#]*&)?(?:response_type=|SAMLRequest=|wa=wsignin1\.0|rd=)",
    re.IGNORECASE,
)


def _page(statuses: set[int], answer: bytes, advice: str) -> tuple[set[int], re.Pattern[bytes], str]:
    return statuses, re.compile(answer), advice


# What pages say that a status does not, and what to do then.
_PAGES = (
    # nginx completes the handshake without the certificate that it wants, and says so in the body of a 400.
    _page({400}, rb"No required SSL certificate was sent", NEEDS_CERTIFICATE),
    # nginx, Go (and Caddy), Apache and Tomcat, to a request that comes without TLS.
    _page(
        {400},
        rb"plain HTTP request was sent to HTTPS port|HTTP request to an HTTPS server"
        rb"|speaking plain HTTP to an SSL-enabled|combination of host and port requires TLS",
        "Its port wants TLS: use https:// in the URL.",
    ),
    # Jetty, where others answer 421.
    _page({400}, rb"Invalid SNI|Host does not match SNI", _OTHER_NAME),
    # Django, Express, Fastify, Symfony, Litestar, CakePHP; with 400, Flask-WTF, Pyramid and Odoo. Then Rails
    # (in production, and in development), Jenkins, and with 400 Yii and Craft. Pages of any refusal may have
    # a token in their head: <meta name="csrf-token" …>.
    _page(
        {400, 403, 422},
        rb"(?i:csrf(?: token)?(?: verification)?(?: is)? (?:missing|failed)"
        rb"|(?:missing|incorrect|invalid|bad) csrf\b)"
        rb"|The change you wanted was rejected|InvalidAuthenticityToken|No valid crumb was included"
        rb"|Unable to verify your data submission\.",
        "It wants a CSRF token: exempt the URL from it.",
    ),
    # oauth2-proxy.
    _page({403}, rb'action="[^"]{0,100}/oauth2/start"', "It wants a login: exempt the URL from it."),
    # Cloudflare's challenge, its page about a rule, and what it writes to clients that want no page.
    _page(
        {403, 503},
        rb"<title>Just a moment\.\.\.</title>|<title>Attention Required! \| Cloudflare</title>"
        rb"|\Aerror code: 10[0-9]{2}\s*\Z",
        "Cloudflare takes hookgw for a bot, or blocks it: let requests with hookgw's address, or to this "
        "path, skip its checks.",
    ),
    # ModSecurity, as cPanel has it; Imunify360, Sucuri, and Wordfence of WordPress.
    _page(
        {403, 406, 503},
        rb"[Bb]y Mod[_ ]Security|Access denied by Imunify360|Sucuri Website Firewall|Generated by Wordfence",
        "A firewall of the hosting or the site blocks it: let requests with hookgw's address, or to this "
        "path, pass.",
    ),
    # What stands before functions of Supabase.
    _page(
        {401},
        rb'"code": ?(?:401|"UNAUTHORIZED_[A-Z_]{1,40}"), ?"message": ?"'
        rb"(?:Missing authorization header|Invalid JWT)",
        "It wants a key: set authorization in headers of the registration; or, if it is a function of "
        "Supabase, deploy it with --no-verify-jwt.",
    ),
    # Vercel, before previews.
    _page(
        {401},
        rb"<title>Authentication Required</title>",
        "It wants a login: exempt the URL from it. Deployment Protection of Vercel lets requests with a "
        "header pass: set x-vercel-protection-bypass in headers of the registration.",
    ),
    # Tokens have nothing to do with it: so it answers where others answer 404.
    _page(
        {403},
        rb'\A\{"message": ?"Missing Authentication Token"\}',
        "API Gateway of AWS has no route for POST at this path: correct the URL, or deploy the stage.",
    ),
    # Django, Rails and Sinatra in development, Vite, webpack-dev-server; Flask, Starlette (and FastAPI), IIS
    # and ASP.NET. In production, Django and Rails do not say what they miss.
    _page(
        {400, 403},
        rb"DisallowedHost at |Blocked hosts?: |Blocked request\. This host|\AHost not permitted"
        rb"|\AInvalid [Hh]ost header|Bad Request - Invalid Hostname|\bHost .{1,300} is not trusted\.",
        "It does not serve the host of the URL: add that to the hosts which it allows.",
    ),
    # Whatever aiohttp refuses: Home Assistant answers so to each request with x-forwarded-for.
    _page(
        {400},
        rb"\A400: Bad Request\s*\Z",
        "If it is Home Assistant behind a reverse proxy, add that to its trusted_proxies, then replay the "
        "dead letters.",
    ),
    # n8n: a workflow that is not active, or its test URL, which listens for one request; another method.
    _page(
        {404},
        rb"The requested webhook .{1,500} is not registered",
        "No workflow of n8n listens: activate it (in n8n 2, publish it), and register its production URL.",
    ),
    _page(
        {404},
        rb"This webhook is not registered for POST requests",
        "The workflow of n8n takes another method: set the HTTP Method of its Webhook node to POST.",
    ),
    # A workflow that responds at its end, or is set to respond as it cannot.
    _page(
        {500},
        rb'"Error in workflow"',
        "The workflow of n8n failed: its executions say why. Each attempt runs it from the start.",
    ),
    _page(
        {500},
        rb"No item (?:to return was found|was found to return)",
        "The workflow of n8n ended without an item, as behind a filter: set Always Output Data in its "
        "last node, or let it respond immediately. Each attempt runs it from the start.",
    ),
    _page(
        {400, 500},
        rb"(?:No|Unused) Respond to Webhook node found in the workflow",
        "In n8n, what Respond of the Webhook node says does not fit the workflow: choose Immediately, or "
        "connect a Respond to Webhook node.",
    ),
    # What its Webhook node wants of a request. To Ignore Bots, each program is one.
    _page(
        {401, 403},
        rb"\A(?:Authorization (?:data is wrong|is required)|Authentication data is wrong)!",
        "The Webhook node of n8n wants other credentials: set them in headers of the registration. If "
        "its Ignore Bots is on, switch that off.",
    ),
    _page(
        {500},
        rb"\ANo authentication data defined on node!",
        "The Webhook node of n8n has no credential for its authentication: choose one there.",
    ),
    _page(
        {403},
        rb"\AIP is not (?:whitelisted|allowed) to access the webhook!",
        "The Webhook node of n8n does not allow hookgw's address: add that to its IP(s) Allowlist "
        "(before n8n 2, Whitelist).",
    ),
    # Power Automate, Make.
    _page(
        {400, 404},
        rb"WorkflowTriggerIsNotEnabled",
        "The flow is off: turn it on. If it was deleted, register the URL of the new one.",
    ),
    _page(
        {400},
        rb"\AQueue is full",
        "The queue of Make is full: let the scenario run more often, then replay the dead letters.",
    ),
    _page(
        {410},
        rb"There is no scenario listening for this webhook",
        "The scenario of Make is off: switch it on, then enable the webhook.",
    ),
    # A function of Parse Server, a hook of PocketBase, a function in the database behind PostgREST (and
    # Supabase): they answer 400 also to what may pass, as a database that is down.
    _page(
        {400},
        rb'\A\{"code":141,|"Something went wrong while processing your request\."|"code": ?"P0001"',
        "It answers 400 whatever its program raises, and 400 is not tried again: let the program answer 500 "
        "or 503 to what may pass, then replay the dead letters.",
    ),
    # FastAPI and what is built with it, such as Prefect; Litestar, ASP.NET, NestJS, Laravel, Django REST
    # framework. Incoming webhooks of Slack, Discord, Mattermost and Google Chat, calls of the Bot API, and
    # GraphQL (Dagster, Apollo).
    _page(
        {400, 422},
        rb'"loc": ?\["body"|"Validation failed for POST |\A(?:no_text|invalid_payload)\s*\Z|"code": ?50006\b'
        rb"|web\.incoming_webhook\.text\.app_error|Invalid JSON payload received\. Unknown name"
        rb"|Bad Request: (?:chat_id|message text) is empty"
        rb"|One or more validation errors occurred|property [\w.]{1,100} should not exist"
        rb"|(?:This|The [\w .]{1,100}) field is required"
        rb"|\ANo GraphQL query found|Must provide query string|GraphQL operations must contain",
        "It expects a body of another form: let a program or a workflow between them form it; or, if the "
        "receiver is yours, let it take what hookgw sends.",
    ),
    # ngrok, frp and localtunnel. frp says the same of a receiver that does not run, or takes too long.
    _page(
        {404},
        rb"ERR_NGROK_3200|Faithfully yours, frp\.|\A404\Z",
        "If a tunnel leads there, it is closed, or nothing listens at its end: start that. If the tunnel "
        "has a new URL then, register that.",
    ),
    # Express, and so n8n, Node-RED and NestJS.
    _page(
        {404},
        rb"Cannot POST /",
        "It has no route for POST at this path, as n8n while it starts. In Node-RED: deploy the flow, "
        "with POST in http in.",
    ),
    _page(
        {404},
        rb'"code": ?404, ?"message": ?"Application not found"',
        "Nothing runs at this host of Railway: deploy it, or correct the URL.",
    ),
    # RabbitMQ, as the plugin for it says.
    _page(
        {404},
        rb"\AThe broker returned the message: 312 ",
        "No queue is bound to the exchange for its routing key: bind one, or correct plugins.rabbitmq of the "
        "registration.",
    ),
    _page(
        {404},
        rb"\AThe broker refused: 404 NOT_FOUND - no exchange ",
        "Declare the exchange on the broker, or correct plugins.rabbitmq.exchange of the registration.",
    ),
    # Traefik knows no route to a container that does not run. Go's own servers say the same.
    _page(
        {404},
        rb"\A404 page not found\s*\Z",
        "It has no such path, or Traefik has no route to it: correct the URL, or start it.",
    ),
    # Whatever else answers 401: Basic authentication of a web server, a login of an API, a signature.
    _page(
        {401},
        rb"",
        "It wants credentials, or finds the signature wrong: set authorization in headers of the "
        "registration, or give it the secret of the registration.",
    ),
)
# As in workflows of n8n, and in whatever has one path for all kinds.
_BY_EVENTS = (
    "byEvents adds the kind to the path of the URL: if the receiver has no such path, switch byEvents off."
)


def describe_response(
    status: int, location: str | None, answer: bytes = b"", seconds: float = 0.0, *, by_events: bool = False
) -> str:
    """Return sentences that say why a response is not a delivery, and what to do.

    For a redirect they name the location, without user and password.

    Args:
        status: any but a 2xx.
        answer: the beginning of the response's body.
        seconds: that the attempt took.
        by_events: whether the registration adds the kind to the path of its URL.
    """
    error = _of_status(status, location, seconds)
    for statuses, page, advice in _PAGES:
        if status in statuses and page.search(answer):
            error = f"{error} {advice}"
            break
    return f"{error} {_BY_EVENTS}" if by_events and status in (404, 405) else error


def _of_status(status: int, location: str | None, seconds: float) -> str:
    phrase = f"{status} {responses.get(status, '')}".rstrip()
    if not 300 <= status <= 399 or status == 304:  # which is about a cache, and has no target
        error = f"The receiver answered {phrase}{_ADVICE.get(status, '.')}"
        return f"{error} {TIME_LIMIT}" if seconds >= LATE and status in _OF_TIME_LIMITS else error
    # The receiver chooses this text and may make it long; the sentence is stored with every attempt.
    location = (location or "")[:512]
    if _SCRIPT_OUTPUT.match(location):
        # That URL works once. Each repetition of the request runs the script again.
        return (
            f"The receiver answered {phrase}: redirects are not followed. The script has run; let its doPost "
            "end with return HtmlService.createHtmlOutput(), which answers 200."
        )
    where = f" to {with_masked_user(location)}" if location else ""
    if _LOGIN.match(location):
        return f"The receiver answered {phrase}{where}: it wants a login. Exempt the URL from it."
    return f"The receiver answered {phrase}{where}; redirects are not followed. Register the final URL."
