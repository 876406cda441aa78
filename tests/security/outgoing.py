"""What tenants point hookgw at, what they have it send, and what receivers answer."""

from __future__ import annotations

import ipaddress
import random
from collections.abc import Iterator

import trio

from tests.faults.test_receivers import (
    LONGER_THAN_AN_ATTEMPT,
    NO_ANSWER,
    NO_HTTP,
    STATUS_STANDS,
    TOO_SLOW,
)
from tests.fuzz.addresses import REFUSED, Address, is_refused
from tests.public.config import REFUSED_PORTS
from tests.public.delivery import AddressGuard
from tests.security.families import Trial, family
from tests.support.live import Live, Reply

METADATA = ipaddress.IPv4Address("169.254.169.254")
"""Where clouds give their machines' credentials away."""


@family(
    "addresses",
    "refused in the listed networks and outside `2000::/3`, also where IPv6 carries them; else allowed",
)
def addresses(live: Live) -> Iterator[Trial]:
    guard, chance = AddressGuard(), random.Random(4)
    for _ in range(1000):
        for anywhere in (ipaddress.IPv4Address(chance.getrandbits(32)), _global(chance)):
            refused = guard.refusal(str(anywhere), 443) is not None
            yield Trial(str(anywhere), _verdict(refused), refused == is_refused(anywhere))
    for network in REFUSED:
        ends = (network[0], network[-1])
        inside = [network[chance.randrange(network.num_addresses)] for _ in range(40)]
        beside = [address + step for address, step in zip(ends, (-1, 1), strict=True) if _can(address, step)]
        for plain in (*ends, *inside, *beside):
            for address in _carried(plain, chance):
                refused = guard.refusal(str(address), 443) is not None
                yield Trial(str(address), _verdict(refused), refused == is_refused(address))


def _verdict(refused: bool) -> str:
    return "refused" if refused else "allowed"


def _global(chance: random.Random) -> ipaddress.IPv6Address:
    """An address out of 2000::/3, where the public ones are."""
    return ipaddress.IPv6Address(1 << 125 | chance.getrandbits(125))


def _can(address: Address, step: int) -> bool:
    return bool(0 <= int(address) + step < 2**address.max_prefixlen)


def _carried(address: Address, chance: random.Random) -> Iterator[Address]:
    """The address, and what IPv6 has to carry one of IPv4: mapped, NAT64, compatible, SIIT, 6to4, ISATAP."""
    yield address
    if isinstance(address, ipaddress.IPv4Address):
        low = int(address)
        for prefix in (0xFFFF << 32, 0x64FF9B << 96, 0, 0xFFFF << 48, 0x64FF9B0001 << 80):
            yield ipaddress.IPv6Address(prefix | low)
        yield ipaddress.IPv6Address(0x2002 << 112 | low << 80 | 1)
        yield ipaddress.IPv6Address(0x2A00 << 112 | chance.getrandbits(48) << 64 | 0x5EFE << 32 | low)


def spellings(address: ipaddress.IPv4Address) -> Iterator[str]:
    """An address as URLs may spell it."""
    whole, packed = int(address), address.packed
    for form in ("{}", "0x{:x}", "0X{:X}", "0{:o}", "0x{:08x}", "000{:o}"):
        yield form.format(whole)
        for count in (2, 3, 4):
            numbers = (*packed[: count - 1], int.from_bytes(packed[count - 1 :], "big"))
            yield ".".join(form.format(number) for number in numbers)
    plain = str(address)
    for digits in ("０１２３４５６７８９", "⓪①②③④⑤⑥⑦⑧⑨", "𝟎𝟏𝟐𝟑𝟒𝟓𝟔𝟕𝟖𝟗"):
        for dot in (".", "。", "．", "｡"):
            yield plain.translate(str.maketrans("0123456789.", digits + dot))
    yield plain + "."
    yield "".join(f"%{ord(mark):02x}" for mark in plain)
    yield "%EF%BC%91" + plain[1:]
    high, low = f"{whole >> 16:x}", f"{whole & 0xFFFF:x}"
    for prefix in ("::ffff:", "64:ff9b::", "::", "0:0:0:0:0:FFFF:", "::ffff:0:"):
        yield f"[{prefix}{high}:{low}]"
        yield f"[{prefix}{plain}]"
    yield f"[2002:{high}:{low}::1]"


@family("spellings of an address", "`set` warns, and hookgw dials nothing: the attempt is `blocked`")
def spelled(live: Live) -> Iterator[Trial]:
    for address in (METADATA, ipaddress.IPv4Address("10.1.2.3"), ipaddress.IPv4Address("192.168.0.1")):
        for spelling in spellings(address):
            for user in ("", "example.com@", "example.com:80@"):
                yield _dialled(live, f"http://{user}{spelling}/latest/meta-data")


def _dialled(live: Live, url: str) -> Trial:
    """Register a URL and have a test event sent to it."""
    stored = live.call("POST", "/webhook/set/shop", {"url": url})
    if stored.status != 201:
        return Trial(url, f"`set` {stored.status}", stored.status == 400)
    outcome = live.call("POST", "/webhook/test/shop").json["outcome"]
    return Trial(url, outcome, outcome == "blocked" and bool(stored.json["warnings"]))


@family("ports and hookgw itself", "the attempt is `blocked`, in an allowed network too")
def ports(live: Live) -> Iterator[Trial]:
    for port in REFUSED_PORTS:
        yield _dialled(live, f"http://127.0.0.1:{port}/")
    for host in ("127.0.0.1", "0x7f.1", "2130706433", "[::ffff:127.0.0.1]", "localhost", "１２７.0.0.1"):
        yield _dialled(live, f"http://{host}:{live.port}/instance/fetchInstances")


BAD_URLS = (
    *(
        "",
        "x",
        "/",
        "//a.test",
        "a.test",
        "http:",
        "http:/",
        "http://",
        "http:///x",
        "https://:80",
        "http://@",
    ),
    *(
        f"{scheme}://127.0.0.1/x"
        for scheme in ("file", "ftp", "gopher", "dict", "ldap", "ws", "unix", "data")
    ),
    *("javascript:alert(1)", "data:text/html,x", "file:///etc/passwd", "http+unix://%2Frun%2Fdocker.sock/x"),
    *("http://a.test#x", "http://a.test/#", "http://a.test\\@127.0.0.1/", "http://127.0.0.1\\.a.test/"),
    *("http://a test/", "http://a.test/ x", " http://a.test/", "http://a.test/\t", "http://a.test/\r\nx: y"),
    *(
        "http://a.test/\x00",
        "http://a\x00.test/",
        "http://a.test/\u2028",
        "http://a%00.test/",
        "http://a%0d%0a/",
    ),
    *(
        "http://a.test:0/",
        "http://a.test:65536/",
        "http://a.test:-1/",
        "http://a.test:8o/",
        "http://a.test:１/",
    ),
    *("http://[::1", "http://::1/", "http://[fe80::1%25eth0]/", "http://[127.0.0.1]/", "http://[v1.x]/"),
    *("http://1.2.3.4.5/", "http://256.1.1.1/", "http://1.2.3.09/", "http://0xg.1/", "http://a..test/"),
    *(
        "http://a,b/",
        "http://a|b/",
        "http://<a>/",
        "http://a^b/",
        "http://{a}/",
        "http://⒈com/",
        "http://a／b/",
    ),
    *("http://" + "a" * 64 + ".test/", "http://" + "a." * 130 + "test/", "http://a.test/" + "x" * 2048),
)


@family("URLs", "`set` answers 400")
def urls(live: Live) -> Iterator[Trial]:
    for url in BAD_URLS:
        for body in ({"url": url}, {"webhook": {"url": url}}, {"webhook": {"enabled": True}, "url": url}):
            yield _refused(url, live.call("POST", "/webhook/set/shop", body))


def _refused(what: str, reply: Reply, *statuses: int) -> Trial:
    """A trial that is right where the answer is an error of the one shape."""
    wanted = statuses or (400,)
    return Trial(what, str(reply.status), reply.status in wanted and bool(reply.messages))


@family("headers of registrations", "`set` answers 400")
def registered_headers(live: Live) -> Iterator[Trial]:
    values = (
        "a\r\nx: y",
        "a\nx: y",
        "a\rb",
        "a\x00b",
        "a\x1bb",
        "\x7f",
        " a",
        "a ",
        "ä",
        "\u2028",
        1,
        None,
        ["a"],
    )
    names = ("", "a b", "a:", "a\r\nb", "a\x00", "ä", "(a)", "a/b", '"a"', "a\u212a")
    own = ["Host", "content-length", "Transfer-Encoding", "connection", "upgrade", "te", "trailer"]
    own += ["keep-alive", "proxy-authorization", "webhook-id", "Webhook-Signature", "webhook-x"]
    own += ["x-event-type", "X-Instance-Name", "X-Attempt"]
    tried = [{"x": value} for value in values] + [{name: "a"} for name in (*names, *own)]
    tried += [{"x": "a", "X": "b"}, {f"x{n}": "a" for n in range(33)}, {"x": "a" * 4096}]
    for headers in tried:
        reply = live.call("POST", "/webhook/set/shop", {"url": "http://a.test/", "headers": headers})
        yield _refused(str(headers), reply)


@family("answers of receivers", "the status decides; without one, a retry; the next event arrives")
def answers(live: Live) -> Iterator[Trial]:
    [receiver] = live.receivers
    live.call("POST", "/webhook/set/shop", {"url": receiver.url})
    faults = {
        **{name: (fault, "unreachable") for name, (fault, _) in NO_HTTP.items()},
        **{name: (fault, "unanswered") for name, (fault, _) in NO_ANSWER.items()},
        **{name: (fault, "unanswered") for name, fault in TOO_SLOW.items()},
        **{name: (fault, "delivered") for name, fault in STATUS_STANDS.items()},
    }
    for name, (fault, wanted) in faults.items():
        live.run(receiver.stop_listening)  # a fault on a connection that was used before is another matter
        live.run(receiver.restart)
        before = len(receiver.requests)
        receiver.will(fault)
        [event_id] = live.call("POST", "/event/emit/shop", {"event": "CALL", "data": {}}).json["ids"]
        live.run(_arrived, live, before + 1)
        if name in TOO_SLOW:
            live.clock.jump(LONGER_THAN_AN_ATTEMPT)
        live.settled()
        live.advance(1.2 if wanted != "unanswered" else 33.1 if name in TOO_SLOW else 5.6)
        attempts = live.call("GET", f"/delivery/find/shop/{event_id}").json["attempts"]
        first, last = attempts[0]["outcome"], attempts[-1]["outcome"]
        yield Trial(name, first, first == wanted and last == "delivered")


async def _arrived(live: Live, count: int) -> None:
    with trio.fail_after(30):
        await live.receivers[0].wait_for(count)
