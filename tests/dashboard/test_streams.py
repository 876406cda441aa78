"""Live parts of pages, over HTTP."""

from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager

import h11
import httpx
import msgspec
import pytest
import trio

from hookgw import Gateway
from hookgw.site import streams
from tests.dashboard.conftest import KEY, Browser, emit, set_webhook
from tests.public.app import Dashboard
from tests.public.auth import RequestQuota
from tests.public.kernel import StorageUnavailable
from tests.public.store import DeliveryPage, DeliveryQuery
from tests.public.web import ActiveRequests
from tests.public.web import AppApplication as Application
from tests.public.webhooks import parse_registration

LIVE = "/dashboard/live/instances"


class Events:
    """The events of a stream.

    Args:
        stream: has sent the request.
        connection: the state of the connection. httpx would leave its generators to the garbage collector.
    """

    def __init__(self, stream: trio.SocketStream, connection: h11.Connection) -> None:
        self._stream = stream
        self._connection = connection
        self._text = ""
        self.headers: dict[bytes, bytes] = {}

    async def head(self) -> h11.Response:
        """Return the head of the response."""
        head = await self._event()
        assert isinstance(head, h11.Response)
        self.headers = dict(head.headers)
        return head

    async def next(self) -> dict[str, str]:
        """Return the fields of the next event. Raise ``EOFError`` at the end of the stream."""
        with trio.fail_after(20):
            while True:
                text, end, rest = self._text.partition("\n\n")
                if end:
                    self._text = rest
                    fields: dict[str, str] = {}
                    for line in text.split("\n"):
                        name, _, value = line.partition(":")
                        fields[name] = f"{fields[name]}\n{value.strip()}" if name in fields else value.strip()
                    if fields.keys() - {"retry", ""}:
                        return fields
                    continue
                event = await self._event()
                match event:
                    case h11.Data():
                        self._text += bytes(event.data).decode()
                    case _:
                        raise EOFError

    async def _event(self) -> object:
        while (event := self._connection.next_event()) is h11.NEED_DATA:
            self._connection.receive_data(await self._stream.receive_some())
        return event


@asynccontextmanager
async def watching(browser: Browser, live: str = LIVE, **headers: str) -> AsyncIterator[Events]:
    url = browser.http.base_url
    assert url.port is not None
    async with await trio.open_tcp_stream(url.host, url.port) as stream:
        connection = h11.Connection(h11.CLIENT)
        given = [("host", "localhost"), ("cookie", browser.session), *headers.items()]
        request = h11.Request(method="GET", target=live, headers=given)
        await stream.send_all(connection.send(request) or b"")
        await stream.send_all(connection.send(h11.EndOfMessage()) or b"")
        events = Events(stream, connection)
        head = await events.head()
        assert head.status_code == 200
        assert (b"content-type", b"text/event-stream; charset=utf-8") in head.headers
        yield events


async def test_a_change_arrives(browser: Browser, gateway: Gateway) -> None:
    async with watching(browser) as events:
        assert "There are no instances yet." in (await events.next())["data"]
        await gateway.instances.create("loja1")
        assert ">loja1</a>" in (await events.next())["data"]


async def test_only_ends_of_lines_are_ends_of_lines(browser: Browser, gateway: Gateway) -> None:
    await gateway.instances.create("loja1")
    change, _ = parse_registration({"url": "https://a.example", "enabled": False}, gateway.catalog)
    await gateway.registrations.set("loja1", "default", change)
    found = gateway.registrations.get("loja1")
    reason = "one\u2028two\x85three\x0cfour\r\nfive"
    await gateway.registry.put(msgspec.structs.replace(found, disabled_reason=reason))
    async with watching(browser, "/dashboard/live/webhook/loja1/default") as events:
        assert reason.replace("\r", "") in (await events.next())["data"]


async def test_every_page_that_changes_has_a_live_part(browser: Browser, gateway: Gateway) -> None:
    await gateway.instances.create("loja1")
    await set_webhook(gateway)
    await emit(gateway)
    for path, text in {
        "overview": "pending",
        "log": "class=",
        "instance/loja1": "Newest deliveries",
        "webhook/loja1/default": "http://127.0.0.1:9/x",
        "delivery/loja1/evt": "pending",
        "deliveries": "CONNECTION_UPDATE",
        "lanes": "loja1 / default",
    }.items():
        async with watching(browser, f"/dashboard/live/{path}") as events:
            assert text in (await events.next())["data"]


async def test_a_browser_that_comes_back_gets_only_what_is_new(browser: Browser, gateway: Gateway) -> None:
    async with watching(browser) as events:
        seen = (await events.next())["id"]
    async with watching(browser, **{"last-event-id": seen}) as events:
        await gateway.instances.create("loja1")
        assert ">loja1</a>" in (await events.next())["data"]


async def test_streams_end_with_their_session(browser: Browser, gateway: Gateway) -> None:
    async with watching(browser) as events:
        await events.next()
        await browser.submit("/", "/logout")
        with trio.fail_after(20):
            while "event" not in (last := await events.next()):
                pass
        assert last["event"] == "ended"


async def test_streams_end_when_the_server_stops(browser: Browser, dashboard: Dashboard) -> None:
    async with watching(browser) as events:
        await events.next()
        dashboard.site.streams.close()
        with pytest.raises(EOFError):
            await events.next()


async def test_a_further_stream_of_a_session_replaces_its_oldest(browser: Browser) -> None:
    """Some proxies keep a stream open that its page has left."""
    async with watching(browser) as oldest, watching(browser) as second, watching(browser), watching(browser):
        await oldest.next()
        await second.next()
        async with watching(browser, "/dashboard/live/overview") as newest:
            assert "Five steps" in (await newest.next())["data"]
            assert (await oldest.next())["event"] == "replaced"
            with pytest.raises(EOFError):
                await oldest.next()
            async with watching(browser):
                assert (await second.next())["event"] == "replaced"


async def test_proxies_neither_store_nor_compress_a_stream(browser: Browser) -> None:
    async with watching(browser) as events:
        assert events.headers[b"cache-control"] == b"no-store, no-transform"
        assert events.headers[b"x-accel-buffering"] == b"no"


async def test_a_login_ends_the_streams_of_the_session_that_it_replaces(browser: Browser) -> None:
    async with watching(browser) as events:
        await events.next()
        assert (await browser.log_in(KEY)).status_code == 303
        assert (await events.next())["event"] == "ended"


async def test_the_number_of_streams_is_limited(
    browser: Browser, url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(streams, "MOST_STREAMS", 2)
    async with httpx.AsyncClient(base_url=url, trust_env=False, verify=False) as http:
        other = Browser(http)
        await other.log_in(KEY)
        async with watching(browser), watching(other):
            assert (await other.http.get(LIVE)).status_code == 429


async def test_one_instance_does_not_take_all_streams(
    browser: Browser, url: str, gateway: Gateway, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(streams, "MOST_OF_INSTANCE", 2)
    await gateway.instances.create("mine", token="key-of-mine")
    await gateway.instances.create("other", token="key-of-other")
    async with AsyncExitStack() as stack:
        first, second, other = [
            Browser(await stack.enter_async_context(httpx.AsyncClient(base_url=url, trust_env=False)))
            for _ in range(3)
        ]
        await first.log_in("key-of-mine")
        await second.log_in("key-of-mine")
        await other.log_in("key-of-other")
        async with watching(first):
            async with watching(second):
                assert (await first.http.get(LIVE)).status_code == 429
                assert (await second.http.get(LIVE)).status_code == 429
                async with watching(other), watching(browser), watching(browser), watching(browser):
                    pass
            async with watching(first):
                pass


async def test_a_stream_without_news_beats(browser: Browser, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(streams, "INTERVAL", 0.01)
    monkeypatch.setattr(streams, "HEARTBEAT", 0.02)
    async with watching(browser) as events:
        assert (await events.next())["data"]
        assert await events.next() == {"event": "beat", "data": ""}


@pytest.fixture
def six_streams(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(streams, "MOST_STREAMS", 6)
    monkeypatch.setattr(streams, "RESERVED", 2)


async def test_few_instances_do_not_take_all_streams(
    six_streams: None, browser: Browser, url: str, gateway: Gateway
) -> None:
    async with AsyncExitStack() as stack:
        tenants = []
        for name in ("a", "b", "c", "d"):
            await gateway.instances.create(name, token=f"key-of-{name}")
            http = await stack.enter_async_context(httpx.AsyncClient(base_url=url, trust_env=False))
            tenants.append(Browser(http))
            await tenants[-1].log_in(f"key-of-{name}")
        # Each may have as many as it leaves free.
        for tenant, most in zip(tenants, (2, 1, 1, 0), strict=True):
            for _ in range(most):
                await stack.enter_async_context(watching(tenant))
            assert (await tenant.http.get(LIVE)).status_code == 429
        for _ in range(2):
            await stack.enter_async_context(watching(browser))
        assert (await browser.http.get(LIVE)).status_code == 429


@pytest.mark.parametrize("page", ["instance/loja1", "instance/loja1?tab=webhooks", "webhook/loja1/default"])
async def test_a_later_instance_of_the_name_shows_nothing_of_the_former_one(
    browser: Browser, gateway: Gateway, page: str
) -> None:
    await gateway.instances.create("loja1")
    await set_webhook(gateway)
    async with watching(browser, f"/dashboard/live/{page}") as former:
        assert "http://127.0.0.1:9/x" in (await former.next())["data"]
        await gateway.instances.delete("loja1")
        await gateway.instances.create("loja1")
        change, _ = parse_registration({"url": "http://127.0.0.1:9/later"}, gateway.catalog)
        await gateway.registrations.set("loja1", "default", change)
        async with watching(browser, f"/dashboard/live/{page}") as later:
            shown = (await later.next())["data"]
    assert "http://127.0.0.1:9/x" not in shown
    assert "http://127.0.0.1:9/later" in shown


async def test_streams_are_no_requests_in_progress(
    visitor: Browser, app: Application, gateway: Gateway, monkeypatch: pytest.MonkeyPatch
) -> None:
    await gateway.instances.create("mine", token="key-of-mine")
    await visitor.log_in("key-of-mine")
    monkeypatch.setattr(app, "active", ActiveRequests(1))
    monkeypatch.setattr(app, "quota", RequestQuota(1, lambda _: None))
    async with watching(visitor) as events, watching(visitor):
        await events.next()
        assert (await visitor.get("/")).status_code == 200
    assert (await visitor.get("/")).status_code == 200


async def test_the_stream_of_an_instance_that_moves_ends_so_that_the_browser_connects_again(
    url: str, browser: Browser, gateway: Gateway, dashboard: Dashboard, monkeypatch: pytest.MonkeyPatch
) -> None:
    await gateway.instances.create("loja1")
    held = {"loja1"}
    monkeypatch.setattr(dashboard.site.streams, "_holds", held.__contains__)
    async with watching(browser, "/dashboard/live/instance/loja1") as events, watching(browser) as others:
        await events.next()
        await others.next()
        held.clear()
        with pytest.raises(EOFError):  # and no event that leads to the login
            await events.next()
        await gateway.instances.create("loja2")
        assert ">loja2</a>" in (await others.next())["data"]


@pytest.mark.parametrize("page", ["webhook/loja1/default", "deliveries?instance=loja1&label=default"])
async def test_the_stream_of_what_is_deleted_ends_so_that_its_page_says_so(
    browser: Browser, gateway: Gateway, page: str
) -> None:
    await gateway.instances.create("loja1")
    await set_webhook(gateway)
    async with watching(browser, f"/dashboard/live/{page}") as events:
        await events.next()
        await gateway.registrations.delete("loja1", "default")
        with pytest.raises(EOFError):
            await events.next()
    assert (await browser.get(f"/live/{page}")).status_code == 404


async def test_a_part_that_cannot_be_read_yet_leaves_its_page_as_it_is(
    browser: Browser, gateway: Gateway, monkeypatch: pytest.MonkeyPatch
) -> None:
    await gateway.instances.create("loja1")
    read, refusals = gateway.history.list, [StorageUnavailable("The disk is away.")]

    async def list_deliveries(query: DeliveryQuery) -> DeliveryPage:
        if refusals:
            raise refusals.pop()
        return await read(query)

    monkeypatch.setattr(gateway.history, "list", list_deliveries)
    async with watching(browser, "/dashboard/live/deliveries") as events:
        assert "<" in (await events.next())["data"]
