"""The options of an instance. No I/O."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from hookgw import Invalid
from hookgw.kernel.signing_keys import VerifyingKey, verifying_key

# RFC 6901, section 3.
_POINTER = "^(/([^~/]|~[01])*)+$"

OPTIONS_SCHEMA: dict[str, Any] = {
    "type": "object",
    "required": ["kind"],
    "properties": {
        "kind": {
            "description": "Where the body names the kind of the event, a JSON pointer such as /event; or "
            "the kind of all events, such as MESSAGES_UPSERT.",
            "type": "string",
            "minLength": 1,
            "maxLength": 1024,
        },
        "id": {
            "description": "Where the body has the id of the event, a JSON pointer such as /id; a repeated "
            "id is one event. By default, the header webhook-id has the id.",
            "type": "string",
            "pattern": _POINTER,
            "maxLength": 1024,
        },
        "time": {
            "description": "Where the body has the time of the event, a JSON pointer such as /created: RFC "
            "3339, or seconds or milliseconds since 1970. By default, it is the time of arrival.",
            "type": "string",
            "pattern": _POINTER,
            "maxLength": 1024,
        },
        "secret": {
            "description": "The proof of senders that sign by Standard Webhooks: whsec_… (or a public key, "
            "whpk_…). Set this, or header and value.",
            "type": "string",
            "maxLength": 1024,
            "writeOnly": True,
        },
        "header": {
            "description": "The proof of other senders: the name of a header that they send, as in x-token.",
            "type": "string",
            # RFC 9110, section 5.6.2.
            "pattern": "^[!#$%&'*+.^_`|~0-9A-Za-z-]+$",
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
        kind_at, id_at, time_at: JSON pointers into the body; empty for none.
        key: verifies signatures; ``None`` if the sender proves itself by a header alone.
        header: the name of that header, in lower case; empty for none.
        value: of that header.
    """

    kind: str
    kind_at: str
    id_at: str
    time_at: str
    key: VerifyingKey | None
    header: str
    value: str


def read_options(options: Mapping[str, Any]) -> Options:
    """Return the options of an instance, which may have been stored before the schema was as it is now.

    Raises:
        Invalid: with a sentence for the first mistake, which repeats no secret.
    """
    given = {name: options.get(name) or "" for name in OPTIONS_SCHEMA["properties"]}
    for name, value in given.items():
        if not isinstance(value, str):
            raise Invalid(f"{name} must be a text.")
    kind = given["kind"]
    if not kind:
        raise Invalid("kind is missing: a JSON pointer to the kind in the body, or the name of a kind.")
    pointers = {"kind": kind if kind.startswith("/") else "", "id": given["id"], "time": given["time"]}
    for name, pointer in pointers.items():
        if pointer and not re.fullmatch(_POINTER, pointer):
            raise Invalid(f"{name} must be a JSON pointer, such as /event or /data/0/type.")
    key = None
    if given["secret"]:
        try:
            key = verifying_key(given["secret"])
        except ValueError:
            raise Invalid("secret must be whsec_ and the secret in base64, as the sender shows it.") from None
    header, value = given["header"].lower(), given["value"]
    if bool(header) != bool(value):
        missing = "value" if header else "header"
        raise Invalid(f"{missing} is missing: header and value belong together.")
    if key is None and not header:
        raise Invalid(
            "The sender must prove itself: set secret, if it signs by Standard Webhooks, or header and value."
        )
    return Options(
        kind="" if pointers["kind"] else kind,
        kind_at=pointers["kind"],
        id_at=pointers["id"],
        time_at=pointers["time"],
        key=key,
        header=header,
        value=value,
    )
