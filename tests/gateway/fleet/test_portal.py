"""Portal links, and people whom a proxy names, at two nodes."""

from pathlib import Path
from typing import Any

import msgspec
import pytest
import trio

from tests.dashboard.test_portal import enter
from tests.gateway.fleet import test_views
from tests.gateway.fleet.test_peer_calls import fail_to_read
from tests.gateway.fleet.test_two_nodes import OF_A, OF_B, Node, settings_of
from tests.gateway.fleet.test_views import browser_of, two_nodes
from tests.public.config import Settings
from tests.support.postgres import PostgresServer

ANA = "ana@acme.example"


async def create_instances(node: Node) -> None:
    for name in (OF_A, OF_B):
        body = {"instanceName": name, "tags": {"tenant": name}}
        await node.call("POST", "/instance/create", body, status=201)


async def test_a_link_is_opened_once_at_any_node(
    postgres: PostgresServer, schema: str, tmp_path: Path
) -> None:
    statuses: list[int] = []

    async def open_at(node: Node, url: str) -> None:
        async with browser_of(node) as browser:
            statuses.append((await enter(browser, url)).status_code)

    async with two_nodes(postgres, schema, tmp_path) as (a, b):
        await create_instances(a)
        asked = {"tags": {"tenant": OF_A}}
        for maker, opener in ((a, b), (b, a)):
            url = (await maker.call("POST", "/portal/link", asked, status=201))["url"]
            async with trio.open_nursery() as nursery:
                for node in (a, b, a, b):
                    nursery.start_soon(open_at, node, url)
            assert sorted(statuses) == [303, 403, 403, 403]
            statuses.clear()
            url = (await maker.call("POST", "/portal/link", asked, status=201))["url"]
            async with browser_of(opener) as browser:
                assert (await enter(browser, url)).status_code == 303
                # Its session lasts at all nodes, and shows the account wherever that is.
                for node in (a, b):
                    async with browser_of(node) as elsewhere:
                        elsewhere.http.headers["cookie"] = browser.session
                        assert (await elsewhere.get(f"/instances/{OF_A}")).status_code == 200
                        assert (await elsewhere.get(f"/instances/{OF_B}")).status_code == 403
            await open_at(maker, url)
            assert statuses == [403]
            statuses.clear()


async def test_each_node_knows_whom_the_proxy_of_another_names(
    postgres: PostgresServer, schema: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def with_people(*arguments: Any) -> Settings:
        settings = settings_of(*arguments)
        auth = msgspec.structs.replace(
            settings.auth, proxy_header="x-forwarded-user", users={ANA: "configuration"}
        )
        # Only the first node has the proxy in front of it.
        proxies = ("127.0.0.1",) if arguments[2] == "a" else ("192.0.2.1",)
        server = msgspec.structs.replace(settings.server, trusted_proxies=proxies)
        return msgspec.structs.replace(settings, auth=auth, server=server)

    monkeypatch.setattr(test_views, "settings_of", with_people)
    async with two_nodes(postgres, schema, tmp_path) as (a, b):
        await create_instances(a)
        headers = {"accept": "text/html", "x-forwarded-user": ANA}
        async with browser_of(a) as browser:
            for name in (OF_A, OF_B):
                page = await browser.get(f"/instances/{name}", headers=headers)
                assert (page.status_code, ANA in page.text) == (200, True)
            # The second node does not believe the header of a request that comes to itself.
            async with browser_of(b) as stranger:
                assert (await stranger.get("/", headers=headers)).status_code == 303
            # Nor that of somebody else with her cookie.
            other = await browser.get(f"/instances/{OF_B}", headers=headers | {"x-forwarded-user": "eve"})
            assert other.status_code == 403


async def test_a_browser_keeps_its_session_at_a_node_that_cannot_look_it_up(
    postgres: PostgresServer, schema: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with two_nodes(postgres, schema, tmp_path) as (a, _), browser_of(a) as browser:
        assert (await browser.log_in("made-elsewhere")).status_code == 401
        url = "https://hookgw.example/dashboard/portal#made-elsewhere"
        assert (await enter(browser, url)).status_code == 403
        name = f"hookgw_session_{a.gateway.sessions.installation}"
        browser.http.headers["cookie"] = f"{name}=made-elsewhere"
        asked = await browser.get("/")
        assert (asked.status_code, name in asked.headers["set-cookie"]) == (303, True)
        monkeypatch.setattr(a.gateway.refresh, "catch_up", fail_to_read)
        asked = await browser.get("/")
        assert (asked.status_code, "retry-after" in asked.headers) == (503, True)
        assert "set-cookie" not in asked.headers
        del browser.http.headers["cookie"]
        for page in (asked, await browser.log_in("made-elsewhere"), await enter(browser, url)):
            assert page.status_code == 503
            assert "cannot be asked for it now" in page.text
            assert "db.internal" not in page.text
