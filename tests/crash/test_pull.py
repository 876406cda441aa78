"""``kill -9`` around the calls of a receiver that fetches: nothing is lost, and the order holds."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from tests.crash.engines import Storage
from tests.crash.stage import DEADLINE, Stage, batch, ids, staged

pytestmark = [pytest.mark.crash, pytest.mark.timeout(DEADLINE + 10)]

PULL, ACK = "/delivery/pull/shop", "/delivery/ack/shop"
FETCH = {"wait": "30s", "max": 3}
EVENTS = batch(5)


@asynccontextmanager
async def fetched(tmp_path: Path, storage: Storage, moment: str | None) -> AsyncIterator[Stage]:
    """Run a gateway whose receiver fetches, with five events, until a call of the block kills it."""
    async with staged(tmp_path, storage) as stage:
        await stage.start(moment)
        await stage.call("POST", "/webhook/set/shop", {"url": "pull:"})
        await stage.call("POST", "/event/emit/shop", EVENTS)
        yield stage


async def fetch(stage: Stage, **fields: Any) -> dict[str, Any]:
    found: dict[str, Any] = await stage.call("POST", PULL, {**FETCH, **fields})
    return found


def names(found: dict[str, Any]) -> list[str]:
    return [one["headers"]["webhook-id"] for one in found["deliveries"]]


async def goes_on(stage: Stage, first: int) -> None:
    """Fetch and acknowledge the rest; check that it begins with one event, and is in order."""
    arrived: list[str] = []
    while len(arrived) < len(EVENTS) - first:
        found = await fetch(stage)
        arrived += names(found)
        await stage.call("POST", ACK, {"cursor": found["cursor"]})
    assert arrived == ids(EVENTS)[first:]
    assert await stage.deliveries("pending") == []
    assert await stage.deliveries("delivered") == ids(EVENTS)


async def test_before_the_answer_to_a_fetch(tmp_path: Path, storage: Storage) -> None:
    """The lease ends with the process: whoever asks next has the deliveries at once, the first one first."""
    async with fetched(tmp_path, storage, "pulled") as stage:
        await stage.call_in_vain(PULL, FETCH)
        await stage.target.died()
        await stage.start()
        found = await fetch(stage, consumer="another")
        assert names(found) == ids(EVENTS)[:3]
        await stage.call("POST", ACK, {"consumer": "another", "release": True})
        await goes_on(stage, 0)


async def test_between_a_fetch_and_its_acknowledgement(tmp_path: Path, storage: Storage) -> None:
    """What was not acknowledged comes again, as it was, and the former lease acknowledges nothing."""
    async with fetched(tmp_path, storage, None) as stage:
        before = await fetch(stage)
        await stage.target.kill()
        await stage.start()
        with pytest.raises(AssertionError, match="no lease"):
            await stage.call("POST", ACK, {"cursor": before["cursor"]})
        after = await fetch(stage)
        assert [one["body"] for one in after["deliveries"]] == [one["body"] for one in before["deliveries"]]
        assert names(after) == names(before)
        await goes_on(stage, 0)


async def test_before_an_acknowledgement_is_stored(tmp_path: Path, storage: Storage) -> None:
    """It was not answered, and did nothing."""
    async with fetched(tmp_path, storage, "settle") as stage:
        found = await fetch(stage)
        await stage.call_in_vain(ACK, {"cursor": found["cursor"]})
        await stage.target.died()
        await stage.start()
        await goes_on(stage, 0)


async def test_after_an_acknowledgement_is_stored(tmp_path: Path, storage: Storage) -> None:
    """It was not answered, and holds: none of it comes again."""
    async with fetched(tmp_path, storage, "acknowledged") as stage:
        found = await fetch(stage)
        await stage.call_in_vain(ACK, {"cursor": found["cursor"]})
        await stage.target.died()
        await stage.start()
        await goes_on(stage, 3)


@pytest.mark.parametrize(("moment", "stored"), [("settle", 2), ("acknowledged", 2)])
async def test_a_receiver_that_stores_its_cursor_has_each_once(
    tmp_path: Path, storage: Storage, moment: str, stored: int
) -> None:
    """Whatever became of its acknowledgement, it goes on behind its cursor."""
    async with fetched(tmp_path, storage, moment) as stage:
        found = await fetch(stage)
        mine = found["deliveries"][:stored]
        await stage.call_in_vain(ACK, {"cursor": mine[-1]["cursor"]})
        await stage.target.died()
        await stage.start()
        rest = await fetch(stage, after=mine[-1]["cursor"], max=10)
        assert names(rest) == ids(EVENTS)[stored:]
        await stage.call("POST", ACK, {"cursor": rest["cursor"]})
        assert await stage.deliveries("delivered") == ids(EVENTS)


async def test_after_a_failure_that_was_reported(tmp_path: Path, storage: Storage) -> None:
    """The attempt counts, and what was behind it has lost none."""
    async with fetched(tmp_path, storage, None) as stage:
        first = (await fetch(stage))["deliveries"][0]
        failed = [{"id": first["id"], "reason": "no such customer"}]
        assert (await stage.call("POST", ACK, {"failed": failed}))["failed"] == 1
        await stage.target.kill()
        await stage.start()
        found = await fetch(stage)
        while not found["deliveries"]:  # the wait of the schedule
            found = await fetch(stage)
        assert names(found) == ids(EVENTS)[:3]
        assert [one["headers"]["x-attempt"] for one in found["deliveries"]] == ["2", "1", "1"]
        await stage.call("POST", ACK, {"release": True})
        await goes_on(stage, 0)
