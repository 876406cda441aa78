"""The options of a registration, and what its URL says. No I/O."""

from __future__ import annotations

import re
from typing import Any
from urllib.parse import unquote, urlsplit

import msgspec

from hookgw import Registration

PLUGIN = "rabbitmq"
_NAMES = ("instance", "event")
_PLACEHOLDER = re.compile(r"\{([^{}]*)\}")
# An AMQP short string. A kind has at most 64 characters, and the name of an instance 128.
_MOST_BYTES = 255
_LONGEST = {"instance": 128, "event": 64}


class Options(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The block ``plugins.rabbitmq`` of a registration.

    Attributes:
        exchange: exists already; every broker has ``amq.topic``. Empty for the default exchange, whose
            routing keys are the names of queues.
        routing_key: may have ``{instance}`` and ``{event}``, as ``exchange`` may.
    """

    exchange: str = "amq.topic"
    routing_key: str = "{instance}.{event}"

    def filled(self, instance: str, event: str) -> tuple[str, str]:
        """Return the exchange and the routing key for an event of an instance."""
        values = {"instance": instance, "event": event}

        def fill(template: str) -> str:
            return _PLACEHOLDER.sub(lambda match: values[match[1]], template)

        return fill(self.exchange), fill(self.routing_key)


class Broker(msgspec.Struct, frozen=True):
    """Where a URL leads, and as whom."""

    virtual_host: str
    user: str | None
    password: str


def read_options(options: dict[str, Any]) -> Options:
    """Return the options in a block.

    Raises:
        ValueError: the message says what is wrong.
    """
    found = msgspec.convert(options, Options)
    for name, template in (("exchange", found.exchange), ("routing_key", found.routing_key)):
        unknown = [one for one in _PLACEHOLDER.findall(template) if one not in _NAMES]
        if unknown or "{" in _PLACEHOLDER.sub("", template) or "}" in _PLACEHOLDER.sub("", template):
            raise ValueError(f"{name}: use {{instance}} and {{event}}; there is nothing else to fill in")
        longest = len(_PLACEHOLDER.sub(lambda match: "x" * _LONGEST[match[1]], template).encode())
        if longest > _MOST_BYTES:
            raise ValueError(f"{name}: with the longest names it has {longest} bytes; AMQP allows 255")
    return found


def check_registration(options: dict[str, Any], registration: Registration) -> None:
    """Raise ``ValueError`` if the block of a registration is wrong, or has no effect."""
    read_options(options)
    if registration.enabled and not registration.url.lower().startswith(("amqp://", "amqps://")):
        raise ValueError("it is for URLs that begin with amqp:// or amqps://. Remove the block")


def options_of(registration: Registration) -> Options:
    return read_options(registration.plugins.get(PLUGIN, {}))


def broker_of(url: str) -> Broker:
    """Return the virtual host and the credentials of a URL (RabbitMQ's URI specification).

    Unlike there, ``/`` alone means the virtual host ``/``, as without a path: no broker has one with an
    empty name.
    """
    parts = urlsplit(url)
    name = parts.path.removeprefix("/")
    user_info, found, _ = parts.netloc.rpartition("@")
    user, _, password = user_info.partition(":")
    return Broker(unquote(name) if name else "/", unquote(user) if found else None, unquote(password))
