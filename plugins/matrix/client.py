"""Requests to a homeserver: JSON in and out, and its errors as exceptions."""

from __future__ import annotations

import re
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable, Mapping, Sequence
from contextlib import AsyncExitStack, aclosing, asynccontextmanager, suppress
from http import HTTPStatus
from typing import Any, cast
from urllib.parse import quote

import httpx
import msgspec

from hookgw import Invalid, NetworkRefused, NotFound

from .events import mapping, text

REQUEST_TIMEOUT = 25.0
"""Seconds for a request, except for long polls and files."""
FILE_TIMEOUT = 300.0
"""Seconds for an upload, and for each part of a download."""
LARGEST_ERROR = 64 * 1024
"""Bytes of the refusal of a download."""
_LONGEST_REASON = 300
_MXC = re.compile(r"mxc://([A-Za-z0-9.:\[\]-]{1,255})/([A-Za-z0-9_-]{1,255})")


DecodeJson = Callable[..., Awaitable[Any]]


class Refused(NetworkRefused):
    """The homeserver refused a request.

    Attributes:
        is_soft_logout: whether the same device may log in again.
        is_temporary: whether the same request may succeed later.
    """

    def __init__(self, status: int, body: Mapping[str, Any], retry_after: float | None) -> None:
        code = text(body.get("errcode")) or None
        reason = text(body.get("error"))[:_LONGEST_REASON] or f"The homeserver answered with {status}."
        # The callers of hookgw would take a 401 for a wrong key of their own. The connection is closed.
        shown = HTTPStatus.CONFLICT if status == HTTPStatus.UNAUTHORIZED else status
        if status >= HTTPStatus.INTERNAL_SERVER_ERROR:
            shown = HTTPStatus.BAD_GATEWAY
        super().__init__(reason, code=code, status=shown, retry_after=retry_after)
        self.is_logged_out = code == "M_UNKNOWN_TOKEN" or code == "M_MISSING_TOKEN"
        self.is_soft_logout = self.is_logged_out and body.get("soft_logout") is True
        self.is_temporary = status == HTTPStatus.TOO_MANY_REQUESTS or not 400 <= status < 500


class Unreachable(NetworkRefused):
    """The homeserver did not answer, or not with JSON. Whether it did what was asked is not known."""


class Client:
    """Makes requests of one account.

    Args:
        http: makes the requests; the caller closes it.
        decode_json: reads the answers; see ``Session.decode_json``.
        homeserver: its URL.

    Attributes:
        token: the access token; empty before the login.
    """

    def __init__(self, http: httpx.AsyncClient, decode_json: DecodeJson, homeserver: str) -> None:
        self.token = ""
        self._http = http
        self._decode_json = decode_json
        self._root = homeserver.rstrip("/")

    async def get(
        self,
        *path: str,
        query: Mapping[str, str] | None = None,
        seconds: float = REQUEST_TIMEOUT,
        events: Sequence[str] = (),
    ) -> dict[str, Any]:
        """GET a JSON object; ``path`` is below ``/_matrix/client/v3``, in parts that are quoted here.

        Args:
            path, query, seconds: of the request.
            events: where events are in the answer; see ``Session.decode_json``.
        """
        return await self._call("GET", _client_path(path), query=query, seconds=seconds, events=events)

    async def post(self, *path: str, body: Any) -> dict[str, Any]:
        """POST JSON, and return the JSON object of the response."""
        return await self._call("POST", _client_path(path), body=body)

    async def put(self, *path: str, body: Any) -> dict[str, Any]:
        """PUT JSON, and return the JSON object of the response."""
        return await self._call("PUT", _client_path(path), body=body)

    async def relations(self, room: str, id_: str, relation: str, kind: str) -> dict[str, Any]:
        """Return the newest events of a kind that relate to an event."""
        parts = [quote(part, safe="") for part in (room, id_, relation, kind)]
        path = "/_matrix/client/v1/rooms/{}/relations/{}/{}/{}".format(*parts)
        return await self._call("GET", path, query={"limit": "100"}, events=["/chunk/#"])

    async def upload(self, content: bytes, *, mimetype: str, file_name: str) -> str:
        """Upload a file, and return its ``mxc://`` address."""
        answer = await self._call(
            "POST",
            "/_matrix/media/v3/upload",
            query={"filename": file_name} if file_name else {},
            content=content,
            headers={"content-type": mimetype},
            seconds=FILE_TIMEOUT,
        )
        if address := text(answer.get("content_uri")):
            return address
        raise Unreachable("The homeserver did not say where it stored the file.")

    @asynccontextmanager
    async def download(self, reference: str) -> AsyncIterator[httpx.Response]:
        """Open a file of the media repository. The body of the response is still to be read.

        Args:
            reference: its ``mxc://`` address.

        Raises:
            NotFound: this is not such an address.
            Refused: there is no such file, or it may not be read.
        """
        address = _MXC.fullmatch(reference)
        if address is None:
            raise NotFound("The link does not name a file of Matrix.")
        # Servers before version 1.11 of the specification have only the second path.
        path = f"{quote(address[1], safe='')}/{quote(address[2], safe='')}"
        async with AsyncExitStack() as stack:
            try:
                opening = self._open(f"/_matrix/client/v1/media/download/{path}")
                response = await stack.enter_async_context(opening)
            except Refused as error:
                if error.code != "M_UNRECOGNIZED":
                    raise
                opening = self._open(f"/_matrix/media/v3/download/{path}")
                response = await stack.enter_async_context(opening)
            yield response

    async def _call(
        self,
        method: str,
        path: str,
        *,
        query: Mapping[str, str] | None = None,
        body: Any = None,
        content: bytes | None = None,
        headers: Mapping[str, str] | None = None,
        seconds: float = REQUEST_TIMEOUT,
        events: Sequence[str] = (),
    ) -> dict[str, Any]:
        if body is not None:
            content, headers = msgspec.json.encode(body), {"content-type": "application/json"}
        try:
            response = await self._http.request(
                method,
                self._root + path,
                params=query,
                content=content,
                headers={**(headers or {}), **self._authorization()},
                timeout=seconds,
                extensions={"long_poll": path == _client_path(("sync",))},
            )
        except httpx.HTTPError as error:
            raise _unreachable(error) from error
        return await self._checked(response, response.content, events)

    @asynccontextmanager
    async def _open(self, path: str) -> AsyncIterator[httpx.Response]:
        opening = self._http.stream(
            "GET",
            self._root + path,
            headers=self._authorization(),  # httpx takes it away where a redirect leads to another host
            timeout=FILE_TIMEOUT,
            follow_redirects=True,
        )
        try:
            async with opening as response:
                if not response.is_success:
                    await self._checked(response, await read_body(response, LARGEST_ERROR))
                yield response
        except httpx.HTTPError as error:
            raise _unreachable(error) from error

    async def _checked(
        self, response: httpx.Response, received: bytes, events: Sequence[str] = ()
    ) -> dict[str, Any]:
        answer: Any = None
        with suppress(ValueError):
            answer = await self._decode_json(received, events=events)
        if not response.is_success:
            raise Refused(response.status_code, mapping(answer), _retry_after(response, mapping(answer)))
        if not isinstance(answer, dict):
            raise Unreachable("The homeserver did not answer with a JSON object.")
        return answer

    def _authorization(self) -> dict[str, str]:
        return {"authorization": f"Bearer {self.token}"} if self.token else {}


async def read_body(response: httpx.Response, limit: int) -> bytes:
    """Return the body of a streamed response.

    Raises:
        Invalid: it has more than ``limit`` bytes.
        httpx.HTTPError: the connection failed.
    """
    received = bytearray()
    async with aclosing(chunks_of(response)) as chunks:
        async for chunk in chunks:
            received += chunk
            if len(received) > limit:
                raise Invalid(f"The file has more than {limit} bytes.")
    return bytes(received)


def chunks_of(response: httpx.Response) -> AsyncGenerator[bytes, None]:
    """Return the body of a streamed response in chunks; close it with ``aclosing``."""
    return cast("AsyncGenerator[bytes, None]", response.aiter_bytes())


def _unreachable(error: httpx.HTTPError) -> Unreachable:
    if isinstance(error, httpx.PoolTimeout):  # of hookgw: nothing was sent
        return Unreachable(str(error), status=HTTPStatus.SERVICE_UNAVAILABLE, retry_after=5.0)
    return Unreachable(f"The homeserver cannot be reached: {error or type(error).__name__}")


def _client_path(parts: tuple[str, ...]) -> str:
    return "/_matrix/client/v3/" + "/".join(quote(part, safe="") for part in parts)


def _retry_after(response: httpx.Response, body: Mapping[str, Any]) -> float | None:
    milliseconds = body.get("retry_after_ms")
    if isinstance(milliseconds, int | float) and 0 <= milliseconds <= 86_400_000:
        return milliseconds / 1000
    seconds = response.headers.get("retry-after", "")
    return float(seconds) if seconds.isascii() and seconds.isdigit() and len(seconds) < 6 else None
