"""Responses about events and their kinds."""

from __future__ import annotations

from typing import Any

from msgspec import UNSET, Raw, Struct, UnsetType, field

from hookgw.kernel.schema_parts import Time
from hookgw.web.responses import Backlog, Count


class Kind(Struct, frozen=True, kw_only=True):
    """An event kind of the catalog.

    Attributes:
        name: the name in deliveries.
        dotted: the dotted spelling.
        aliases: further names that hookgw accepts for it.
        meaning: when the event is raised.
        schema: the JSON Schema of ``data``.
        example: an example of ``data``.
        plugin: the plugin that provides the kind; ``null`` for built-in kinds.
        operational: whether it is an operational event, which only hookgw raises.
    """

    name: str
    dotted: str
    aliases: list[str]
    meaning: str
    schema: dict[str, Any]
    example: Any
    plugin: str | None
    operational: bool


class Emitted(Struct, frozen=True, kw_only=True):
    """The result of an emit.

    Attributes:
        accepted: the number of new events, which are on disk now.
        duplicates: the number of events whose ids were known.
        ids: the ids of all events, in the order of the request.
        backlog: what is pending of the instance's events now.
        warnings: fields that were ignored, and payloads that violate their schema.
    """

    accepted: Count
    duplicates: Count
    ids: list[str]
    backlog: Backlog
    warnings: list[str] | UnsetType = UNSET


class Erased(Struct, frozen=True, kw_only=True):
    """The result of an erasure.

    Attributes:
        events: the number of events that were removed, so far if there is a `job`.
        deliveries: the number of their deliveries.
        job: the job that goes on with the erasure, if it takes long.
        warnings: what is left of the data outside of the tables, and what removes it.
    """

    events: Count
    deliveries: Count
    job: str | UnsetType = UNSET
    warnings: list[str] | UnsetType = UNSET


class Event(Struct, frozen=True, kw_only=True):
    """An event as it was accepted.

    Attributes:
        id: the ``webhook-id`` of its deliveries.
        event: its kind.
        instance: the instance's name.
        data: the payload; left out for a key without the right ``payloads``.
        withheld: why there is no ``data``, in a sentence.
        date_time: when the event happened.
        sender: the account, if known.
        server_url: the URL of the gateway that raised it, if known.
        edited_from: of an event that is an edited copy, the id of the event that it was made from.
    """

    id: str
    event: str
    instance: str
    data: Raw | UnsetType = UNSET
    withheld: str | UnsetType = UNSET
    date_time: Time
    sender: str | None
    server_url: str | None
    edited_from: str | UnsetType = field(name="editedFrom", default=UNSET)


class LoggedEvent(Event, frozen=True, kw_only=True):
    """An event of the log.

    Attributes:
        accepted_at: when it was accepted, which is the order of the log.
    """

    accepted_at: Time = field(name="acceptedAt")


class EventPage(Struct, frozen=True, kw_only=True):
    """A page of the log of events.

    Attributes:
        events: the events on this page. A search that takes long ends early, and a page ends after 256 KiB of
            `data`: then they are fewer than `limit`, perhaps none, and there is a `cursor`.
        cursor: selects the next page; ``null`` on the last page. After a restore, it is refused with 409.
        from_: the log, of each listed instance, has all events that were accepted since then, and perhaps
            earlier ones.
        indexed_until: what was accepted later is not in this list yet, because there is much to index.
        searched_until: how far a search came that took long: to events that were accepted then.
    """

    events: list[LoggedEvent]
    cursor: str | None
    from_: Time = field(name="from")
    indexed_until: Time | UnsetType = field(name="indexedUntil", default=UNSET)
    searched_until: Time | UnsetType = field(name="searchedUntil", default=UNSET)
