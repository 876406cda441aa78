"""Requests to a network's server: JSON in and out, files, and what goes wrong as exceptions."""

from __future__ import annotations

import time
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Iterable, Sequence
from contextlib import aclosing, asynccontextmanager, suppress
from http import HTTPStatus
from typing import Any, cast

import httpx
import msgspec

from hookgw.connectors.errors import Unreachable
from hookgw.connectors.json_values import number
from hookgw.delivery.outcome import parse_retry_after
from hookgw.kernel.errors import LONGEST_RETRY_AFTER, TooLarge
from hookgw.kernel.masking import MASK
from hookgw.records.connectors import MediaSink, Session

REQUEST_TIMEOUT = 25.0
"""Seconds for a request; hookgw waits 30 s for a call of a connector."""
_LARGEST_REFUSAL = 64 * 1024
# Ids of the network stand in URLs: one of 60 KB, which somebody else has chosen, makes none.
_NO_ANSWER = (httpx.HTTPError, httpx.InvalidURL)


class NetworkClient:
    """Makes the requests of one instance. Derive a class that says how its network refuses.

    Args:
        session: of the instance; makes the requests, and reads the answers.
        headers: of every request.
        secrets: texts that :meth:`hide` masks.

    Attributes:
        server: the server's name at the beginning of a sentence.
        no_json: the message about an answer that is not :attr:`answer_type`.
        answer_type: the type of the JSON in an answer; by default any.
        headers, secrets: as given.
    """

    server = "The server"
    no_json = "The server did not answer with JSON."
    answer_type: type = object

    def __init__(
        self, session: Session, *, headers: dict[str, str] | None = None, secrets: Iterable[str] = ()
    ) -> None:
        self._http = session.http
        self._decode_json = session.decode_json
        self.headers = headers or {}
        self.secrets = set(filter(None, secrets))

    def refusal(self, response: httpx.Response, answer: Any) -> Exception:
        """Return the error for an answer that is no success; a subclass says which.

        Args:
            response: with its status and headers.
            answer: the JSON in it; ``None`` if there is none.
        """
        raise NotImplementedError

    def is_refusal(self, response: httpx.Response, answer: Any) -> bool:  # noqa: ARG002
        """Return whether an answer is no success; by its status, unless a subclass knows more."""
        return not response.is_success

    async def request_json(
        self,
        method: str,
        url: str,
        *,
        body: Any = None,
        timeout: float = REQUEST_TIMEOUT,  # noqa: ASYNC109 (of httpx)
        events: Sequence[str] = (),
        left_out: Callable[[bytes], None] | None = None,
        **more: Any,
    ) -> Any:
        """Make a request, and return the JSON of the answer.

        Args:
            method, url: of the request.
            body: sent as JSON; ``None`` for none.
            timeout: in seconds.
            events, left_out: see :meth:`hookgw.Session.decode_json`.
            more: for httpx, such as ``params``, ``files`` and ``extensions``.

        Raises:
            NetworkRefused: what :meth:`refusal` returned.
            Unreachable: there was no answer, or it has no such JSON.
        """
        response = await self.request(method, url, body=body, timeout=timeout, **more)
        answer, is_json = await self.decode(response.content, events=events, left_out=left_out)
        if self.is_refusal(response, answer):
            raise self.refusal(response, answer)
        if not is_json or not isinstance(answer, self.answer_type):
            raise Unreachable(self.no_json)
        return answer

    async def request(
        self,
        method: str,
        url: str,
        *,
        body: Any = None,
        headers: dict[str, str] | None = None,
        **more: Any,
    ) -> httpx.Response:
        """Make a request, and return whatever the server answered. Redirects are not followed.

        Raises:
            Unreachable: there was no answer.
        """
        headers = {**self.headers, **(headers or {})}
        if body is not None:
            more["content"], headers["content-type"] = msgspec.json.encode(body), "application/json"
        try:
            return await self._http.request(method, url, headers=headers, follow_redirects=False, **more)
        except _NO_ANSWER as error:
            # Not as the cause: a traceback shows it, and its text may hold a URL with a secret.
            raise self.unreachable(error) from None

    @asynccontextmanager
    async def open(
        self,
        method: str,
        url: str | httpx.URL,
        *,
        body: Any = None,
        headers: dict[str, str] | None = None,
        follow_redirects: bool = False,
        **more: Any,
    ) -> AsyncIterator[httpx.Response]:
        """Open an answer of any size, whose body is still to be read; see :func:`chunks_of`.

        Raises:
            NetworkRefused: what :meth:`refusal` returned.
            Unreachable: there was no answer, or it broke off while it was read.
        """
        headers = {**self.headers, **(headers or {})}
        if body is not None:
            more["content"], headers["content-type"] = msgspec.json.encode(body), "application/json"
        opening = self._http.stream(method, url, headers=headers, follow_redirects=follow_redirects, **more)
        try:
            async with opening as response:
                if not response.is_success:
                    is_long = (number(response.headers.get("content-length")) or 0) > _LARGEST_REFUSAL
                    # Of a long page, the status says enough.
                    received = b"" if is_long else await _beginning_of(response, _LARGEST_REFUSAL)
                    raise self.refusal(response, (await self.decode(received))[0])
                yield response
        except _NO_ANSWER as error:
            raise self.unreachable(error) from None

    async def decode(self, received: bytes, **more: Any) -> tuple[Any, bool]:
        """Return the JSON in a body, ``None`` if it is none, and whether it is."""
        with suppress(ValueError):
            return await self._decode_json(received, **more), True
        return None, False

    def hide(self, shown: str) -> str:
        """Return a text without the secrets."""
        for secret in self.secrets:
            shown = shown.replace(secret, MASK)
        return shown

    def unreachable(self, error: httpx.HTTPError | httpx.InvalidURL) -> Unreachable:
        """Return the error for a request without an answer."""
        if isinstance(error, httpx.PoolTimeout):  # of hookgw: nothing was sent
            return Unreachable(str(error), status=HTTPStatus.SERVICE_UNAVAILABLE, retry_after=5.0)
        reason = self.hide(str(error)) or type(error).__name__
        return Unreachable(f"{self.server} cannot be reached: {reason}")


def retry_after_of(response: httpx.Response) -> float | None:
    """Return the seconds that ``Retry-After`` asks for, as a number or a date, at most a day.

    ``None`` without a wait.
    """
    found = parse_retry_after(response.headers.get("retry-after"), time.time())
    return None if found is None else min(found, LONGEST_RETRY_AFTER)


def chunks_of(response: httpx.Response) -> AsyncGenerator[bytes, None]:
    """Return the body of an opened answer in chunks; close it with ``aclosing``."""
    return cast("AsyncGenerator[bytes, None]", response.aiter_bytes())


async def read_file(response: httpx.Response, limit: int) -> bytes:
    """Return the body of an opened answer.

    Raises:
        TooLarge: it has more than ``limit`` bytes.
    """
    received = await _beginning_of(response, limit)
    if len(received) > limit:
        raise TooLarge.of("media.too_long", "The file has more than {limit:,} bytes.", limit=limit)
    return received


async def pass_file(
    response: httpx.Response, sink: MediaSink, *, mimetype: str | None = None, size: int | None = None
) -> None:
    """Send the body of an opened answer to a sink.

    Args:
        response: the answer.
        sink: of :meth:`hookgw.OptionalCalls.open_media`.
        mimetype: of the file; by default what the answer says.
        size: in bytes, if the answer does not say it.
    """
    # Of a compressed answer, it is not the length of the file.
    is_plain = response.headers.get("content-encoding", "identity") == "identity"
    length = number(response.headers.get("content-length")) if is_plain else None
    said = response.headers.get("content-type", "application/octet-stream")
    await sink.begin(
        mimetype=said if mimetype is None else mimetype,
        size=size if length is None else length,
    )
    async with aclosing(chunks_of(response)) as chunks:
        async for chunk in chunks:
            await sink.write(chunk)


async def _beginning_of(response: httpx.Response, limit: int) -> bytes:
    """Return a body, of which more than the limit is left out."""
    received = bytearray()
    async with aclosing(chunks_of(response)) as chunks:
        async for chunk in chunks:
            received += chunk
            if len(received) > limit:
                break
    return bytes(received)
