"""Requests to a Bot API server: JSON in and out, and its errors as exceptions.

The token is in the path of each request's URL. So no message of httpx, which may hold the URL, leaves this
module: :meth:`Client.hide` removes the token from every text.
"""

from __future__ import annotations

import logging
import re
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from http import HTTPStatus
from typing import Any, cast
from urllib.parse import quote

import httpx
import msgspec

from hookgw import NetworkRefused, NotFound

from .fields import identifier, mapping, text

REQUEST_TIMEOUT = 20.0
"""Seconds for a request, except for long polls and files."""
FILE_TIMEOUT = 25.0
"""Seconds for an upload, within the 30 that hookgw gives a call; and for each part of a download."""
_LONGEST_REASON = 300
_LONGEST_WAIT = 86_400
_MASK = "********"
_TOKEN_IN_PATH = re.compile(r"(/bot[0-9]{1,20}:)[A-Za-z0-9_-]+")
# "photos/file_1.jpg". A local server with --local says where on its own disk a file is: "/var/lib/…".
_FILE_PATH = re.compile(r"[\w.\- ]{1,255}(/[\w.\- ]{1,255}){0,8}")
_STATUS_UNKNOWN = "The Bot API server answered with the status {}."


DecodeJson = Callable[..., Awaitable[Any]]


class Refused(NetworkRefused):
    """The Bot API server refused a request.

    Attributes:
        error_code: the server's: 400 to 599.
        is_unauthorized: whether the token is not, or no longer, a bot's.
        is_temporary: whether the same request may succeed later.
        migrated_to: the chat that the group has become; empty for none.
    """

    def __init__(
        self, error_code: int, reason: str, parameters: Mapping[str, Any], retry_after: float | None
    ) -> None:
        # The callers of hookgw would take a 401 for a wrong key of their own. The connection is closed.
        status = HTTPStatus.CONFLICT if error_code == HTTPStatus.UNAUTHORIZED else error_code
        if error_code >= HTTPStatus.INTERNAL_SERVER_ERROR:
            status = HTTPStatus.BAD_GATEWAY
        super().__init__(reason, code=str(error_code), status=status, retry_after=retry_after)
        self.error_code = error_code
        # For a token that never was a bot's, the server answers "Not Found", as for any unknown path.
        self.is_unauthorized = error_code == HTTPStatus.UNAUTHORIZED or reason == "Not Found"
        self.is_temporary = error_code == HTTPStatus.TOO_MANY_REQUESTS or error_code >= 500
        self.migrated_to = identifier(parameters.get("migrate_to_chat_id"))


class Unreachable(NetworkRefused):
    """The Bot API server did not answer, or not with JSON. Whether it did what was asked is not known.

    Attributes:
        body: an answer with the status 200 that is not JSON; empty if there was none.
    """

    def __init__(
        self,
        reason: str,
        body: bytes = b"",
        *,
        status: int = HTTPStatus.BAD_GATEWAY,
        retry_after: float | None = None,
    ) -> None:
        super().__init__(reason, status=status, retry_after=retry_after)
        self.body = body


class Client:
    """Makes requests of one bot.

    Args:
        http: makes the requests; the caller closes it.
        decode_json: reads the answers; see ``Session.decode_json``.
        base_url: of the Bot API server.
        token: the bot's.
    """

    def __init__(self, http: httpx.AsyncClient, decode_json: DecodeJson, base_url: str, token: str) -> None:
        self._http = http
        self._decode_json = decode_json
        self._base = base_url.rstrip("/")
        self._token = token
        self._secret = token.partition(":")[2]
        hide_tokens_in_log()

    def __repr__(self) -> str:
        return f"Client(base_url={self._base!r})"

    async def get(self, method: str, *, seconds: float = REQUEST_TIMEOUT, **parameters: Any) -> Any:
        """Call a method that changes nothing; a broken connection may repeat it. Return its result."""
        return await self._call("GET", method, seconds, params=_form(parameters))

    async def updates(self, left_out: Callable[[bytes], None], *, seconds: float, **parameters: Any) -> Any:
        """Call ``getUpdates``; ``left_out`` is called with each update that is too large to be read."""
        return await self._call(
            "GET", "getUpdates", seconds, events=["/result/#"], left_out=left_out, params=_form(parameters)
        )

    async def call(self, method: str, *, seconds: float = REQUEST_TIMEOUT, **parameters: Any) -> Any:
        """Call a method once. Return its result.

        Raises:
            Refused: the server refused.
            Unreachable: nobody knows whether the server did it.
        """
        body = msgspec.json.encode({name: value for name, value in parameters.items() if value is not None})
        headers = {"content-type": "application/json"}
        return await self._call("POST", method, seconds, content=body, headers=headers)

    async def upload(self, method: str, field: str, file: tuple[str, bytes, str], **parameters: Any) -> Any:
        """Call a method with a file.

        Args:
            method: of the Bot API.
            field: the parameter that the file is for.
            file: its name, content and type.
            parameters: the others.
        """
        return await self._call("POST", method, FILE_TIMEOUT, data=_form(parameters), files={field: file})

    @asynccontextmanager
    async def download(self, file_id: str) -> AsyncIterator[httpx.Response]:
        """Open a file that somebody sent. The body of the response is still to be read.

        Raises:
            NotFound: the server no longer has the file, or does not give it out over HTTP.
            Refused: it may not be read, or is too large.
        """
        try:
            found = mapping(await self.get("getFile", file_id=file_id))
        except Refused as error:
            if "too big" in str(error):
                reason = "Telegram's Bot API server gives out files of up to 20 MB, and this one is larger."
                raise NetworkRefused(
                    reason, code=error.code, status=HTTPStatus.REQUEST_ENTITY_TOO_LARGE
                ) from None
            if error.error_code == HTTPStatus.BAD_REQUEST:
                raise NotFound("Telegram no longer has the file, or never had it.") from None
            raise
        path = text(found.get("file_path"))
        parts = path.split("/")
        # The path comes from the server. It must not lead to a method of the API, or out of the bot's files.
        if not _FILE_PATH.fullmatch(path) or not all(part.strip(". ") for part in parts):
            raise NotFound(
                "The Bot API server does not say where the file is in a form that can be fetched over HTTP. "
                "A local server must run without --local."
            )
        url = f"{self._base}/file/bot{self._token}/{quote(path)}"
        try:
            async with self._http.stream(
                "GET", url, timeout=FILE_TIMEOUT, follow_redirects=False
            ) as response:
                if response.status_code == HTTPStatus.NOT_FOUND:
                    raise NotFound("Telegram no longer has the file.")
                if not response.is_success:
                    raise Unreachable(_STATUS_UNKNOWN.format(response.status_code))
                yield response
        except httpx.HTTPError as error:
            raise self._unreachable(error) from None

    def hide(self, shown: str) -> str:
        """Return a text without the token."""
        return shown.replace(self._secret, _MASK) if self._secret else shown

    async def _call(
        self,
        verb: str,
        method: str,
        seconds: float,
        events: Sequence[str] = (),
        left_out: Callable[[bytes], None] | None = None,
        **request: Any,
    ) -> Any:
        url = f"{self._base}/bot{self._token}/{method}"
        try:
            response = await self._http.request(
                verb,
                url,
                timeout=seconds,
                follow_redirects=False,
                extensions={"long_poll": method == "getUpdates"},
                **request,
            )
        except httpx.HTTPError as error:
            # Not as the cause: a traceback shows it, and its text may hold the URL.
            raise self._unreachable(error) from None
        try:
            found = await self._decode_json(response.content, events=events, left_out=left_out)
            answer = mapping(found)
        except ValueError:
            answer = {}
        if response.is_success and answer.get("ok") is True and "result" in answer:
            return answer["result"]
        if answer.get("ok") is not False and response.status_code < HTTPStatus.BAD_REQUEST:
            body = response.content if response.is_success else b""
            raise Unreachable("The Bot API server did not answer with the JSON of the Bot API.", body)
        code = answer.get("error_code")
        if type(code) is not int or not 400 <= code <= 599:
            code = response.status_code
            if code < HTTPStatus.BAD_REQUEST:
                code = HTTPStatus.BAD_GATEWAY.value
        reason = self.hide(text(answer.get("description")))[:_LONGEST_REASON]
        if not reason and code in (HTTPStatus.UNAUTHORIZED, HTTPStatus.NOT_FOUND):
            # Something between hookgw and the server: only the server itself may say that a token is wrong.
            raise Unreachable(_STATUS_UNKNOWN.format(response.status_code))
        parameters = mapping(answer.get("parameters"))
        raise Refused(
            code, reason or _STATUS_UNKNOWN.format(code), parameters, _retry_after(response, parameters, code)
        )

    def _unreachable(self, error: httpx.HTTPError) -> Unreachable:
        if isinstance(error, httpx.PoolTimeout):  # of hookgw: nothing was sent
            return Unreachable(str(error), status=HTTPStatus.SERVICE_UNAVAILABLE, retry_after=5.0)
        reason = self.hide(str(error)).removesuffix(".") or type(error).__name__
        return Unreachable(f"The Bot API server cannot be reached: {reason}.")


def chunks_of(response: httpx.Response) -> AsyncGenerator[bytes, None]:
    """Return the body of a streamed response in chunks; close it with ``aclosing``."""
    return cast("AsyncGenerator[bytes, None]", response.aiter_bytes())


def _form(parameters: Mapping[str, Any]) -> dict[str, str]:
    """Return parameters as the fields of a form or query, with objects and lists as JSON."""
    return {
        name: value if isinstance(value, str) else msgspec.json.encode(value).decode()
        for name, value in parameters.items()
        if value is not None
    }


def _retry_after(response: httpx.Response, parameters: Mapping[str, Any], code: int) -> float | None:
    seconds = parameters.get("retry_after")
    if isinstance(seconds, int | float) and not isinstance(seconds, bool) and 0 <= seconds <= _LONGEST_WAIT:
        return float(seconds)
    header = response.headers.get("retry-after", "")
    if header.isascii() and header.isdigit() and len(header) < 6:
        return float(header)
    return 1.0 if code == HTTPStatus.TOO_MANY_REQUESTS else None


class _TokenFilter(logging.Filter):
    """Masks the tokens in the URLs that httpx logs."""

    def filter(self, record: logging.LogRecord) -> bool:
        """Change the record; let it pass."""
        message = record.getMessage()
        masked = _TOKEN_IN_PATH.sub(rf"\1{_MASK}", message)
        if masked != message:
            record.msg, record.args = masked, ()
        return True


_filter = _TokenFilter()


def hide_tokens_in_log() -> None:
    """Mask tokens in what httpx logs. hookgw shows none of it, but a program that embeds hookgw may."""
    logging.getLogger("httpx").addFilter(_filter)  # the same filter is added once
