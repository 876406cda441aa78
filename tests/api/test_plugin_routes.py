"""Routes and request hooks of plugins that do everything wrong."""

from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import httpx
import pytest
import trio
from quart import Response, abort, request

import hookgw
from hookgw import Right
from hookgw.testing import GatewayKit, open_kit
from hookgw.web.server import response_memory
from tests.api.conftest import open_client, slow_request
from tests.public.kernel import StartError
from tests.public.web import NotJson, Routing
from tests.support.application import create_app
from tests.support.exceptions import stray_cancelled

pytestmark = pytest.mark.usefixtures("hookgw_clock")


async def raise_stray_cancelled() -> None:
    raise await stray_cancelled()


def raising(error: BaseException) -> Any:
    async def view() -> None:
        raise error

    return view


def returning(answer: Any) -> Any:
    async def view() -> Any:
        return answer

    return view


def plain() -> None:
    raise SystemExit(3)


FAILING = {
    "value": raising(ValueError("secret of another tenant")),
    "exit": raising(SystemExit(0)),
    "interrupt": raising(KeyboardInterrupt()),
    "cancelled": raise_stray_cancelled,
    "group": raising(BaseExceptionGroup("", [GeneratorExit(), ValueError()])),
    "plain": plain,
    "none": returning(None),
    "object": returning(object()),
    "status": returning(("text", "no status")),
    "interim": returning(("text", 199)),
    "beyond": returning(("text", 600)),
}
GOOD = {
    "text": (returning("fine"), 200),
    "made": (returning({"a": 1}), 200),
    "created": (returning(("fine", 201)), 201),
    "refused": (raising(hookgw.Invalid("no")), 400),
    "missing": (lambda: abort(404), 404),
}


class Plugin:
    def __init__(self, **hooks: Any) -> None:
        self.hooks = hooks

    @hookgw.hookimpl
    def hookgw_routes(self, app: Any) -> None:
        views = FAILING | {name: view for name, (view, _) in GOOD.items()}
        for name, view in views.items():
            app.add_url_rule(f"/public/{name}", name, view)
        for name, hook in self.hooks.items():
            getattr(app, name)(hook)


def client_of(kit: GatewayKit) -> httpx.AsyncClient:
    transport = httpx.ASGITransport(app=create_app(kit.gateway))
    return httpx.AsyncClient(transport=transport, base_url="http://test", headers={"apikey": kit.key})


async def test_whatever_a_route_does_is_its_own_failure(tmp_path: Path) -> None:
    async with open_kit(tmp_path, plugins={"mine": Plugin()}) as kit, client_of(kit) as client:
        for name in FAILING:
            response = await client.get(f"/public/{name}")
            assert response.status_code == 500, name
            assert response.json()["response"]["message"] == ["The plugin 'mine' failed; see hookgw's log."]
        assert [(one.plugin, one.hook) for one in kit.plugin_failures] == [("mine", "hookgw_routes")] * len(
            FAILING
        )
        for name, (_, status) in GOOD.items():
            assert (await client.get(f"/public/{name}")).status_code == status, name
        assert len(kit.plugin_failures) == len(FAILING)


async def test_a_streamed_body_that_breaks_off_is_the_failure_of_its_plugin_alone(
    tmp_path: Path, nursery: trio.Nursery
) -> None:
    endings = [ValueError("x"), SystemExit(0), KeyboardInterrupt(), await stray_cancelled(), None]

    async def stream() -> Response:
        async def parts() -> AsyncIterator[bytes]:
            # Its scope must outlive a part.
            with trio.CancelScope():
                yield b"first"
                await trio.lowlevel.checkpoint()
                if (ending := endings.pop(0)) is not None:
                    raise ending
                yield b" last"

        return Response(parts())

    class Streams:
        @hookgw.hookimpl
        def hookgw_routes(self, app: Any) -> None:
            app.add_url_rule("/public/stream", "stream", stream)

    async with (
        open_kit(tmp_path, plugins={"mine": Streams()}) as kit,
        open_client(create_app(kit.gateway), nursery) as client,
    ):
        for _ in endings[:-1]:
            with pytest.raises(httpx.RemoteProtocolError):
                await client.get("/public/stream")
        assert [(one.plugin, one.hook) for one in kit.plugin_failures] == [("mine", "hookgw_routes")] * 4
        assert (await client.get("/public/stream")).text == "first last"
        assert len(kit.plugin_failures) == 4


@pytest.mark.parametrize(("hook", "status"), [("before_request", 500), ("after_request", 200)])
async def test_a_failing_request_hook(tmp_path: Path, hook: str, status: int) -> None:
    async def fail(*_: object) -> Response:
        raise SystemExit(0)

    async with open_kit(tmp_path, plugins={"mine": Plugin(**{hook: fail})}) as kit, client_of(kit) as client:
        assert (await client.get("/event/kinds")).status_code == status
        assert [(one.plugin, one.hook) for one in kit.plugin_failures] == [("mine", "hookgw_routes")]


async def test_request_hooks_still_work(tmp_path: Path) -> None:
    async def add(response: Response) -> Response:
        response.headers["x-mine"] = "1"
        return response

    def refuse() -> Any:
        return {"no": True}, 418

    plugin = Plugin(after_request=add, before_request=refuse)
    async with open_kit(tmp_path, plugins={"mine": plugin}) as kit, client_of(kit) as client:
        response = await client.get("/public/text")
        assert (response.status_code, response.headers["x-mine"]) == (418, "1")
        assert kit.plugin_failures == []


@pytest.mark.parametrize("path", ["/dashboard", "/dashboard/", "/dashboard/a", "/dashboard/<instance>"])
async def test_a_route_of_the_dashboard_is_refused(tmp_path: Path, path: str) -> None:
    class Open:
        @hookgw.hookimpl
        def hookgw_routes(self, app: Any) -> None:
            app.add_url_rule("/dashboards", "near", plain)
            app.add_url_rule(path, "open", plain)

    async with open_kit(tmp_path, plugins={"mine": Open()}) as kit:
        with pytest.raises(StartError, match="which is the dashboard's: choose another path"):
            create_app(kit.gateway)


@pytest.mark.parametrize("path", ["/lane/list", "/lane/list/", "/webhook/find/<name>", "/public/text"])
async def test_a_route_that_would_never_be_called_is_refused(tmp_path: Path, path: str) -> None:
    class Late:
        @hookgw.hookimpl(trylast=True)
        def hookgw_routes(self, app: Any) -> None:
            app.add_url_rule("/webhook/find/<name>", "other_method", plain, methods=["DELETE"])
            app.add_url_rule(path, "hidden", plain)

    async with open_kit(tmp_path, plugins={"late": Late(), "mine": Plugin()}) as kit:
        with pytest.raises(StartError, match=f"GET {path} is a route of hookgw or of another plugin already"):
            create_app(kit.gateway)


async def test_an_optional_plugin_with_a_route_of_the_dashboard_is_switched_off(tmp_path: Path) -> None:
    class Open:
        @hookgw.hookimpl
        def hookgw_routes(self, app: Any) -> None:
            app.add_url_rule("/dashboard/a", "open", lambda: "open")

    settings = {"plugins": {"optional": ["open"]}}
    plugins = {"open": Open(), "mine": Plugin()}
    async with open_kit(tmp_path, plugins=plugins, settings=settings) as kit, client_of(kit) as client:
        assert (await client.get("/dashboard/a")).status_code == 404
        assert (await client.get("/public/text")).status_code == 200


@pytest.mark.parametrize("way", ["json", "form", "whole", "parts"])
async def test_a_former_tenant_cannot_finish_a_request_to_a_plugin_for_a_later_instance(
    way: str, tmp_path: Path, nursery: trio.Nursery
) -> None:
    received: list[object] = []

    @hookgw.describes("CRM", {200: NotJson("text/html", "A name.")}, needs=Right.SEND)
    async def take(instance: str) -> str:
        if way == "json":
            received.append(await request.get_json())
        elif way == "form":
            received.append(await request.form)
        elif way == "whole":
            received.append(await request.body)
        else:
            received.append([part async for part in request.body])
        return instance

    class Crm:
        @hookgw.hookimpl
        def hookgw_routes(self, app: Routing) -> None:
            app.add_url_rule("/crm/<instance>", view_func=take, methods=["POST"])

    form = "application/x-www-form-urlencoded"
    headers = {"content-type": form if way == "form" else "application/json"}
    async with (
        open_kit(tmp_path, plugins={"crm": Crm()}) as kit,
        open_client(create_app(kit.gateway), nursery, apikey=kit.key) as client,
    ):
        headers["apikey"] = (await kit.gateway.instances.create("loja1")).key
        async with slow_request(client, "/crm/loja1", "{}", **headers) as slow:
            assert (await slow.finish())[0] == 200
        assert len(received) == 1
        async with slow_request(client, "/crm/loja1", "{}", **headers) as slow:
            await kit.gateway.instances.delete("loja1")
            await kit.gateway.instances.create("loja1")
            assert (await slow.finish())[0] == 401
        assert len(received) == 1
        assert kit.plugin_failures == []


@pytest.mark.parametrize(
    "body",
    [b"", b"nothing", b"\xff\xfe[]", b'"\xed\xa0\x80"', b"[" * 100_000, b'{"a": 1, "a": 2}', b"1" * 5_000],
)
async def test_a_body_that_is_no_json_is_the_callers_mistake(body: bytes, tmp_path: Path) -> None:
    class Notes:
        @hookgw.hookimpl
        def hookgw_routes(self, app: Routing) -> None:
            @app.post("/public/strict")
            async def strict() -> str:
                return repr(await request.get_json(force=True))

            @app.post("/public/silent")
            async def silent() -> str:
                return repr(await request.get_json(silent=True))

            @app.post("/public/form")
            async def form() -> str:
                return repr(dict(await request.form))

    async with open_kit(tmp_path, plugins={"notes": Notes()}) as kit, client_of(kit) as client:
        refused = await client.post("/public/strict", content=body)
        assert (refused.status_code, refused.json()["response"]["errors"][0]["id"]) == (400, "body.refused")
        headers = {"content-type": "application/json"}
        assert (await client.post("/public/silent", content=body, headers=headers)).text == "None"
        assert (await client.post("/public/silent", content=b"[1]", headers=headers)).text == "[1]"
        assert (await client.post("/public/silent", content=b"[1]")).text == "None"  # not said to be JSON
        for kind in ("multipart/form-data; boundary=x", "application/x-www-form-urlencoded"):
            response = await client.post("/public/form", content=body, headers={"content-type": kind})
            assert response.status_code in (200, 400), kind
        assert kit.plugin_failures == []


async def test_the_value_of_a_body_is_decoded_once(tmp_path: Path) -> None:
    class Notes:
        @hookgw.hookimpl
        def hookgw_routes(self, app: Routing) -> None:
            @app.before_request
            async def note() -> None:
                (await request.get_json())["noted"] = True

            @app.post("/public/notes")
            async def notes() -> Any:
                return await request.get_json()

    async with open_kit(tmp_path, plugins={"notes": Notes()}) as kit, client_of(kit) as client:
        for size in (1, 100_000):
            response = await client.post("/public/notes", json={"a": "x" * size})
            assert response.json() == {"a": "x" * size, "noted": True}


async def test_a_route_that_reads_waits_for_memory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(response_memory, "PATIENCE", 0.0)  # the clock stands still
    async with open_kit(tmp_path, plugins={"mine": Plugin()}) as kit:
        app = create_app(kit.gateway)
        app.response_memory.change("others", 0, kit.gateway.settings.server.response_memory)
        transport = httpx.ASGITransport(app=app)
        async with httpx.AsyncClient(transport=transport, base_url="http://test") as client:
            response = await client.get("/public/text")
    assert (response.status_code, response.headers["retry-after"]) == (503, "5")
