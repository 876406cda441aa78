"""Matrix on a real Dendrite, whose limits let a login make five requests at once: ``nox -s dendrite``."""

import os
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest
import trio

from tests.networks.dendrite import Dendrite
from tests.networks.gateway import Gateway, running_gateway
from tests.networks.homeserver import PASSWORD
from tests.networks.test_matrix import texts

OLD, GAP = 30, 1_250
"""Messages from before the first connect, and while hookgw is down: a dozen pages."""

pytestmark = [pytest.mark.networks, pytest.mark.timeout(300)]


@pytest.fixture(scope="module")
def dendrite(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Dendrite]:
    programs = os.environ.get("HOOKGW_DENDRITE")
    if not programs:
        pytest.skip("HOOKGW_DENDRITE does not name a folder with dendrite: run nox -s dendrite")
    dendrite = Dendrite(Path(programs), tmp_path_factory.mktemp("dendrite"))
    try:
        dendrite.start()
        yield dendrite
    finally:
        dendrite.kill()


@pytest.fixture
async def gateway(tmp_path: Path, dendrite: Dendrite) -> AsyncIterator[Gateway]:
    with trio.fail_after(240):
        async with running_gateway(tmp_path, {"matrix": {"servers": [dendrite.url]}}) as gateway:
            yield gateway


async def connect(gateway: Gateway, dendrite: Dendrite, user: str) -> None:
    options = {"homeserver": dendrite.url, "user": user, "password": PASSWORD, "join_invites": "all"}
    await gateway.connect(user, "matrix", **options)


async def test_a_long_gap_is_filled_once_in_order_and_without_history(
    gateway: Gateway, dendrite: Dendrite
) -> None:
    async with dendrite.user("gap-bob") as bob, dendrite.user("gap") as account:
        room = await bob.room_with(account.id)
        await account.call("POST", f"rooms/{room}/join", {})
        other = await bob.room_with(account.id)
        await account.call("POST", f"rooms/{other}/join", {})
        for number in range(OLD):
            await bob.say(room, f"old {number}")
        await connect(gateway, dendrite, "gap")
        await bob.say(room, "before")
        # The last sync ends with an event of another room.
        await bob.say(other, "elsewhere")
        await gateway.wait_for_event("MESSAGES_UPSERT", "gap", message={"conversation": "elsewhere"})
        body = {"number": room, "text": "from hookgw"}
        await gateway.call("POST", "message/sendText/gap", body, status=201)
        await gateway.kill()
        for number in range(GAP):
            await bob.say(room, f"{number}")
        await gateway.start()
        await bob.say(room, "after")
        await gateway.wait_for_event("MESSAGES_UPSERT", "gap", message={"conversation": "after"})
    found = [text for text in texts(gateway.events("MESSAGES_UPSERT", "gap")) if text != "elsewhere"]
    assert found == ["before", *map(str, range(GAP)), "after"]
    assert texts(gateway.events("SEND_MESSAGE", "gap")) == ["from hookgw"]


async def test_sends_and_kills_raise_one_event_each(gateway: Gateway, dendrite: Dendrite) -> None:
    async with dendrite.user("own-bob") as bob, dendrite.user("own") as account:
        room = await bob.room_with(account.id)
        await account.call("POST", f"rooms/{room}/join", {})
        await connect(gateway, dendrite, "own")
        for number in range(12):
            if number % 4 == 3:
                await gateway.kill()  # the homeserver has the message, and its report may not be read yet
                await gateway.start()
                await gateway.wait_for_state("own", "open")
            body = {"number": room, "text": f"out {number}"}
            await gateway.call("POST", "message/sendText/own", body, status=201)
        await bob.say(room, "last")
        await gateway.wait_for_event("MESSAGES_UPSERT", "own", message={"conversation": "last"})
        stored = [event["content"].get("body", "") for event in await bob.timeline(room)]
    assert texts(gateway.events("SEND_MESSAGE", "own")) == [f"out {number}" for number in range(12)]
    assert texts(gateway.events("MESSAGES_UPSERT", "own")) == ["last"]
    assert [body for body in stored if body.startswith("out ")] == [f"out {number}" for number in range(12)]


async def test_an_upgraded_room_is_followed(gateway: Gateway, dendrite: Dendrite) -> None:
    async with dendrite.user("up-bob") as bob, dendrite.user("up") as account:
        await connect(gateway, dendrite, "up")
        body = {"invite": [account.id], "preset": "public_chat"}
        room = str((await bob.call("POST", "createRoom", body))["room_id"])
        await bob.wait_until_joined(room, account.id)
        upgraded = await bob.call("POST", f"rooms/{room}/upgrade", {"new_version": "10"})
        new = str(upgraded["replacement_room"])
        data = await gateway.wait_for_item("GROUPS_UPDATE", "up", replacedBy=new)
        assert data["id"] == room
        await bob.wait_until_joined(new, account.id)
        await bob.say(new, "here")
        upsert = await gateway.wait_for_event("MESSAGES_UPSERT", "up", message={"conversation": "here"})
        assert upsert["key"]["remoteJid"] == new
        await gateway.kill()
        await gateway.start()
        await gateway.wait_for_state("up", "open")
        sent = await gateway.call(
            "POST", "message/sendText/up", {"number": room, "text": "to the old room"}, status=201
        )
        assert sent["key"]["remoteJid"] == new
        stored = [event["content"].get("body", "") for event in await bob.timeline(new)]
        assert "to the old room" in stored
