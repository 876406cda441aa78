"""Received files: links to them, and their content from Evolution API, one piece at a time."""

from __future__ import annotations

import binascii
import json
from contextlib import aclosing, suppress
from typing import Any

from hookgw import MediaSink, NetworkRefused, NotFound, Session
from hookgw.connectors import REQUEST_TIMEOUT, chunks_of, mapping, text

from .client import Client

_PATH = "chat/getBase64FromMediaMessage"
_START = b'"base64":"'
_LONGEST_HEAD = 256 * 1024
"""Bytes before the file, with its caption and size."""
_LONGEST_REFERENCE = 1500
_WITH_FILES = [f"{kind}Message" for kind in ("image", "video", "audio", "document", "sticker", "ptv")]


def with_link(data: Any, session: Session) -> Any:
    """Return the payload of a message with ``message.mediaUrl``, if it has a file and no such link yet."""
    message, key = mapping(data).get("message"), mapping(data).get("key")
    if not isinstance(message, dict) or not isinstance(key, dict) or message.get("mediaUrl"):
        return data
    for name in _WITH_FILES:
        content = message.get(name)
        if not isinstance(content, dict):
            continue
        reference = reference_of(key.get("remoteJid"), key.get("id"), from_me=bool(key.get("fromMe")))
        if reference is None:
            return data
        mimetype, file_name = text(content.get("mimetype")), text(content.get("fileName"))
        url = session.media_url(reference, mimetype=mimetype, file_name=file_name)
        return {**data, "message": {**message, "mediaUrl": url}}
    return data


def reference_of(remote_jid: Any, id_: Any, *, from_me: bool) -> str | None:
    """Return the name of a message's file for links; ``None`` if it is too long."""
    reference = json.dumps([remote_jid, from_me, id_])
    return reference if len(reference) <= _LONGEST_REFERENCE else None


async def send_file(client: Client, reference: str, sink: MediaSink) -> None:
    """Send a file to a sink.

    Evolution API answers with ``{…, "mimetype": "…", "base64": "…", …}``. A file of 100 MiB is never in
    memory as a whole: what comes before it is read first, and then its base64, piece by piece.

    Raises:
        NotFound: the link does not name a message.
        NetworkRefused: Evolution API does not have the file, does not answer, or with something else.
    """
    try:
        remote_jid, from_me, id_ = json.loads(reference)
    except (ValueError, TypeError):
        raise NotFound("The link does not name a message.") from None
    key = {"remoteJid": remote_jid, "fromMe": from_me, "id": id_}
    body = {"message": {"key": key}, "convertToMp4": False}
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
            raise NetworkRefused("Evolution API did not answer with a file.")
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
                raise NetworkRefused("Evolution API has cut the file off.") from None
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
        raise NetworkRefused("Evolution API did not answer with a file in base64.") from None
    if content:
        await sink.write(content)
    return bool(end)


def _described(before: bytes) -> dict[str, Any]:
    """Return what an answer says of its file, from the part before the file."""
    with suppress(ValueError, RecursionError):
        return mapping(json.loads(before.rstrip().rstrip(b",") + b"}"))
    return {}
