"""Requests to the Graph API: JSON in and out, files, and its errors as exceptions."""

from __future__ import annotations

import re
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable, Mapping
from contextlib import aclosing, asynccontextmanager, suppress
from http import HTTPStatus
from itertools import chain
from typing import Any, cast
from urllib.parse import quote

import httpx
import msgspec

from hookgw import Invalid, NetworkRefused, NotFound, decode_json

from .errors import GraphError, read_error
from .fields import items, mapping, number, text
from .options import Options

REQUEST_TIMEOUT = 25.0
"""Seconds for a request, except for files."""
FILE_TIMEOUT = 300.0
"""Seconds for each part of a download."""
MEDIA_HOST = "lookaside.fbsbx.com"
"""Where Meta keeps files."""
LARGEST_ERROR = 64 * 1024
"""Bytes of the refusal of a download."""
_ID = re.compile(r"[A-Za-z0-9_-]{1,128}")


DecodeJson = Callable[..., Awaitable[Any]]


class Refused(NetworkRefused):
    """The Graph API refused a request.

    Attributes:
        error: what it said.
    """

    def __init__(self, error: GraphError) -> None:
        super().__init__(
            error.reason, code=error.code or None, status=error.status, retry_after=error.retry_after
        )
        self.error = error


class Unreachable(NetworkRefused):
    """The Graph API did not answer, or not with JSON. Whether it did what was asked is not known."""


class File(msgspec.Struct, frozen=True, kw_only=True):
    """A file at Meta that is being read.

    Attributes:
        mimetype: its type.
        size: its length in bytes; ``None`` if Meta does not say it.
        chunks: the content; close it with ``aclosing``.
    """

    mimetype: str
    size: int | None
    chunks: AsyncGenerator[bytes, None]


class Client:
    """Makes requests for one phone number.

    Args:
        http: makes the requests; the caller closes it.
        decode_json: reads the answers; see ``Session.decode_json``.
        options: of the instance.
    """

    def __init__(self, http: httpx.AsyncClient, decode_json: DecodeJson, options: Options) -> None:
        self._http = http
        self._decode_json = decode_json
        self._token = options.access_token
        self._number = quote(options.phone_number_id, safe="")
        self._base = httpx.URL(options.base_url)
        self._root = f"{options.base_url.rstrip('/')}/{options.api_version}"

    async def number(self, *fields: str) -> dict[str, Any]:
        """Return fields of the phone number."""
        return await self._call("GET", self._number, params={"fields": ",".join(fields)})

    async def post_message(self, body: Mapping[str, Any]) -> dict[str, Any]:
        """Send a message, or mark one as read."""
        content = msgspec.json.encode({"messaging_product": "whatsapp", **body})
        headers = {"content-type": "application/json"}
        return await self._call("POST", f"{self._number}/messages", content=content, headers=headers)

    async def upload(self, content: bytes, *, mimetype: str, file_name: str) -> str:
        """Upload a file, and return its id."""
        answer = await self._call(
            "POST",
            f"{self._number}/media",
            data={"messaging_product": "whatsapp", "type": mimetype},
            files={"file": (file_name, content, mimetype)},
            timeout=FILE_TIMEOUT,
        )
        if found := text(answer.get("id")):
            return found
        raise Unreachable("Meta did not say where it stored the file.")

    @asynccontextmanager
    async def download(self, media_id: str, *, limit: int | None = None) -> AsyncIterator[File]:
        """Open a file. Its content is still to be read.

        Args:
            media_id: its id.
            limit: the bytes that it may have, as far as Meta says.

        Raises:
            Invalid: it has more.
            NotFound: there is no such file, or no longer.
            NetworkRefused: Meta refuses it, or names a place that is not its own.
        """
        if not _ID.fullmatch(media_id):
            raise NotFound("The link does not name a file of WhatsApp.")
        try:
            # Meta refuses the files of other numbers, which the same token may read.
            found = await self._call("GET", media_id, params={"phone_number_id": self._number})
        except Refused as refusal:
            if refusal.error.code in ("100", "33"):  # "Object with ID … does not exist"
                raise NotFound("WhatsApp no longer has the file: it keeps files for some days.") from refusal
            raise
        url, size = self._place(text(found.get("url"))), number(found.get("file_size"))
        if limit is not None and size is not None and size > limit:
            raise Invalid(f"The file has {size} bytes, more than {limit}.")
        opening = self._http.stream(
            # No redirects: the token would be sent wherever they lead.
            "GET",
            url,
            headers=self._authorization(),
            timeout=FILE_TIMEOUT,
            follow_redirects=False,
        )
        try:
            async with opening as response:
                length = number(response.headers.get("content-length"))
                # Of a compressed answer, it is not the length of the file.
                is_plain = response.headers.get("content-encoding", "identity") == "identity"
                if response.status_code in (404, 410):
                    raise NotFound("WhatsApp no longer has the file.")
                if not response.is_success:
                    # Of an error without a length, the status says enough.
                    is_short = 0 < (length or 0) <= LARGEST_ERROR
                    raise await self._refusal(response, await response.aread() if is_short else b"")
                yield File(
                    mimetype=text(found.get("mime_type")) or response.headers.get("content-type", ""),
                    size=length if length is not None and is_plain else size,
                    chunks=cast("AsyncGenerator[bytes, None]", response.aiter_bytes()),
                )
        except httpx.HTTPError as error:
            raise self._unreachable(error) from error

    def _place(self, url: str) -> httpx.URL:
        """Check where a file is said to be: the token goes there.

        Raises:
            NetworkRefused: it is no host of Meta's.
        """
        found = httpx.URL()
        with suppress(httpx.InvalidURL):
            found = httpx.URL(url)
        is_media = (found.scheme, found.host, found.port) == ("https", MEDIA_HOST, None)
        is_graph = (found.scheme, found.host, found.port) == (
            self._base.scheme,
            self._base.host,
            self._base.port,
        )
        if (is_media or is_graph) and not found.userinfo:
            return found
        raise NetworkRefused(
            f"The Graph API names a place for the file that is not {MEDIA_HOST} or the host of base_url: "
            "hookgw fetches nothing from there."
        )

    async def _call(self, method: str, path: str, **more: Any) -> dict[str, Any]:
        headers = {**more.pop("headers", {}), **self._authorization()}
        more = {"timeout": REQUEST_TIMEOUT, **more}
        try:
            response = await self._http.request(method, f"{self._root}/{path}", headers=headers, **more)
        except httpx.HTTPError as error:
            raise self._unreachable(error) from error
        answer = await self._decode(response.content)
        # A refusal is one whatever its status is.
        if not response.is_success or (isinstance(answer, dict) and "error" in answer):
            raise await self._refusal(response, response.content)
        if not isinstance(answer, dict):
            raise Unreachable("The Graph API did not answer with a JSON object.")
        return answer

    async def _refusal(self, response: httpx.Response, body: bytes) -> Refused:
        error = read_error(await self._decode(body), response.status_code, _retry_after(response.headers))
        # "Malformed access token EAAG…": an instance may have it from the configuration, which masks nothing.
        reason = error.reason.replace(self._token, "********")
        return Refused(msgspec.structs.replace(error, reason=reason))

    async def _decode(self, body: bytes) -> Any:
        with suppress(ValueError):
            return await self._decode_json(body)
        return None

    def _unreachable(self, error: httpx.HTTPError) -> Unreachable:
        if isinstance(error, httpx.PoolTimeout):  # of hookgw: nothing was sent
            return Unreachable(str(error), status=HTTPStatus.SERVICE_UNAVAILABLE, retry_after=5.0)
        return Unreachable(f"The Graph API cannot be reached: {error or type(error).__name__}")

    def _authorization(self) -> dict[str, str]:
        return {"authorization": f"Bearer {self._token}"}


async def read_body(chunks: AsyncIterator[bytes], limit: int) -> bytes:
    """Return the body of a streamed response.

    Raises:
        Invalid: it has more than ``limit`` bytes.
    """
    received = bytearray()
    async with aclosing(cast("AsyncGenerator[bytes, None]", chunks)) as parts:
        async for part in parts:
            received += part
            if len(received) > limit:
                raise Invalid(f"The file has more than {limit} bytes.")
    return bytes(received)


def _retry_after(headers: httpx.Headers) -> float | None:
    if (seconds := number(headers.get("retry-after"))) is not None and seconds <= 86_400:
        return float(seconds)
    # Meta's own header has, by account, a list of limits with the minutes until a call may succeed again.
    usage = {}
    with suppress(ValueError):
        usage = mapping(decode_json(headers.get("x-business-use-case-usage", "").encode()))
    minutes = [
        found
        for limit in chain.from_iterable(map(items, usage.values()))
        if (found := number(limit.get("estimated_time_to_regain_access"))) is not None and found <= 1440
    ]
    longest = max(minutes, default=0)
    return longest * 60.0 if longest else None
