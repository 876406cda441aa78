"""Responses about options, settings and calls of an instance's connector."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from msgspec import UNSET, Struct, UnsetType

from hookgw.instances.fields import SETTINGS
from hookgw.kernel.fields import presenter, response_type
from hookgw.records.instances import InstanceSettings


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


if TYPE_CHECKING:  # its fields are those of the table
    Settings = Any
else:
    Settings = response_type("Settings", SETTINGS, "How an instance's account behaves.")

present_settings: Callable[[InstanceSettings], Any] = presenter(Settings, SETTINGS)


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
