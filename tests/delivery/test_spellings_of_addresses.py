"""One address in spellings that rules make: everybody who could dial it says no, and says it alike.

The readers are the guard itself, the clients of connectors with a listed server, the fetching of tenants'
files, the proxy, and the warning of ``set``. A server of the operator's listens at the address, and counts.
"""

import socket
from collections.abc import Callable

import httpx
import pytest
import trio
from hypothesis import example, given, settings
from hypothesis import strategies as st

from hookgw import Invalid, Registration
from tests.delivery.http.raw_receiver import Server, always_ok, serving
from tests.public.config import DeliverySettings, parse_proxy
from tests.public.delivery import AddressGuard, AnswerMemory, Blocked, ConnectorClients, Dialer, OutboundHttp
from tests.public.kernel import parse_target
from tests.support.proxies import LittleProxy, http_proxy, open_proxy

LOOPBACK = 0x7F000001
FULL_WIDTH = {ord(one): ord(one) + 0xFEE0 for one in "0123456789abcdefxABCDEFX."}
CIRCLED = {ord("0"): "⓪", **{ord(str(digit)): chr(0x2460 + digit - 1) for digit in range(1, 10)}}
DOTS = ".．。｡"
USERS = ("", "user@", "a:b@", "example.com@", "example.com:80@", "%40@", "8.8.8.8@")


def number(value: int, base: int, zeros: int, upper: bool) -> str:
    text = {8: f"0{value:o}", 10: str(value), 16: f"0x{'0' * zeros}{value:x}"}[base]
    return text.upper() if upper else text


@st.composite
def ipv4_texts(draw: st.DrawFn, value: int = LOOPBACK) -> str:
    """As inet_aton reads it: one to four numbers, each in any base, the last one for all remaining bytes."""
    count = draw(st.integers(1, 4))
    numbers = [value >> (24 - 8 * place) & 0xFF for place in range(count - 1)]
    numbers.append(value & (256 ** (5 - count) - 1))
    labels = [
        number(one, draw(st.sampled_from((8, 10, 16))), draw(st.integers(0, 3)), draw(st.booleans()))
        for one in numbers
    ]
    return ".".join(labels) + draw(st.sampled_from(("", ".")))


def percent(text: str, chosen: Callable[[], bool]) -> str:
    return "".join("".join(f"%{byte:02X}" for byte in one.encode()) if chosen() else one for one in text)


@st.composite
def disguised_ipv4(draw: st.DrawFn) -> str:
    text = draw(ipv4_texts())
    letters = draw(st.sampled_from(("as it is", "full width", "circled", "dots")))
    if letters == "full width":
        text = text.translate(FULL_WIDTH)
    elif letters == "circled":
        text = text.translate(CIRCLED)
    elif letters == "dots":
        text = "".join(draw(st.sampled_from(DOTS)) if one == "." else one for one in text)
    if draw(st.booleans()):
        text = percent(text, lambda: draw(st.booleans()))
    return text


@st.composite
def embedded_ipv4(draw: st.DrawFn) -> str:
    """IPv4 in IPv6: mapped, compatible, translated (two prefixes), 6to4 and ISATAP."""
    high, low = LOOPBACK >> 16, LOOPBACK & 0xFFFF
    hexadecimal = draw(st.sampled_from((f"{high:x}:{low:x}", f"{high:04x}:{low:04x}")))
    tail = draw(st.sampled_from((hexadecimal, "127.0.0.1")))
    prefix = draw(
        st.sampled_from(
            ("::ffff:", "::", "::ffff:0:", "64:ff9b::", "0:0:0:0:0:ffff:", "2606:4700::5efe:", "64:ff9b:1::")
        )
    )
    text = draw(st.sampled_from((f"{prefix}{tail}", f"2002:{hexadecimal}::", "::1", "::", "0:0:0:0:0:0:0:1")))
    return f"[{text.upper() if draw(st.booleans()) else text}]"


@st.composite
def origins(draw: st.DrawFn) -> str:
    """Everything of a URL before the port."""
    scheme = draw(st.sampled_from(("http://", "HTTP://", "hTtP://")))
    host = draw(st.one_of(disguised_ipv4(), embedded_ipv4()))
    return f"{scheme}{draw(st.sampled_from(USERS))}{host}"


@settings(max_examples=150, deadline=None)
@given(origins())
@example("http://2130706433")
@example("http://127.1")
@example("http://0x7f000001")
@example("http://127.0.0.1.")
@example("http://%31%32%37.0.0.1")
@example("http://127.0.0.1")
def test_no_spelling_reaches_a_server_of_the_operators(origin: str) -> None:
    async def main() -> None:
        async with serving(always_ok) as server, open_proxy(http_proxy, reaches=server.port) as proxy:
            await ask_everybody(f"{origin}:{server.port}/", server, proxy)

    trio.run(main)


async def ask_everybody(url: str, server: Server, proxy: LittleProxy) -> None:
    guard = AddressGuard()
    target = parse_target(url)  # all of these are URLs that a browser understands
    with trio.fail_after(10):
        assert guard.refusal(target.host, target.port)
        # The proxy is not even asked.
        through = Dialer(guard, connect_timeout=5, proxy=parse_proxy(f"http://127.0.0.1:{proxy.port}"))
        for dialer in (Dialer(guard, connect_timeout=5), through):
            with pytest.raises(Blocked):
                await dialer.dial(target.host, target.port)
        registered = Registration(id="reg_x", instance="shop", label="default", url=url)
        (warning,) = await OutboundHttp(DeliverySettings()).warnings(registered)
        assert "is not dialled" in warning
        everywhere = Dialer(AddressGuard(["0.0.0.0/0", "::/0"], refused_ports=()), connect_timeout=5)
        listed = ("http", "127.0.0.1", server.port)
        for direct in (Dialer(guard, connect_timeout=5), through):
            clients = ConnectorClients(
                "waha",
                direct,
                [listed],
                everywhere,
                AnswerMemory(2**30),
                timeout=5,
                max_requests=8,
                max_polls=8,
            )
            await ask_clients(clients, url, listed, server)
            await clients.aclose()
    assert proxy.asked == []


async def ask_clients(clients: ConnectorClients, url: str, own: tuple[str, str, int], server: Server) -> None:
    before = server.connections
    # Warm: an idle connection to the server is there, which nobody else may use.
    of_its_own = clients.of_instance("a", lambda: {own})
    assert (await of_its_own.get(f"http://127.0.0.1:{server.port}/")).text == "ok"
    with pytest.raises(Invalid, match="cannot be read"):
        await clients.fetch("a", url, limit=100)
    other = clients.of_instance("a", frozenset)
    refusals = (httpx.ConnectError, httpx.InvalidURL)
    for method in ("GET", "POST"):
        with pytest.raises(refusals):
            await other.request(method, url)
    with pytest.raises(refusals):
        async with other.stream("GET", url):
            pass
    assert server.connections == before + 1
    # Its own instance reaches it where the spelling means the very origin, and nothing else.
    try:
        await of_its_own.get(url)
        is_reached = True
    except refusals:
        is_reached = False
    assert not is_reached or parse_target(url).origin == own


@given(st.ip_addresses(v=4).map(int).flatmap(lambda value: st.tuples(st.just(value), ipv4_texts(value))))
def test_the_rules_spell_the_address(spelled: tuple[int, str]) -> None:
    """What the system reads, hookgw reads."""
    value, text = spelled
    assert int.from_bytes(socket.inet_aton(text.removesuffix("."))) == value
    assert parse_target(f"http://{text}/").host == socket.inet_ntoa(value.to_bytes(4))
