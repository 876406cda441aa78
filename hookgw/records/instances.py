"""Instances: the connected messaging accounts. No I/O."""

from __future__ import annotations

import re
from typing import Any

import msgspec

from hookgw.kernel.errors import Invalid
from hookgw.kernel.masking import repr_without
from hookgw.records.api_keys import Key

# The integrations of Evolution API, which its clients send by default. They are accepted, so that those
# clients work unchanged. The setting instances.integrations can name a connector for each.
FOREIGN = frozenset({"WHATSAPP-BAILEYS", "WHATSAPP-BUSINESS", "EVOLUTION"})


class InstanceSettings(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """How an instance's account behaves, in the words of the HTTP API. The connector applies it.

    Attributes:
        reject_call: whether calls are refused.
        msg_call: the text that a refused caller gets.
        groups_ignore: whether messages of groups raise no events.
        always_online: whether the account is shown as online all the time.
        read_messages: whether incoming messages are marked as read.
        sync_full_history: whether messages from before the connection are fetched.
        read_status: whether status messages of others are marked as seen.
        wavoip_token: a token for calls over Wavoip.
    """

    reject_call: bool = False
    msg_call: str = ""
    groups_ignore: bool = False
    always_online: bool = False
    read_messages: bool = False
    sync_full_history: bool = False
    read_status: bool = False
    wavoip_token: str = ""

    __repr__ = repr_without("wavoip_token")


class CatchUp(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """How much an instance catches up with after an outage; ``None`` for the default.

    Attributes:
        limit: how many events; 0 for none.
        span: the time before now, in seconds.
    """

    limit: int | None = None
    span: float | None = None

    @property
    def limit_or_default(self) -> int:
        return 10_000 if self.limit is None else self.limit

    @property
    def span_or_default(self) -> float:
        return 86_400.0 if self.span is None else self.span


class Disconnection(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """How an instance's connection ended last.

    Attributes:
        at: when, in seconds since the epoch.
        code: the ``statusReason``; ``None`` if it is unknown.
        reason: why, in a sentence.
        is_over: whether the connection was open again since.
    """

    at: float
    code: int | None = None
    reason: str = ""
    is_over: bool = False


class Instance(msgspec.Struct, frozen=True, kw_only=True):
    """One connected messaging account, identified by its name.

    Attributes:
        name: 1 to 128 letters, digits, ``.``, ``_`` or ``-``.
        id: a UUID, for clients that need one.
        integration: the connector's name; empty if all events arrive over HTTP.
        requested_integration: what a client of Evolution API named instead, such as ``WHATSAPP-BAILEYS``;
            clients read it again. Empty if the creator named the connector, or none.
        keys: the stored keys, expired ones included.
        options: the connector's options.
        settings: how the account behaves.
        tags: names with values by which operators find instances, and share limits and keys among them.
        quiet_after: the seconds without an event after which it counts as quiet; 0 for never, ``None`` for
            ``instances.quiet_after``.
        catch_up: how much it catches up with after an outage.
        ingest_token: the last part of the path at which the network calls hookgw; empty if it has none.
        connected: whether the connector should be running; after a restart it is started again.
        disconnection: how the connection ended last; ``None`` for not yet.
        erased: when whose messages of the network were erased; see :mod:`hookgw.records.erased_persons`.
        declared_by: the name of the document whose ``apply`` made it; empty if none did.
        created_at: seconds since the epoch.
        updated_at: when the record last changed, keys and disconnection aside; seconds since the epoch.
    """

    name: str
    id: str
    integration: str = ""
    requested_integration: str = ""
    keys: tuple[Key, ...] = ()
    options: dict[str, Any] = {}
    settings: InstanceSettings = InstanceSettings()
    tags: dict[str, str] = {}
    quiet_after: float | None = None
    catch_up: CatchUp = CatchUp()
    ingest_token: str = ""
    connected: bool = False
    disconnection: Disconnection | None = None
    erased: dict[str, float] = {}
    declared_by: str = ""
    created_at: float = 0.0
    updated_at: float = 0.0

    # Connector options hold the network's tokens and passwords.
    __repr__ = repr_without("options", "ingest_token", "erased")


def retired_name(instance: Instance) -> str:
    """Return the name under which the events of a deleted instance are kept."""
    # A space cannot be in an instance's name, and the id makes it unique for good.
    return f"{instance.name} {instance.id}"


def is_retired(name: str) -> bool:
    """Return whether a name is that of a deleted instance's events."""
    return " " in name


def name_before_retirement(name: str) -> str:
    return name.partition(" ")[0]


# Not "." or "..", which clients and proxies remove from a path (RFC 3986, section 5.2.4).
INSTANCE_NAME = re.compile(r"(?!\.{1,2}$)[A-Za-z0-9._-]{1,128}", re.ASCII)


def check_name(name: object, what: str = "instanceName") -> str:
    """Return a valid name unchanged.

    Args:
        what: the field to name in the error.

    Raises:
        Invalid: it is not 1 to 128 letters, digits, ``.``, ``_`` or ``-``, or it is ``.`` or ``..``.
    """
    if not isinstance(name, str) or not INSTANCE_NAME.fullmatch(name):
        raise Invalid.of(
            "name.form",
            "{what} must be 1 to 128 letters (A-Z, a-z), digits, '.', '_' or '-', and not '.' or '..'.",
            what=what,
        )
    return name
