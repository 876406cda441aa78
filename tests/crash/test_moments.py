"""``kill -9`` at chosen moments: what each of them may and may not do to what was accepted."""

import zlib
from contextlib import suppress
from pathlib import Path
from typing import Any

import httpx
import pytest
import trio

from hookgw.testing import answer, hang, open_receiver
from tests.crash.engines import SQLITE, Storage, sqlite_only
from tests.crash.stage import DEADLINE, LONG_AGO, LOOK_AGAIN, Stage, batch, event, ids, staged

pytestmark = [pytest.mark.crash, pytest.mark.timeout(DEADLINE + 10)]


async def test_between_accept_and_dispatch(tmp_path: Path, storage: Storage) -> None:
    """The producer never heard; what it sends again is a duplicate, and both were one."""
    async with staged(tmp_path, storage) as stage:
        await stage.start("dispatch")
        await stage.register()
        await stage.call_in_vain("/event/emit/shop", batch(3))
        await stage.target.died()
        assert stage.receiver.ids == []
        await stage.start()
        told = await stage.call("POST", "/event/emit/shop", batch(3))
        assert (told["accepted"], told["duplicates"]) == (0, 3)
        await stage.drained()
        assert stage.receiver.ids == ids(batch(3))


async def test_between_the_commit_and_the_answer_of_a_resend_with_changes(
    tmp_path: Path, storage: Storage
) -> None:
    """The call is repeated, because nobody heard of it, and sends nothing twice."""
    changed = {"data": {"n": 1}}
    async with staged(tmp_path, storage) as stage:
        await stage.start()
        await stage.register()
        await stage.call("POST", "/event/emit/shop", event("e0"))
        await stage.drained()
        await stage.target.kill()
        await stage.start("dispatch")
        await stage.call_in_vain("/delivery/resend/shop/e0", changed)
        await stage.target.died()
        await stage.start()
        await stage.call("POST", "/delivery/resend/shop/e0", changed)
        await stage.drained()
        first, second = stage.receiver.requests
        assert (first.event_id, second.header("x-edited-from")) == ("e0", "e0")
        assert await stage.deliveries("delivered") == ["e0", second.event_id]


async def test_between_a_2xx_and_its_settling(tmp_path: Path, storage: Storage) -> None:
    """The one delivery that may come twice, with the same id; nothing else does."""
    async with staged(tmp_path, storage) as stage:
        await stage.start("settle")
        await stage.register()
        with suppress(httpx.HTTPError):  # its answer may or may not be quicker than the receiver's
            await stage.call("POST", "/event/emit/shop", batch(3))
        await stage.target.died()
        assert stage.receiver.ids == ["e0"]
        await stage.start()
        await stage.drained()
        assert stage.receiver.ids == ["e0", "e0", "e1", "e2"]
        assert await stage.deliveries("delivered") == ids(batch(3))
        found = await stage.call("GET", "/delivery/find/shop/e0")
        assert [attempt["outcome"] for attempt in found["attempts"]] == ["delivered"]
        first, again = stage.receiver.requests[:2]
        assert first.body == again.body


async def test_during_a_retry_wait(tmp_path: Path, storage: Storage) -> None:
    """The wait goes on where it was, the attempts are counted on, and nothing overtakes the head."""
    # Longer than a start takes on a busy machine. On PostgreSQL it waits for the end of the killed one, too.
    wait = 20
    async with staged(tmp_path, storage) as stage:
        stage.receiver.will(answer(503, headers={"retry-after": str(wait)}))
        await stage.start()
        await stage.register()
        await stage.call("POST", "/event/emit/shop", batch(3))
        found: dict[str, Any] = {"attempts": []}
        while not found["attempts"]:
            found = await stage.call("GET", "/delivery/find/shop/e0")
        await stage.target.kill()
        await stage.start()
        again = await stage.call("GET", "/delivery/find/shop/e0")
        assert again["nextAttemptAt"] == found["nextAttemptAt"]
        await stage.drained()
        assert stage.receiver.ids == ["e0", "e0", "e1", "e2"]
        first, second = stage.receiver.requests[:2]
        assert second.at - first.at >= wait
        assert second.header("x-attempt") == "2"
        assert first.body == second.body


async def test_during_a_replay(tmp_path: Path, storage: Storage) -> None:
    """Each step is whole or not at all, and the next start goes on where the replay was cut off."""
    events, step = batch(250), 100
    async with staged(tmp_path, storage) as stage:
        stage.receiver.default = answer(422)
        await stage.start()
        await stage.register()
        await stage.call("POST", "/event/emit/shop", events)
        await stage.drained()
        await stage.target.kill()
        await stage.start("replay")
        stage.receiver.default = answer()
        seen = len(stage.receiver.requests)
        replay = {"since": LONG_AGO, "state": "dead"}
        await stage.call_in_vain("/delivery/replay/shop", replay)
        await stage.target.died()
        states = "SELECT count(*) FROM deliveries WHERE state = 'dead'"
        assert storage.peek(states) == [(len(events) - step,)]
        await stage.start()
        # It rests after its last step, and has ended after that.
        while (await stage.call("GET", "/job/list"))[0]["state"] != "done":  # noqa: ASYNC110
            await trio.sleep(LOOK_AGAIN)
        await stage.drained()
        assert await stage.deliveries("delivered") == ids(events)
        (job,) = await stage.call("GET", "/job/list")
        assert (job["kind"], job["done"]) == ("replay", len(events))
        arrived = [request.event_id for request in stage.receiver.requests[seen:]]
        assert list(dict.fromkeys(arrived)) == ids(events)


async def test_during_a_replay_of_three_instances(tmp_path: Path, storage: Storage) -> None:
    """The next start goes on with the whole job, and makes no delivery pending twice."""
    names, events = ("shop1", "shop2", "shop3"), batch(150)
    async with staged(tmp_path, storage) as stage:
        stage.receiver.default = answer(422)
        await stage.start()
        for name in names:
            await stage.call("POST", f"/webhook/set/{name}", {"url": f"{stage.receiver.url}{name}"})
            await stage.call("POST", f"/event/emit/{name}", events)

        async def count(state: str) -> int:
            body = {"since": LONG_AGO, "state": state, "dryRun": True}
            found: int = (await stage.call("POST", "/delivery/replay", body))["matching"]
            return found

        while await count("dead") < 450:  # noqa: ASYNC110
            await trio.sleep(LOOK_AGAIN)
        await stage.target.kill()
        await stage.start("replay")
        stage.receiver.default = answer()
        seen = len(stage.receiver.requests)
        await stage.call_in_vain("/delivery/replay", {"since": LONG_AGO, "instances": ["shop*"]})
        await stage.target.died()
        assert storage.peek("SELECT count(*) FROM deliveries WHERE state = 'dead'") == [(350,)]
        await stage.start()
        while (await stage.call("GET", "/job/list"))[0]["state"] != "done":  # noqa: ASYNC110
            await trio.sleep(LOOK_AGAIN)
        (job,) = await stage.call("GET", "/job/list")
        assert (job["kind"], job["done"], job["instances"]) == ("replay", 450, {"done": 3, "total": 3})
        while await count("all") < 450:  # noqa: ASYNC110
            await trio.sleep(LOOK_AGAIN)
        assert await count("dead") == 0
        for name in names:
            arrived = [one.event_id for one in stage.receiver.requests[seen:] if one.target == f"/{name}"]
            # What was not settled at the kill comes again.
            assert list(dict.fromkeys(arrived)) == ids(events)


async def has_missed(stage: Stage) -> tuple[list[dict[str, Any]], list[dict[str, Any]]]:
    """Let a webhook miss events, and then have others pending."""
    missed, later = batch(250), [event(f"later{number}") for number in range(10)]
    await stage.register()
    await stage.call("PATCH", "/webhook/set/shop", {"enabled": False})
    await stage.call("POST", "/event/emit/shop", missed)
    return missed, later


async def test_during_a_backfill(tmp_path: Path, storage: Storage) -> None:
    """Each step is whole or not at all, the next start goes on with it, and nothing newer passes it."""
    async with staged(tmp_path, storage) as stage:
        await stage.start("backfill")
        missed, later = await has_missed(stage)
        await stage.call("PATCH", "/webhook/set/shop", {"enabled": True})
        stage.receiver.default = answer(503)
        await stage.call_in_vain("/webhook/backfill/shop", {"since": LONG_AGO})
        await stage.target.died()
        assert storage.peek("SELECT count(*) FROM deliveries") == [(100,)]
        await stage.start()
        await stage.call("POST", "/event/emit/shop", later)
        stage.receiver.default = answer()
        await stage.drained()
        # The list is by number. On PostgreSQL, the later events have theirs before the rest of the backfill.
        assert sorted(await stage.deliveries("delivered")) == sorted(ids([*missed, *later]))
        (job,) = await stage.call("GET", "/job/list")
        assert (job["kind"], job["state"], job["done"]) == ("backfill", "done", len(missed))
        arrived = [request.event_id for request in stage.receiver.requests]
        assert list(dict.fromkeys(arrived)) == ids([*missed, *later])


async def test_after_the_commit_of_a_backfill_that_enables(tmp_path: Path, storage: Storage) -> None:
    """The webhook is enabled, and what it has missed comes before anything newer; or neither is so."""
    async with staged(tmp_path, storage) as stage:
        await stage.start("backfill_call")
        missed, later = await has_missed(stage)
        with pytest.raises(httpx.HTTPError):
            await stage.call("PATCH", "/webhook/set/shop", {"enabled": True, "backfill": True})
        await stage.target.died()
        await stage.start()
        assert (await stage.call("GET", "/webhook/find/shop"))["enabled"]
        await stage.call("POST", "/event/emit/shop", later)
        await stage.drained()
        # The first look at what is pending may come before the first step.
        while len(stage.receiver.requests) < len(missed) + len(later):  # noqa: ASYNC110
            await trio.sleep(LOOK_AGAIN)
        assert [request.event_id for request in stage.receiver.requests] == ids([*missed, *later])


async def test_during_an_erasure(tmp_path: Path, storage: Storage) -> None:
    """Each step is whole or not at all, and the next start erases the rest before it sends anything."""
    events, step = batch(253), 100
    theirs, others = events[:250], events[250:]
    for one in theirs:
        one["data"] = {"key": {"remoteJid": "5511988887777@s.whatsapp.net"}}
    async with staged(tmp_path, storage) as stage:
        await stage.start("erasure")
        await stage.register()
        await stage.call("POST", "/webhook/pause/shop", {})
        await stage.call("POST", "/event/emit/shop", events)
        await stage.call_in_vain("/event/erase/shop", {"remoteJid": "5511988887777@s.whatsapp.net"})
        await stage.target.died()
        assert storage.peek("SELECT count(*) FROM deliveries") == [(len(events) - step,)]
        await stage.start()
        await stage.call("POST", "/webhook/resume/shop", {})
        while (await stage.call("GET", "/job/list"))[0]["state"] != "done":  # noqa: ASYNC110
            await trio.sleep(LOOK_AGAIN)
        await stage.drained()
        assert [request.event_id for request in stage.receiver.requests] == ids(others)
        (job,) = await stage.call("GET", "/job/list")
        assert (job["kind"], job["done"], job["events"]) == ("erase", len(theirs), len(theirs))
    if storage.file is not None:  # a server keeps what it overwrites for a while
        assert b"5511988887777" not in storage.file.read_bytes()


async def test_during_pruning(tmp_path: Path, storage: Storage) -> None:
    """What is pending stays, and no delivery, event or attempt is left without the others."""
    events = batch(1000)
    async with staged(tmp_path, storage, retention="1s") as stage:
        await stage.start()
        await stage.register()
        await stage.call("POST", "/event/emit/shop", events)
        await stage.drained()
        stage.receiver.default = answer(503)
        await stage.call("POST", "/event/emit/shop", [event(f"late{number}") for number in range(3)])
        await stage.target.kill()
        await stage.start("prune")
        await stage.target.died()
        await stage.start()
        assert await stage.deliveries("pending") == ["late0", "late1", "late2"]
        left = await stage.deliveries("delivered")
        assert 0 < len(left) < len(events)
        assert left == ids(events)[-len(left) :]
        stage.receiver.default = answer()
        await stage.drained()
        assert await stage.deliveries("delivered") == [*left, "late0", "late1", "late2"]
    if storage.file is not None:
        assert storage.peek("PRAGMA integrity_check") == [("ok",)]
    for orphans in (
        "SELECT count(*) FROM deliveries WHERE event NOT IN (SELECT seq FROM events)",
        "SELECT count(*) FROM attempts WHERE delivery NOT IN (SELECT seq FROM deliveries)",
        "SELECT count(*) FROM events WHERE heard > 0 AND seq NOT IN (SELECT event FROM deliveries)",
    ):
        assert storage.peek(orphans) == [(0,)], orphans


def spoken(event_id: str) -> dict[str, Any]:
    """Return an event of a chat, of 2 KB."""
    return {**event(event_id), "data": {"chatId": "5511988887777@s.whatsapp.net", "text": "x" * 2000}}


async def test_during_the_indexing_of_the_log(tmp_path: Path, storage: Storage) -> None:
    """No event is missing in the log or there twice, whether it has its entry or not."""
    events = [spoken(f"e{number}") for number in range(1000)]
    async with staged(tmp_path, storage) as stage:
        await stage.start("index")
        await stage.call("POST", "/instance/create", {"instanceName": "shop"})
        await stage.call("POST", "/event/emit/shop", events)
        await stage.target.died()
        assert storage.peek("SELECT count(*) FROM log") == [(200,)]
        await stage.start()
        await stage.call("POST", "/event/emit/shop", [spoken("late")])
        for query in ({}, {"chat": "5511988887777"}):
            assert await stage.log(**query) == [*ids(events), "late"]


async def test_while_the_log_becomes_smaller(tmp_path: Path, storage: Storage) -> None:
    """The newest events stay, and what is gone is before the begin of the log."""
    events = [spoken(f"e{number}") for number in range(1000)]
    async with staged(tmp_path, storage, events={"log_limit": "1MiB"}) as stage:
        await stage.start("limit")
        await stage.call("POST", "/instance/create", {"instanceName": "shop"})
        await stage.call("POST", "/event/emit/shop", events)
        await stage.target.died()
        await stage.start()
        left = await stage.log()
        assert 0 < len(left) < len(events)
        assert left == ids(events)[-len(left) :]
        page = await stage.call("GET", "/event/list/shop", order="oldest", limit=1)
        assert page["from"] > page["events"][0]["acceptedAt"]  # all came in one commit
        assert await stage.log(since=page["from"]) == []
    for orphans in (
        "SELECT count(*) FROM log WHERE seq NOT IN (SELECT seq FROM events)",
        "SELECT count(*) FROM events WHERE heard < 0 AND length(data) > 0",
    ):
        assert storage.peek(orphans) == [(0,)], orphans


PARTITIONS = {"ordering": "none", "concurrency": 4}


async def half_partitioned(stage: Stage, storage: Storage) -> None:
    """Leave a thousand pending deliveries, of which 200 are in the partitions of the changed registration."""
    stage.receiver.default = answer(503)
    await stage.start("repartition")
    await stage.register()
    await stage.call("POST", "/event/emit/shop", batch(1000))
    with suppress(httpx.HTTPError):  # it is answered after the first step, if the process lives so long
        await stage.call("POST", "/webhook/set/shop", {"url": stage.receiver.url, **PARTITIONS})
    await stage.target.died()
    # Of the names of lanes: SQLite keeps numbers of them.
    names = "lane AS name FROM deliveries"
    if storage.file is not None:
        names = "name FROM deliveries JOIN names ON number = lane"
    partitioned = f"""SELECT sum(CASE WHEN name LIKE '%:%:%' THEN 1 ELSE 0 END), count(*)
        FROM (SELECT {names} WHERE state = 'pending') pending"""
    assert storage.peek(partitioned) == [(200, 1000)]


async def test_during_a_repartition(tmp_path: Path, storage: Storage) -> None:
    """The next start finishes it before anything is sent: nothing is lost, each partition is in order."""
    async with staged(tmp_path, storage) as stage:
        await half_partitioned(stage, storage)
        stage.receiver.default = answer()
        seen = len(stage.receiver.requests)
        await stage.start()
        await stage.call("POST", "/event/emit/shop", [event("late")])
        await stage.drained()
        arrived = stage.receiver.ids[seen:]
        sent = [*ids(batch(1000)), "late"]
        assert set(arrived) == set(sent)
        assert len(arrived) == len(sent)
        for partition in range(4):
            of_partition = [name for name in sent if zlib.crc32(name.encode()) % 4 == partition]
            assert [name for name in arrived if name in set(of_partition)] == of_partition


async def test_during_a_repartition_that_is_killed_again(tmp_path: Path, storage: Storage) -> None:
    async with staged(tmp_path, storage) as stage:
        await half_partitioned(stage, storage)
        stage.receiver.default = answer()
        seen = len(stage.receiver.requests)
        with suppress(AssertionError):  # it may not live until it is ready
            await stage.start("repartition")
        await stage.target.died()
        assert len(stage.receiver.requests) == seen
        await stage.start()
        await stage.drained()
        assert set(stage.receiver.ids[seen:]) == set(ids(batch(1000)))


def of_person(number: int) -> dict[str, Any]:
    """Return one of a thousand events of five people, each of whom is named in five ways."""
    digits = f"551698888000{number % 5}"
    plain = f"{digits}@s.whatsapp.net"
    named: list[Any] = [
        {"key": {"remoteJid": plain}},
        {"key": {"remoteJid": f"{digits}:90@s.whatsapp.net"}},
        {"key": {"remoteJid": f"{digits}@c.us"}},
        {"key": {"remoteJid": f"77{digits}@lid", "remoteJidAlt": plain}},
        [{"key": {"remoteJid": plain}}, {"key": {"remoteJid": f"{digits}:3@c.us"}}],
    ]
    return {"event": "CALL", "id": f"e{number}", "data": named[number // 5 % 5]}


@pytest.mark.parametrize("kills", [0, 1, 3])
async def test_an_upgrade_of_lanes_by_chat(tmp_path: Path, storage: Storage, kills: int) -> None:
    """What an earlier version left moves to its lanes before any is sent, however often it is killed."""
    events = [of_person(number) for number in range(1000)]
    async with staged(tmp_path, storage) as stage:
        stage.receiver.default = answer(503)
        await stage.start("former_chats")
        by_chat = {"url": stage.receiver.url, "ordering": "chat", "concurrency": 4}
        await stage.call("POST", "/webhook/set/shop", by_chat)
        await stage.call("POST", "/event/emit/shop", events)
        await stage.target.kill()
        seen = len(stage.receiver.requests)
        stage.receiver.default = answer()
        for _ in range(kills):
            with suppress(AssertionError):  # it may not live until it is ready
                await stage.start("repartition")
            await stage.target.died()
            assert len(stage.receiver.requests) == seen
        await stage.start()
        await stage.call("POST", "/event/emit/shop", [{**of_person(0), "id": "e1000"}])
        await stage.drained()
        arrived = [int(str(name)[1:]) for name in stage.receiver.ids[seen:]]
        assert sorted(arrived) == list(range(1001))
        for person in range(5):
            theirs = [number for number in arrived if number % 5 == person]
            assert theirs == sorted(theirs)


async def test_right_after_a_change_of_the_url(tmp_path: Path, storage: Storage) -> None:
    """What is pending goes to the new URL at the next start, at once and in order."""
    async with staged(tmp_path, storage) as stage, open_receiver() as other:
        stage.receiver.default = answer(503, headers={"retry-after": "1000"})
        await stage.start()
        await stage.register()
        await stage.call("POST", "/event/emit/shop", batch(3))
        await stage.receiver.wait_for(1)
        other.default = hang()  # the new receiver hears nothing whole before the kill
        await stage.call("POST", "/webhook/set/shop", {"url": other.url})
        await stage.target.kill()
        other.default = answer()
        seen = len(other.requests)
        await stage.start()
        await stage.drained()
        assert other.ids[seen:] == ids(batch(3))
        assert stage.receiver.ids == ["e0"]


async def test_during_parking(tmp_path: Path, storage: Storage) -> None:
    """What was not parked yet is never sent: its registration is disabled."""
    async with staged(tmp_path, storage) as stage:
        stage.receiver.default = answer(503)
        await stage.start("parking")
        await stage.register()
        await stage.call("POST", "/event/emit/shop", batch(1000))
        await stage.call_in_vain("/webhook/set/shop", {"url": "", "enabled": False})
        await stage.target.died()
        found = dict(storage.peek("SELECT state, count(*) FROM deliveries GROUP BY state"))
        # On PostgreSQL, the one in flight is among the hundred of the first step, and stays.
        assert found in ({"dead": 200, "pending": 800}, {"dead": 199, "pending": 801})
        tried = len(stage.receiver.requests)
        await stage.start()
        await stage.drained()
        assert await stage.deliveries("dead") == ids(batch(1000))
        assert len(stage.receiver.requests) == tried
        while (job := (await stage.call("GET", "/job/list"))[0])["state"] == "running":  # noqa: ASYNC110
            await trio.sleep(LOOK_AGAIN)
        # The attempt in flight during the call may have made its delivery a dead letter by itself.
        assert job["kind"] == "disable_registration"
        assert 999 <= job["done"] <= 1000


@sqlite_only
@pytest.mark.parametrize("storage", [SQLITE], indirect=True)
async def test_while_the_data_file_is_created(tmp_path: Path, storage: Storage) -> None:
    async with staged(tmp_path, storage) as stage:
        await stage.target.spawn(doomed_at="creation")
        await stage.target.died()
        assert storage.peek("SELECT count(*) FROM sqlite_schema") == [(0,)]
        await stage.start()
        await stage.register()
        await stage.call("POST", "/event/emit/shop", batch(3))
        await stage.drained()
        assert stage.receiver.ids == ids(batch(3))
