"""Options of instances, and their defaults in the configuration. No I/O."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import Any, TypeVar

import httpx
import msgspec

from hookgw.kernel.errors import Invalid

Options = TypeVar("Options")

_HOST = re.compile(rb"[A-Za-z0-9._:-]{1,255}")
_HEADER_VALUE = re.compile("[!-~]*")


def read_options(options: Mapping[str, Any], as_type: type[Options]) -> Options:
    """Return options as a record. Fields that the record does not have are left out.

    Args:
        options: of an instance. Other fields of the request that created it may be among them.
        as_type: a class of :class:`msgspec.Struct`.

    Raises:
        Invalid: an option is missing or has a wrong type; the message names it.
    """
    try:
        return msgspec.convert(options, as_type)
    except msgspec.ValidationError as error:
        raise Invalid.of(
            "options.invalid", "The options of the instance are not valid: {error}.", error=error
        ) from None


def check_names(options: Iterable[str], known: Iterable[str], complaint: str) -> None:
    """Refuse unknown names in the block of a plugin in the configuration.

    Args:
        options: the names that are there.
        known: the names that may be there.
        complaint: the beginning of the message, such as ``"waha has no option {}; its options are "``.

    Raises:
        ValueError: the complaint with the first unknown name, and all known names.
    """
    known = tuple(known)
    for name in options:
        if name not in known:
            raise ValueError(f"{complaint.format(name)}{', '.join(known)}")


def defaults_for(
    options: Mapping[str, Any], defaults: Mapping[str, Any], secrets: Iterable[str]
) -> dict[str, Any]:
    """Return the operator's defaults for an instance: without secrets, if its ``base_url`` is another server.

    Who may set options of an instance would have the operator's secrets sent to a server of their choice.

    Args:
        options: of the instance, unchecked.
        defaults: of the configuration; its ``base_url`` is the operator's server.
        secrets: the names of what is for the operator's server alone.
    """
    given, operators = (_server_url(str(one.get("base_url", "")).rstrip("/")) for one in (options, defaults))
    if not options.get("base_url") or (given is not None and given == operators):
        return {**defaults}
    return {name: value for name, value in defaults.items() if name not in {*secrets}}


def check_server_url(option: str, url: str, example: str) -> None:
    """Refuse an option that is not the URL of a server, or has a user, a password, a query or a fragment.

    Args:
        option: its name.
        url: its value.
        example: of a right one.

    Raises:
        Invalid: the message does not repeat the value, in which a password may stand.
    """
    found = _server_url(url)
    if found is None or found.userinfo or found.query or found.fragment:
        raise Invalid.of(
            "options.server_url_form",
            "{option}: use the URL of the server, such as {example}, without a user, a password, a query or "
            "a fragment.",
            option=option,
            example=example,
        )


def check_public_url(url: str | None, network: str) -> None:
    """Refuse to connect if the network cannot reach hookgw.

    Args:
        url: ``server.public_url``, or ``ingest_url``, which is a path without it.
        network: its name.

    Raises:
        Invalid: it cannot.
    """
    if "://" not in (url or ""):
        raise Invalid.of(
            "options.public_url_missing",
            "server.public_url is not set: set it in hookgw's configuration to the URL under which {network} "
            "reaches hookgw, because it sends the events there.",
            network=network,
        )


def check_token(name: str, value: str) -> None:
    """Refuse a token that cannot stand in a header: people paste it with a line break or a space.

    Args:
        name: of the option.
        value: of the option.

    Raises:
        Invalid: the message does not repeat the value.
    """
    if not _HEADER_VALUE.fullmatch(value):
        raise Invalid.of(
            "options.not_ascii",
            "{name} must consist of printable ASCII characters, without spaces.",
            name=name,
        )


def _server_url(text: str) -> httpx.URL | None:
    """Return the URL of a server; ``None`` if nobody could connect there."""
    try:
        url = httpx.URL(text)
        url.host  # noqa: B018 -- raises ValueError for names that no IDNA can express
    except (httpx.InvalidURL, ValueError):
        return None
    is_server = url.scheme in ("http", "https") and bool(_HOST.fullmatch(url.raw_host))
    return url if is_server and (url.port is None or 0 < url.port < 65_536) else None
