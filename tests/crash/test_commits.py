"""``kill -9`` around a commit on PostgreSQL: before it is sent, before its answer, and right after that."""

from contextlib import suppress
from pathlib import Path

import httpx
import pytest
import trio

from tests.crash.engines import CHOSEN, POSTGRESQL, Storage
from tests.crash.stage import DEADLINE, LOOK_AGAIN, batch, ids, staged

pytestmark = [
    pytest.mark.crash,
    pytest.mark.timeout(DEADLINE + 10),
    pytest.mark.skipif(CHOSEN not in (None, POSTGRESQL), reason="another engine is chosen"),
    pytest.mark.parametrize("storage", [POSTGRESQL], indirect=True),
]


async def until_forgotten(storage: Storage) -> None:
    """Wait until the server has noticed that the process is gone: it commits nothing more of it."""
    backends = "SELECT count(*) FROM pg_stat_activity WHERE application_name LIKE 'hookgw %'"
    while storage.peek(backends) != [(0,)]:  # noqa: ASYNC110 -- the server tells nobody
        await trio.sleep(LOOK_AGAIN)


@pytest.mark.parametrize(("when", "stored"), [("before", {0}), ("sent", {0, 3}), ("answered", {3})])
async def test_around_the_commit_of_events(
    when: str, stored: set[int], tmp_path: Path, storage: Storage
) -> None:
    """The producer never heard. The events are stored, all or none; sent again, they arrive once."""
    async with staged(tmp_path, storage) as stage:
        await stage.start(f"commit:{when}:appends")
        await stage.register()
        await stage.call_in_vain("/event/emit/shop", batch(3))
        await stage.target.died()
        await until_forgotten(storage)
        ((found,),) = storage.peek("SELECT count(*) FROM events")
        assert found in stored
        assert storage.peek("SELECT count(*) FROM deliveries") == [(found,)]
        assert stage.receiver.ids == []
        await stage.start()
        told = await stage.call("POST", "/event/emit/shop", batch(3))
        assert (told["accepted"], told["duplicates"]) == (3 - found, found)
        await stage.drained()
        assert stage.receiver.ids == ids(batch(3))


@pytest.mark.parametrize("when", ["before", "sent", "answered"])
async def test_around_the_commit_of_an_outcome(when: str, tmp_path: Path, storage: Storage) -> None:
    """What arrives again is exactly what was not settled, with the same bytes and in order."""
    async with staged(tmp_path, storage) as stage:
        await stage.start(f"commit:{when}:settlements")
        await stage.register()
        with suppress(httpx.HTTPError):  # its answer may or may not be quicker than the receiver's
            await stage.call("POST", "/event/emit/shop", batch(3))
        await stage.target.died()
        await until_forgotten(storage)
        ((settled,),) = storage.peek("SELECT count(*) FROM deliveries WHERE state = 'delivered'")
        before = stage.receiver.ids
        assert before == ids(batch(3))[: len(before)]
        if when != "sent":
            assert (settled > 0) == (when == "answered")
        await stage.start()
        await stage.drained()
        assert stage.receiver.ids == [*before, *ids(batch(3))[settled:]]
        bodies = {request.event_id: set[bytes]() for request in stage.receiver.requests}
        for request in stage.receiver.requests:
            bodies[request.event_id].add(request.body)
        assert all(len(found) == 1 for found in bodies.values())
        assert await stage.deliveries("delivered") == ids(batch(3))
