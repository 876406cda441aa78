"""Messages arrive: the connection's loop, and the events that a message becomes."""

from __future__ import annotations

import base64
import time
from random import Random
from typing import Any

import msgspec
import trio

from hookgw import InstanceSettings, NewEvent, Session, event_id_of

from . import traffic
from .connection import Connection
from .picture import png_of
from .state import State


async def receive_messages(session: Session, connection: Connection, state: State) -> None:
    """Emit messages at the rate of the options, until there are as many as the options say."""
    options = connection.options
    seed = state.seed if options.seed is None else options.seed
    due = trio.current_time()
    while options.rate and (options.messages is None or state.received < options.messages):
        # emit_all waits while the gateway cannot store the event. After that, one message is due at once. The
        # others are skipped: a burst would overload a gateway that has just recovered.
        due = max(due + 1 / options.rate, trio.current_time())
        await trio.sleep_until(due)
        # Decided by its number alone, with the instance's name so that two instances with one seed differ:
        # after a kill before the commit below, the same message arrives again.
        random = Random(f"{seed} {session.instance} {state.received}")  # noqa: S311 (no secret)
        message = traffic.incoming(random, options.chats, int(time.time()))
        if "imageMessage" in message["message"]:
            attach_picture(session, message)
        state.received += 1
        # The events and the number of messages so far in one commit: whenever the process is killed, the next
        # run continues with the next message.
        events = events_of(message, connection.settings)
        await session.emit_all(events, state=msgspec.to_builtins(state))


def attach_picture(session: Session, message: dict[str, Any]) -> None:
    """Add the link to the picture of an incoming message, and the picture itself if somebody wants it."""
    reference = message["key"]["id"]
    picture = png_of(reference)
    image = message["message"]["imageMessage"]
    image["url"] = session.media_url(reference, mimetype="image/png", file_name=f"{reference}.png")
    # A string, as in real payloads: this is protobuf's JSON form of a 64-bit integer.
    image["fileLength"] = str(len(picture))
    if session.wants_base64():
        message["message"]["base64"] = base64.b64encode(picture).decode()


def events_of(message: dict[str, Any], settings: InstanceSettings) -> list[NewEvent]:
    """Return the events of an incoming message: none if the settings ignore it."""
    if settings.groups_ignore and traffic.is_group(message):
        return []
    key = message["key"]
    events = [new_event("MESSAGES_UPSERT", message, key["remoteJid"], key["id"])]
    if settings.read_messages:
        events.append(status_event(key, "READ"))
    return events


def status_event(key: dict[str, Any], status: str) -> NewEvent:
    """Return the event of a message's new status."""
    return new_event("MESSAGES_UPDATE", traffic.status_of(key, status), key["remoteJid"], key["id"], status)


def new_event(kind: str, data: Any, *ids: str) -> NewEvent:
    """Return an event whose id is made of the kind and the network's ids.

    What happened once is one event, even if the network reports it again.
    """
    return NewEvent(kind=kind, data=data, event_id=event_id_of(kind, *ids))
