"""Remembers sends with an ``Idempotency-Key`` for a while, so that a repeated request does not send twice.

This helps with networks that cannot detect a repetition, and while the first request is still in progress. It
is in memory: after a restart, only the network can tell.
"""

from __future__ import annotations

import hashlib
from collections import OrderedDict
from collections.abc import Callable
from typing import Any

import msgspec

from hookgw.concurrency.clock import Clock
from hookgw.instances.connectors.outgoing_call import OutgoingCall
from hookgw.kernel.errors import KeyReused
from hookgw.records.messages import MediaMessage, Message

KEPT_SECONDS = 600.0
"""How long a send is remembered after its end."""
MOST_SENDS = 32
"""Ended sends of one instance that are remembered, the newest ones."""
MOST_INSTANCES = 1000
"""How many instances have their sends remembered: the last ones to send."""
MOST_BYTES = 4096
"""Bytes of a sent message up to which it is remembered."""
MOST_MEMORY = 16 * 2**20
"""Bytes of all remembered messages. Beyond it, those of the instance that has not sent for longest go."""


class _Send(msgspec.Struct):
    digest: bytes
    call: OutgoingCall[dict[str, Any]] | None
    # As JSON, a tenth of the memory of a dict; and each caller gets a separate copy.
    message_json: bytes = b""
    ended_at: float = 0.0


class RecentSends:
    """Remembers sends by the instance's id and the caller's key.

    An instance that sends much displaces its own sends; see :data:`MOST_SENDS`.
    """

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._in_progress: dict[tuple[str, str], _Send] = {}
        self._ended: OrderedDict[str, dict[str, _Send]] = OrderedDict()
        self._size = 0

    async def find(
        self, instance_id: str, key: str, digest: bytes, is_there: Callable[[], bool] = lambda: True
    ) -> dict[str, Any] | None:
        """Return the outcome of the same send, made before or in progress; ``None`` if there is none.

        Raises:
            KeyReused: the key belongs to another message: one with another :func:`digest_of`.
            HookgwError: as the send in progress.
        """
        send = self._in_progress.get((instance_id, key)) or self._ended.get(instance_id, {}).get(key)
        if send is None or (send.call is None and self._clock.steady() - send.ended_at > KEPT_SECONDS):
            return None
        if send.digest != digest:
            raise KeyReused.of(
                "idempotency.message_differs",
                "Idempotency-Key: it was used for another message. Use a new key for each message.",
            )
        if send.call is not None:
            return await send.call.result(is_there)
        sent: dict[str, Any] = msgspec.json.decode(send.message_json)
        return sent

    def begin(self, instance_id: str, key: str, digest: bytes, call: OutgoingCall[dict[str, Any]]) -> None:
        self._in_progress[instance_id, key] = _Send(digest, call)

    def end(self, instance_id: str, key: str, message: dict[str, Any] | None) -> None:
        """Note the end of a send; ``None`` if it failed, so that a repetition tries again."""
        send = self._in_progress.pop((instance_id, key))
        if message is None or len(encoded := msgspec.json.encode(message)) > MOST_BYTES:
            return
        send.call, send.message_json, send.ended_at = None, encoded, self._clock.steady()
        sends = self._ended.setdefault(instance_id, {})
        self._ended.move_to_end(instance_id)
        former = sends.pop(key, None)
        sends[key] = send
        self._size += len(encoded) - _size_of(former)
        if len(sends) > MOST_SENDS:
            self._size -= _size_of(sends.pop(next(iter(sends))))
        while len(self._ended) > MOST_INSTANCES or self._size > MOST_MEMORY:
            _, forgotten = self._ended.popitem(last=False)
            self._size -= sum(map(_size_of, forgotten.values()))


def _size_of(send: _Send | None) -> int:
    return 0 if send is None else len(send.message_json)


def digest_of(message: Message) -> bytes:
    """Return the SHA-256 digest of a message: the same for each repetition of a send."""
    digest = hashlib.sha256(type(message).__name__.encode())
    if isinstance(message, MediaMessage) and message.content is not None:
        digest.update(message.content)  # not encoded: that would be one more copy of the file
        message = msgspec.structs.replace(message, content=None)
    # As JSON: the components of a template may have whole numbers of any size, which MessagePack has not.
    digest.update(msgspec.json.encode(message))
    return digest.digest()
