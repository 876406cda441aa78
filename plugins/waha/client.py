"""Requests to a WAHA server: JSON in and out, and its errors as exceptions."""

from __future__ import annotations

from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable, Mapping
from contextlib import aclosing, asynccontextmanager, suppress
from http import HTTPStatus
from typing import Any, cast
from urllib.parse import quote

import httpx
import msgspec

from hookgw import NetworkRefused

from .fields import mapping, text

REQUEST_TIMEOUT = 25.0
"""Seconds for a request, except for files."""
FILE_TIMEOUT = 120.0
"""Seconds for a message with a file, and for each part of a download."""
_LARGEST_ERROR = 64 * 1024
_LONGEST_REASON = 300


DecodeJson = Callable[..., Awaitable[Any]]


class Refused(NetworkRefused):
    """The server refused a request.

    Args:
        http_status: see below.
        words: see below.
        retry_after: seconds to wait before a retry, if the server said so.
        server: what of the server the refusal depends on; empty for nothing.

    Attributes:
        http_status: the server's own status.
        words: the server's own words, at full length; empty for none.
        is_unauthorized: whether it does not accept the API key.
    """

    def __init__(self, http_status: int, words: str, retry_after: float | None, server: str = "") -> None:
        shown = http_status
        if http_status in (HTTPStatus.UNAUTHORIZED, HTTPStatus.FORBIDDEN):
            # The callers of hookgw would take these for a wrong key of their own.
            shown = HTTPStatus.CONFLICT
        elif not 400 <= http_status < 500 and http_status != HTTPStatus.NOT_IMPLEMENTED:
            shown = HTTPStatus.BAD_GATEWAY
        reason = _reason(http_status, words) + (f" ({server})" if server else "")
        super().__init__(reason, status=shown, retry_after=retry_after)
        self.http_status = http_status
        self.words = words
        self.is_unauthorized = http_status in (HTTPStatus.UNAUTHORIZED, HTTPStatus.FORBIDDEN)


class Unreachable(NetworkRefused):
    """The server did not answer, or not with JSON. Whether it did what was asked is not known."""


class Client:
    """Makes requests for one session.

    Args:
        http: makes the requests; the caller closes it.
        decode_json: reads the answers; see ``Session.decode_json``.
        base_url: of the server.
        api_key: for the header ``X-Api-Key``; empty for none.

    Attributes:
        secrets: texts that are masked in the server's words.
        engine, edition: of the server; empty while they are not known.
    """

    def __init__(self, http: httpx.AsyncClient, decode_json: DecodeJson, base_url: str, api_key: str) -> None:
        self._http = http
        self._decode_json = decode_json
        self._root = base_url.rstrip("/") + "/api/"
        self._headers = {"x-api-key": api_key} if api_key else {}
        # hookgw masks those of the instance's options; these may be of the configuration, or made up.
        self.secrets = {api_key} if api_key else set()
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
        headers = {"accept": "application/json", **self._headers}
        content = None
        if body is not None:
            content, headers["content-type"] = msgspec.json.encode(body), "application/json"
        try:
            response = await self._http.request(
                method,
                self._url(path),
                params=query,
                content=content,
                headers=headers,
                timeout=seconds,
                # A redirect would take the API key to another path of the server, or to another server.
                follow_redirects=False,
            )
        except httpx.HTTPError as error:
            raise _unreachable(error) from error
        answer, is_json = await self._decode(response.content)
        if not response.is_success:
            raise self._refused(response, answer)
        if not is_json:
            raise Unreachable(
                "The WAHA server did not answer with JSON. Is base_url the URL of a WAHA server?"
            )
        return answer

    @asynccontextmanager
    async def download(self, *path: str) -> AsyncIterator[httpx.Response]:
        """Open a file; the body of the response is still to be read. It raises like :meth:`call`."""
        # As it is: of a compressed file, the length would not be known.
        headers = {"accept-encoding": "identity", **self._headers}
        opening = self._http.stream(
            "GET", self._url(path), headers=headers, timeout=FILE_TIMEOUT, follow_redirects=False
        )
        try:
            async with opening as response:
                if not response.is_success:
                    refusal = bytearray()
                    async with aclosing(chunks_of(response)) as chunks:
                        async for chunk in chunks:
                            refusal += chunk
                            if len(refusal) > _LARGEST_ERROR:
                                break
                    raise self._refused(response, (await self._decode(bytes(refusal)))[0])
                yield response
        except httpx.HTTPError as error:
            raise _unreachable(error) from error

    async def _decode(self, received: bytes) -> tuple[Any, bool]:
        """Return the JSON in a body, and whether there is any; an empty body counts as ``null``."""
        if not received.strip():
            return None, True
        with suppress(ValueError):
            return await self._decode_json(received), True
        return None, False

    def _refused(self, response: httpx.Response, answer: Any) -> Refused:
        words = _words(answer)
        for secret in self.secrets:
            words = words.replace(secret, "********")
        server = []
        if response.status_code in (HTTPStatus.UNPROCESSABLE_ENTITY, HTTPStatus.NOT_IMPLEMENTED):
            # Each engine and each edition has other calls. WAHA's words do not always say which one this is.
            if "engine" in words.lower() and self.engine and self.engine not in words:
                server.append(f"engine {self.engine}")
            if "plus" in words.lower() and self.edition:
                server.append(f"edition {self.edition}")
        return Refused(response.status_code, words, _retry_after(response), ", ".join(server))

    def _url(self, path: tuple[str, ...]) -> str:
        return self._root + "/".join(quote(part, safe="") for part in path)


def chunks_of(response: httpx.Response) -> AsyncGenerator[bytes, None]:
    """Return the body of a streamed response in chunks; close it with ``aclosing``."""
    return cast("AsyncGenerator[bytes, None]", response.aiter_bytes())


def _unreachable(error: httpx.HTTPError) -> Unreachable:
    if isinstance(error, httpx.PoolTimeout):  # of hookgw: nothing was sent
        return Unreachable(str(error), status=HTTPStatus.SERVICE_UNAVAILABLE, retry_after=5.0)
    return Unreachable(f"The WAHA server cannot be reached: {error or type(error).__name__}")


def _words(answer: Any) -> str:
    """Return the server's own words, of the forms in which WAHA and its framework refuse a request."""
    answer = mapping(answer)
    messages = answer.get("message")
    if isinstance(messages, list):
        messages = "; ".join(part for part in messages if isinstance(part, str))
    found = text(messages) or text(mapping(answer.get("exception")).get("message"))
    found = found or text(answer.get("error")) or text(mapping(answer.get("error")).get("message"))
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


def _retry_after(response: httpx.Response) -> float | None:
    seconds = response.headers.get("retry-after", "")
    return float(seconds) if seconds.isascii() and seconds.isdigit() and len(seconds) < 6 else None
