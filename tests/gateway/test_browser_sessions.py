"""Sessions of browsers, through a running gateway."""

import time
from pathlib import Path

import pytest
import trio

from hookgw import Gateway
from hookgw.core import browser_sessions
from hookgw.testing import GatewayKit
from tests.public.app import open_gateway
from tests.public.auth import KeyHolder
from tests.public.concurrency import Clock
from tests.public.config import AuthSettings, Settings, StorageSettings
from tests.public.core import LINK_LIFETIME, MOST_LINKS
from tests.public.kernel import Forbidden, Size, Unauthorized
from tests.public.keys import PortalRequest


def holder(gateway: Gateway, key: str = GatewayKit.key) -> KeyHolder:
    found = gateway.keys.holder_of(key)
    assert found is not None
    return found


def stored(folder: Path) -> Settings:
    return Settings(
        storage=StorageSettings(path=str(folder / "hookgw.db"), min_free=Size(0)),
        auth=AuthSettings(global_key="the-global-key"),
    )


async def test_a_session_survives_a_restart(tmp_path: Path) -> None:
    settings = stored(tmp_path)
    async with open_gateway(settings, base=tmp_path) as gateway:
        kept = await gateway.sessions.begin(holder(gateway, "the-global-key"))
        ended = await gateway.sessions.begin(holder(gateway, "the-global-key"))
        await gateway.sessions.end((await gateway.sessions.find(ended)).session)
    # The token is nowhere in the file.
    assert kept.encode() not in (tmp_path / "hookgw.db").read_bytes()
    async with open_gateway(settings, base=tmp_path) as gateway:
        found = await gateway.sessions.find(kept)
        assert found.holder.principal.is_global
        with pytest.raises(Unauthorized):
            await gateway.sessions.find(ended)
    other = Settings(storage=settings.storage, auth=AuthSettings(global_key="another-global-key"))
    async with open_gateway(other, base=tmp_path) as gateway:
        with pytest.raises(Unauthorized):
            await gateway.sessions.find(kept)
        assert await gateway.store.load_sessions() == {}


async def test_a_key_has_a_limited_number_of_sessions(
    hookgw_gateway: GatewayKit, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(browser_sessions, "MOST_SESSIONS", 2)
    gateway = hookgw_gateway.gateway
    tokens = []
    for _ in range(3):
        tokens.append(await gateway.sessions.begin(holder(gateway)))
        await hookgw_gateway.advance(1)
    with pytest.raises(Unauthorized):
        await gateway.sessions.find(tokens[0])
    for token in tokens[1:]:
        await gateway.sessions.find(token)
    assert len(await gateway.store.load_sessions()) == 2


async def test_a_key_has_no_more_sessions_by_beginning_them_at_once(
    hookgw_gateway: GatewayKit, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(browser_sessions, "MOST_SESSIONS", 2)
    gateway = hookgw_gateway.gateway
    async with trio.open_nursery() as nursery:
        for _ in range(5):
            nursery.start_soon(gateway.sessions.begin, holder(gateway))
    assert len(await gateway.store.load_sessions()) == 2
    assert sorted(gateway.sessions.ids()) == sorted(await gateway.store.load_sessions())


async def test_a_session_that_another_node_has_ended_does_not_come_back(hookgw_gateway: GatewayKit) -> None:
    gateway = hookgw_gateway.gateway
    token = await gateway.sessions.begin(holder(gateway))
    session = (await gateway.sessions.find(token)).session
    await gateway.store.remove_sessions([session.id])  # this node has not heard of it
    await hookgw_gateway.advance(browser_sessions.NOTE_USE_EVERY + 1)
    await gateway.sessions.find(token)
    assert await gateway.store.load_sessions() == {}


async def test_a_session_ends_with_its_instance(hookgw_gateway: GatewayKit) -> None:
    gateway = hookgw_gateway.gateway
    await gateway.instances.create("loja1", token="key-of-loja1")
    token = await gateway.sessions.begin(holder(gateway, "key-of-loja1"))
    signed_in = await gateway.sessions.find(token)
    assert gateway.sessions.is_valid(signed_in)
    await gateway.instances.delete("loja1")
    assert not gateway.sessions.is_valid(signed_in)
    with pytest.raises(Unauthorized):
        await gateway.sessions.find(token)


async def test_a_session_does_not_come_back_with_a_key_of_the_same_value(tmp_path: Path) -> None:
    """Of an instance that is created again with its token, or of a document that is applied again."""
    settings = stored(tmp_path)
    token, value, tags = "key-of-loja1", "v" * 32, {"tenant": "acme"}
    wanted = PortalRequest(
        tags=tags, instances=None, rights=("read",), lifetime=3600.0, return_url="", opens="overview"
    )

    async def end_and_make_again(gateway: Gateway) -> None:
        await gateway.instances.delete("loja1")
        await gateway.instances.create("loja1", token=token)
        operator = holder(gateway, "the-global-key")
        await gateway.keys.revoke(None, "acme", by=operator)
        await gateway.keys.create(None, "acme", maker=operator, value=value, tags=tags)

    async with open_gateway(settings, base=tmp_path) as gateway:
        await gateway.instances.create("loja1", token=token)
        await gateway.keys.create(
            None, "acme", maker=holder(gateway, "the-global-key"), value=value, tags=tags
        )
        begun = [await gateway.sessions.begin(holder(gateway, one)) for one in (token, value)]
        links = [(await gateway.portal.make(holder(gateway, value), wanted))[0] for _ in range(2)]
        begun.append(await gateway.portal.open(links[0], browser="b"))
        for one in begun:
            await gateway.sessions.find(one)
        await end_and_make_again(gateway)
        for one in begun:
            with pytest.raises(Unauthorized):
                await gateway.sessions.find(one)
        with pytest.raises(Forbidden):
            await gateway.portal.open(links[1], browser="b")
    async with open_gateway(settings, base=tmp_path) as gateway:
        for one in begun:
            with pytest.raises(Unauthorized):
                await gateway.sessions.find(one)
        assert await gateway.store.load_sessions() == {}


async def test_a_key_signs_in_after_the_clock_was_set_back(tmp_path: Path) -> None:
    """Or at a node whose clock is behind that of the node that made the key."""
    now = time.time()
    async with open_gateway(stored(tmp_path), base=tmp_path, clock=Clock(lambda: now)) as gateway:
        await gateway.instances.create("loja1", token="key-of-loja1")
        now -= 3600
        token = await gateway.sessions.begin(holder(gateway, "key-of-loja1"))
        assert (await gateway.sessions.find(token)).holder.principal.instance == "loja1"


async def test_a_link_expires(hookgw_gateway: GatewayKit) -> None:
    gateway = hookgw_gateway.gateway
    link = gateway.sessions.issue_link(lambda: holder(gateway))
    await hookgw_gateway.advance(LINK_LIFETIME)
    with pytest.raises(Unauthorized):
        gateway.sessions.use_link(link)


async def test_old_links_make_room_for_new_ones(hookgw_gateway: GatewayKit) -> None:
    gateway = hookgw_gateway.gateway
    links = [gateway.sessions.issue_link(lambda: holder(gateway)) for _ in range(MOST_LINKS + 1)]
    with pytest.raises(Unauthorized):
        gateway.sessions.use_link(links[0])
    assert gateway.sessions.use_link(links[-1]).principal.is_global


async def test_a_link_of_a_revoked_key_opens_nothing(hookgw_gateway: GatewayKit) -> None:
    link = hookgw_gateway.gateway.sessions.issue_link(lambda: None)
    with pytest.raises(Unauthorized):
        hookgw_gateway.gateway.sessions.use_link(link)
