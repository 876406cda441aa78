"""The first frames of a connection: who is who, and the limits."""

from __future__ import annotations

from typing import NamedTuple, TypeVar

import trio
from pamqp import base, commands, header
from pamqp.common import FieldTable

from hookgw import __version__

from .frames import FRAME_MAX, FrameReader, method_bytes
from .options import Broker

M = TypeVar("M", bound=base.Frame)

HANDSHAKE_TIMEOUT = 10.0
"""Seconds for the handshake, or less if the attempt ends before."""
_MARGIN = 0.05
# RabbitMQ proposes 60 s. With half of it, a host that vanished is noticed within a minute.
HEARTBEAT = 30
_CAPABILITIES = (
    "publisher_confirms",
    "basic.nack",
    "connection.blocked",
    "consumer_cancel_notify",
    "authentication_failure_close",
)


class Tuned(NamedTuple):
    """The limits of a connection. ``heartbeat`` is in seconds."""

    channel_max: int
    frame_max: int
    heartbeat: int


async def open_connection(frames: FrameReader, broker: Broker, *, has_certificate: bool) -> Tuned:
    """Do the handshake on a new connection.

    Raises:
        OSError: the broker refuses, is too slow, or does not speak AMQP 0-9-1.
    """
    now = trio.current_time()
    # Before the attempt's own deadline: a broker that hangs here has not got the event.
    ends = min(now + HANDSHAKE_TIMEOUT, trio.current_effective_deadline() - _MARGIN)
    with trio.CancelScope(deadline=ends):
        return await _handshake(frames, broker, has_certificate=has_certificate)
    raise TimeoutError(f"The broker did not complete its handshake within {trio.current_time() - now:.3g} s.")


async def _handshake(frames: FrameReader, broker: Broker, *, has_certificate: bool) -> Tuned:
    await frames.stream.send_all(header.ProtocolHeader(0, 9, 1).marshal())
    begin = await _expect(frames, commands.Connection.Start)
    mechanisms = begin.mechanisms if isinstance(begin.mechanisms, str) else ""
    if broker.user is None and has_certificate and "EXTERNAL" in mechanisms.split():
        mechanism, response = "EXTERNAL", ""
    else:
        # RabbitMQ's default user, which may connect from its own machine alone.
        user, password = ("guest", "guest") if broker.user is None else (broker.user, broker.password)
        mechanism, response = "PLAIN", f"\0{user}\0{password}"
    properties: FieldTable = {
        "product": "hookgw",
        "version": __version__,
        "connection_name": "hookgw",
        "capabilities": dict.fromkeys(_CAPABILITIES, True),
    }
    start_ok = commands.Connection.StartOk(properties, mechanism, response, "en_US")
    await frames.stream.send_all(method_bytes(0, start_ok))
    tune = await _expect(frames, commands.Connection.Tune)
    channel_max, frame_max = tune.channel_max or 65_535, min(tune.frame_max or FRAME_MAX, FRAME_MAX)
    heartbeat = min(tune.heartbeat or HEARTBEAT, HEARTBEAT)
    await frames.stream.send_all(
        method_bytes(
            0,
            commands.Connection.TuneOk(channel_max, frame_max, heartbeat),
            commands.Connection.Open(broker.virtual_host),
        )
    )
    await _expect(frames, commands.Connection.OpenOk)
    return Tuned(channel_max, frame_max, heartbeat)


async def _expect(frames: FrameReader, wanted: type[M]) -> M:
    _, found = await frames.read()
    if isinstance(found, wanted):
        return found
    if isinstance(found, commands.Connection.Close):
        raise ConnectionError(refusal_of(found))
    if isinstance(found, header.ProtocolHeader):
        raise ConnectionError("The broker does not speak AMQP 0-9-1, but another version.")
    raise ConnectionError(f"The broker sent {type(found).__name__} where {wanted.__name__} was expected.")


def refusal_of(close: commands.Connection.Close | commands.Channel.Close) -> str:
    """Return why a broker closes a connection or a channel, as a sentence."""
    return f"The broker refused: {close.reply_code} {close.reply_text}".rstrip(".") + "."
