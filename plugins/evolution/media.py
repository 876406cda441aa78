"""Files of messages: links to them, and their content from Evolution API, one piece at a time."""

from __future__ import annotations

import binascii
import json
from contextlib import aclosing, suppress
from typing import Any

from hookgw import MediaSink, NetworkRefused, NotFound, Session, TooLarge
from hookgw.connectors import REQUEST_TIMEOUT, any_number, chunks_of, mapping, text

from .client import Client

_PATH = "chat/getBase64FromMediaMessage"
_START = b'"base64":"'
_LONGEST_HEAD = 256 * 1024
"""Bytes before the file, with its caption and size."""
_LONGEST_REFERENCE = 1500
_WITH_FILES = [f"{kind}Message" for kind in ("image", "video", "audio", "document", "sticker", "ptv")]
_NAMES = [f'"{name}"'.encode() for name in _WITH_FILES]
_MOST_WRAPPERS = 3
_INSIDE = ("message", "hydratedTemplate", "hydratedFourRowTemplate")


def may_have_file(data_json: bytes) -> bool:
    """Return whether a payload may be that of a message with a file."""
    return any(name in data_json for name in _NAMES)


def file_of(data: Any) -> dict[str, Any] | None:
    """Return what a message says of its file; ``None`` for no file, or one that nobody could ask for."""
    key = mapping(mapping(data).get("key"))
    if not text(key.get("remoteJid")) or not text(key.get("id")):
        return None
    messages: list[Any] = [mapping(data).get("message")]
    for _ in range(1 + _MOST_WRAPPERS):
        messages = [mapping(one) for one in messages]
        for message in messages:
            for name in _WITH_FILES:
                if isinstance(content := message.get(name), dict):
                    return content
        # Such as a file that is to be seen once or disappears after a while, or that of a template.
        messages = [mapping(item).get(name) for one in messages for item in one.values() for name in _INSIDE]
    return None


def size_of(content: dict[str, Any]) -> int:
    """Return the bytes of a file; 0 if they are not known."""
    return max(int(any_number(content.get("fileLength")) or 0), 0)


def with_link(data: Any, content: dict[str, Any], session: Session) -> Any:
    """Return the payload of a message with ``message.mediaUrl``, if it has no such link yet.

    Args:
        data: the payload.
        content: of :func:`file_of`.
        session: makes the link.
    """
    message, key = data["message"], data["key"]
    reference = reference_of(key.get("remoteJid"), key.get("id"), from_me=bool(key.get("fromMe")))
    if message.get("mediaUrl") or reference is None:
        return data
    mimetype, file_name = text(content.get("mimetype")), text(content.get("fileName"))
    url = session.media_url(reference, mimetype=mimetype, file_name=file_name)
    return {**data, "message": {**message, "mediaUrl": url}}


async def small_file(client: Client, data: dict[str, Any], limit: int) -> bytes:
    """Return the file of a message.

    Raises:
        TooLarge: it has more than ``limit`` bytes.
        NetworkRefused: see :func:`send_file`.
    """
    file = _File(limit)
    # With its content, Evolution API need not have stored the message.
    message = {name: value for name, value in data["message"].items() if name != "mediaUrl"}
    await _send(client, {"key": data["key"], "message": message}, file)
    return b"".join(file.parts)


class _File:
    """A :class:`hookgw.MediaSink` that keeps a small file."""

    def __init__(self, limit: int) -> None:
        self.parts: list[bytes] = []
        self._limit = self._left = limit

    async def begin(self, *, mimetype: str, size: int | None = None, file_name: str = "") -> None:
        pass

    async def write(self, chunk: bytes) -> None:
        self._left -= len(chunk)
        if self._left < 0:
            raise TooLarge.of(
                "evolution.file_too_long", "The file has more than {limit:,} bytes.", limit=self._limit
            )
        self.parts.append(chunk)


def reference_of(remote_jid: Any, id_: Any, *, from_me: bool) -> str | None:
    """Return the name of a message's file for links; ``None`` if it is too long."""
    reference = json.dumps([remote_jid, from_me, id_])
    return reference if len(reference) <= _LONGEST_REFERENCE else None


async def send_file(client: Client, reference: str, sink: MediaSink) -> None:
    """Send the file that a link names to a sink.

    Evolution API answers with ``{…, "mimetype": "…", "base64": "…", …}``. A file of 100 MiB is never in
    memory as a whole: what comes before it is read first, and then its base64, piece by piece.

    Raises:
        NotFound: the link does not name a message.
        NetworkRefused: Evolution API does not have the file, does not answer, or with something else.
    """
    try:
        remote_jid, from_me, id_ = json.loads(reference)
    except (ValueError, TypeError):
        raise NotFound.of("evolution.link_without_message", "The link does not name a message.") from None
    await _send(client, {"key": {"remoteJid": remote_jid, "fromMe": from_me, "id": id_}}, sink)


async def _send(client: Client, message: dict[str, Any], sink: MediaSink) -> None:
    body = {"message": message, "convertToMp4": False}
    async with (
        client.open("POST", client.url_of(_PATH), body=body, timeout=REQUEST_TIMEOUT) as response,
        aclosing(chunks_of(response)) as chunks,
    ):
        head = b""
        async for chunk in chunks:
            head += chunk
            if _START in head or len(head) > _LONGEST_HEAD:
                break
        before, found, waiting = head.partition(_START)
        if not found:
            raise NetworkRefused.of(
                "evolution.answer_without_file", "Evolution API did not answer with a file."
            )
        described = _described(before)
        await sink.begin(
            mimetype=text(described.get("mimetype")) or "application/octet-stream",
            file_name=text(described.get("fileName")),
        )
        while not await _write(waiting, sink):
            waiting = waiting[len(waiting) // 4 * 4 :]
            try:
                waiting += await anext(chunks)
            except StopAsyncIteration:
                raise NetworkRefused.of(
                    "evolution.file_cut_off", "Evolution API has cut the file off."
                ) from None
        # A few bytes follow, with which the connection is free for other requests.
        left = _LONGEST_HEAD
        async for chunk in chunks:
            left -= len(chunk)
            if left < 0:
                break


async def _write(base64: bytes, sink: MediaSink) -> bool:
    """Write the whole groups of a base64 text to a sink. Return whether the text ends here."""
    part, end, _ = base64.partition(b'"')
    try:
        content = binascii.a2b_base64(part if end else part[: len(part) // 4 * 4], strict_mode=True)
    except binascii.Error:
        raise NetworkRefused.of(
            "evolution.file_not_base64", "Evolution API did not answer with a file in base64."
        ) from None
    if content:
        await sink.write(content)
    return bool(end)


def _described(before: bytes) -> dict[str, Any]:
    """Return what an answer says of its file, from the part before the file."""
    with suppress(ValueError, RecursionError):
        return mapping(json.loads(before.rstrip().rstrip(b",") + b"}"))
    return {}
