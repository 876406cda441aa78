"""Who was erased at an instance whose network keeps messages itself: hookgw does not pass these on. No I/O.

The record of the instance has a digest of each identifier, with the instance's id as its key. Messages that
were sent after the erasure are passed on, as events that are accepted after it are kept.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator
from typing import Any

import msgspec

from hookgw.records.chats import person_names, plain_jid
from hookgw.records.instances import Instance

_LONGEST = 1024
"""Characters of a text that may be an identifier."""


def with_erased(instance: Instance, identifier: str, now: float) -> Instance:
    """Return the record of an instance that leaves a person out from now on."""
    erased = {**instance.erased, **{_digest(instance, one): now for one in person_names(identifier)}}
    return msgspec.structs.replace(instance, erased=erased)


def without_erased(instance: Instance, records: list[Any]) -> list[Any]:
    """Return those of a network's messages that concern nobody who was erased after they were sent."""
    return [one for one in records if not _is_erased(instance, one)] if instance.erased else records


def _is_erased(instance: Instance, record: Any) -> bool:
    stamp = record.get("messageTimestamp") if isinstance(record, dict) else None
    sent_at = float(stamp) if isinstance(stamp, int | float) else 0.0
    ends = (instance.erased.get(_digest(instance, name)) for name in _names_in(record))
    return any(end is not None and sent_at <= end for end in ends)


def _names_in(value: Any) -> Iterator[str]:
    """Yield what may identify a person in a payload: strings, and names of members, at any depth."""
    if isinstance(value, str):
        yield from _names(value)
    elif isinstance(value, dict):
        for name, item in value.items():
            yield from _names(name)
            yield from _names_in(item)
    elif isinstance(value, list):
        for item in value:
            yield from _names_in(item)


def _names(text: str) -> Iterable[str]:
    if not text or len(text) > _LONGEST:
        return ()
    return {text, plain_jid(text)}


def _digest(instance: Instance, name: str) -> str:
    key = instance.id.encode()[: hashlib.blake2b.MAX_KEY_SIZE]
    return hashlib.blake2b(name.encode("utf-8", "replace"), key=key, digest_size=16).hexdigest()
