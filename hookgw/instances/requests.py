"""The bodies that create and change instances. No I/O."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any

import msgspec
from msgspec import UNSET

from hookgw.instances.fields import (
    ACCOUNT_PRESENCES,
    BESIDE,
    CREATE_FIELDS,
    CREATION,
    OPTIONS,
    SETTINGS,
    TAGS,
)
from hookgw.kernel.errors import Invalid
from hookgw.kernel.fields import read_fields
from hookgw.kernel.json_fields import Fields, as_object, one_of
from hookgw.kernel.masking import MASK, repr_without
from hookgw.kernel.sentences import Sentence
from hookgw.records.api_keys import WEAK
from hookgw.records.events import Catalog
from hookgw.records.instances import FOREIGN, InstanceSettings
from hookgw.records.registrations import DEFAULT_LABEL
from hookgw.webhooks.change import RegistrationChange, ignore_read_only, read_change

_DEFAULT = "WHATSAPP-BAILEYS"
"""The integration that clients of Evolution API 1 mean, which know no other."""


class Creation(msgspec.Struct, frozen=True, kw_only=True):
    """The instance to create. The gateway checks the name, the token and the integration.

    Attributes:
        token: ``None`` to have hookgw create one.
        integration: the connector's name; empty if all events arrive over HTTP.
        requested_integration: the one of Evolution API that the client named; empty for none.
        options: all other fields, for the connector.
        own_options: those of every instance, by the names of the fields of the record.
        webhook: the change that sets its first registration; ``None`` for no registration.
    """

    name: str
    token: str | None
    integration: str
    options: dict[str, Any]
    settings: InstanceSettings
    webhook: RegistrationChange | None
    warnings: list[str]
    tags: dict[str, str] = {}
    own_options: dict[str, Any] = {}
    requested_integration: str = ""
    connect: bool = False

    # Connector options hold the network's tokens and passwords.
    __repr__ = repr_without("token", "options", "settings")


def parse_creation(
    body: Any, catalog: Catalog, integrations: Mapping[str, str] = MappingProxyType({})
) -> Creation:
    """Read the body of an instance's ``create``. Raise ``Invalid`` with every mistake.

    The webhook is an object as in ``set``, or a URL with ``events``, ``webhook_by_events`` and the like
    beside it.

    Args:
        integrations: the connectors for the integrations of Evolution API.
    """
    body = as_object(body, "The body")
    fields = Fields(("", body))
    name, token, integration, with_code, registration, tags = read_fields(CREATION, fields).values()
    requested = integration if integration in FOREIGN else ""
    # Clients of Evolution API 1 name no integration, and want a code.
    if not integration and with_code and _DEFAULT in integrations:
        requested = _DEFAULT
    if requested:
        integration = integrations.get(requested, "")
    warnings = []
    if with_code and not integration:
        warnings.append("qrcode: without a connector there is no code.")
    # n8n and others send an empty webhook for "none".
    is_object = isinstance(registration, dict)
    if is_object and registration.get("url") == "" and registration.get("enabled") is not False:
        # So do n8n's nodes, if only the events are filled in. Evolution API keeps it and sends nothing.
        registration = None
        warnings.append("webhook.url is empty: no registration was set.")
    webhook = None
    if registration:
        fields.ignore(*BESIDE)
        inner = registration if is_object else {"url": registration}
        layers = Fields(("webhook", inner), ("", {name: body[name] for name in BESIDE if name in body}))
        webhook = read_change(layers, catalog)
        ignore_read_only(
            layers, {"instance": name, "label": DEFAULT_LABEL, "paused": False, "state": "active"}
        )
        # The outer fields report these mistakes together with their own.
        fields.problems += layers.problems
        layers.problems.clear()
        warnings += layers.finish()
    own_options, settings = _read_own_options(fields), _read_settings(fields)
    # Without a connector nobody reads options: unknown fields are then reported as such.
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
        connect=with_code and bool(integration),
        options=options,
        tags=tags,
        own_options=own_options,
        settings=InstanceSettings(**settings),
        webhook=webhook,
        warnings=warnings,
    )


def _read_own_options(fields: Fields) -> dict[str, Any]:
    return {name: value for name, value in read_fields(OPTIONS, fields).items() if value is not UNSET}


def _read_settings(fields: Fields) -> dict[str, Any]:
    """Return the given settings, by the names of the fields of the record. Mistakes stay in ``fields``."""
    found = read_fields(SETTINGS, fields)
    # A masked secret keeps its stored value.
    return {name: value for name, value in found.items() if value is not UNSET and value != MASK}


def parse_settings(body: Any) -> tuple[dict[str, Any], list[str]]:
    """Read the body of ``/settings/set``. Raise ``Invalid`` with every mistake.

    Return the given settings, by the names of the fields of the record, and the warnings.
    """
    fields = Fields.of_body(body)
    settings = _read_settings(fields)
    return settings, fields.finish()


def parse_option_changes(body: Any) -> tuple[dict[str, Any], dict[str, Any]]:
    """Read the body of a change of options: new values, and ``null`` for options to remove.

    Return those of every instance, by the names of the fields of the record, and those of the connector.
    Raise ``Invalid`` if it is no object, or another field of ``create`` is among the options.
    """
    body = as_object(body, "The body")
    fields = Fields(("", body))
    own = _read_own_options(fields)
    change = {name: body[name] for name in fields.unknown()}
    if taken := sorted(CREATE_FIELDS & change.keys()):
        raise Invalid(
            *(
                Sentence(
                    "options.not_an_option", "{name} is not an option: it cannot be changed here.", name=name
                )
                for name in taken
            )
        )
    fields.ignore(*change)
    fields.finish()
    return own, change


def parse_tags(body: Any) -> dict[str, str]:
    """Read the body of ``/instance/tags``. Raise ``Invalid`` with every mistake."""
    fields = Fields.of_body(body)
    tags: dict[str, str] = fields.need(TAGS.kind.check, {}, "tags")
    fields.refuse_unknown("a change of tags")
    fields.finish()
    return tags


def parse_presence_of_account(body: Any) -> str:
    """Read the body of ``/instance/setPresence``. Raise ``Invalid`` with every mistake."""
    fields = Fields.of_body(body)
    presence = fields.need(one_of(ACCOUNT_PRESENCES), "", "presence")
    fields.finish()
    return presence
