"""The options of simulated instances. No I/O."""

from __future__ import annotations

from typing import Annotated, Any

import msgspec
from msgspec import Meta

from hookgw.models.units import Duration, parse_duration


class Options(msgspec.Struct, frozen=True, kw_only=True):
    """How a simulated instance behaves.

    Attributes:
        rate: messages that arrive, per second; 0 for none.
        messages: how many arrive in all, then the instance is silent; left out, they never end.
        chats: how many chats they come from; every fifth is a group.
        seed: the same seed gives the same messages; left out, each run gives others.
        connect_delay: how long the QR code is shown before the connection opens, such as ``2s``.
        qr_code: whether a code is shown at all.
        status_delay: the time between two steps of a sent message's status.
        fail_send: the share of sent messages that the network refuses, from 0 to 1.
    """

    rate: Annotated[float, Meta(ge=0, le=10_000)] = 1.0
    messages: Annotated[int, Meta(ge=0)] | None = None
    chats: Annotated[int, Meta(ge=1, le=1_000_000)] = 10
    seed: int | None = None
    connect_delay: Duration = Duration(1)
    qr_code: bool = True
    status_delay: Duration = Duration(0.5)
    fail_send: Annotated[float, Meta(ge=0, le=1)] = 0.0


def read_options(options: dict[str, Any], *, strict: bool) -> Options:
    """The options in a block.

    Args:
        options: the block.
        strict: whether a name that is no option is an error. What an instance was created with has
            other names in it too.

    Raises:
        ValueError: an unknown name, a wrong type or an impossible value; the sentence names it.
    """
    known = Options.__struct_fields__
    for name in options if strict else ():
        if name not in known:
            raise ValueError(f"{name} is no option of the simulator; it has {', '.join(known)}")
    return msgspec.convert(options, Options, dec_hook=_duration)


def _duration(_: type, value: object) -> Duration:
    return parse_duration(value)
