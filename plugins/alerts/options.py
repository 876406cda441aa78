"""The options of the plugin. No I/O."""

from __future__ import annotations

import fnmatch
import hashlib
from collections.abc import Mapping
from datetime import datetime, time, tzinfo
from typing import Annotated, Any, Literal
from urllib.parse import urlsplit
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

import httpx
import msgspec
from msgspec import Meta

from hookgw import Invalid, Problem
from hookgw.kernel.units import Duration, parse_duration
from hookgw.records.tags import check_tags

On = Literal[
    "instance_closed",
    "instance_quiet",
    "webhook_failing",
    "webhook_disabled",
    "dead_letters",
    "backlog",
    "disk",
    "database",
    "plugin",
    "node_lost",
]
Text = Annotated[str, Meta(min_length=1)]

LONGEST_WINDOW = 7 * 86_400
MOST_URL = 1000
"""Characters of the dashboard's URL, which each message ends with."""


class _Channel(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, tag_field="type"):
    pass


class Slack(_Channel, frozen=True, kw_only=True, tag="slack"):
    """An incoming webhook of Slack."""

    url: Text


class Teams(_Channel, frozen=True, kw_only=True, tag="teams"):
    """A webhook of a workflow of Microsoft Teams."""

    url: Text


class Discord(_Channel, frozen=True, kw_only=True, tag="discord"):
    """A webhook of a channel of Discord."""

    url: Text


class Url(_Channel, frozen=True, kw_only=True, tag="url"):
    """Any URL, which gets JSON."""

    url: Text


class Ntfy(_Channel, frozen=True, kw_only=True, tag="ntfy"):
    """A topic of ntfy: its URL, with the topic as the last part."""

    url: Text
    token: str = ""


class Telegram(_Channel, frozen=True, kw_only=True, tag="telegram"):
    """A chat of Telegram, through a bot."""

    token: Text
    chat: str | int
    url: str = "https://api.telegram.org"


class Email(_Channel, frozen=True, kw_only=True, tag="email"):
    """An SMTP server."""

    host: Text
    sender: Text = msgspec.field(name="from")
    to: Annotated[tuple[Text, ...], Meta(min_length=1)]
    port: Annotated[int, Meta(ge=1, le=65_535)] | None = None
    tls: Literal["starttls", "tls", "none"] | None = None
    user: str = ""
    password: str = ""

    @property
    def security(self) -> str:
        """Return how the connection is protected. The port 465 is for TLS from the start (RFC 8314)."""
        return self.tls or ("tls" if self.port == 465 else "starttls")


class ByInstance(_Channel, frozen=True, kw_only=True, tag="instance"):
    """A message through an instance of this gateway."""

    instance: Text
    to: Text


Channel = Slack | Teams | Discord | Url | Ntfy | Telegram | Email | ByInstance


class Rule(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, omit_defaults=True):
    """Who is told of which problems.

    Attributes:
        on: kinds of problems.
        wait: how long a problem lasts before somebody is told.
        instances: names, or patterns with ``*``; empty for all, and for what is of no instance.
        tags: only instances that carry all of these; empty for all, and for what is of no instance.
        to: names of channels: the first, and if that fails the next one.
        count, within: how many dead letters, within which time.
        quiet: the time of day without messages, such as ``22:00-07:00``.
        remind: after how long the message comes again while the problem lasts; ``None`` for never.
    """

    on: On | tuple[On, ...]
    to: Annotated[tuple[Text, ...], Meta(min_length=1)]
    wait: Duration = msgspec.field(name="for", default=Duration(60))
    instances: tuple[Text, ...] = ()
    tags: dict[Text, Text] = {}
    count: Annotated[int, Meta(ge=1)] = 1
    within: Duration = Duration(3600)
    quiet: str | None = None
    remind: Duration | None = None

    @property
    def kinds(self) -> tuple[str, ...]:
        return (self.on,) if isinstance(self.on, str) else self.on

    @property
    def id(self) -> str:
        """Return what tells this rule from others, whatever their order in the file."""
        return hashlib.sha256(msgspec.json.encode(self, enc_hook=float, order="sorted")).hexdigest()[:16]

    def concerns(self, problem: Problem, tags: Mapping[str, str]) -> bool:
        """Return whether the rule is about a problem, whose instance carries these tags."""
        if problem.kind not in self.kinds or self.tags.items() - tags.items():
            return False
        return not self.instances or any(fnmatch.fnmatchcase(problem.instance, one) for one in self.instances)

    def is_quiet(self, now: datetime) -> bool:
        """Return whether this is a time of day without messages."""
        if self.quiet is None:
            return False
        begins, ends = _times_of(self.quiet)
        at = now.time()
        return begins <= at < ends if begins <= ends else at >= begins or at < ends


class Options(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The block ``alerts``.

    Attributes:
        zone: the time zone of messages and of ``quiet``, such as ``America/Sao_Paulo``; by default the
            system's.
        dashboard: the URL of the dashboard, for links.
    """

    channels: dict[str, Channel] = {}
    rules: tuple[Rule, ...] = ()
    zone: str | None = None
    dashboard: str | None = None

    def local(self, at: float) -> datetime:
        return datetime.fromtimestamp(at, _zone(self.zone)).astimezone(_zone(self.zone))


def _times_of(quiet: str) -> tuple[time, time]:
    begins, ends = map(time.fromisoformat, quiet.split("-"))
    if begins.tzinfo or ends.tzinfo:  # as in 22:00Z: the zone is an option
        raise ValueError(quiet)
    return begins, ends


def _zone(name: str | None) -> tzinfo | None:
    return None if name is None else ZoneInfo(name)


def read_options(options: dict[str, Any]) -> Options:
    """Return the options in the block.

    Raises:
        ValueError: an unknown name, a wrong type, or an impossible value; the message says which.
    """
    channels = options.get("channels")
    for name, channel in channels.items() if isinstance(channels, dict) else ():
        try:
            msgspec.convert(channel, Channel, dec_hook=_duration)
        except msgspec.ValidationError as error:  # of the whole, it would not name the channel
            raise ValueError(f"channels.{name}: {error}") from None
    found = msgspec.convert(options, Options, dec_hook=_duration)
    for name, channel in found.channels.items():
        if (url := getattr(channel, "url", None)) is not None:
            _check_url(f"channels.{name}.url", url)
            if isinstance(channel, Ntfy) and not urlsplit(url).path.strip("/"):
                raise ValueError(f"channels.{name}.url: end it with the topic, as in https://ntfy.sh/hookgw")
    try:
        _zone(found.zone)
    except (ZoneInfoNotFoundError, ValueError, OSError):  # OSError: a folder of zones, such as America
        raise ValueError(f"zone: there is no time zone {found.zone!r}") from None
    if found.dashboard is not None:
        _check_url("dashboard", found.dashboard)
        if len(found.dashboard) > MOST_URL:
            raise ValueError(f"dashboard: use a URL of at most {MOST_URL} characters")
    for number, rule in enumerate(found.rules):
        check_rule(rule, found, f"rules[{number}].")
    return found


def read_rule(rule: dict[str, Any]) -> Rule:
    """Return a rule that was entered in the dashboard, whatever channels there are by now.

    Raises:
        ValueError: it has another form.
    """
    return msgspec.convert(rule, Rule, dec_hook=_duration)


def check_rule(rule: Rule, options: Options, where: str = "") -> None:
    """Raise ``ValueError`` as :func:`read_options` if a rule does not fit the channels, or is impossible."""
    for name in rule.to:
        if name not in options.channels:
            known = ", ".join(options.channels) or "none"
            raise ValueError(f"{where}to: there is no channel {name!r}; the channels are: {known}")
    try:
        check_tags(rule.tags, f"{where}tags")
    except Invalid as error:
        raise ValueError(str(error).removesuffix(".")) from None
    if not rule.kinds:
        raise ValueError(f"{where}on: name at least one kind of problem")
    if rule.remind is not None and rule.remind < 60:
        raise ValueError(f"{where}remind: use 1m or longer")
    if not 60 <= rule.within <= LONGEST_WINDOW:
        raise ValueError(f"{where}within: use a time from 1m to 7d")
    if rule.quiet is not None:
        try:
            begins, ends = _times_of(rule.quiet)
        except ValueError:
            raise ValueError(f"{where}quiet: use two times of day, such as 22:00-07:00") from None
        if begins == ends:
            raise ValueError(f"{where}quiet: the two times of day are the same")


def _check_url(where: str, url: str) -> None:
    try:
        parsed = httpx.URL(url)
    except httpx.InvalidURL as error:
        raise ValueError(f"{where}: {error}") from None
    if parsed.scheme not in ("http", "https") or not parsed.host:
        raise ValueError(f"{where}: use a URL that begins with https:// or http://")


def _duration(kind: type, value: Any) -> Any:
    if kind is Duration and isinstance(value, str):
        return parse_duration(value)
    raise ValueError(f"use a duration such as 5m, not {value!r}")
