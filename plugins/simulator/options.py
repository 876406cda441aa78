"""The options of simulated instances. No I/O."""

from __future__ import annotations

from typing import Annotated, Any

import msgspec
from msgspec import Meta

from hookgw.models.units import Duration, parse_duration


class Options(msgspec.Struct, frozen=True, kw_only=True):
    """How a simulated instance behaves.

    Attributes:
        rate: incoming messages per second; 0 for none.
        messages: the number of incoming messages; by default without end.
        chats: the number of chats with incoming messages; every fifth chat is a group.
        seed: the same seed gives the same messages; by default each run is different.
        connect_delay: how long the QR code is shown before the connection opens, such as ``2s``.
        qr_code: whether to show a QR code.
        status_delay: the time between two status steps of a sent message.
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
    """Return the options in a block.

    Args:
        options: the block.
        strict: whether an unknown name is an error.

    Raises:
        ValueError: an unknown name, a wrong type or an impossible value; the message names it.
    """
    known = Options.__struct_fields__
    # Not strict for an instance: the fields of its creation request, such as instanceName, are in there too.
    for name in options if strict else ():
        if name not in known:
            raise ValueError(f"the simulator has no option {name}; its options are {', '.join(known)}")
    return msgspec.convert(options, Options, dec_hook=lambda _, value: parse_duration(value))
