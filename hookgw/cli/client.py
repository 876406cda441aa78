"""The client of the HTTP interface that the commands share."""

from __future__ import annotations

import functools
import os
from collections.abc import Callable, Mapping
from types import TracebackType
from typing import Any, TypeVar
from urllib.parse import quote

import click
import httpx

from hookgw._version import __version__
from hookgw.cli.failure import Away, Failed
from hookgw.models.masking import with_masked_user

R = TypeVar("R")

DEFAULT_SERVER = "http://127.0.0.1:8080"
ANSWER_TIMEOUT = 60.0
"""Seconds to wait for an answer; `webhook test` takes as long as the receiver may take."""
AWAY = frozenset({502, 503, 504})
"""Answers that say that hookgw, or what stands before it, cannot just now."""


class Client:
    """Calls a gateway over HTTP.

    Use it as a context manager: it owns its connection and closes it on exit.

    Args:
        server: the gateway's address, with its base path if it has one; or ``unix:/path/to/socket``.
        key: sent as ``apikey``; ``None`` sends none.

    Raises:
        click.UsageError: the address is neither of the two forms.
        Failed: the authorities that ``SSL_CERT_FILE`` or ``SSL_CERT_DIR`` names cannot be read.
    """

    def __init__(self, server: str, key: str | None) -> None:
        self._server = with_masked_user(server)
        self._http = httpx.Client(
            base_url=_base_url(server),
            transport=_transport(server),
            headers={"user-agent": f"hookgw-cli/{__version__}"} | ({"apikey": key} if key else {}),
            timeout=httpx.Timeout(ANSWER_TIMEOUT, connect=5),
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
        *path: str,
        body: Any = None,
        content: bytes | None = None,
        content_type: str = "application/json",
        query: Mapping[str, str | int | None] | None = None,
        timeout: float | None = None,
    ) -> Any:
        """Make one request and give what the answer says.

        Args:
            method: of HTTP.
            path: its segments; each is quoted, so that a name can hold anything.
            body: a value to send as JSON.
            content: bytes to send as they are, in the place of ``body``.
            content_type: of ``content``.
            query: parameters; those that are ``None`` are left out.
            timeout: seconds to wait for the answer, if not :data:`ANSWER_TIMEOUT`.

        Returns:
            The answer's JSON, decoded.

        Raises:
            Away: nobody answers, or the answer is that hookgw cannot just now.
            Failed: the answer is no JSON, or it is another error: then with the gateway's own
                messages.
        """
        given = {name: value for name, value in (query or {}).items() if value is not None}
        patience = ANSWER_TIMEOUT if timeout is None else timeout
        options: dict[str, Any] = {"params": given, "timeout": httpx.Timeout(patience, connect=5)}
        if content is not None:
            options |= {"content": content, "headers": {"content-type": content_type}}
        elif body is not None:
            options["json"] = body
        try:
            answer = self._http.request(method, "/".join(map(_segment, path)), **options)
        except httpx.HTTPError as error:
            raise Away(_no_answer(self._server, error, patience)) from error
        return self._read(answer)

    def _read(self, answer: httpx.Response) -> Any:
        failure = Away if answer.status_code in AWAY else Failed
        try:
            value = answer.json()
        except ValueError as error:
            raise failure(
                f"{self._server} answered {answer.status_code} with something that is not JSON; is it hookgw?"
            ) from error
        if not answer.is_success:
            raise failure(*_error_messages(answer, value))
        return value


def server_options(function: Callable[..., R]) -> Callable[..., R]:
    """Give a command the options ``--server`` and ``--key``, and a client as its first argument."""

    @click.option(
        "--server",
        envvar="HOOKGW_URL",
        default=DEFAULT_SERVER,
        show_default=True,
        metavar="URL",
        help="Where hookgw listens: an http or https URL, or unix:/path. Also HOOKGW_URL.",
    )
    @click.option("--key", envvar="HOOKGW_KEY", metavar="KEY", help="The key to show. Also HOOKGW_KEY.")
    @functools.wraps(function)
    def command(*, server: str, key: str | None, **options: Any) -> R:
        with Client(server, key) as client:
            return function(client, **options)

    return command


def _base_url(server: str) -> str:
    if server.startswith("unix:"):
        return "http://localhost"
    try:
        url = httpx.URL(server)
    except httpx.InvalidURL:
        url = httpx.URL()
    if url.scheme not in ("http", "https") or not url.host:
        raise click.UsageError(
            f"--server must be an http or https URL, or unix:/path, not {with_masked_user(server)!r}; "
            f"for example {DEFAULT_SERVER}"
        )
    return server


def _transport(server: str) -> httpx.HTTPTransport:
    if server.startswith("unix:"):
        return httpx.HTTPTransport(uds=server.removeprefix("unix:"), verify=False)
    # A context that trusts the machine's authorities takes 0.1 s to make: only where it is used.
    try:
        return httpx.HTTPTransport(verify=httpx.URL(server).scheme == "https")
    except OSError as error:  # ssl.SSLError is one
        file = os.environ.get("SSL_CERT_FILE") or os.environ.get("SSL_CERT_DIR")
        raise Failed(f"SSL_CERT_FILE: {file} cannot be read, or holds no certificate in PEM.") from error


def _segment(text: str) -> str:
    quoted = quote(text, safe="")
    return quoted.replace(".", "%2E") if quoted in (".", "..") else quoted


def _no_answer(server: str, error: httpx.HTTPError, timeout: float) -> str:
    if "CERTIFICATE_VERIFY_FAILED" in str(error):
        return (
            f"The certificate of {server} is not trusted ({error}). "
            "Where it is one of your own, name it: SSL_CERT_FILE=cert.pem hookgw …"
        )
    if isinstance(error, httpx.ConnectError | httpx.ConnectTimeout):
        return (
            f"hookgw does not answer at {server} ({error}). Start it with `hookgw serve`, "
            "or say where it listens with --server or HOOKGW_URL."
        )
    if isinstance(error, httpx.TimeoutException):
        return f"{server} took the request but did not answer within {timeout:g} s."
    return f"The connection to {server} broke before the whole answer had come ({error})."


def _error_messages(answer: httpx.Response, value: Any) -> list[str]:
    """What the gateway says is wrong: the messages of the one error shape."""
    response = value.get("response") if isinstance(value, dict) else None
    said = response.get("message") if isinstance(response, dict) else None
    messages = [str(line) for line in said] if isinstance(said, list) else []
    if answer.status_code == httpx.codes.UNAUTHORIZED:
        messages.append("Give the key with --key or HOOKGW_KEY.")
    return messages or [f"{answer.status_code} {answer.reason_phrase}"]
