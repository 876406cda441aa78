"""The sends that had an ``Idempotency-Key``, for a while, so that a repeated request does not send twice.

It is a help for networks that cannot detect a repetition, and for the time in which the first request is
still in progress. It is in memory: after a restart, only the network can tell.
"""

from __future__ import annotations

import hashlib
from collections import OrderedDict
from typing import Any

import msgspec

from hookgw.gateway.connectors.outgoing_call import OutgoingCall
from hookgw.models.clock import Clock
from hookgw.models.errors import Invalid
from hookgw.models.messages import MediaMessage, Message

KEPT_SECONDS = 600.0
"""How long a send is remembered after its end."""
MOST_SENDS = 32
"""Ended sends of one instance that are remembered, the newest ones."""
MOST_INSTANCES = 1000
"""How many instances have their sends remembered: the last ones to send."""
MOST_BYTES = 4096
"""Bytes of a sent message up to which it is remembered."""


class _Send(msgspec.Struct):
    digest: bytes
    call: OutgoingCall[dict[str, Any]] | None
    message: dict[str, Any] = {}
    ended_at: float = 0.0


class RecentSends:
    """Remembers sends by the instance's id and the caller's key.

    An instance can only displace its own.

    Args:
        clock: says how long ago a send ended.
    """

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._in_progress: dict[tuple[str, str], _Send] = {}
        self._ended: OrderedDict[str, dict[str, _Send]] = OrderedDict()

    async def find(self, instance_id: str, key: str, message: Message) -> dict[str, Any] | None:
        """Return the outcome of the same send, made before or in progress; ``None`` if there is none.

        Raises:
            Invalid: the key belongs to another message.
            HookgwError: as the send in progress.
        """
        send = self._in_progress.get((instance_id, key)) or self._ended.get(instance_id, {}).get(key)
        if send is None or (send.call is None and self._clock.steady() - send.ended_at > KEPT_SECONDS):
            return None
        if send.digest != _digest_of(message):
            raise Invalid("Idempotency-Key: it was used for another message. Use a new key for each message.")
        return send.message if send.call is None else await send.call.result()

    def begin(self, instance_id: str, key: str, message: Message, call: OutgoingCall[dict[str, Any]]) -> None:
        """Remember a send that begins."""
        self._in_progress[instance_id, key] = _Send(_digest_of(message), call)

    def end(self, instance_id: str, key: str, message: dict[str, Any] | None) -> None:
        """Note the end of a send.

        Args:
            instance_id, key: of the send.
            message: what was sent; ``None`` if the send failed, so that a repetition tries again.
        """
        send = self._in_progress.pop((instance_id, key))
        if message is None or len(msgspec.json.encode(message)) > MOST_BYTES:
            return
        send.call, send.message, send.ended_at = None, message, self._clock.steady()
        sends = self._ended.setdefault(instance_id, {})
        self._ended.move_to_end(instance_id)
        sends.pop(key, None)
        sends[key] = send
        if len(sends) > MOST_SENDS:
            del sends[next(iter(sends))]
        if len(self._ended) > MOST_INSTANCES:
            self._ended.popitem(last=False)


def _digest_of(message: Message) -> bytes:
    digest = hashlib.sha256(type(message).__name__.encode())
    if isinstance(message, MediaMessage) and message.content is not None:
        digest.update(message.content)  # not encoded: that would be one more copy of the file
        message = msgspec.structs.replace(message, content=None)
    digest.update(msgspec.msgpack.encode(message))
    return digest.digest()
