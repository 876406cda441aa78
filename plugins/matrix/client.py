"""Requests to a homeserver, and its errors."""

from __future__ import annotations

import re
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, AsyncExitStack, asynccontextmanager
from http import HTTPStatus
from typing import Any, TypeVar
from urllib.parse import quote

import httpx
import structlog
import trio

from hookgw import NetworkRefused, NotFound, Session
from hookgw.connectors import (
    REQUEST_TIMEOUT,
    NetworkClient,
    Unreachable,
    any_number,
    mapping,
    read_file,
    retry_after_of,
    text,
    wait_after,
)
from hookgw.connectors import Refused as KitRefused

T = TypeVar("T")
logger = structlog.get_logger("hookgw.matrix")

FILE_TIMEOUT = 300.0
"""Seconds for an upload, and for each part of a download."""
_LONGEST_REASON = 300
_MOST_ATTEMPTS = 3
_LONG_WAIT = 5.0
_MXC = re.compile(r"mxc://([A-Za-z0-9.:\[\]-]{1,255})/([A-Za-z0-9_-]{1,255})")


class Refused(KitRefused):
    """The homeserver refused a request.

    Attributes:
        is_logged_out: whether the access token is not, or no longer, valid.
        is_soft_logout: whether the same device may log in again.
    """

    def __init__(self, status: int, body: Mapping[str, Any], retry_after: float | None) -> None:
        code = text(body.get("errcode")) or None
        reason = text(body.get("error"))[:_LONGEST_REASON] or f"The homeserver answered with {status}."
        super().__init__(reason, remote_status=status, code=code, retry_after=retry_after)
        self.is_logged_out = code in ("M_UNKNOWN_TOKEN", "M_MISSING_TOKEN")
        self.is_soft_logout = self.is_logged_out and body.get("soft_logout") is True


class Client(NetworkClient):
    """Makes requests of one account."""

    server = "The homeserver"
    no_json = "The homeserver did not answer with a JSON object."
    answer_type = dict

    def __init__(self, session: Session, homeserver: str) -> None:
        super().__init__(session)
        self._root = homeserver.rstrip("/")
        self._instance = session.instance

    @property
    def token(self) -> str:
        """The access token; empty before the login."""
        return self.headers.get("authorization", "").removeprefix("Bearer ")

    @token.setter
    def token(self, token: str) -> None:
        self.headers = {"authorization": f"Bearer {token}"} if token else {}

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

    async def post(self, *path: str, body: Any, query: Mapping[str, str] | None = None) -> dict[str, Any]:
        """POST JSON, and return the JSON object of the response."""
        return await self._call("POST", _client_path(path), body=body, query=query)

    async def put(self, *path: str, body: Any) -> dict[str, Any]:
        """PUT JSON, and return the JSON object of the response."""
        return await self._call("PUT", _client_path(path), body=body)

    async def reactions(self, room: str, id_: str) -> dict[str, Any]:
        """Return the newest reactions to an event."""
        parts = quote(room, safe=""), quote(id_, safe="")
        path = "/_matrix/client/v1/rooms/{}/relations/{}/m.annotation/m.reaction".format(*parts)
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
            raise NotFound.of("matrix.link", "The link does not name a file of Matrix.")
        # Servers before version 1.11 of the specification have only the second path.
        path = f"{quote(address[1], safe='')}/{quote(address[2], safe='')}"
        async with AsyncExitStack() as stack:
            try:
                response = await stack.enter_async_context(self._file(f"client/v1/media/download/{path}"))
            except Refused as error:
                if error.code != "M_UNRECOGNIZED":
                    raise
                response = await stack.enter_async_context(self._file(f"media/v3/download/{path}"))
            yield response

    async def read(self, reference: str, limit: int) -> bytes:
        """Return a file of the media repository, of at most so many bytes."""
        async with self.download(reference) as response:
            return await read_file(response, limit)

    async def in_place(self, make: Callable[[], Awaitable[T]]) -> T:
        """Make a request; while the homeserver limits requests, wait and repeat this one, and nothing else.

        After another temporary failure, the request is made again at most twice.

        Raises:
            NetworkRefused: it is refused for good, or the homeserver cannot be reached.
        """
        limits = failures = 0
        while True:
            try:
                return await make()
            except Refused as refused:
                if not refused.is_temporary:
                    raise
                error: NetworkRefused = refused
                if refused.remote_status == HTTPStatus.TOO_MANY_REQUESTS:
                    limits += 1
                else:
                    failures += 1
            except Unreachable as unreachable:
                error = unreachable
                failures += 1
            if failures == _MOST_ATTEMPTS:
                raise error
            wait = wait_after(error, limits + failures)
            if wait >= _LONG_WAIT:
                logger.warning(
                    "homeserver limits requests", instance=self._instance, retry_after=round(wait, 1)
                )
            await trio.sleep(wait)

    def _file(self, path: str) -> AbstractAsyncContextManager[httpx.Response]:
        # httpx takes the token away where a redirect leads to another host.
        return self.open("GET", f"{self._root}/_matrix/{path}", timeout=FILE_TIMEOUT, follow_redirects=True)

    async def _call(
        self,
        method: str,
        path: str,
        *,
        query: Mapping[str, str] | None = None,
        seconds: float = REQUEST_TIMEOUT,
        **more: Any,
    ) -> dict[str, Any]:
        extensions = {"long_poll": path == _client_path(("sync",))}
        found: dict[str, Any] = await self.request_json(
            method, self._root + path, params=query, timeout=seconds, extensions=extensions, **more
        )
        return found

    def refusal(self, response: httpx.Response, answer: Any) -> Refused:
        """Return the error with the homeserver's code and words."""
        body = mapping(answer)
        return Refused(response.status_code, body, _retry_after(response, body))


def _client_path(parts: tuple[str, ...]) -> str:
    return "/_matrix/client/v3/" + "/".join(quote(part, safe="") for part in parts)


def _retry_after(response: httpx.Response, body: Mapping[str, Any]) -> float | None:
    milliseconds = any_number(body.get("retry_after_ms"))
    if milliseconds is not None and milliseconds >= 0:
        return milliseconds / 1000
    return retry_after_of(response)
