"""The schemes of URLs that a registration may have: the one table of them. No I/O.

hookgw sends to http and https itself. Plugins bring further schemes (``hookgw_destinations``).
"""

from __future__ import annotations

import re

HTTP_PORTS = {"http": 80, "https": 443}
"""What hookgw sends to without a plugin, with the standard ports."""

PULL_URL = "pull:"
"""The whole URL of a registration that nobody sends to: its receiver fetches its deliveries."""

RESERVED_SCHEMES = frozenset({*HTTP_PORTS, "pull", "file", "unix", "data", "javascript"})
"""Schemes that no plugin can bring."""

SCHEME_PATTERN = "[A-Za-z][A-Za-z0-9+.-]{0,31}"
"""RFC 3986, section 3.1; the length is hookgw's limit."""

# As registered with IANA, or else as the project of the protocol documents it.
_PLUGIN_PORTS = {
    "amqp": 5672,
    "amqps": 5671,
    "kafka": 9092,
    "mqtt": 1883,
    "mqtts": 8883,
    "nats": 4222,
    "pulsar": 6650,
    "pulsar+ssl": 6651,
    "redis": 6379,
    "rediss": 6379,
    "smtp": 25,
    "smtps": 465,
    "stomp": 61613,
    "ws": 80,
    "wss": 443,
}
_SCHEME = re.compile(f"({SCHEME_PATTERN}):")


def scheme_of(url: str) -> str:
    """Return the scheme of any text, in lower case; empty if it has none."""
    match = _SCHEME.match(url)
    return match[1].lower() if match else ""


def is_http(url: str) -> bool:
    """Return whether hookgw sends to a URL itself."""
    return scheme_of(url) in HTTP_PORTS


def standard_port(scheme: str) -> int | None:
    """Return the port of URLs of a scheme that name none; ``None`` if such URLs must name it."""
    return HTTP_PORTS.get(scheme) or _PLUGIN_PORTS.get(scheme)


def is_port_of_plugin(scheme: str, port: int) -> bool:
    """Return whether a plugin's scheme has this standard port.

    Refused ports are those of services that would take a request of HTTP for commands. A plugin that speaks
    the protocol of the service does no such harm.
    """
    return _PLUGIN_PORTS.get(scheme) == port


def no_plugin(scheme: str) -> str:
    """Return why deliveries to URLs of a scheme wait, if its plugin is gone."""
    return (
        f"No plugin sends to {scheme}:// URLs now. Install the one that does, or switch it on, and restart "
        "hookgw; deliveries wait until then."
    )
