"""The bodies of ``/instance/create`` and ``/message/sendText``. No I/O."""

from __future__ import annotations

from typing import Any

import msgspec

from hookgw.models.api_keys import WEAK
from hookgw.models.errors import Invalid
from hookgw.models.events import Catalog
from hookgw.models.masking import repr_without
from hookgw.models.registrations import RegistrationChange
from hookgw.parsing.fields import Fields, as_object, as_text, is_whole, kind_of, text_up_to
from hookgw.parsing.registrations import READ_ONLY, read_change

FOREIGN = frozenset({"WHATSAPP-BAILEYS", "WHATSAPP-BUSINESS", "EVOLUTION"})
"""The integrations of Evolution API, which its clients send by default."""
BESIDE = ("events", "webhook_by_events", "webhookByEvents", "webhook_base64", "webhookBase64")
"""The parts of a registration that older clients write beside ``webhook``."""
MAX_NUMBER = 128
MAX_TEXT = 65_536


class Creation(msgspec.Struct, frozen=True, kw_only=True):
    """What a ``create`` asks for. The gateway checks the name, the token and the integration.

    Attributes:
        name: the instance's.
        token: the instance key that the caller chose; ``None`` to have one made.
        integration: the connector's name; empty where events come by HTTP alone.
        options: every further field, for the connector.
        webhook: the registration to set with it.
        warnings: about what was ignored.
    """

    name: str
    token: str | None
    integration: str
    options: dict[str, Any]
    webhook: RegistrationChange | None
    warnings: list[str]

    __repr__ = repr_without("token", "options")


def parse_creation(body: Any, catalog: Catalog) -> Creation:
    """What the body of a ``create`` asks for.

    The webhook is an object as in ``set``, or (an older dialect) a URL with ``events``,
    ``webhook_by_events`` and the like beside it.

    Raises:
        Invalid: with everything that breaks a rule.
    """
    body = as_object(body, "The body")
    fields = Fields(("", body))
    name = fields.need(as_text, "", "instanceName")
    token = fields.pick(as_text, "token")
    integration = fields.read(as_text, "", "integration")
    webhook, warnings = _webhook(body, fields, catalog)
    left = [name for name in fields.unknown() if body[name] is not None]
    options = {name: body[name] for name in left} if integration and integration not in FOREIGN else {}
    fields.ignore(*options)
    warnings += fields.finish()
    if token is not None and 0 < len(token) < WEAK:
        warnings.append(
            f"token: with fewer than {WEAK} characters it can be guessed; leave it out, and one is made."
        )
    if integration in FOREIGN:
        warnings.append(f"integration: there is no connector {integration}; events come by HTTP alone.")
        integration = ""
    return Creation(
        name=name, token=token, integration=integration, options=options, webhook=webhook, warnings=warnings
    )


def _webhook(
    body: dict[str, Any], outer: Fields, catalog: Catalog
) -> tuple[RegistrationChange | None, list[str]]:
    found = outer.pick(_webhook_object, "webhook")
    if not found:
        return None, []
    outer.ignore(*BESIDE)
    fields = Fields(("webhook", found), ("", {name: body[name] for name in BESIDE if name in body}))
    change = read_change(fields, catalog)
    fields.ignore(*READ_ONLY)
    outer.problems += fields.problems
    fields.problems.clear()
    return change, fields.finish()


def _webhook_object(value: Any, where: str) -> dict[str, Any]:
    if isinstance(value, str):
        return {"url": value} if value else {}
    return as_object(value, where)


def parse_text_message(body: Any) -> tuple[str, str]:
    """The number and the text of a ``sendText``: ``text``, or ``textMessage.text`` as older clients write it.

    Fields that other gateways know (``delay``, ``linkPreview``) are ignored.

    Raises:
        Invalid: with everything that breaks a rule.
    """
    body = as_object(body, "The body")
    nested = body.get("textMessage")
    layers = [] if nested is None else [("textMessage", as_object(nested, "textMessage"))]
    fields = Fields(("", body), *layers)
    number = fields.need(_number, "", "number")
    text = fields.need(text_up_to(MAX_TEXT), "", "text")
    fields.finish()
    return number, text


def _number(value: Any, where: str) -> str:
    if is_whole(value):
        value = str(int(value))
    if not isinstance(value, str):
        raise Invalid(f"{where} must be a string, not {kind_of(value)}.")
    return text_up_to(MAX_NUMBER)(value.strip(), where)
