"""Responses about chats and contacts."""

from __future__ import annotations

from msgspec import Struct


class MarkedRead(Struct, frozen=True):
    """Messages were marked as read.

    Attributes:
        message: a sentence.
        read: always `success`.
    """

    message: str
    read: str


class ShownPresence(Struct, frozen=True):
    """A presence was shown.

    Attributes:
        presence: the presence.
    """

    presence: str
