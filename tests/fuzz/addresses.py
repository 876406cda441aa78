"""URLs and the hosts in them: what hookgw understands, beside what others understand of the same text.

A guard that reads a host in another way than the one who dials it guards nothing. So every reader that
could be asked is: the system's own (``getaddrinfo`` for numeric hosts), ``urllib`` and ``httpx``.
"""

import ipaddress
import socket
from urllib.parse import urlsplit

import httpx

from tests.fuzz.sentences import check_sentences
from tests.public.config import parse_proxy
from tests.public.delivery import AddressGuard
from tests.public.kernel import Target, parse_host, parse_target, without_user

GUARD = AddressGuard()
Address = ipaddress.IPv4Address | ipaddress.IPv6Address

REFUSED = [
    ipaddress.ip_network(text)
    for text in """
    0.0.0.0/8 10.0.0.0/8 100.64.0.0/10 127.0.0.0/8 169.254.0.0/16 172.16.0.0/12 192.0.0.0/24 192.0.2.0/24
    192.88.99.0/24 192.168.0.0/16 198.18.0.0/15 198.51.100.0/24 203.0.113.0/24 224.0.0.0/4 240.0.0.0/4
    ::/3 4000::/2 8000::/1 2001::/23 2001:db8::/32 2002::/16 3fff::/20
    """.split()  # noqa: SIM905 -- as a table it can be read
]
"""What must never be dialled, written down a second time: the list in the guard is held to it."""


def is_refused(address: Address) -> bool:
    """The verdict by the plain rules."""
    if isinstance(address, ipaddress.IPv6Address):
        number = int(address)
        if number >> 32 in (0xFFFF, 0x64FF9B << 64):
            return is_refused(ipaddress.IPv4Address(number & 0xFFFFFFFF))
        if number >> 32 & 0xFDFFFFFF == 0x5EFE:
            return True
    return any(address in network for network in REFUSED)


def address(data: bytes) -> None:
    """Sixteen bytes, or four: the guard's verdict is the one of the plain rules."""
    if len(data) not in (4, 16):
        return
    judged = ipaddress.ip_address(data)
    refusal = GUARD.refusal(str(judged), 443)
    assert (refusal is not None) == is_refused(judged)
    if refusal is not None:
        # No setting helps without a zone.
        setting = "a zone" if judged in ipaddress.ip_network("fe80::/10") else "delivery.allow_networks"
        assert setting in refusal


def url(data: bytes) -> None:
    """A URL is refused with a sentence, or everybody who reads it means the same host."""
    text = data.decode("utf-8", "replace")
    try:
        target = parse_target(text)
    except ValueError as error:
        check_sentences(str(error))
        return
    _check_parts(target)
    plain = parse_target(without_user(text))
    assert (plain.host, plain.port, plain.path) == (target.host, target.port, target.path)
    assert plain.authorization is None
    meant = _numeric(target.host)
    if meant is not None:
        assert (GUARD.refusal(target.host, target.port) is not None) == is_refused(meant)
    for other in (_by_urllib(text), _by_httpx(text)):
        if other:
            _check_agreement(target, other)


def proxy(data: bytes) -> None:
    """A proxy's URL is refused with a sentence that repeats no password, or has a host and a port."""
    text = data.decode("utf-8", "replace")
    try:
        found = parse_proxy(text)
    except ValueError as error:
        check_sentences(str(error), hidden="s3cret")
        return
    assert found.place
    assert "s3cret" not in repr(found) or "s3cret" in found.host


def host(data: bytes) -> None:
    """Whatever the system takes for an address is that address for hookgw, or no host at all."""
    text = data.decode("utf-8", "replace")
    try:
        understood = parse_host(text)
    except ValueError as error:
        check_sentences(str(error))
        return
    assert understood.isascii()
    system = _numeric(text.strip("[]")) if text.isascii() else None
    assert system is None or ipaddress.ip_address(understood) == system
    assert (_numeric(understood.removesuffix(".")) is None) == (not _is_address(understood))


def _check_parts(target: Target) -> None:
    """What is sent is visible ASCII without spaces, so nothing can be put into the request."""
    for part in (target.host, target.path, target.host_header, target.authorization or ""):
        assert part.isascii()
        assert part.isprintable()
    assert " " not in target.path + target.host_header
    assert target.path.startswith("/")
    assert 1 <= target.port <= 65535


def _check_agreement(target: Target, other: str) -> None:
    """Another reader's host is ours: by our own rules, and by the system's where it is an address."""
    shown = f"[{other}]" if ":" in other else other
    assert parse_host(shown).removesuffix(".") == target.host.removesuffix(".")
    system = _numeric(other)
    assert system is None or system == _numeric(target.host)


def _by_urllib(text: str) -> str | None:
    try:
        return urlsplit(text).hostname
    except ValueError:
        return None


def _by_httpx(text: str) -> str | None:
    try:
        return httpx.URL(text).host
    except (httpx.InvalidURL, ValueError):
        return None


def _numeric(text: str) -> Address | None:
    """What the system takes the text for where it looks up no name; ``None`` where it is no address."""
    try:
        found = socket.getaddrinfo(text, 80, flags=socket.AI_NUMERICHOST, type=socket.SOCK_STREAM)
    except (OSError, UnicodeError, ValueError):
        return None
    return ipaddress.ip_address(str(found[0][4][0]).partition("%")[0])


def _is_address(text: str) -> bool:
    try:
        ipaddress.ip_address(text)
    except ValueError:
        return False
    return True
