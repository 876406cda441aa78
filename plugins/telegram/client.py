"""Requests to a Bot API server, and its errors.

The token is in the path of each request's URL. So no message of httpx, which may hold the URL, leaves this
module: :meth:`Client.hide` removes the token from every text.
"""

from __future__ import annotations

import logging
import re
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from http import HTTPStatus
from typing import Any
from urllib.parse import quote

import httpx
import msgspec

from hookgw import NetworkRefused, NotFound, Sentence, Session
from hookgw.connectors import (
    NetworkClient,
    Unreachable,
    any_number,
    mapping,
    read_file,
    retry_after_of,
    text,
)
from hookgw.connectors import Refused as KitRefused

from .fields import identifier

REQUEST_TIMEOUT = 20.0
"""Seconds for a request, except for long polls and files."""
FILE_TIMEOUT = 25.0
"""Seconds for an upload, within the 30 that hookgw gives a call; and for each part of a download."""
_LONGEST_REASON = 300
_MASK = "********"
_TOKEN_IN_PATH = re.compile(r"(/bot[0-9]{1,20}:)[A-Za-z0-9_-]+")
# "photos/file_1.jpg". A local server with --local says where on its own disk a file is: "/var/lib/…".
_FILE_PATH = re.compile(r"[\w.\- ]{1,255}(/[\w.\- ]{1,255}){0,8}")
_STATUS_UNKNOWN = "The Bot API server answered with the status {}."


class Refused(KitRefused):
    """The Bot API server refused a request.

    Attributes:
        error_code: the server's: 400 to 599.
        is_unauthorized: whether the token is not, or no longer, a bot's.
        migrated_to: the chat that the group has become; empty for none.
    """

    def __init__(
        self, error_code: int, reason: str, parameters: Mapping[str, Any], retry_after: float | None
    ) -> None:
        super().__init__(reason, remote_status=error_code, code=str(error_code), retry_after=retry_after)
        self.error_code = error_code
        # For a token that never was a bot's, the server answers "Not Found", as for any unknown path.
        self.is_unauthorized = error_code == HTTPStatus.UNAUTHORIZED or reason == "Not Found"
        self.migrated_to = identifier(parameters.get("migrate_to_chat_id"))


class Unreadable(Unreachable):
    """The Bot API server did not answer with its JSON.

    Attributes:
        body: an answer with the status 200; empty if it had another status.
    """

    def __init__(self, body: bytes) -> None:
        super().__init__(
            Sentence("telegram.no_json", "The Bot API server did not answer with the JSON of the Bot API.")
        )
        self.body = body


class Client(NetworkClient):
    """Makes requests of one bot."""

    server = "The Bot API server"

    def __init__(self, session: Session, base_url: str, token: str) -> None:
        super().__init__(session, secrets=[token.partition(":")[2]])
        self._base = base_url.rstrip("/")
        self._token = token
        hide_tokens_in_log()

    def __repr__(self) -> str:
        return f"Client(base_url={self._base!r})"

    async def get(self, method: str, *, seconds: float = REQUEST_TIMEOUT, **parameters: Any) -> Any:
        """Call a method that changes nothing; a broken connection may repeat it. Return its result."""
        return (await self._call("GET", method, seconds, params=_form(parameters)))[0]

    async def updates(
        self, left_out: Callable[[bytes], None], *, seconds: float, **parameters: Any
    ) -> tuple[Any, bytes]:
        """Call ``getUpdates``. Return its result, and the answer as the server wrote it.

        ``left_out`` is called with each update that is too large to be read.
        """
        return await self._call(
            "GET", "getUpdates", seconds, events=["/result/#"], left_out=left_out, params=_form(parameters)
        )

    async def call(self, method: str, *, seconds: float = REQUEST_TIMEOUT, **parameters: Any) -> Any:
        """Call a method once. Return its result.

        Raises:
            Refused: the server refused.
            Unreachable: nobody knows whether the server did it.
        """
        body = {name: value for name, value in parameters.items() if value is not None}
        return (await self._call("POST", method, seconds, body=body))[0]

    async def upload(self, method: str, field: str, file: tuple[str, bytes, str], **parameters: Any) -> Any:
        """Call a method with a file.

        Args:
            method: of the Bot API.
            field: the parameter that the file is for.
            file: its name, content and type.
            parameters: the others.
        """
        form = _form(parameters)
        return (await self._call("POST", method, FILE_TIMEOUT, data=form, files={field: file}))[0]

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
                raise NotFound.of(
                    "telegram.no_file", "Telegram no longer has the file, or never had it."
                ) from None
            raise
        path = text(found.get("file_path"))
        parts = path.split("/")
        # The path comes from the server. It must not lead to a method of the API, or out of the bot's files.
        if not _FILE_PATH.fullmatch(path) or not all(part.strip(". ") for part in parts):
            raise NotFound.of(
                "telegram.file_not_over_http",
                "The Bot API server does not say where the file is in a form that can be fetched "
                "over HTTP. A local server must run without --local.",
            )
        url = f"{self._base}/file/bot{self._token}/{quote(path)}"
        async with self.open("GET", url, timeout=FILE_TIMEOUT) as response:
            yield response

    async def read(self, file_id: str, limit: int) -> bytes:
        """Return a file that somebody sent, of at most so many bytes."""
        async with self.download(file_id) as response:
            return await read_file(response, limit)

    def refusal(self, response: httpx.Response, answer: Any) -> Exception:  # noqa: ARG002
        """Return the error for a download without success."""
        if response.status_code == HTTPStatus.NOT_FOUND:
            return NotFound.of("telegram.file_gone", "Telegram no longer has the file.")
        return Unreachable(_STATUS_UNKNOWN.format(response.status_code))

    async def _call(
        self,
        verb: str,
        method: str,
        seconds: float,
        events: Sequence[str] = (),
        left_out: Callable[[bytes], None] | None = None,
        **request: Any,
    ) -> tuple[Any, bytes]:
        url, extensions = f"{self._base}/bot{self._token}/{method}", {"long_poll": method == "getUpdates"}
        response = await self.request(verb, url, timeout=seconds, extensions=extensions, **request)
        answer = mapping((await self.decode(response.content, events=events, left_out=left_out))[0])
        if response.is_success and answer.get("ok") is True and "result" in answer:
            return answer["result"], response.content
        if answer.get("ok") is not False and response.status_code < HTTPStatus.BAD_REQUEST:
            raise Unreadable(response.content if response.is_success else b"")
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


def _form(parameters: Mapping[str, Any]) -> dict[str, str]:
    """Return parameters as the fields of a form or query, with objects and lists as JSON."""
    return {
        name: value if isinstance(value, str) else msgspec.json.encode(value).decode()
        for name, value in parameters.items()
        if value is not None
    }


def _retry_after(response: httpx.Response, parameters: Mapping[str, Any], code: int) -> float | None:
    seconds = any_number(parameters.get("retry_after"))
    if seconds is not None and seconds >= 0:
        return seconds
    header = retry_after_of(response)
    return 1.0 if header is None and code == HTTPStatus.TOO_MANY_REQUESTS else header


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
