"""Requests to the Graph API, files, and its errors."""

from __future__ import annotations

import re
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager, suppress
from itertools import chain
from typing import Any
from urllib.parse import quote

import httpx
import msgspec

from hookgw import Invalid, NetworkRefused, NotFound, Session
from hookgw.connectors import (
    FileToSend,
    NetworkClient,
    Unreachable,
    decode_json,
    items,
    mapping,
    number,
    retry_after_of,
    text,
)
from hookgw.connectors import Refused as KitRefused

from .errors import GraphError, read_error
from .options import Options

FILE_TIMEOUT = 300.0
"""Seconds for each part of a download."""
MEDIA_HOST = "lookaside.fbsbx.com"
"""Where Meta keeps files."""
_ID = re.compile(r"[A-Za-z0-9_-]{1,128}")


class Refused(KitRefused):
    """The Graph API refused a request."""

    def __init__(self, error: GraphError, remote_status: int) -> None:
        super().__init__(
            error.reason,
            remote_status=remote_status,
            status=error.status,
            code=error.code or None,
            retry_after=error.retry_after,
        )
        self.error = error


class Client(NetworkClient):
    """Makes requests for one phone number."""

    server = "The Graph API"
    no_json = "The Graph API did not answer with a JSON object."
    answer_type = dict

    def __init__(self, session: Session, options: Options) -> None:
        token = options.access_token
        # "Malformed access token EAAG…": an instance may have it from the configuration, which masks nothing.
        super().__init__(session, headers={"authorization": f"Bearer {token}"}, secrets=[token])
        self._number = quote(options.phone_number_id, safe="")
        self._base = httpx.URL(options.base_url)
        self._root = f"{options.base_url.rstrip('/')}/{options.api_version}"

    async def number(self, *fields: str) -> dict[str, Any]:
        """Return fields of the phone number."""
        return await self._call("GET", self._number, params={"fields": ",".join(fields)})

    async def post_message(self, body: Mapping[str, Any]) -> dict[str, Any]:
        """Send a message, or mark one as read."""
        body = {"messaging_product": "whatsapp", **body}
        return await self._call("POST", f"{self._number}/messages", body=body)

    async def upload(self, file: FileToSend) -> str:
        answer = await self._call(
            "POST",
            f"{self._number}/media",
            data={"messaging_product": "whatsapp", "type": file.mimetype},
            files={"file": (file.name, file.content, file.mimetype)},
            timeout=FILE_TIMEOUT,
        )
        if found := text(answer.get("id")):
            return found
        raise Unreachable("Meta did not say where it stored the file.")

    @asynccontextmanager
    async def download(
        self, media_id: str, *, limit: int | None = None
    ) -> AsyncIterator[tuple[httpx.Response, str, int | None]]:
        """Open a file: yield the answer, whose body is still to be read, and the file's type and size.

        Args:
            media_id: its id.
            limit: the bytes that it may have, as far as Meta says.

        Raises:
            Invalid: it has more.
            NotFound: there is no such file, or no longer.
            NetworkRefused: Meta refuses it, or names a place that is not its own.
        """
        if not _ID.fullmatch(media_id):
            raise NotFound.of("whatsapp_cloud.link", "The link does not name a file of WhatsApp.")
        try:
            # Meta refuses the files of other numbers, which the same token may read.
            found = await self._call("GET", media_id, params={"phone_number_id": self._number})
        except Refused as refusal:
            if refusal.error.code in ("100", "33"):  # "Object with ID … does not exist"
                raise NotFound.of(
                    "whatsapp_cloud.file_expired",
                    "WhatsApp no longer has the file: it keeps files for some days.",
                ) from refusal
            raise
        url, size = self._place(text(found.get("url"))), number(found.get("file_size"))
        if limit is not None and size is not None and size > limit:
            raise Invalid.of(
                "whatsapp_cloud.file_too_long",
                "The file has {size} bytes, more than {limit}.",
                size=size,
                limit=limit,
            )
        try:
            # No redirects: the token would be sent wherever they lead.
            async with self.open("GET", url, timeout=FILE_TIMEOUT) as response:
                said = text(found.get("mime_type")) or response.headers.get("content-type", "")
                yield response, said, size
        except Refused as refusal:
            if refusal.remote_status in (404, 410):
                raise NotFound.of("whatsapp_cloud.file_gone", "WhatsApp no longer has the file.") from refusal
            raise

    def _place(self, url: str) -> httpx.URL:
        """Check where a file is said to be: the token goes there.

        Raises:
            NetworkRefused: it is no host of Meta's.
        """
        graph = (self._base.scheme, self._base.host, self._base.port)
        with suppress(httpx.InvalidURL, UnicodeError):  # the latter of a host such as xn--a
            found = httpx.URL(url)
            is_ours = (found.scheme, found.host, found.port) in (("https", MEDIA_HOST, None), graph)
            if is_ours and not found.userinfo:
                return found
        raise NetworkRefused.of(
            "whatsapp_cloud.foreign_media_host",
            "The Graph API names a place for the file that is not {media_host} or the host of "
            "base_url: hookgw fetches nothing from there.",
            media_host=MEDIA_HOST,
        )

    async def _call(self, method: str, path: str, **more: Any) -> dict[str, Any]:
        found: dict[str, Any] = await self.request_json(method, f"{self._root}/{path}", **more)
        return found

    def is_refusal(self, response: httpx.Response, answer: Any) -> bool:
        """Return whether an answer is no success: an error is one whatever its status is."""
        return super().is_refusal(response, answer) or "error" in mapping(answer)

    def refusal(self, response: httpx.Response, answer: Any) -> Refused:
        """Return the error with Meta's code and words."""
        error = read_error(answer, response.status_code, _retry_after(response))
        masked = msgspec.structs.replace(error, reason=self.hide(error.reason))
        return Refused(masked, response.status_code)


def _retry_after(response: httpx.Response) -> float | None:
    if (seconds := retry_after_of(response)) is not None:
        return seconds
    # Meta's own header has, by account, a list of limits with the minutes until a call may succeed again.
    usage = {}
    with suppress(ValueError):
        usage = mapping(decode_json(response.headers.get("x-business-use-case-usage", "").encode()))
    minutes = [
        found
        for limit in chain.from_iterable(map(items, usage.values()))
        if (found := number(limit.get("estimated_time_to_regain_access"))) is not None
    ]
    longest = max(minutes, default=0)
    return longest * 60.0 if longest else None
