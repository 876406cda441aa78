"""Lists and pages of two nodes, asked of each: the answers are the same."""

import re
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import h11
import httpx
import pytest
import trio

from hookgw import Gateway
from hookgw.testing import answer, open_receiver
from hookgw.web import forwarding
from tests.dashboard.conftest import Browser
from tests.dashboard.test_streams import Events, watching
from tests.gateway.fleet.test_two_nodes import KEY, OF_A, OF_B, Node, settings_of, settled
from tests.public.app import Dashboard, open_gateway
from tests.public.web import serve
from tests.support.application import create_app
from tests.support.ports import free_port
from tests.support.postgres import PostgresServer

OF_NODE = {"/metrics", "/node/list", "/readyz", "/docs"}
"""What a node says of itself, and a page of many bytes."""
VARIES = re.compile(r'"headAge":[0-9.]+|"backlog":{[^}]*}|"oldestPending":[^,}]*')
"""Ages, and what is pending of an instance: nodes tell each other after a moment what they count."""


@asynccontextmanager
async def node(postgres: PostgresServer, schema: str, name: str, folder: Path) -> AsyncIterator[Node]:
    """Run a node with its dashboard for the length of a block."""
    settings = settings_of(postgres, schema, name, free_port())
    dashboards: list[Dashboard] = []

    def prepare(gateway: Gateway) -> None:
        dashboards.append(Dashboard(gateway))

    async with (
        open_gateway(settings, base=folder, prepare=prepare) as gateway,
        httpx.AsyncClient(trust_env=False, verify=False) as http,
        trio.open_nursery() as nursery,
    ):
        app = create_app(gateway, dashboards[0].blueprint)
        [url] = await nursery.start(serve, app, settings.server, None, lambda _: None)
        nursery.start_soon(app.hold_streams)
        nursery.start_soon(dashboards[0].run)
        yield Node(gateway, url, http, nursery.cancel_scope)
        nursery.cancel_scope.cancel()


@asynccontextmanager
async def browser_of(node: Node) -> AsyncIterator[Browser]:
    """Open a browser that looks at one node."""
    async with httpx.AsyncClient(base_url=node.url, trust_env=False, verify=False) as http:
        yield Browser(http)


@asynccontextmanager
async def two_nodes(postgres: PostgresServer, schema: str, folder: Path) -> AsyncIterator[tuple[Node, Node]]:
    """Run two nodes with half of the shards each."""
    async with node(postgres, schema, "a", folder) as a, node(postgres, schema, "b", folder) as b:
        await settled(a.gateway, b.gateway)
        yield a, b


async def same_answers(a: Node, b: Node) -> None:
    """Ask both nodes for everything that can be read of each instance."""
    listed = await a.call("GET", f"/delivery/list/{OF_A}")
    newest = listed["deliveries"][0]
    filled = {"label": "default", "id": newest["id"], "name": "default", "job": "job_1"}
    filled["event_id"] = newest["eventId"]
    document = await a.call("GET", "/openapi.json")
    paths = [path for path, methods in document["paths"].items() if "get" in methods]
    asked = [
        path.format_map({**filled, "instance": name})
        for path in paths
        # A diagnosis has ages in its sentences, and the manual has the node's address.
        if not path.startswith("/docs")
        and path not in OF_NODE
        and "token" not in path
        and "diagnosis" not in path
        for name in (OF_A, OF_B)
    ]
    assert len(asked) >= 60
    for path in dict.fromkeys(asked):
        of_a, of_b = [await node.http.get(node.url + path, headers={"apikey": KEY}) for node in (a, b)]
        assert of_a.status_code == of_b.status_code, path
        assert VARIES.sub("", of_a.text) == VARIES.sub("", of_b.text), path
        assert sorted(of_a.headers) == sorted(of_b.headers), path


async def no_more(events: Events) -> None:
    """Wait for the end of a stream, which must not lead to the login."""
    while True:
        assert "event" not in await events.next()


def without_ages(lanes: list[dict[str, Any]]) -> list[dict[str, Any]]:
    return [{name: value for name, value in lane.items() if name != "headAge"} for lane in lanes]


async def test_every_node_shows_all_of_them(postgres: PostgresServer, schema: str, tmp_path: Path) -> None:
    async with open_receiver() as receiver, two_nodes(postgres, schema, tmp_path) as (a, b):
        receiver.default = answer(500)
        for name in (OF_A, OF_B):
            await a.call("POST", "/instance/create", {"instanceName": name}, status=201)
            hook = {"url": receiver.url, "retry": {"schedule": ["1h"]}}
            await a.call("POST", f"/webhook/set/{name}", hook, status=201)
            data = {"instance": name, "state": "open", "wuid": f"{name}@s.whatsapp.net"}
            # One of them accepts it for the other one, and tells it.
            update = {"event": "CONNECTION_UPDATE", "data": data}
            await a.call("POST", f"/event/emit/{name}", update, status=202)
        with trio.fail_after(10):
            await receiver.wait_for(2)
            for name in (OF_A, OF_B):
                state = None
                while state != "open":
                    await trio.sleep(0.02)
                    found = await b.call("GET", f"/instance/connectionState/{name}")
                    state = found["instance"]["state"]
            lanes: list[dict[str, Any]] = []
            while [lane["state"] for lane in lanes] != ["waiting", "waiting"]:
                await trio.sleep(0.05)
                lanes = await a.call("GET", "/lane/list")
        assert {lane["instance"]: lane["node"] for lane in lanes} == {
            name: "a" if a.gateway.fleet is not None and a.gateway.fleet.holds(name) else "b"
            for name in (OF_A, OF_B)
        }
        assert without_ages(await b.call("GET", "/lane/list")) == without_ages(lanes)
        for asked in (a, b):
            listed = await asked.call("GET", "/instance/fetchInstances")
            assert [(one["connectionStatus"], one["ownerJid"]) for one in listed] == [
                ("open", f"{name}@s.whatsapp.net") for name in sorted((OF_A, OF_B))
            ]
            [one] = await asked.call("GET", f"/instance/fetchInstances?instanceName={OF_B}")
            assert one["connectionStatus"] == "open"
        await same_answers(a, b)
        async with browser_of(a) as on_a, browser_of(b) as on_b:
            assert (await on_a.log_in(KEY)).status_code == 303
            # Signed in on a, at once, and b knows the session.
            on_b.http.cookies = on_a.http.cookies
            pages: dict[str, list[int]] = {}
            for browser in (on_b, on_a):
                overview = (await browser.get("/")).text
                for name in (OF_A, OF_B):
                    assert f"Webhook default of {name}" in overview
                assert ">2</data></b>instances" in overview
                assert "this node" in overview
                for path in ("/instances", "/lanes"):
                    page = (await browser.get(path)).text
                    assert OF_A in page
                    assert OF_B in page
                    pages.setdefault(path, []).append(page.count("open") if path == "/instances" else 0)
            assert pages["/instances"][0] == pages["/instances"][1]


async def test_what_a_browser_does_on_any_node(
    postgres: PostgresServer, schema: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with open_receiver() as receiver, two_nodes(postgres, schema, tmp_path) as (a, b):
        for name in (OF_A, OF_B):
            await a.call("POST", "/instance/create", {"instanceName": name}, status=201)
            await a.call("POST", f"/webhook/set/{name}", {"url": receiver.url}, status=201)
            await a.call(
                "POST", f"/event/emit/{name}", {"event": "CALL", "data": {}, "id": f"id-{name}"}, status=202
            )
        with trio.fail_after(10):
            await receiver.wait_for(2)
        async with browser_of(a) as on_a, browser_of(b) as on_b:
            assert (await on_a.log_in(KEY)).status_code == 303
            on_b.http.cookies = on_a.http.cookies
            for number, browser in enumerate((on_a, on_b)):
                # Forms that name their instance in the body.
                for name in (OF_A, OF_B):
                    made = {"name": f"{name}{number}", "integration": ""}
                    assert (await browser.submit("/instances", "/new-instance", made)).status_code == 201
                    replay = {"instance": name, "replay_since": "1h", "replay_state": "all", "confirmed": "1"}
                    replayed = await browser.submit("/deliveries", "/deliveries/replay", replay)
                    assert replayed.headers["location"].endswith("done=replayed")
                    resumed = await browser.submit("/lanes", "/lanes/resume", {"webhook": f"{name}/default"})
                    assert resumed.headers["location"].endswith("done=resumed")
                # One form for deliveries of both nodes.
                ticked = [f"{OF_A}/id-{OF_A}", f"{OF_B}/id-{OF_B}"]
                with trio.fail_after(10):
                    resent = None
                    while resent is None or resent.status_code == 409:  # a replay is under way
                        resent = await browser.submit(
                            "/deliveries", "/deliveries/resend", {"delivery": ticked}
                        )
                assert resent.headers["location"].endswith("done=resent"), resent.text
                refused = await browser.submit(
                    "/deliveries", "/deliveries/resend", {"delivery": [f"{OF_A}/dlv_0", f"{OF_B}/dlv_0"]}
                )
                for name in (OF_A, OF_B):
                    assert f"The instance &#39;{name}&#39; has no delivery &#39;dlv_0&#39;" in refused.text
                # Another site's form is refused on every node, and so is one without its token.
                foreign = await browser.http.post(
                    "/dashboard/new-instance", data={"name": "x"}, headers={"origin": "http://evil.example"}
                )
                assert foreign.status_code == 403
                assert (
                    await browser.http.post("/dashboard/new-instance", data={"name": "x"})
                ).status_code == 403
                # A node by its name.
                assert "<dd>b</dd>" in (await browser.get("/system?node=b")).text
                assert (await browser.get("/system?node=c")).status_code == 404
                for name in (OF_A, OF_B):
                    head = await browser.http.head(f"/webhook/find/{name}", headers={"apikey": KEY})
                    assert (head.status_code, head.content) == (200, b"")
                # Streams of both instances; the far one passes through this node.
                for name in (OF_A, OF_B):
                    async with watching(browser, f"/dashboard/live/instance/{name}") as events:
                        assert "Newest deliveries" in (await events.next())["data"]
            far = OF_A if b.gateway.fleet is not None and b.gateway.fleet.holds(OF_A) else OF_B
            who = await a.call("GET", f"/audit/list/{OF_B}?action=delivery.resend")
            assert {entry["actor"]["via"] for entry in who["entries"]} == {"dashboard"}
            with monkeypatch.context() as patched:
                patched.setattr(forwarding, "MOST_STREAMS", 0)
                assert (await on_a.get(f"/live/instance/{far}")).status_code == 429
            # The nodes refuse what one signs whose clock is wrong: that is said.
            assert "clock may be wrong" not in (await on_a.get("/")).text
            with monkeypatch.context() as patched:
                wall = b.gateway.clock.wall
                patched.setattr(b.gateway.clock, "wall", lambda: wall() + 7200)
                shown = (await on_a.get("/")).text
                assert "The node b does not answer" in shown
                assert "A clock may be wrong" in shown
            # The node behind a stream stops: the stream ends without an event that leads to the login.
            async with watching(on_a, f"/dashboard/live/instance/{far}") as events:
                await events.next()
                b.scope.cancel()
                with trio.fail_after(10), pytest.raises((EOFError, h11.RemoteProtocolError)):
                    await no_more(events)
            # It is named, and what it alone knows is unknown.
            listed = await a.http.get(f"{a.url}/lane/list", headers={"apikey": KEY})
            assert listed.headers["hookgw-silent-nodes"] == "b"
            assert "The node b does not answer" in (await on_a.get("/")).text
            assert "The node b does not answer" in (await on_a.get("/instances")).text
            listed = await a.http.get(f"{a.url}/instance/fetchInstances", headers={"apikey": KEY})
            reasons = {one["name"]: one.get("disconnectionReason") for one in listed.json()}
            assert reasons[far] == "Its node does not answer, or it moves to another node."
            gone = await on_a.get(f"/instances/{far}")
            assert (gone.status_code, gone.headers["refresh"]) == (503, "1")


async def test_the_codes_of_all_nodes_are_on_one_page(
    postgres: PostgresServer, schema: str, tmp_path: Path
) -> None:
    async with two_nodes(postgres, schema, tmp_path) as (a, b):
        for name in (OF_A, OF_B):
            code = {"integration": "simulator", "connect_delay": "1d", "qrcode": True}
            await a.call("POST", "/instance/create", {"instanceName": name, **code}, status=201)
        for asked in (a, b):
            with trio.fail_after(10):
                while len((await asked.gateway.views.codes(None)).codes) < 2:  # noqa: ASYNC110
                    await trio.sleep(0.05)
            assert [one.instance for one in (await asked.gateway.views.codes((OF_B,))).codes] == [OF_B]
            async with browser_of(asked) as browser:
                await browser.log_in(KEY)
                assert "2 accounts wait for a scan." in (await browser.get("/")).text
                for name in (OF_A, OF_B):
                    page = (await browser.get(f"/codes?at={name}")).text
                    assert f">{name}</a></h2>" in page
                    assert 'alt="QR code"' in page
