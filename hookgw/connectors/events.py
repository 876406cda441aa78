"""Store events: with files inside, and without what breaks a rule."""

from __future__ import annotations

import base64
import math
from collections.abc import Awaitable, Callable, Sequence
from typing import Any

import msgspec
import trio

from hookgw.kernel.errors import Invalid, NetworkRefused, NotFound, TooLarge
from hookgw.records.connectors import NewEvent, Session
from hookgw.records.events import event_id_of
from hookgw.records.inline_media import LIMIT_SETTING, explain_missing_file, too_large


async def emit_valid(
    session: Session, events: Sequence[NewEvent], *, state: Any = msgspec.UNSET, logger: Any
) -> None:
    """Store events, and with them the connector's state, in one commit.

    An event that breaks a rule must not keep back the others, nor come again for ever. If there is one, each
    is stored by itself, then the state, and a line in the log names what was refused.

    Args:
        session: of the instance.
        events, state: see :meth:`hookgw.Session.emit_all`.
        logger: of structlog.

    Raises:
        Conflict, Unavailable: see :meth:`hookgw.Session.emit`.
    """
    try:
        await session.emit_all(events, state=state)
    except (Invalid, TooLarge):
        for event in events:
            try:
                await session.emit_all([event])
            except (Invalid, TooLarge) as error:
                logger.warning(
                    "event refused", instance=session.instance, kind=event.kind, reason=error.to_log()
                )
        if state is not msgspec.UNSET:
            await session.emit_all([], state=state)


def network_event(network: str, name: str, value: bytes, *ids: str, sender: str | None = None) -> NewEvent:
    """Return the event for what a network reports, and hookgw has no kind for: NETWORK_EVENT.

    Args:
        network: the connector's name.
        name: the network's own word for it.
        value: what stood under that word: JSON, which reaches receivers byte for byte.
        ids: the network's ids of the report: what it repeats is one event.
        sender: the account, as in :class:`hookgw.NewEvent`.
    """
    encoded = msgspec.json.encode(network), msgspec.json.encode(name), value
    return NewEvent(
        kind="NETWORK_EVENT",
        data_json=b'{"network":%b,"name":%b,"value":%b}' % encoded,
        event_id=event_id_of("NETWORK_EVENT", network, name, *ids),
        sender=sender,
    )


async def attach_file(
    session: Session,
    event: NewEvent,
    read: Callable[[int], Awaitable[bytes]],
    *,
    size: int = 0,
    seconds: float = math.inf,
    logger: Any,
) -> int | None:
    """Put the file of a message into its event, beside the link, for registrations that want it there.

    Without the file, the event is complete all the same: a line in the log says why, and so does
    ``data.mediaUnavailable``, unless there is a link.

    Args:
        session: of the instance.
        event: whose ``data.message`` gets ``base64``.
        read: returns the file, of at most so many bytes, such as :func:`hookgw.connectors.read_file` of an
            opened answer. It is not called if the file would be too large or too late.
        size: of the file, as the network says; 0 if it is not known.
        seconds: for the reading.
        logger: of structlog.

    Returns:
        The bytes of the file; 0 if it cannot be read, and ``None`` if that took too long.
    """
    limit = session.base64_limit
    content, reason = b"", "The network took too long to hand out the file."
    setting: str | None = None
    found: int | None = None
    if size > limit:
        reason, setting, found = too_large(size, limit), LIMIT_SETTING, 0
    elif seconds > 0:
        with trio.move_on_after(seconds):
            try:
                content, reason, found = await read(limit), "The file is empty.", 0
            except TooLarge as error:
                reason, setting, found = str(error), LIMIT_SETTING, 0
            except (Invalid, NetworkRefused, NotFound) as error:
                reason, found = str(error), 0
    if not content:
        chat = event.data["key"]["remoteJid"]
        logger.warning("file not in event", instance=session.instance, chat=chat, reason=reason)
        explain_missing_file(event.data, reason, setting)
        return found
    event.data["message"]["base64"] = base64.b64encode(content).decode()
    return len(content)
