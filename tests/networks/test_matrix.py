"""Matrix on a real Synapse: every kind of event, calls, kills, and gaps."""

import base64
from functools import partial
from typing import Any
from urllib.parse import urlsplit

import httpx
import pytest
import trio

from tests.networks.conftest import ConnectUser
from tests.networks.gateway import Gateway
from tests.networks.homeserver import Person
from tests.networks.synapse import Synapse

MESSAGES = 200
GAP = 120

pytestmark = [
    pytest.mark.networks,
    pytest.mark.timeout(300),
    # httpx leaves the body's generator behind when the connection breaks while it sends.
    pytest.mark.filterwarnings(
        r"ignore:.*async_generator object ByteStream:pytest.PytestUnraisableExceptionWarning"
    ),
]


def texts(events: list[dict[str, Any]]) -> list[str]:
    return [event["message"]["conversation"] for event in events if event["messageType"] == "conversation"]


async def direct_room(connect: ConnectUser, person: Person, instance: str, user: str) -> str:
    """Connect an instance, and open a direct chat with it."""
    await connect(instance, user)
    room = await person.room_with(f"@{user}:hs.test")
    await person.wait_until_joined(room, f"@{user}:hs.test")
    return room


async def test_nothing_is_lost_or_doubled_through_kills(
    gateway: Gateway, connect: ConnectUser, synapse: Synapse
) -> None:
    async with synapse.user("kills-bob") as bob, synapse.user("kills"):
        room = await direct_room(connect, bob, "kills", "kills")
        progress = {"in": 0, "out": 0}

        async def write_to_hookgw() -> None:
            for number in range(MESSAGES):
                await bob.say(room, f"in {number}")
                progress["in"] = number

        async def write_through_hookgw() -> None:
            for number in range(MESSAGES):
                body = {"number": room, "text": f"out {number}"}
                send = partial(gateway.try_call, "POST", "message/sendText/kills", body, key=f"out-{number}")
                while not await sent(send):  # noqa: ASYNC110 (a retry)
                    await trio.sleep(0.05)
                progress["out"] = number

        async with trio.open_nursery() as nursery:
            nursery.start_soon(write_to_hookgw)
            nursery.start_soon(write_through_hookgw)
            for part in (1, 2, 3, 4):
                while min(progress.values()) < part * MESSAGES // 5:  # noqa: ASYNC110 (a process reports it)
                    await trio.sleep(0.01)
                if part == 2:
                    synapse.kill()
                    await trio.to_thread.run_sync(synapse.start)
                else:
                    await gateway.kill()
                    await trio.sleep(0.3)  # some of it happens while nobody listens
                    await gateway.start()
        while len(texts(gateway.events("MESSAGES_UPSERT", "kills"))) < MESSAGES:
            await gateway.receiver.wait_for(len(gateway.receiver.requests) + 1)
        stored = [event["content"].get("body", "") for event in await bob.timeline(room)]
    assert texts(gateway.events("MESSAGES_UPSERT", "kills")) == [f"in {n}" for n in range(MESSAGES)]
    assert [body for body in stored if body.startswith("out ")] == [f"out {n}" for n in range(MESSAGES)]


async def sent(send: Any) -> bool:
    try:
        answer = await send()
    except httpx.HTTPError:
        return False
    # 409 and 502: the connection is not open again yet.
    assert answer.status_code in (201, 409, 502, 503), answer.text
    return bool(answer.status_code == 201)


async def test_a_gap_is_filled_in_order(gateway: Gateway, connect: ConnectUser, synapse: Synapse) -> None:
    async with synapse.user("gap-bob") as bob, synapse.user("gap"):
        room = await direct_room(connect, bob, "gap", "gap")
        await bob.say(room, "before")
        await gateway.wait_for_event("MESSAGES_UPSERT", "gap", message={"conversation": "before"})
        await gateway.kill()
        # Two pages beyond what one answer of /sync contains.
        for number in range(2 * GAP):
            await bob.say(room, f"{number}")
        await gateway.start()
        await bob.say(room, "after")
        await gateway.wait_for_event("MESSAGES_UPSERT", "gap", message={"conversation": "after"})
    wanted = ["before", *map(str, range(2 * GAP)), "after"]
    assert texts(gateway.events("MESSAGES_UPSERT", "gap")) == wanted


async def test_history_is_not_read(gateway: Gateway, connect: ConnectUser, synapse: Synapse) -> None:
    async with synapse.user("old-bob") as bob, synapse.user("old") as account:
        room = await bob.room_with(account.id)
        await account.call("POST", f"rooms/{room}/join", {})
        await bob.say(room, "history")
        await connect("old", "old")
        await bob.say(room, "news")
        await gateway.wait_for_event("MESSAGES_UPSERT", "old", message={"conversation": "news"})
        assert texts(gateway.events("MESSAGES_UPSERT", "old")) == ["news"]


async def test_media_both_ways(gateway: Gateway, connect: ConnectUser, synapse: Synapse) -> None:
    async with synapse.user("media-bob") as bob, synapse.user("media"):
        room = await direct_room(connect, bob, "media", "media")
        content = bytes(range(256)) * 8192  # 2 MiB
        address = await bob.upload(content, "image/png")
        info = {"mimetype": "image/png", "size": len(content)}
        image = {"msgtype": "m.image", "body": "look", "filename": "a.png", "url": address, "info": info}
        await bob.say(room, image)
        data = await gateway.wait_for_event("MESSAGES_UPSERT", "media", messageType="imageMessage")
        file = data["message"]["imageMessage"]
        assert (file["caption"], file["fileName"], file["fileLength"]) == ("look", "a.png", str(len(content)))
        answer = await gateway.try_call("GET", urlsplit(file["url"]).path.lstrip("/"))
        assert answer.status_code == 200, answer.text
        assert answer.content == content
        assert answer.headers["content-type"] == "image/png"

        # With the file inside, for a registration that asks for it.
        assert "base64" not in data["message"]
        registration = {"url": gateway.receiver.url, "base64": True}
        await gateway.call("POST", "webhook/set/media", registration, status=201)
        address = await bob.upload(b"OggS a voice", "audio/ogg")
        await bob.say(room, {"msgtype": "m.audio", "body": "a.ogg", "url": address})
        data = await gateway.wait_for_event("MESSAGES_UPSERT", "media", messageType="audioMessage")
        assert base64.b64decode(data["message"]["base64"]) == b"OggS a voice"

        media = base64.b64encode(b"the menu").decode()
        body = {"number": bob.id, "mediatype": "document", "media": media, "fileName": "menu.txt"}
        await gateway.call("POST", "message/sendMedia/media", body, status=201)
        sent_file = (await bob.timeline(room))[-1]["content"]
        assert sent_file["msgtype"] == "m.file"
        assert await bob.download(sent_file["url"]) == b"the menu"


async def test_edits_reactions_receipts_and_deletions(
    gateway: Gateway, connect: ConnectUser, synapse: Synapse
) -> None:
    async with synapse.user("kinds-bob") as bob, synapse.user("kinds") as account:
        room = await direct_room(connect, bob, "kinds", "kinds")
        wait_for = partial(gateway.wait_for_event, instance="kinds")
        call = gateway.call

        # What Bob does.
        first = await bob.say(room, "first")
        edit = {"rel_type": "m.replace", "event_id": first}
        new = {"msgtype": "m.text", "body": "second"}
        await bob.say(
            room, {"msgtype": "m.text", "body": "* second", "m.new_content": new, "m.relates_to": edit}
        )
        data = await wait_for("MESSAGES_EDITED", message={"conversation": "second"})
        assert data["key"] == {"remoteJid": room, "fromMe": False, "id": first, "participant": bob.id}
        sent = await call("POST", "message/sendText/kinds", {"number": bob.id, "text": "hello"}, status=201)
        own = sent["key"]
        assert own["remoteJid"] == room
        reaction = {"m.relates_to": {"rel_type": "m.annotation", "event_id": own["id"], "key": "👍"}}
        await bob.say(room, reaction, "m.reaction")
        data = await wait_for("MESSAGES_UPSERT", messageType="reactionMessage")
        assert data["message"]["reactionMessage"] == {"key": own, "text": "👍"}
        await bob.call("POST", f"rooms/{room}/receipt/m.read/{own['id']}", {})
        data = await wait_for("MESSAGES_UPDATE", keyId=own["id"])
        assert (data["status"], data["fromMe"], data["participant"]) == ("READ", True, bob.id)
        await bob.call("PUT", f"rooms/{room}/typing/{bob.id}", {"typing": True, "timeout": 20000})
        typing = {bob.id: {"lastKnownPresence": "composing"}}
        await wait_for("PRESENCE_UPDATE", id=room, presences=typing)
        await bob.call("PUT", f"rooms/{room}/redact/{first}/t1", {})
        data = await wait_for("MESSAGES_DELETE", id=first)
        assert (data["participant"], data["status"]) == (bob.id, "DELETED")

        # What the account does on another device, and through hookgw.
        await account.say(room, "from my phone")
        data = await wait_for("MESSAGES_UPSERT", message={"conversation": "from my phone"})
        assert data["key"]["fromMe"] is True
        key = {"remoteJid": room, "fromMe": True, "id": own["id"]}
        await call("POST", "chat/updateMessage/kinds", {"number": room, "key": key, "text": "hello!"})
        asked = await bob.say(room, "and you?")
        asked_key = {"remoteJid": room, "fromMe": False, "id": asked}
        body: dict[str, Any] = {"key": asked_key, "reaction": "❤"}
        await call("POST", "message/sendReaction/kinds", body, status=201)
        body = {"readMessages": [asked_key]}
        await call("POST", "chat/markMessageAsRead/kinds", body, status=201)
        body = {"number": room, "text": "yes", "quoted": {"key": {"id": asked}}}
        await call("POST", "message/sendText/kinds", body, status=201)
        await call("DELETE", "chat/deleteMessageForEveryone/kinds", key, status=201)
        found = await bob.timeline(room)
        relations = [event["content"].get("m.relates_to") for event in found if event["sender"] == account.id]
        assert {"rel_type": "m.annotation", "event_id": asked, "key": "❤"} in relations
        assert {"m.in_reply_to": {"event_id": asked}} in relations
        redacted = [event for event in found if event["event_id"] == own["id"]]
        assert redacted[0]["content"] == {}
        await wait_for("MESSAGES_DELETE", id=own["id"])

        # What hookgw itself sent raised its event once.
        await bob.say(room, "last")
        await wait_for("MESSAGES_UPSERT", message={"conversation": "last"})
        upserts = gateway.events("MESSAGES_UPSERT", "kinds")
        assert [text for text in texts(upserts) if text in ("hello", "yes", "hello!")] == []
        assert len(gateway.events("MESSAGES_EDITED", "kinds")) == 2
        assert len(gateway.events("MESSAGES_DELETE", "kinds")) == 2


async def test_rooms_and_their_members(gateway: Gateway, connect: ConnectUser, synapse: Synapse) -> None:
    async with synapse.user("rooms-bob") as bob, synapse.user("rooms") as account:
        await connect("rooms", "rooms")
        room = await bob.room_with(account.id, is_direct=False)
        await gateway.wait_for_event("GROUP_PARTICIPANTS_UPDATE", id=room, action="invite")
        await account.call("POST", f"rooms/{room}/join", {})
        members = [account.id]
        await gateway.wait_for_event("GROUP_PARTICIPANTS_UPDATE", id=room, action="add", participants=members)
        body = {"number": room, "text": "hello"}
        await gateway.call("POST", "message/sendText/rooms", body, status=201)
        await bob.say(room, {"algorithm": "m.megolm.v1.aes-sha2", "ciphertext": "AwgA"}, "m.room.encrypted")
        data = await gateway.wait_for_event("MESSAGES_UPSERT", messageType="encryptedMessage")
        assert "not supported" in data["messageStubParameters"][0]
        secret = {"algorithm": "m.megolm.v1.aes-sha2"}
        await bob.call("PUT", f"rooms/{room}/state/m.room.encryption", secret)
        await bob.say(room, "the last")
        await gateway.wait_for_event("MESSAGES_UPSERT", message={"conversation": "the last"})
        answer = await gateway.call("POST", "message/sendText/rooms", body, status=501)
        assert "encrypted" in str(answer)
        await bob.call("POST", f"rooms/{room}/kick", {"user_id": account.id})
        await gateway.wait_for_event("GROUP_PARTICIPANTS_UPDATE", id=room, action="remove")
        forbidden = await gateway.try_call("POST", "message/sendText/rooms", body)
        assert forbidden.status_code in (403, 501)
        found = await gateway.call("POST", "chat/whatsappNumbers/rooms", {"numbers": [bob.id, "@no:hs.test"]})
        assert [entry["exists"] for entry in found] == [True, False]


async def test_a_revoked_token_closes_with_a_reason(
    gateway: Gateway, connect: ConnectUser, synapse: Synapse
) -> None:
    async with synapse.user("revoked") as account:
        await connect("revoked", "revoked")
        await connect("revoked2", "", access_token=account.token)
        await account.call("POST", "logout/all", {})
        for instance in ("revoked", "revoked2"):
            await gateway.wait_for_state(instance, "close")
            data = await gateway.wait_for_event("CONNECTION_UPDATE", instance, state="close")
            assert data["statusReason"] == 401
            assert "ended the login" in data["message"]
        body = {"number": account.id, "text": "hello"}
        await gateway.call("POST", "message/sendText/revoked", body, status=409)
        # With the password, the next connect logs in anew.
        await gateway.call("GET", "instance/connect/revoked")
        await gateway.wait_for_state("revoked", "open")


async def test_two_instances_on_one_server(gateway: Gateway, connect: ConnectUser, synapse: Synapse) -> None:
    async with synapse.user("two-a") as a, synapse.user("two-b") as b:
        await connect("a", "two-a")
        await connect("b", "two-b")
        body = {"number": b.id, "text": "from a"}
        sent = await gateway.call("POST", "message/sendText/a", body, status=201)
        data = await gateway.wait_for_event("MESSAGES_UPSERT", "b", message={"conversation": "from a"})
        assert data["key"] == {**sent["key"], "fromMe": False, "participant": a.id}
        body = {"number": a.id, "text": "from b"}
        answered = await gateway.call("POST", "message/sendText/b", body, status=201)
        assert answered["key"]["remoteJid"] == sent["key"]["remoteJid"]  # not a second room
        await gateway.wait_for_event("MESSAGES_UPSERT", "a", message={"conversation": "from b"})


async def test_polls_and_what_has_no_kind(gateway: Gateway, connect: ConnectUser, synapse: Synapse) -> None:
    async with synapse.user("polls-bob") as bob, synapse.user("polls"):
        room = await direct_room(connect, bob, "polls", "polls")
        answers = [{"m.id": "y", "m.text": [{"body": "Yes"}]}, {"m.id": "n", "m.text": [{"body": "No"}]}]
        poll = {"m.poll": {"question": {"m.text": [{"body": "Open?"}]}, "answers": answers}}
        asked = await bob.say(room, poll, "m.poll.start")
        data = await gateway.wait_for_event("MESSAGES_UPSERT", "polls", messageType="pollCreationMessage")
        assert data["message"]["pollCreationMessage"]["name"] == "Open?"
        relation = {"rel_type": "m.reference", "event_id": asked}
        await bob.say(room, {"m.selections": ["n"], "m.relates_to": relation}, "m.poll.response")
        data = await gateway.wait_for_event("MESSAGES_UPSERT", "polls", messageType="pollUpdateMessage")
        assert data["message"]["pollUpdateMessage"]["vote"] == {"selectedOptions": ["No"]}
        order = {"items": [{"id": 7}]}
        id_ = await bob.say(room, order, "org.example.order")
        data = await gateway.wait_for_event("NETWORK_EVENT", "polls", name="org.example.order")
        value = data["value"]
        assert (value["event_id"], value["room_id"], value["content"]) == (id_, room, order)


async def test_an_upgraded_room_is_followed(gateway: Gateway, connect: ConnectUser, synapse: Synapse) -> None:
    async with synapse.user("up-bob") as bob, synapse.user("up") as account:
        await connect("up", "up", join_invites="all")
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
        body = {"number": room, "text": "to the old room"}
        sent = await gateway.call("POST", "message/sendText/up", body, status=201)
        assert sent["key"]["remoteJid"] == new
