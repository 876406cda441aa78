"""The client of the HTTP API that the commands share."""

from __future__ import annotations

import functools
import os
import socket
import time
from collections.abc import Callable, Mapping, Sequence
from email.utils import mktime_tz, parsedate_tz
from http import HTTPStatus
from pathlib import Path
from types import TracebackType
from typing import Any, TypeAlias, TypeVar
from urllib.parse import quote

import click
import httpx

from hookgw._version import __version__
from hookgw.command.failure import Failed, ServerUnavailable
from hookgw.command.fields import Ago
from hookgw.command.group import PROFILE
from hookgw.command.near_names import near_names
from hookgw.command.output import json_option, table_options
from hookgw.command.profiles import complete_profiles
from hookgw.command.target import DEFAULT_SERVER, find_target
from hookgw.kernel.language import ENGLISH, N_, current_language, ngettext
from hookgw.kernel.language import gettext as _
from hookgw.kernel.masking import SHORTEST, with_masked_user
from hookgw.kernel.times import rfc3339
from hookgw.records.fleet import SILENT_NODES

R = TypeVar("R")

CURSOR = "hookgw-cursor"
"""The header of a list that ended early."""
VERSION = "x-hookgw-version"
"""The header of every response of hookgw. Another server's may be JSON and a success, too."""

CONNECT_TIMEOUT = 5.0  # a running gateway accepts at once: a wrong address must not take a minute
RESPONSE_TIMEOUT = 60.0
"""Seconds. ``webhook test`` responds only after the receiver has, which may take that long."""
DEFAULT_PAGE = 100
"""The items of a page for which no limit is given."""
FOLLOWED = 3.0
"""Seconds after which no further page is read for a page."""
UNSENDABLE = N_("A name, an id or a cursor has characters that no request can have.")
UNAVAILABLE = frozenset(
    {
        HTTPStatus.TOO_MANY_REQUESTS,
        HTTPStatus.BAD_GATEWAY,
        HTTPStatus.SERVICE_UNAVAILABLE,
        HTTPStatus.GATEWAY_TIMEOUT,
    }
)
"""Statuses by which hookgw, or a proxy before it, says that a retry may succeed."""
_NOT_BEHIND = N_(
    "A proxy at {server} answered {status} instead of hookgw: it does not reach hookgw, or does not "
    "wait long enough for it."
)
_KEPT_OUT = N_(
    "Another server than hookgw, or a proxy, answered {status} at {server}. Let a proxy pass the API, where "
    "hookgw checks the keys; else check that --server or HOOKGW_URL is the address of hookgw."
)
_OF_PROXIES: dict[int, str] = {
    HTTPStatus.UNAUTHORIZED: _KEPT_OUT,
    HTTPStatus.FORBIDDEN: _KEPT_OUT,
    HTTPStatus.REQUEST_ENTITY_TOO_LARGE: N_(
        "A proxy at {server} answered {status} instead of hookgw: the body is too long for it. Let it take "
        "longer ones, or send less at a time."
    ),
    HTTPStatus.TOO_MANY_REQUESTS: N_(
        "A proxy at {server} answered {status} instead of hookgw: it limits requests. Retry later."
    ),
    HTTPStatus.BAD_GATEWAY: _NOT_BEHIND,
    HTTPStatus.SERVICE_UNAVAILABLE: _NOT_BEHIND,
    HTTPStatus.GATEWAY_TIMEOUT: _NOT_BEHIND,
}
"""What to do, by the status of a proxy that answers instead of hookgw."""
_OF_WHAT_WAS_CHOSEN = ("instance.name_taken", "key.value_unusable", "token.unusable")
"""What is refused with 403, and is not the fault of the key that was sent."""


Query: TypeAlias = Mapping[str, str | int | Sequence[str] | None]
"""Parameters; ``None`` leaves one out, and each item of a sequence is one."""


class Client:
    """A synchronous client of a gateway's HTTP API.

    Use it as a context manager: it owns its connection and closes it on exit.

    Args:
        server: the gateway's URL, with its base path if it has one, or ``unix:/path/to/socket``.
        source: what gave the key, for a message if the gateway refuses it.

    Attributes:
        server_time: the gateway's time as of its last response, in seconds since the epoch.
        silent_nodes: the nodes of a fleet that the last response lacks.

    Raises:
        click.UsageError: ``server`` has neither form.
        Failed: the certificates that ``SSL_CERT_FILE`` or ``SSL_CERT_DIR`` names cannot be read.
    """

    def __init__(self, server: str, key: str | None, source: str = "") -> None:
        self._key = key and _(
            "The key {key} was sent, from {source}.", key=_masked(key), source=source or _("this command")
        )
        self.server_time = time.time()
        self.silent_nodes = ""
        # Every message names the server, and terminals are shared: never print a password.
        self._server = with_masked_user(server)
        if server.startswith("unix:"):
            if not hasattr(socket, "AF_UNIX"):
                raise click.UsageError(_("This system has no Unix sockets: give an http or https URL."))
            # The host is never resolved, but HTTP requires one. Without TLS no certificates need loading.
            url = "http://localhost"
            transport = httpx.HTTPTransport(uds=server.removeprefix("unix:"), verify=False)
        else:
            url, transport = server, _tcp_transport(server)
        self._http = httpx.Client(
            base_url=url,
            transport=transport,
            headers={"user-agent": f"hookgw-cli/{__version__}"} | ({"apikey": key} if key else {}),
            # Never through a proxy of the environment: it would see the key.
            trust_env=False,
        )

    def __enter__(self) -> Client:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._http.close()

    def call(
        self,
        method: str,
        *path: str | None,
        body: Mapping[str, Any] | None = None,
        content: bytes | None = None,
        content_type: str = "application/json",
        query: Query | None = None,
        headers: Mapping[str, str] | None = None,
        timeout: float | None = None,
    ) -> Any:
        """Send a request and return the decoded JSON of the response; of a list, all pages of it.

        Args:
            path: the segments of the path. ``None`` is left out, and each other segment is quoted.
            body: an object to send as JSON, without its fields that are ``None``.
            content: bytes to send unchanged, instead of ``body``.
            query: the parameters.
            timeout: seconds to wait for the response; by default :data:`RESPONSE_TIMEOUT`.

        Raises:
            ServerUnavailable: the gateway does not respond, or responds 429, 502, 503 or 504.
            Failed: the response is another error, with the gateway's own messages, or is not JSON, or not
                hookgw's (then it has no status); or a segment contains a slash.
        """
        segments = [segment for segment in path if segment is not None]
        for segment in segments:
            if "/" in segment:  # the gateway decodes the path before it splits it
                raise Failed(
                    _("{segment!r} is not a name or an id: these contain no slash.", segment=segment)
                )
        seconds = RESPONSE_TIMEOUT if timeout is None else timeout
        options: dict[str, Any] = {
            "params": {name: value for name, value in (query or {}).items() if value not in (None, ())},
            "timeout": httpx.Timeout(seconds, connect=min(CONNECT_TIMEOUT, seconds)),
            "headers": dict(headers or {}),
        }
        if content is not None:
            options["content"] = content
            options["headers"]["content-type"] = content_type
        elif body is not None:
            # To the API, null is a value and not a missing field.
            options["json"] = {name: value for name, value in body.items() if value is not None}
        try:
            response = self._http.request(method, "/".join(map(_quote_segment, segments)), **options)
        except httpx.HTTPError as error:
            raise ServerUnavailable(_transport_message(self._server, error, seconds)) from error
        except UnicodeEncodeError as error:  # lone surrogates, in an argument or in what an answer named
            raise Failed(_(UNSENDABLE)) from error
        date = parsedate_tz(response.headers.get("date", ""))
        self.server_time = time.time() if date is None else float(mktime_tz(date))
        self.silent_nodes = response.headers.get(SILENT_NODES, "")
        value = self._value(response)
        cursor = response.headers.get(CURSOR)
        if cursor and cursor != (query or {}).get("cursor") and isinstance(value, list):
            silent = self.silent_nodes
            value += self.call(method, *path, query={**(query or {}), "cursor": cursor}, timeout=timeout)
            self.silent_nodes = self.silent_nodes or silent
        return value

    def _value(self, response: httpx.Response) -> Any:
        failure = ServerUnavailable if response.status_code in UNAVAILABLE else Failed
        if VERSION not in response.headers:
            raise failure(_foreign_message(self._server, response))
        try:
            value = response.json()
        except ValueError as error:  # a page of hookgw's
            raise failure(_address_message(self._server, response)) from error
        if not response.is_success:
            refusal = failure(*_error_messages(response, value), *self._advice(response, value))
            refusal.status = response.status_code
            raise refusal
        return value

    def _advice(self, response: httpx.Response, value: Any) -> list[str]:
        """Return what to check if the key was refused."""
        if response.status_code == HTTPStatus.UNAUTHORIZED:
            return [
                self._key or _("No key was sent."),
                _("Set the key with HOOKGW_KEY, --key-file or a profile."),
            ]
        if response.status_code != HTTPStatus.FORBIDDEN or not self._key:
            return []
        given = _error_in(value).get("errors")
        ids = [one.get("id") for one in given if isinstance(one, dict)] if isinstance(given, list) else []
        return [] if any(one in _OF_WHAT_WAS_CHOSEN for one in ids) else [self._key]

    def now(self) -> float:
        """Ask the gateway for its time, in seconds since the epoch. This machine's clock may be wrong.

        Raises:
            ServerUnavailable: it does not respond.
        """
        try:
            self.call("GET", "healthz")
        except ServerUnavailable:
            raise
        except Failed:
            pass  # a proxy refuses this path, and has said the time
        return self.server_time

    def page(self, items: str, *path: str | None, query: Query) -> Any:
        """Return a page of a list; see :meth:`call`. If the gateway ends one early, the next ones follow, for
        a few seconds.

        Args:
            items: the field with the list.
            query: without a ``limit``, the page has at least :data:`DEFAULT_PAGE` items, if the list has so
                many.
        """
        page = part = self.call("GET", *path, query=query)
        given, until = query.get("limit"), time.monotonic() + FOLLOWED
        limit = given if isinstance(given, int) else None
        # An empty page, or a slow one, is a part of a long search: a person wants to see its results.
        while (
            part["cursor"]
            and part[items]
            and len(page[items]) < (limit or DEFAULT_PAGE)
            and time.monotonic() < until
        ):
            more = {**query, "cursor": part["cursor"]}
            if limit is not None:
                more["limit"] = limit - len(page[items])
            part = self.call("GET", *path, query=more)
            page = {**part, items: page[items] + part[items]}
        return page


def server_options(function: Callable[..., R]) -> Callable[..., R]:
    """Add the options for the gateway's address, and pass the command a client as its first argument."""

    @click.option(
        "--server",
        metavar="URL",
        help="Address of hookgw: an http(s) URL, or unix:/path. Or set HOOKGW_URL.  "
        f"[default: {DEFAULT_SERVER}]",
    )
    @click.option(
        "--profile",
        metavar="NAME",
        shell_complete=complete_profiles,
        help="Profile with address and key; see `hookgw profile`. Or set HOOKGW_PROFILE.",
    )
    @click.option(
        "--key-file",
        type=click.Path(dir_okay=False, path_type=Path),
        help="File that contains the API key. Or set HOOKGW_KEY_FILE, or the key itself as HOOKGW_KEY.",
    )
    @click.option("--key", metavar="-", help="Read the API key from standard input, or ask for it.")
    @functools.wraps(function)
    def command(
        *, server: str | None, key: str | None, key_file: Path | None, profile: str | None, **options: Any
    ) -> R:
        if profile is None and server is None:  # `hookgw --profile NAME command`
            profile = click.get_current_context().meta.get(PROFILE)
        with Client(*find_target(server, key, key_file, profile)) as client:
            if any(isinstance(value, Ago) for value in options.values()):
                now = client.now()
                options = {
                    name: rfc3339(now - value) if isinstance(value, Ago) else value
                    for name, value in options.items()
                }
            try:
                return function(client, **options)
            except Failed as error:
                if error.status not in (HTTPStatus.FORBIDDEN, HTTPStatus.NOT_FOUND):
                    raise
                raise Failed(
                    *error.messages, *near_names(client.call, click.get_current_context())
                ) from error

    return command


def call_options(function: Callable[..., R]) -> Callable[..., R]:
    """Add what a command has that shows one answer of the gateway: :func:`server_options` and ``--json``."""
    return server_options(json_option(function))


def table_call_options(function: Callable[..., R]) -> Callable[..., R]:
    """Add what a command has that shows a table: :func:`server_options`, ``--json`` and ``--wide``."""
    return server_options(table_options(function))


def _tcp_transport(server: str) -> httpx.HTTPTransport:
    try:
        url = httpx.URL(server)
    except httpx.InvalidURL:
        url = httpx.URL()
    if url.scheme not in ("http", "https") or not url.host:
        raise click.UsageError(
            _(
                "The address must be an http or https URL, or unix:/path, not {url!r}. Example: {example}",
                url=with_masked_user(server),
                example=DEFAULT_SERVER,
            )
        )
    if url.scheme == "http":  # loading the machine's certificates takes 0.1 s
        return httpx.HTTPTransport(verify=False)
    from hookgw.delivery.http.client_tls import with_hookgws_rules

    try:
        return httpx.HTTPTransport(verify=with_hookgws_rules(httpx.create_ssl_context()))
    except OSError as error:  # ssl.SSLError is a subclass
        file = os.environ.get("SSL_CERT_FILE") or os.environ.get("SSL_CERT_DIR")
        raise Failed(
            _("SSL_CERT_FILE: {file} cannot be read, or contains no certificate in PEM format.", file=file)
        ) from error


def _masked(key: str) -> str:
    """Return what tells a key from others, and opens nothing."""
    start = f"{key[:4]}… " if len(key) >= 4 * SHORTEST else ""
    length = ngettext("{n} character", "{n} characters", len(key))
    return f"{start}({length})"


def _quote_segment(text: str) -> str:
    quoted = quote(text, safe="")
    # httpx resolves dot segments (RFC 3986, section 5.2.4): an instance named ".." would change the path.
    return quoted.replace(".", "%2E") if quoted in (".", "..") else quoted


def _foreign_message(server: str, response: httpx.Response) -> str:
    """Return what to do about a response of another server, such as a proxy that has not asked hookgw."""
    if sentence := _OF_PROXIES.get(response.status_code):
        status = f"{response.status_code} {response.reason_phrase}".rstrip()
        return _(sentence, server=server, status=status)
    if response.next_request is not None:
        return _redirect_message(server, response.request.url, response.next_request.url)
    return _address_message(server, response)


def _address_message(server: str, response: httpx.Response) -> str:
    return _(
        "The response of {server} (status {status}) is not that of hookgw's API. Check that --server or "
        "HOOKGW_URL is the address of hookgw.",
        server=server,
        status=response.status_code,
    )


def _redirect_message(server: str, asked: httpx.URL, target: httpx.URL) -> str:
    origin = f"{target.scheme}://{target.netloc.decode('ascii')}"
    if target.path == asked.path:  # to https, or to another host
        base = httpx.URL(server).path.rstrip("/")
        return _(
            "{server} redirects to {address}. Name that address with --server or HOOKGW_URL.",
            server=server,
            address=origin + base,
        )
    return _(
        "{server} redirects to {place}, which is not hookgw. Let a proxy that signs people in pass the API, "
        "where hookgw checks the keys; else check that --server or HOOKGW_URL is the address of hookgw.",
        server=server,
        place=origin + target.path,  # the query may have a secret
    )


def _transport_message(server: str, error: httpx.HTTPError, timeout: float) -> str:
    if "CERTIFICATE_VERIFY_FAILED" in str(error):
        return _(
            "The certificate of {server} is not trusted ({error}). If it is your own, set "
            "SSL_CERT_FILE=cert.pem.",
            server=server,
            error=error,
        )
    if "_ssl.c" in str(error):  # a text of OpenSSL's; httpx has no exception for it
        return _(
            "No TLS with {server} ({error}). If hookgw listens without TLS there, write http:// for "
            "https://.",
            server=server,
            error=error,
        )
    if isinstance(error, httpx.ConnectError | httpx.ConnectTimeout):
        return _(
            "Cannot connect to hookgw at {server} ({error}). Start it with `hookgw serve`, or set its "
            "address with --server or HOOKGW_URL.",
            server=server,
            error=error,
        )
    if isinstance(error, httpx.TimeoutException):
        return _(
            "{server} accepted the request but did not respond within {seconds} s.",
            server=server,
            seconds=f"{timeout:g}",
        )
    if "without sending a response" in str(error) and server.startswith("http://"):
        return _(
            "{server} closed the connection without a response. If hookgw listens with TLS there, write "
            "https:// for http://.",
            server=server,
        )
    return _(
        "The connection to {server} broke before the response was complete ({error}).",
        server=server,
        error=error,
    )


def _error_messages(response: httpx.Response, value: Any) -> list[str]:
    error = _error_in(value)
    lines = error.get("message")
    lines = lines if isinstance(lines, list) else []
    # With server.compatibility: evolution, messages about fields are a list in the list.
    nested = [one for line in lines for one in (line if isinstance(line, list) else [line])]
    ids = error.get("errors")
    if not isinstance(ids, list) or len(ids) != len(nested):
        ids = [None] * len(nested)  # of an earlier version
    # Beside sentences, there are numbers that the network does not know.
    messages = [_local(one, given) for one, given in zip(nested, ids, strict=True) if isinstance(one, str)]
    if isinstance(error.get("code"), str):
        messages.append(_("The network's code is {code}.", code=error["code"]))
    wait = response.headers.get("retry-after", "")
    if response.status_code == HTTPStatus.TOO_MANY_REQUESTS and wait.isdecimal():
        messages.append(_("Retry in {seconds} s.", seconds=wait))
    return messages or [f"{response.status_code} {response.reason_phrase}"]


def _error_in(value: Any) -> dict[str, Any]:
    # A proxy before hookgw may answer with JSON of another shape: trust nothing about it.
    error = value.get("response") if isinstance(value, dict) else None
    return error if isinstance(error, dict) else {}


def _local(sentence: str, given: Any) -> str:
    id_, values = (given.get("id"), given.get("values")) if isinstance(given, dict) else (None, None)
    if current_language() == ENGLISH or not isinstance(id_, str) or not isinstance(values, dict):
        return sentence
    from hookgw.records.told_sentences import text_of_error

    return text_of_error(id_, values, sentence)
