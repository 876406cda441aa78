"""Deliveries and attempts as an engine reads and writes them. No I/O."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TypeAlias

import msgspec

from hookgw.records.deliveries import Attempt, DeliveryState, Outcome, Settlement
from hookgw.records.events import Event
from hookgw.store.records import DeliverySummary, micros, seconds

Text: TypeAlias = Callable[[str | None], str | None]
"""Replaces what an engine cannot store in a text."""


_BETWEEN_HEADS = "\n\n"


class DeliveryRow(msgspec.Struct, array_like=True):
    """One delivery of a list: the fields of its summary and the time of its event, then its newest attempt.

    Times are in microseconds. Without an attempt, all fields from ``number`` on are ``None``.
    """

    seq: int
    event_id: str
    kind: str
    instance: str
    time: int
    registration: str
    lane: str
    state: DeliveryState
    reason: str | None
    accepted_at: int
    attempts: int
    next_at: int
    finished_at: int | None
    number: int | None
    at: int | None
    duration: int | None
    outcome: str | None
    status: int | None
    error: str | None
    answer: str | None
    url: str | None


def summary_of(row: DeliveryRow) -> DeliverySummary:
    last = None
    if row.number is not None:
        assert row.at is not None and row.duration is not None and row.outcome is not None  # noqa: S101, PT018
        last = attempt_of(
            row.number, row.at, row.duration, row.outcome, row.status, row.error, row.answer or "", row.url
        )
    reason = row.reason
    if reason is None and row.state is DeliveryState.DEAD and last is not None:
        reason = last.error
    return DeliverySummary(
        seq=row.seq,
        event_id=row.event_id,
        kind=row.kind,
        instance=row.instance,
        registration=row.registration,
        lane=row.lane,
        state=row.state,
        reason=reason,
        accepted_at=seconds(row.accepted_at),
        attempts=row.attempts,
        next_at=seconds(row.next_at),
        finished_at=None if row.finished_at is None else seconds(row.finished_at),
        last_attempt=last,
    )


def attempt_of(
    number: int,
    at: int,
    duration: int,
    outcome: str,
    status: int | None,
    error: str | None,
    answer: str,
    url: str | None,
    heads: str | None = None,
) -> Attempt:
    request_head, _, response_headers = ("" if heads is None else heads).partition(_BETWEEN_HEADS)
    return Attempt(
        number=number,
        at=seconds(at),
        duration=seconds(duration),
        outcome=Outcome.of_text(outcome),
        status=status,
        error=error,
        answer=answer,
        url=url,
        request_head=request_head or None,
        response_headers=response_headers or None,
    )


def event_of(
    instance: str, name: str, kind: str, time: int, data: bytes, sender: str | None, server_url: str | None
) -> Event:
    return Event(
        id=name,
        kind=kind,
        instance=instance,
        data_json=data,
        time=seconds(time),
        sender=sender,
        server_url=server_url,
    )


def settled_rows(settlements: Sequence[Settlement], text: Text) -> list[tuple[object, ...]]:
    """Return what settlements write to the rows of deliveries: of several for one, the last counts."""
    last = {one.seq: one for one in settlements}
    numbers = {one.seq: one.attempt.number for one in settlements if one.attempt}
    return [
        (
            seq,
            one.state.value,
            numbers.get(seq),
            one.failures,
            micros(one.next_at),
            None if one.state is DeliveryState.PENDING else micros(one.at),
            text(one.reason),
        )
        for seq, one in last.items()
    ]


def attempt_row(attempt: Attempt, text: Text) -> tuple[object, ...]:
    """Return the columns of an attempt behind its number, up to the URL."""
    return (
        micros(attempt.at),
        micros(attempt.duration),
        attempt.outcome.value,
        attempt.status,
        # Texts of receivers and of the system may have lone surrogates, which UTF-8 lacks.
        text(attempt.error),
        text(attempt.answer),
    )


def heads_of(attempt: Attempt, text: Text) -> str | None:
    """Return the column of an attempt's heads. No line of a head is empty: an empty one is between them."""
    if attempt.request_head is None:
        return None
    return text(_BETWEEN_HEADS.join(filter(None, (attempt.request_head, attempt.response_headers))))
