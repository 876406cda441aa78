"""Responses about options, settings and calls of an instance's connector."""

from __future__ import annotations

from typing import Any

from msgspec import UNSET, Struct, UnsetType


class ConnectorOptions(Struct, frozen=True, kw_only=True, rename="camel"):
    """The options of an instance's connector.

    Attributes:
        options: secrets are masked; a change that sends the mask keeps the stored value.
        options_schema: the JSON Schema of the options, with `writeOnly` at secrets; `null` if any are taken,
            which are then all masked.
        warnings: sentences about the change.
    """

    options: dict[str, Any]
    options_schema: dict[str, Any] | None
    warnings: list[str] | UnsetType = UNSET


class Settings(Struct, frozen=True, kw_only=True, rename="camel"):
    """How an instance's account behaves.

    Attributes:
        reject_call: whether calls are refused.
        msg_call: the text that a refused caller gets.
        groups_ignore: whether messages of groups raise no events.
        always_online: whether the account is shown as online all the time.
        read_messages: whether incoming messages are marked as read.
        sync_full_history: whether messages from before the connection are fetched.
        read_status: whether status messages of others are marked as seen.
        wavoip_token: a token for calls over Wavoip, masked.
    """

    reject_call: bool
    msg_call: str
    groups_ignore: bool
    always_online: bool
    read_messages: bool
    sync_full_history: bool
    read_status: bool
    wavoip_token: str


class NamedSettings(Struct, frozen=True, rename="camel"):
    """The settings of an instance.

    Attributes:
        instance_name: the instance's name.
        settings: its settings.
    """

    instance_name: str
    settings: Settings


class ChangedSettings(Struct, frozen=True):
    """The response of a change of settings.

    Attributes:
        settings: all settings, in the form that existing clients read.
        warnings: fields of the request that were ignored, or why the connector has not applied the settings.
    """

    settings: NamedSettings
    warnings: list[str]


class Capabilities(Struct, frozen=True):
    """Which calls an instance's connector answers.

    Attributes:
        calls: the last parts of their paths, such as `sendText`; empty without a connector.
    """

    calls: list[str]


class Presence(Struct, frozen=True):
    """The presence of an account.

    Attributes:
        presence: `available` or `unavailable`.
    """

    presence: str
