"""The search for servers of connectors: whom it asks, and what it says of the answers."""

from collections import Counter
from collections.abc import Callable
from typing import Any

import httpx
import pytest
import trio
from trio.testing import MockClock

from hookgw.testing import answer, open_receiver
from tests.public.config import DeliverySettings, ServerSettings, Settings, load_settings
from tests.public.delivery import OutboundHttp
from tests.public.instances import CANDIDATES, FoundServer, ServerSearch

ALL = ("waha", "gowa", "evolution")
PONG = httpx.Response(200, json={"message": "pong"})
EVOLUTION = httpx.Response(
    200, json={"status": 200, "message": "Welcome to the Evolution API, it is working!", "version": "2.3.7"}
)
GOWA = httpx.Response(
    200,
    json={"code": "SUCCESS", "results": {"version": "v9.0.0", "base_path": "", "chatwoot_enabled": False}},
)
CHALLENGE = httpx.Response(401, headers={"www-authenticate": 'Basic realm="Restricted", charset="UTF-8"'})


class Network:
    """Answers by ``host:port/path``, and counts requests; everything else cannot be reached."""

    def __init__(self, **answers: httpx.Response) -> None:
        self.answers = answers
        self.asked: list[httpx.Request] = []
        self.hangs: set[str] = set()

    async def __call__(self, request: httpx.Request) -> httpx.Response:
        self.asked.append(request)
        place = f"{request.url.host}:{request.url.port}"
        if place in self.hangs:
            await trio.sleep_forever()
        found = self.answers.get(place + request.url.path)
        if found is None:
            raise httpx.ConnectError("nobody listens")
        return found


def search_of(
    network: Network,
    *,
    connectors: tuple[str, ...] = ALL,
    listed: Callable[[str], Any] = lambda _: (),
    settings: Settings | None = None,
) -> ServerSearch:
    http = httpx.AsyncClient(transport=httpx.MockTransport(network))
    return ServerSearch(http, connectors, listed, settings or Settings())


async def test_each_product_is_known_by_what_it_tells_a_stranger() -> None:
    network = Network(
        **{
            "waha:3000/ping": PONG,
            "gowa:3000/app/info": GOWA,
            "evolution:8080/": EVOLUTION,
            "127.0.0.1:3000/app/info": CHALLENGE,
            "127.0.0.1:3000/ping": CHALLENGE,
        }
    )
    found = await search_of(network).find()
    assert [(one.connector, one.url, one.version) for one in found] == [
        ("waha", "http://waha:3000", None),
        ("gowa", "http://gowa:3000", "v9.0.0"),
        ("evolution", "http://evolution:8080", "2.3.7"),
        ("gowa", "http://127.0.0.1:3000", None),
    ]


async def test_it_asks_fixed_places_at_most_twice_and_tells_them_nothing() -> None:
    network = Network()
    assert await search_of(network).find() == []
    asked = Counter(f"{request.url.host}:{request.url.port}" for request in network.asked)
    assert asked.keys() == {f"{host}:{port}" for _, host, port in CANDIDATES}
    assert max(asked.values()) <= 2
    for request in network.asked:
        assert (request.method, request.content) == ("GET", b"")
        assert not request.headers.keys() & {"authorization", "cookie", "apikey", "x-api-key"}


@pytest.mark.parametrize(
    "odd",
    [
        httpx.Response(302, headers={"location": "http://10.0.0.1/ping"}),
        httpx.Response(200, content=b"{" * 10),
        httpx.Response(200, json=["pong"]),
        httpx.Response(200, json={"message": 5, "results": 5, "version": []}),
        httpx.Response(200, json={"message": "pong"}, headers={"x-hookgw-version": "1.0"}),
        httpx.Response(401, headers={"www-authenticate": 'Basic realm="router"'}),
        httpx.Response(200, content=b" " * 100_000 + b'{"message": "pong"}'),
    ],
)
async def test_what_is_something_else_is_not_named(odd: httpx.Response) -> None:
    network = Network(
        **{
            f"{host}:{port}{path}": odd
            for _, host, port in CANDIDATES
            for path in ("/", "/ping", "/app/info")
        }
    )
    assert await search_of(network).find() == []
    assert {request.url.host for request in network.asked} == {host for _, host, _ in CANDIDATES}


async def test_a_place_has_a_second(autojump_clock: MockClock) -> None:
    network = Network(**{"waha:3000/ping": PONG})
    network.hangs = {"gowa:3000", "127.0.0.1:3000"}
    start = trio.current_time()
    found = await search_of(network).find()
    assert [one.url for one in found] == ["http://waha:3000"]
    assert trio.current_time() - start == 1


@pytest.mark.parametrize("public_url", [None, "https://hooks.example"])
@pytest.mark.parametrize("connector", ALL)
async def test_the_lines_are_a_configuration(connector: str, public_url: str | None, tmp_path: Any) -> None:
    places = {"waha": "waha:3000/ping", "gowa": "gowa:3000/app/info", "evolution": "evolution:8080/"}
    answers = {"waha": PONG, "gowa": GOWA, "evolution": EVOLUTION}
    network = Network(**{places[connector]: answers[connector]})
    settings = Settings(server=ServerSettings(public_url=public_url))
    [found] = await search_of(network, settings=settings).find()
    file = tmp_path / "config.yaml"
    file.write_text(found.configuration, encoding="utf-8")
    variables = {"WAHA_API_KEY": "k", "GOWA_PASSWORD": "p", "AUTHENTICATION_API_KEY": "k"}
    read = load_settings(file, variables)
    assert read.plugins.options[connector]["base_url"] == found.url
    assert read.plugins.options[connector]["servers"] == [found.url]
    assert read.instances.integrations == {"WHATSAPP-BAILEYS": connector}
    assert (read.server.public_url is None) is (public_url is not None)


async def test_a_listed_server_needs_no_lines() -> None:
    network = Network(**{"waha:3000/ping": PONG})
    [found] = await search_of(network, listed=lambda name: {("http", name, 3000)}).find()
    assert found == FoundServer("waha", "http://waha:3000", None, True, "")


async def test_nobody_is_asked_for_a_connector_that_the_gateway_lacks() -> None:
    network = Network()
    await search_of(network, connectors=("evolution",)).find()
    assert {request.url.port for request in network.asked} == {8080}


async def test_hookgw_never_asks_itself() -> None:
    async with open_receiver(default=answer(200, b'{"message": "pong"}')) as receiver:
        origin = ("http", "127.0.0.1", httpx.URL(receiver.url).port or 80)
        for is_own in (False, True):
            outbound = OutboundHttp(DeliverySettings())
            outbound.own_addresses.listen_on([receiver.url] if is_own else [])
            async with outbound.connector_clients({"x": [origin]})["x"].http as http:
                if not is_own:
                    assert (await http.get(receiver.url)).status_code == 200
                    continue
                with pytest.raises(httpx.ConnectError, match="hookgw itself listens there"):
                    await http.get(receiver.url)
