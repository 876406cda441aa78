"""The options of an instance. No I/O."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from hookgw import Invalid

from .schemes import DEFAULT, HEADER, SCHEMES, Scheme

# RFC 6901, section 3.
_POINTER = "^(/([^~/]|~[01])*)+$"
# RFC 9110, section 5.6.2.
_NAME = "[!#$%&'*+.^_`|~0-9A-Za-z-]+"
_PLACE = f"{_POINTER}|^{HEADER}{_NAME}$"

OPTIONS_SCHEMA: dict[str, Any] = {
    "type": "object",
    "required": ["kind"],
    "properties": {
        "kind": {
            "description": "Where the body names the kind of the event, a JSON pointer such as /event; or "
            "the header that names it, as in header:x-github-event; or the kind of all events, such "
            "as MESSAGES_UPSERT.",
            "type": "string",
            "minLength": 1,
            "maxLength": 1024,
        },
        "otherwise": {
            "description": "The kind of each event whose own kind is missing or unknown. By default, such an "
            "event is refused.",
            "type": "string",
            "maxLength": 1024,
        },
        "id": {
            "description": "Where the body has the id of the event, a JSON pointer such as /id; or the "
            "header that has it, as in header:x-id; a repeated id is one event. By default, it is where the "
            "scheme has it, such as in the header webhook-id.",
            "type": "string",
            "pattern": _PLACE,
            "maxLength": 1024,
        },
        "time": {
            "description": "Where the body has the time of the event, a JSON pointer such as /created: RFC "
            "3339 with Z or an offset, or seconds or milliseconds since 1970. By default, it is the time of "
            "arrival.",
            "type": "string",
            "pattern": _POINTER,
            "maxLength": 1024,
        },
        "scheme": {
            "description": f"How the sender signs; by default {DEFAULT}.",
            "type": "string",
            "enum": list(SCHEMES),
        },
        "secret": {
            "description": "The secret of the sender's signatures: by Standard Webhooks and Svix whsec_… (or "
            "a public key, whpk_…); of Discord the public key; of others as they show it. Set this, or "
            "header and value.",
            "type": "string",
            "maxLength": 1024,
            "writeOnly": True,
        },
        "verify_token": {
            "description": "What Meta sends as hub.verify_token when it checks the URL.",
            "type": "string",
            "maxLength": 1024,
            "writeOnly": True,
        },
        "header": {
            "description": "The proof of other senders: the name of a header that they send, as in x-token.",
            "type": "string",
            "pattern": f"^{_NAME}$",
            "maxLength": 128,
        },
        "value": {
            "description": "The value of that header, a secret.",
            "type": "string",
            # As it arrives: HTTP removes spaces around it, and clients disagree about what is not ASCII.
            "pattern": "^[!-~]([ -~]*[!-~])?$",
            "maxLength": 4096,
            "writeOnly": True,
        },
    },
}


@dataclass(frozen=True)
class Options:
    """How to read the requests of an instance.

    Attributes:
        kind: the kind of all events; empty if the body names it.
        kind_at, id_at: JSON pointers into the body, or ``header:`` and a name in lower case; empty for none.
        otherwise: the kind of events whose kind is missing or unknown; empty if they are refused.
        time_at: a JSON pointer into the body; empty for none.
        scheme: how the sender signs.
        secret: of its signatures; empty if the sender proves itself by a header alone.
        verify_token: of Meta's check of the URL; empty for none.
        header: the name of that header, in lower case; empty for none.
        value: of that header.
    """

    kind: str
    kind_at: str
    otherwise: str
    id_at: str
    time_at: str
    scheme: Scheme
    secret: str = field(repr=False)
    verify_token: str = field(repr=False)
    header: str
    value: str = field(repr=False)


def read_options(options: Mapping[str, Any]) -> Options:
    """Return the options of an instance, which may have been stored before the schema was as it is now.

    Raises:
        Invalid: with a sentence for the first mistake, which repeats no secret.
    """
    given = {name: options.get(name) or "" for name in OPTIONS_SCHEMA["properties"]}
    for name, value in given.items():
        if not isinstance(value, str):
            raise Invalid.of("inbound.option_not_text", "{name} must be a text.", name=name)
    kind = given["kind"]
    if not kind:
        raise Invalid.of(
            "inbound.kind_missing",
            "kind is missing: a JSON pointer to the kind in the body, header: and the name of a "
            "header, or the name of a kind.",
        )
    is_constant = not kind.startswith(("/", HEADER))
    named = given["scheme"] or DEFAULT
    if named not in SCHEMES:
        raise Invalid.of(
            "inbound.scheme_unknown", "scheme must be one of {choices}.", choices=", ".join(SCHEMES)
        )
    scheme = SCHEMES[named]
    if given["secret"]:
        scheme.check_secret(given["secret"])
    header, value = given["header"].lower(), given["value"]
    if bool(header) != bool(value):
        missing = "value" if header else "header"
        raise Invalid.of(
            "inbound.header_or_value_missing",
            "{missing} is missing: header and value belong together.",
            missing=missing,
        )
    if not given["secret"] and named != DEFAULT:
        raise Invalid.of(
            "inbound.secret_missing", "secret is missing: the scheme {named} needs it.", named=named
        )
    if not given["secret"] and not header:
        raise Invalid.of(
            "inbound.no_proof_set",
            "The sender must prove itself: set secret, if it signs by Standard Webhooks, or "
            "header and value.",
        )
    return Options(
        kind=kind if is_constant else "",
        kind_at="" if is_constant else _place("kind", kind, _PLACE),
        otherwise=given["otherwise"],
        id_at=_place("id", given["id"], _PLACE),
        time_at=_place("time", given["time"], _POINTER),
        scheme=scheme,
        secret=given["secret"],
        verify_token=given["verify_token"],
        header=header,
        value=value,
    )


def _place(option: str, given: str, pattern: str) -> str:
    if given and not re.fullmatch(pattern, given):
        raise Invalid.of(
            "inbound.pointer_form",
            "{option} must be a JSON pointer, such as /event or /data/0/type.",
            option=option,
        )
    return given.lower() if given.startswith(HEADER) else given
