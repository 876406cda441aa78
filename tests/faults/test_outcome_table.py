"""The table "What each response means" of docs/guarantees.md, row by row."""

import re
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

import pytest
from trio.testing import MockClock

from hookgw import DeliveryState, Outcome
from hookgw.testing import Answer, GatewayKit, Receiver, answer, close, hang, raw, reset
from tests.faults.support import KIND, attempts_of, state_of, wait_of

PAGE = Path(__file__).parents[2] / "docs" / "guarantees.md"
TIMEOUT = 30.0
JITTER = 1.1
SECONDS = {"ms": 0.001, "s": 1.0, "m": 60.0}
ENDS = {
    Outcome.DELIVERED: DeliveryState.DELIVERED,
    Outcome.REJECTED: DeliveryState.DEAD,
    Outcome.GONE: DeliveryState.DEAD,
}


class Row(NamedTuple):
    outcome: Outcome
    when: str
    may_be_seen: bool
    waits: list[float]


class Case(NamedTuple):
    """A receiver, and whether it has seen the event."""

    answer: Answer | None
    url: str = ""
    saw: bool = True


# What the rows say in words. ``None`` is a receiver that does not listen.
IN_WORDS: dict[str, Case] = {
    "2xx": Case(answer(201)),
    "other 4xx": Case(answer(404)),
    "5xx": Case(answer(500)),
    "3xx": Case(answer(302)),
    "closed": Case(close()),
    "reset": Case(reset()),
    "the deadline passed": Case(hang()),
    "no connection": Case(None, saw=False),
    "no HTTP": Case(raw(b"220 mail.example ESMTP\r\n")),
    "the settings refuse the address": Case(answer(), url="http://10.1.2.3/hook", saw=False),
}


def seconds(text: str) -> float:
    number, unit = text.split()
    return float(number) * SECONDS[unit]


def rows() -> list[Row]:
    section = PAGE.read_text().partition("## What each response means")[2].partition("\n\nJitter")[0]
    found = []
    for line in section.splitlines():
        if line.startswith("| `"):
            outcome, when, seen, waits, _ = (cell.strip() for cell in line.strip("|").split(" | "))
            numbers = [] if waits == "none" else [seconds(wait) for wait in waits.split(", ")]
            found.append(Row(Outcome(outcome.strip("`")), when, seen == "yes", numbers))
    return found


def cases() -> Sequence[object]:
    found = []
    for row in rows():
        given = {status: Case(answer(int(status))) for status in re.findall(r"\b[2-5]\d\d\b", row.when)}
        given |= {words: case for words, case in IN_WORDS.items() if words in row.when}
        assert given, row
        found += [pytest.param(row, case, id=f"{row.outcome}-{name}") for name, case in given.items()]
    return found


def test_the_table_has_every_outcome_and_the_test_every_word() -> None:
    found = rows()
    assert {row.outcome for row in found} == set(Outcome)
    for words in IN_WORDS:
        assert any(words in row.when for row in found), words


@pytest.mark.parametrize(("row", "case"), cases())
async def test_the_table_is_true(
    row: Row, case: Case, hookgw_gateway: GatewayKit, hookgw_receiver: Receiver, hookgw_clock: MockClock
) -> None:
    if case.answer is None:
        await hookgw_receiver.stop_listening()
    else:
        hookgw_receiver.default = case.answer
    await hookgw_gateway.register(case.url or hookgw_receiver.url)
    event = await hookgw_gateway.emit(KIND, {})
    for number, wait in enumerate(row.waits, 1):
        if case.answer == hang():
            await hookgw_receiver.wait_for(number)
            hookgw_clock.jump(TIMEOUT + 0.1)
        await hookgw_gateway.settled()
        waits = wait_of(hookgw_gateway)
        assert wait - 0.01 <= waits <= wait * JITTER
        hookgw_clock.jump(waits + 0.001)
    if case.answer != hang():
        await hookgw_gateway.settled()
    attempts = await attempts_of(hookgw_gateway, event)
    assert {attempt.outcome for attempt in attempts} == {row.outcome}
    assert (await state_of(hookgw_gateway, event)) is ENDS.get(row.outcome, DeliveryState.PENDING)
    # A proxy that answers for a receiver is played by the receiver here, and has seen the request.
    assert bool(hookgw_receiver.requests) is case.saw
    assert case.saw or not row.may_be_seen
