"""Requests to a WAHA server, and its errors."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import AbstractAsyncContextManager
from http import HTTPStatus
from typing import Any
from urllib.parse import quote

import httpx

from hookgw import Session
from hookgw.connectors import REQUEST_TIMEOUT, NetworkClient, found_at, mapping, retry_after_of, strings, text
from hookgw.connectors import Refused as KitRefused

FILE_TIMEOUT = 120.0
"""Seconds for a message with a file, and for each part of a download."""
_LONGEST_REASON = 300


class Refused(KitRefused):
    """The server refused a request.

    Args:
        remote_status: of its answer.
        words: see below.
        retry_after: seconds to wait before a retry, if the server said so.
        server: what of the server the refusal depends on; empty for nothing.

    Attributes:
        words: the server's own words, at full length; empty for none.
    """

    def __init__(self, remote_status: int, words: str, retry_after: float | None, server: str = "") -> None:
        shown = remote_status
        if remote_status in (HTTPStatus.UNAUTHORIZED, HTTPStatus.FORBIDDEN):
            # The callers of hookgw would take these for a wrong key of their own.
            shown = HTTPStatus.CONFLICT
        elif not 400 <= remote_status < 500 and remote_status != HTTPStatus.NOT_IMPLEMENTED:
            shown = HTTPStatus.BAD_GATEWAY
        reason = _reason(remote_status, words) + (f" ({server})" if server else "")
        super().__init__(reason, remote_status=remote_status, status=shown, retry_after=retry_after)
        self.words = words


class Client(NetworkClient):
    """Makes requests for one session.

    Args:
        session: of the instance.
        base_url: of the server.
        api_key: for the header ``X-Api-Key``; empty for none.

    Attributes:
        engine, edition: of the server; empty while they are not known.
    """

    server = "The WAHA server"
    no_json = "The WAHA server did not answer with JSON. Is base_url the URL of a WAHA server?"

    def __init__(self, session: Session, base_url: str, api_key: str) -> None:
        # hookgw masks the secrets of the instance's options; these may be of the configuration, or made up.
        super().__init__(session, headers={"x-api-key": api_key} if api_key else {}, secrets=[api_key])
        self._root = base_url.rstrip("/") + "/api/"
        self.engine = self.edition = ""

    async def call(
        self,
        method: str,
        *path: str,
        query: Mapping[str, str] | None = None,
        body: Any = None,
        seconds: float = REQUEST_TIMEOUT,
    ) -> Any:
        """Make a request, and return the JSON of the answer; ``None`` if it is empty.

        Args:
            method: ``GET``, ``POST``, ``PUT`` or ``DELETE``.
            path: below ``/api/``, in parts that are quoted here.
            query, body: of the request; the body is sent as JSON.
            seconds: for the whole request.

        Raises:
            Refused: the server says no.
            Unreachable: there is no answer, or it is not JSON.
        """
        # WAHA answers the QR code as a picture unless JSON is asked for.
        headers = {"accept": "application/json"}
        return await self.request_json(
            method, self._url(path), params=query, body=body, headers=headers, timeout=seconds
        )

    def download(self, *path: str) -> AbstractAsyncContextManager[httpx.Response]:
        """Open a file; the body of the response is still to be read. It raises like :meth:`call`."""
        # As it is: of a compressed file, the length would not be known.
        headers = {"accept-encoding": "identity"}
        return self.open("GET", self._url(path), headers=headers, timeout=FILE_TIMEOUT)

    async def decode(self, received: bytes, **more: Any) -> tuple[Any, bool]:
        """Return the JSON in a body, and whether there is any; an empty body counts as ``null``."""
        return await super().decode(received.strip() or b"null", **more)

    def refusal(self, response: httpx.Response, answer: Any) -> Refused:
        """Return the error with the server's words, of the forms in which WAHA and its framework refuse."""
        words, server = self.hide(_words(answer)), []
        if response.status_code in (HTTPStatus.UNPROCESSABLE_ENTITY, HTTPStatus.NOT_IMPLEMENTED):
            # Each engine and each edition has other calls. WAHA's words do not always say which one this is.
            if "engine" in words.lower() and self.engine and self.engine not in words:
                server.append(f"engine {self.engine}")
            if "plus" in words.lower() and self.edition:
                server.append(f"edition {self.edition}")
        return Refused(response.status_code, words, retry_after_of(response), ", ".join(server))

    def _url(self, path: tuple[str, ...]) -> str:
        return self._root + "/".join(quote(part, safe="") for part in path)


def _words(answer: Any) -> str:
    answer = mapping(answer)
    messages = answer.get("message")
    if isinstance(messages, list):
        messages = "; ".join(strings(messages))
    found = text(messages) or text(found_at(answer, "exception", "message"))
    found = found or text(answer.get("error")) or text(found_at(answer, "error", "message"))
    status = text(answer.get("status"))
    return f"{found} (the session is {status})" if found and status else found


def _reason(status: int, words: str) -> str:
    words = words[:_LONGEST_REASON]
    if status == HTTPStatus.UNAUTHORIZED:
        return "The WAHA server does not accept the option api_key."
    if status == HTTPStatus.FORBIDDEN:
        return f"The WAHA server does not allow this with the option api_key: {words or 'Forbidden'}"
    if 300 <= status < 400:
        return (
            f"The WAHA server redirects (status {status}); set base_url to the address that it redirects to."
        )
    return f"WAHA: {words}" if words else f"The WAHA server answered with {status}."


def names_in(refusal: str, names: tuple[str, ...]) -> list[str]:
    """Return those names that a refusal lists among the values that it accepts."""
    said = {word.strip(" ,.;:'\"") for word in refusal.replace(",", " ").split()}
    return [name for name in names if name in said]
