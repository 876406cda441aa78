"""The bodies of ``/delivery/pull`` and ``/delivery/ack``. No I/O.

The parsers take decoded JSON and raise ``Invalid`` with every mistake.
"""

from __future__ import annotations

import re
from typing import Any

import msgspec

from hookgw.kernel.errors import Invalid
from hookgw.kernel.json_fields import Fields, as_bool, as_object, duration, list_of, text_up_to, whole_number
from hookgw.kernel.sentences import Sentence

DEFAULT_CONSUMER = "default"
MAX_CONSUMER = 128
# Without those of C1: regular expressions of Ruby have no "\x9f", and pages no such character.
CONSUMER_PATTERN = "^[^\\x00-\\x1f\\x7f]+$"
MAX_REASON = 1_000
MOST_PULLED = 1_000
LONGEST_WAIT = 60.0
SHORTEST_LEASE, LONGEST_LEASE = 1.0, 600.0
MAX_CURSOR = 128
_CONSUMER = re.compile(CONSUMER_PATTERN)


class Pull(msgspec.Struct, frozen=True, kw_only=True):
    """A fetch of deliveries.

    Attributes:
        most: the most deliveries.
        wait: how long to wait for the first one, in seconds.
        lease: how long the consumer has them before others get them, in seconds.
        after: the cursor up to which the receiver has everything; ``None`` if it does not say.
    """

    most: int = 100
    wait: float = 0.0
    consumer: str = DEFAULT_CONSUMER
    lease: float = 60.0
    after: str | None = None


_USUAL = Pull()


class Failure(msgspec.Struct, frozen=True):
    id: str
    reason: str


class Acknowledgement(msgspec.Struct, frozen=True, kw_only=True):
    """What a consumer has done with its lease.

    Attributes:
        cursor: everything up to it is delivered; ``None`` for the ``ids`` alone.
        ids: further deliveries that are.
        failed: deliveries that are not, and why.
        release: whether to return the rest of the lease without an attempt.
    """

    consumer: str = DEFAULT_CONSUMER
    cursor: str | None = None
    ids: tuple[str, ...] = ()
    failed: tuple[Failure, ...] = ()
    release: bool = False


def parse_pull(body: Any) -> Pull:
    """Read the body of a pull. An unknown field is a mistake."""
    fields = Fields.of_body({} if body is None else body)
    pull = Pull(
        most=fields.read(whole_number(1, MOST_PULLED), _USUAL.most, "max"),
        wait=fields.read(duration(0, LONGEST_WAIT), _USUAL.wait, "wait"),
        consumer=fields.read(_consumer, _USUAL.consumer, "consumer"),
        lease=fields.read(duration(SHORTEST_LEASE, LONGEST_LEASE), _USUAL.lease, "lease"),
        after=fields.pick(text_up_to(MAX_CURSOR), "after"),
    )
    fields.refuse_unknown("a pull")
    fields.finish()
    return pull


def parse_acknowledgement(body: Any) -> Acknowledgement:
    """Read the body of an acknowledgement. An unknown field is a mistake, and so is an empty one."""
    fields = Fields.of_body(body)
    asked = Acknowledgement(
        consumer=fields.read(_consumer, DEFAULT_CONSUMER, "consumer"),
        cursor=fields.pick(text_up_to(MAX_CURSOR), "cursor"),
        ids=fields.read(list_of(text_up_to(MAX_CURSOR), MOST_PULLED), (), "ids"),
        failed=fields.read(list_of(_failure, MOST_PULLED), (), "failed"),
        release=fields.read(as_bool, False, "release"),
    )
    fields.refuse_unknown("an acknowledgement")
    names = asked.cursor is not None or asked.ids or asked.failed or asked.release
    if not fields.problems and not names:
        fields.problems.append(
            Sentence("pull.nothing_named", "cursor, ids, failed or release must say which deliveries.")
        )
    fields.finish()
    return asked


def _consumer(value: Any, where: str) -> str:
    text = text_up_to(MAX_CONSUMER)(value, where)
    if not _CONSUMER.fullmatch(text):
        raise Invalid.of(
            "field.control_characters",
            "{where} must not contain line breaks or control characters.",
            where=where,
        )
    return text


def _failure(value: Any, where: str) -> Failure:
    fields = Fields((where, as_object(value, where)))
    failure = Failure(
        fields.need(text_up_to(MAX_CURSOR), "", "id"),
        fields.read(text_up_to(MAX_REASON), "The consumer gave no reason.", "reason"),
    )
    fields.refuse_unknown("a failure")
    fields.finish()
    return failure
