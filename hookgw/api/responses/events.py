"""Answers about events and their kinds."""

from __future__ import annotations

from typing import Any

from msgspec import UNSET, Raw, Struct, UnsetType

from hookgw.api.responses.common import Count, Time


class Kind(Struct, frozen=True, kw_only=True):
    """An event kind of the catalog.

    Attributes:
        name: as deliveries carry it.
        dotted: its other spelling.
        aliases: further names that are taken for it.
        meaning: when it is raised.
        schema: JSON Schema of ``data``.
        example: of ``data``.
        plugin: what added it; ``null`` for the built-in ones.
        operational: whether hookgw alone raises it, for those who operate it.
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
    """What became of events that were handed in.

    Attributes:
        accepted: how many are new, and on disk now.
        duplicates: how many were known by their ids already.
        ids: of all of them, in their order.
        warnings: what was ignored or is odd.
    """

    accepted: Count
    duplicates: Count
    ids: list[str]
    warnings: list[str] | UnsetType = UNSET


class Event(Struct, frozen=True, kw_only=True):
    """An event as it was accepted.

    Attributes:
        id: the ``webhook-id`` of its deliveries.
        event: its kind.
        instance: the instance's name.
        data: the payload.
        date_time: when it happened.
        sender: the account, where it is known.
        server_url: the gateway that saw it first, where it is known.
    """

    id: str
    event: str
    instance: str
    data: Raw
    date_time: Time
    sender: str | None
    server_url: str | None
