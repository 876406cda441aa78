"""Requests to Evolution API: JSON in and out, and its refusals as exceptions."""

from __future__ import annotations

from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable, Iterator, Sequence
from contextlib import aclosing, asynccontextmanager, suppress
from http import HTTPStatus
from typing import Any, cast
from urllib.parse import quote

import httpx
import msgspec

from hookgw import NetworkEvents, NetworkRefused

from .options import Options

REQUEST_TIMEOUT = 25.0
"""Seconds for a request; hookgw waits 30 s for a call of a connector."""
_LONGEST_REASON = 300
_LARGEST_ERROR = 64 * 1024
_DEEPEST = 6
_MASK = "********"
_NO_LICENSE = b"LICENSE_REQUIRED"
_KEY_REFUSED = (HTTPStatus.UNAUTHORIZED, HTTPStatus.FORBIDDEN)


DecodeJson = Callable[..., Awaitable[Any]]


class Refused(NetworkRefused):
    """Evolution API refused a request.

    Attributes:
        remote_status: the status of its response.
        is_missing: whether it has no such instance.
    """

    def __init__(self, reason: str, *, remote_status: int, status: int, retry_after: float | None) -> None:
        super().__init__(reason, status=status, retry_after=retry_after)
        self.remote_status = remote_status
        self.is_missing = False


class Unreachable(NetworkRefused):
    """Evolution API did not answer, or not as it does. Whether it did what was asked is not known."""


class Client:
    """Makes the requests of one instance.

    Args:
        http: makes the requests; the caller closes it.
        decode_json: reads the answers; see ``Session.decode_json``.
        options: of the instance.
    """

    def __init__(self, http: httpx.AsyncClient, decode_json: DecodeJson, options: Options) -> None:
        self._http = http
        self._decode_json = decode_json
        self._root = options.base_url
        self._key = options.api_key
        self.remote = options.remote

    async def call(
        self,
        method: str,
        path: str,
        body: Any = None,
        *,
        query: str = "",
        events: Sequence[str] = (),
        seconds: float = REQUEST_TIMEOUT,
    ) -> Any:
        """Make a request to ``/<path>/<remote>``, and return the JSON of the response.

        Args:
            method, path, body, query: of the request.
            events: what may be long in the response; see ``Session.decode_json``.
            seconds: for the whole request.

        Raises:
            Refused: with the reason that Evolution API gives.
            Unreachable: there was no such answer.
        """
        received = await self._request(method, self._path(path) + query, body, seconds)
        try:
            return await self._decode_json(received, events=events)
        except ValueError:
            raise Unreachable("Evolution API did not answer with JSON. Is base_url right?") from None

    async def list(self, method: str, path: str, body: Any = None, *, query: str = "") -> list[Any]:
        """Make a request whose response is a list, of any length; see :meth:`call`."""
        found = await self.call(method, path, body, query=query, events=("/#",))
        return list(found) if isinstance(found, NetworkEvents | list) else []

    async def account(self) -> dict[str, Any]:
        """Return what Evolution API tells of the instance's account; empty if it tells nothing."""
        path = f"/instance/fetchInstances?instanceName={quote(self.remote, safe='')}"
        received = await self._request("GET", path, None, 10.0)
        with suppress(ValueError):
            found = await self._decode_json(received, events=("/#",))
            for one in found if isinstance(found, NetworkEvents) else ():
                if isinstance(one, dict) and one.get("name", self.remote) == self.remote:
                    return one
        return {}

    @asynccontextmanager
    async def stream(self, path: str, body: Any) -> AsyncIterator[httpx.Response]:
        """Open a response of any size, whose body is still to be read.

        Raises:
            Refused, Unreachable: see :meth:`call`; also while the body is read.
        """
        opening = self._http.stream(
            "POST",
            self._root + self._path(path),
            content=msgspec.json.encode(body),
            headers=self._headers(has_body=True),
            timeout=REQUEST_TIMEOUT,
        )
        try:
            async with opening as response:
                if not response.is_success:
                    raise await self._refused(response, await _error_body(response))
                yield response
        except httpx.HTTPError as error:
            raise _unreachable(error) from error

    async def _request(self, method: str, path: str, body: Any, seconds: float) -> bytes:
        content = None if body is None else msgspec.json.encode(body)
        headers = self._headers(has_body=body is not None)
        try:
            response = await self._http.request(
                method, self._root + path, content=content, headers=headers, timeout=seconds
            )
        except httpx.HTTPError as error:
            raise _unreachable(error) from error
        if not response.is_success:
            raise await self._refused(response, response.content)
        return response.content

    def _headers(self, *, has_body: bool) -> dict[str, str]:
        return {"apikey": self._key, **({"content-type": "application/json"} if has_body else {})}

    def _path(self, path: str) -> str:
        return f"/{path}/{quote(self.remote, safe='')}"

    async def _refused(self, response: httpx.Response, received: bytes) -> NetworkRefused:
        status = response.status_code
        if status < HTTPStatus.BAD_REQUEST:
            return Unreachable(f"Evolution API answered with {status}. Is base_url right?")
        answer: Any = None
        with suppress(ValueError):
            answer = await self._decode_json(received)
        said = " ".join(_sentences(answer)).replace(self._key, _MASK)[:_LONGEST_REASON]
        reason = said or f"Evolution API answered with {status}."
        # What is wrong between hookgw and Evolution API is no fault of the caller's: a 401 or 404 would look
        # as if the caller's own key or instance were wrong.
        shown = status
        is_missing = status == HTTPStatus.NOT_FOUND and "does not exist" in said
        if status in _KEY_REFUSED:
            shown, reason = HTTPStatus.CONFLICT, "Evolution API refuses the option api_key of this instance."
        elif is_missing:
            shown = HTTPStatus.CONFLICT
            reason = f"Evolution API has no instance {self.remote!r}: create it there, or change remote."
        elif status == HTTPStatus.SERVICE_UNAVAILABLE and _NO_LICENSE in received:
            shown = HTTPStatus.CONFLICT
            reason = (
                "Evolution API is not activated (LICENSE_REQUIRED), as versions from 2.4 on must be. "
                "Activate it in its manager."
            )
        elif status == HTTPStatus.NOT_FOUND or status >= HTTPStatus.INTERNAL_SERVER_ERROR:
            shown = HTTPStatus.BAD_GATEWAY
        refused = Refused(
            reason, remote_status=status, status=shown, retry_after=_retry_after(response.headers)
        )
        refused.is_missing = is_missing
        return refused


def chunks_of(response: httpx.Response) -> AsyncGenerator[bytes, None]:
    """Return the body of a streamed response in chunks; close it with ``aclosing``."""
    return cast("AsyncGenerator[bytes, None]", response.aiter_bytes())


def _unreachable(error: httpx.HTTPError) -> Unreachable:
    if isinstance(error, httpx.PoolTimeout):  # of hookgw: nothing was sent
        return Unreachable(str(error), status=HTTPStatus.SERVICE_UNAVAILABLE, retry_after=5.0)
    return Unreachable(f"Evolution API cannot be reached: {error or type(error).__name__}")


async def _error_body(response: httpx.Response) -> bytes:
    received = bytearray()
    async with aclosing(chunks_of(response)) as chunks:
        async for chunk in chunks:
            received += chunk
            if len(received) > _LARGEST_ERROR:
                break
    return bytes(received)


def _sentences(answer: Any, depth: int = 0) -> Iterator[str]:
    """Yield what an error says: ``{"response": {"message": [["…"]]}}``, in any of its forms."""
    if isinstance(answer, str) and answer:
        yield answer
    elif isinstance(answer, list) and depth < _DEEPEST:
        for item in answer[:10]:
            yield from _sentences(item, depth + 1)
    elif isinstance(answer, dict):
        if answer.get("exists") is False and isinstance(answer.get("number"), str):
            yield f"{answer['number']} is not on WhatsApp."
        elif depth < _DEEPEST:
            for name in ("response", "message"):
                if name in answer:
                    yield from _sentences(answer[name], depth + 1)
                    return


def _retry_after(headers: httpx.Headers) -> float | None:
    seconds = headers.get("retry-after", "")
    return float(seconds) if seconds.isascii() and seconds.isdigit() and len(seconds) < 6 else None
