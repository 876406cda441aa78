"""Received files: links to them, and their content from Evolution API, one piece at a time."""

from __future__ import annotations

import binascii
import json
from contextlib import aclosing, suppress
from typing import Any

from hookgw import MediaSink, NetworkRefused, NotFound, Session

from .client import Client, chunks_of

_START = b'"base64":"'
_LONGEST_HEAD = 256 * 1024
"""Bytes before the file, with its caption and size."""
_LONGEST_REFERENCE = 1500


def with_link(data: Any, session: Session) -> Any:
    """Return the payload of a message with ``message.mediaUrl``, if it has a file and no such link yet."""
    if not isinstance(data, dict):
        return data
    message, key = data.get("message"), data.get("key")
    if not isinstance(message, dict) or not isinstance(key, dict) or message.get("mediaUrl"):
        return data
    for name in (
        "imageMessage",
        "videoMessage",
        "audioMessage",
        "documentMessage",
        "stickerMessage",
        "ptvMessage",
    ):
        content = message.get(name)
        if not isinstance(content, dict):
            continue
        reference = reference_of(key.get("remoteJid"), key.get("id"), from_me=bool(key.get("fromMe")))
        if reference is None:
            return data
        mimetype, file_name = content.get("mimetype"), content.get("fileName")
        url = session.media_url(
            reference,
            mimetype=mimetype if isinstance(mimetype, str) else "",
            file_name=file_name if isinstance(file_name, str) else "",
        )
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
        client.stream("chat/getBase64FromMediaMessage", body) as response,
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
        mimetype, file_name = described.get("mimetype"), described.get("fileName")
        await sink.begin(
            mimetype=mimetype if isinstance(mimetype, str) and mimetype else "application/octet-stream",
            file_name=file_name if isinstance(file_name, str) else "",
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


async def _write(text: bytes, sink: MediaSink) -> bool:
    """Write the whole groups of a base64 text to a sink. Return whether the text ends here."""
    part, end, _ = text.partition(b'"')
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
        found = json.loads(before.rstrip().rstrip(b",") + b"}")
        if isinstance(found, dict):
            return found
    return {}
