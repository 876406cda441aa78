"""The body of ``/instance/create``. No I/O."""

from __future__ import annotations

import re
from collections.abc import Mapping
from types import MappingProxyType
from typing import Any

import msgspec

from hookgw.kernel.errors import Invalid
from hookgw.kernel.json_fields import Fields, as_bool, as_object, as_text, one_of
from hookgw.kernel.masking import MASK, repr_without
from hookgw.records.api_keys import WEAK
from hookgw.records.events import Catalog
from hookgw.records.instances import FOREIGN, InstanceSettings
from hookgw.records.registrations import DEFAULT_LABEL
from hookgw.webhooks.change import RegistrationChange, ignore_read_only, read_change

BESIDE = ("events", "webhook_by_events", "webhookByEvents", "webhook_base64", "webhookBase64")
"""Fields of a registration that clients of Evolution API 1 send beside ``webhook``."""
_DEFAULT = "WHATSAPP-BAILEYS"
"""The integration that clients of Evolution API 1 mean, which know no other."""
MAX_SETTING = 4096
# What create reads itself, so that no option of a connector can have this name.
_OWN_FIELDS = ("instanceName", "token", "integration", "webhook", "qrcode", *BESIDE)
ACCOUNT_PRESENCES = ("available", "unavailable")


def _spellings(name: str) -> tuple[str, str]:
    return (re.sub("_(.)", lambda match: match[1].upper(), name), name)


# By the name of the field of InstanceSettings: its spellings in JSON, and its type.
SETTINGS: dict[str, tuple[tuple[str, str], type]] = {
    field.name: (_spellings(field.name), field.type) for field in msgspec.structs.fields(InstanceSettings)
}

CREATE_FIELDS = frozenset(
    {*_OWN_FIELDS, *(spelling for spellings, _ in SETTINGS.values() for spelling in spellings)}
)
"""The names that options of connectors cannot have."""


class Creation(msgspec.Struct, frozen=True, kw_only=True):
    """The instance to create. The gateway checks the name, the token and the integration.

    Attributes:
        name: the instance's name.
        token: the instance key that the client chose; ``None`` to have hookgw create one.
        integration: the connector's name; empty if all events arrive over HTTP.
        requested_integration: the one of Evolution API that the client named; empty for none.
        connect: whether to connect the instance at once.
        options: all other fields, for the connector.
        settings: how the account behaves.
        webhook: the registration to set with the instance.
        warnings: one for each ignored field.
    """

    name: str
    token: str | None
    integration: str
    options: dict[str, Any]
    settings: InstanceSettings
    webhook: RegistrationChange | None
    warnings: list[str]
    requested_integration: str = ""
    connect: bool = False

    # Connector options hold the network's tokens and passwords.
    __repr__ = repr_without("token", "options", "settings")


def parse_creation(
    body: Any, catalog: Catalog, integrations: Mapping[str, str] = MappingProxyType({})
) -> Creation:
    """Read the body of an instance's ``create``.

    The webhook is an object as in ``set``, or a URL with ``events``, ``webhook_by_events`` and the like
    beside it.

    Args:
        body: the decoded JSON.
        catalog: the known event kinds.
        integrations: the connectors for the integrations of Evolution API.

    Raises:
        Invalid: with every mistake.
    """
    body = as_object(body, "The body")
    fields = Fields(("", body))
    name = fields.need(as_text, "", "instanceName")
    token = fields.pick(as_text, "token")
    integration = fields.read(as_text, "", "integration")
    requested = integration if integration in FOREIGN else ""
    # Clients of Evolution API 1 name no integration, and want a code.
    if not integration and body.get("qrcode") is True and _DEFAULT in integrations:
        requested = _DEFAULT
    if requested:
        integration = integrations.get(requested, "")
    # Clients of Evolution API send it with every create.
    fields.ignore("qrcode")
    connect = body.get("qrcode") is True and bool(integration)
    webhook, warnings = None, []
    if body.get("qrcode") is True and not integration:
        warnings.append("qrcode: without a connector there is no code.")
    # n8n and others send an empty webhook for "none".
    given = fields.pick(
        lambda value, at: value if isinstance(value, str) else as_object(value, at), "webhook"
    )
    if isinstance(given, dict) and given.get("url") == "" and given.get("enabled") is not False:
        # So do n8n's nodes, if only the events are filled in. Evolution API keeps it and sends nothing.
        given = None
        warnings.append("webhook.url is empty: no registration was set.")
    if given:
        fields.ignore(*BESIDE)
        inner = {"url": given} if isinstance(given, str) else given
        layers = Fields(("webhook", inner), ("", {name: body[name] for name in BESIDE if name in body}))
        webhook = read_change(layers, catalog)
        ignore_read_only(
            layers, {"instance": name, "label": DEFAULT_LABEL, "paused": False, "state": "active"}
        )
        # The outer fields report these mistakes together with their own.
        fields.problems += layers.problems
        layers.problems.clear()
        warnings += layers.finish()
    settings = _read_settings(fields)
    # Without a connector, options are not read: unknown fields are then reported as such.
    unread = [name for name in fields.unknown() if body[name] is not None]
    options = {name: body[name] for name in unread} if integration else {}
    fields.ignore(*options)
    warnings += fields.finish()
    if token is not None and 0 < len(token) < WEAK:
        warnings.append(
            f"token: fewer than {WEAK} characters can be guessed; omit it to have hookgw create one."
        )
    if requested and not integration:
        warnings.append(
            f"integration: no connector is set up for {requested}: events come only over HTTP. Name one in "
            "instances.integrations."
        )
    return Creation(
        name=name,
        token=token,
        integration=integration,
        requested_integration=requested,
        connect=connect,
        options=options,
        settings=InstanceSettings(**settings),
        webhook=webhook,
        warnings=warnings,
    )


def parse_settings(body: Any) -> tuple[dict[str, Any], list[str]]:
    """Read the body of ``/settings/set``: flat fields, in camelCase or snake_case.

    Returns:
        The given settings, by the names of the fields of ``InstanceSettings``, and the warnings.

    Raises:
        Invalid: with every mistake.
    """
    fields = Fields(("", as_object(body, "The body")))
    settings = _read_settings(fields)
    return settings, fields.finish()


def parse_option_changes(body: Any) -> dict[str, Any]:
    """Read the body of a change of options: new values, and ``null`` for options to remove.

    Raises:
        Invalid: it is no object, or a field of ``create`` is among the options.
    """
    change = as_object(body, "The body")
    if taken := sorted(CREATE_FIELDS & change.keys()):
        raise Invalid(*(f"{name} is not an option: it cannot be changed here." for name in taken))
    return change


def parse_presence_of_account(body: Any) -> str:
    """Read the body of ``/instance/setPresence``.

    Raises:
        Invalid: with every mistake.
    """
    fields = Fields(("", as_object(body, "The body")))
    presence = fields.need(one_of(ACCOUNT_PRESENCES), "", "presence")
    fields.finish()
    return presence


def _read_settings(fields: Fields) -> dict[str, Any]:
    settings = {}
    for name, (spellings, kind) in SETTINGS.items():
        given = fields.pick(as_bool if kind is bool else _as_setting, *spellings)
        if given is not None and given != MASK:  # a masked secret keeps its stored value
            settings[name] = given
    return settings


def _as_setting(value: Any, where: str) -> str:
    text = as_text(value, where)
    if len(text) > MAX_SETTING:
        raise Invalid(f"{where} must have at most {MAX_SETTING:,} characters, not {len(text):,}.")
    return text
