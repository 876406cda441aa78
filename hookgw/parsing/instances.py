"""The body of ``/instance/create``. No I/O."""

from __future__ import annotations

from typing import Any

import msgspec

from hookgw.models.api_keys import WEAK
from hookgw.models.events import Catalog
from hookgw.models.masking import repr_without
from hookgw.models.registrations import RegistrationChange
from hookgw.parsing.fields import Fields, as_object, as_text
from hookgw.parsing.registrations import READ_ONLY, read_change

# The integrations of Evolution API, which its clients send by default. They are accepted with a warning, so
# that those clients work unchanged.
FOREIGN = frozenset({"WHATSAPP-BAILEYS", "WHATSAPP-BUSINESS", "EVOLUTION"})
BESIDE = ("events", "webhook_by_events", "webhookByEvents", "webhook_base64", "webhookBase64")
"""Fields of a registration that clients of Evolution API 1 send beside ``webhook``."""


class Creation(msgspec.Struct, frozen=True, kw_only=True):
    """The instance to create. The gateway checks the name, the token and the integration.

    Attributes:
        name: the instance's name.
        token: the instance key that the client chose; ``None`` to have hookgw create one.
        integration: the connector's name; empty if all events arrive over HTTP.
        options: all other fields, for the connector.
        webhook: the registration to set with the instance.
        warnings: one for each ignored field.
    """

    name: str
    token: str | None
    integration: str
    options: dict[str, Any]
    webhook: RegistrationChange | None
    warnings: list[str]

    # Connector options hold the network's tokens and passwords.
    __repr__ = repr_without("token", "options")


def parse_creation(body: Any, catalog: Catalog) -> Creation:
    """Read the body of an instance's ``create``.

    The webhook is an object as in ``set``, or a URL with ``events``, ``webhook_by_events`` and the like
    beside it.

    Raises:
        Invalid: with every mistake.
    """
    body = as_object(body, "The body")
    fields = Fields(("", body))
    name = fields.need(as_text, "", "instanceName")
    token = fields.pick(as_text, "token")
    integration = fields.read(as_text, "", "integration")
    webhook, warnings = None, []
    # n8n and others send an empty webhook for "none".
    given = fields.pick(
        lambda value, at: value if isinstance(value, str) else as_object(value, at), "webhook"
    )
    if given:
        fields.ignore(*BESIDE)
        inner = {"url": given} if isinstance(given, str) else given
        layers = Fields(("webhook", inner), ("", {name: body[name] for name in BESIDE if name in body}))
        webhook = read_change(layers, catalog)
        layers.ignore(*READ_ONLY)
        # The outer fields report these mistakes together with their own.
        fields.problems += layers.problems
        layers.problems.clear()
        warnings = layers.finish()
    # Without a connector nobody reads options: unknown fields are then reported as such.
    unread = [name for name in fields.unknown() if body[name] is not None]
    options = {name: body[name] for name in unread} if integration and integration not in FOREIGN else {}
    fields.ignore(*options)
    warnings += fields.finish()
    if token is not None and 0 < len(token) < WEAK:
        warnings.append(
            f"token: fewer than {WEAK} characters can be guessed; omit it to have hookgw create one."
        )
    if integration in FOREIGN:
        warnings.append(f"integration: no connector is named {integration}; events arrive over HTTP only.")
        integration = ""
    return Creation(
        name=name, token=token, integration=integration, options=options, webhook=webhook, warnings=warnings
    )
