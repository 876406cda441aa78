"""Files inside events: who gets them, and what plugins see."""

import base64
from pathlib import Path
from typing import Any

import pytest

import hookgw
from hookgw.testing import FakeConnector, GatewayKit, open_kit, open_receiver
from tests.public.instances import load_media_key

pytestmark = pytest.mark.usefixtures("hookgw_clock")

FILE = base64.b64encode(b"\x89PNG").decode()
IMAGE = {"url": "https://hooks.example/media/shop/t", "mimetype": "image/png"}
WITHOUT: dict[str, Any] = {
    "key": {"remoteJid": "55@s.net", "fromMe": False, "id": "1"},
    "message": {"imageMessage": IMAGE},
    "messageTimestamp": 1,
}
WITH = {**WITHOUT, "message": {"imageMessage": IMAGE, "base64": FILE}}


class Seen:
    """Notes what a transform gets."""

    def __init__(self) -> None:
        self.payloads: dict[str, Any] = {}

    @hookgw.hookimpl
    def hookgw_transform(self, event: hookgw.Event, registration: hookgw.Registration) -> None:
        self.payloads[registration.label] = event.data


async def connect(kit: GatewayKit) -> None:
    await kit.gateway.instances.create("shop", integration="fake")
    await kit.gateway.instances.connect("shop")


async def test_a_file_inside_an_event_is_for_those_that_ask_for_it(tmp_path: Path) -> None:
    connector, seen = FakeConnector(), Seen()
    async with (
        open_receiver() as asking,
        open_receiver() as other,
        open_kit(tmp_path, plugins={"fake": connector, "seen": seen}) as kit,
    ):
        await connect(kit)
        session = connector.session("shop")
        await kit.register(other.url, label="other", events=("MESSAGES_UPSERT",))
        assert not session.wants_base64()
        await kit.register(asking.url, label="asking", events=("MESSAGES_UPSERT",), base64=True)
        assert session.wants_base64()
        await session.emit("MESSAGES_UPSERT", WITH)
        await kit.settled()
        assert seen.payloads == {"asking": WITH, "other": WITHOUT}
        # What a producer sends over HTTP is delivered as it came.
        await kit.emit("MESSAGES_UPSERT", WITH)
        await asking.wait_for(2)
        await other.wait_for(2)
        assert [event["data"] for event in asking.events()] == [WITH, WITH]
        assert [event["data"] for event in other.events()] == [WITHOUT, WITH]


async def test_a_file_that_nobody_asks_for_is_not_stored(tmp_path: Path) -> None:
    connector, seen = FakeConnector(), Seen()
    async with (
        open_receiver() as receiver,
        open_kit(tmp_path, plugins={"fake": connector, "seen": seen}) as kit,
    ):
        await connect(kit)
        await kit.register(receiver.url, events=("MESSAGES_UPSERT",))
        await connector.session("shop").emit("MESSAGES_UPSERT", WITH)
        await receiver.wait_for(1)
        await kit.register(receiver.url, events=("MESSAGES_UPSERT",), base64=True)
        session = connector.session("shop")
        large = {**WITH, "message": {"imageMessage": IMAGE, "base64": "A" * 2**20}}
        await session.emit("MESSAGES_UPSERT", large)
        await receiver.wait_for(2)
        assert [event["data"] for event in receiver.events()] == [WITHOUT, WITHOUT]
        assert 700_000 < session.base64_limit < 800_000
        fits = {**WITH, "message": {"imageMessage": IMAGE, "base64": "A" * (session.base64_limit // 3 * 4)}}
        await session.emit("MESSAGES_UPSERT", fits)
        await receiver.wait_for(3)
        assert receiver.events()[2]["data"] == fits


async def test_a_disabled_registration_asks_for_nothing(tmp_path: Path) -> None:
    connector = FakeConnector()
    async with open_kit(tmp_path, plugins={"fake": connector}) as kit:
        await connect(kit)
        await kit.register("http://127.0.0.1:9/", base64=True, enabled=False)
        assert not connector.session("shop").wants_base64()


async def test_a_damaged_key_is_replaced(hookgw_gateway: GatewayKit) -> None:
    store = hookgw_gateway.gateway.store
    key = await load_media_key(store)
    assert await load_media_key(store) == key
    for damaged in ("AAAA", "not base64!", 5):
        await store.put_value("media.key", damaged)
        replaced = await load_media_key(store)
        assert (len(replaced), await load_media_key(store)) == (32, replaced)
        assert replaced != key
