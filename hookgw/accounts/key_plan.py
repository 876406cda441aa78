"""Plans the keys of a document. No I/O.

A stored key is a hash, so its value cannot be compared with a file. A key that is there stays: what it may do
cannot be changed, and a document that says otherwise is a conflict.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import msgspec
from msgspec import UNSET

from hookgw.accounts.document import Document, Layers
from hookgw.accounts.plan import Change
from hookgw.kernel.errors import Invalid
from hookgw.kernel.fields import Field, Line, read_fields
from hookgw.kernel.json_fields import Fields, as_text, show_name
from hookgw.kernel.masking import repr_without
from hookgw.kernel.nearest import suggestion
from hookgw.kernel.sentences import Sentence
from hookgw.kernel.times import rfc3339
from hookgw.kernel.units import parse_duration
from hookgw.keys.fields import FIELDS
from hookgw.records.api_keys import LEAST_VALUE, Key, Principal, Reach, Rights
from hookgw.records.instances import Instance

MOST_VALUE = 256
"""Characters of a key that the caller brings."""


def check_value(value: Any, where: str) -> str:
    text = as_text(value, where)
    if not (
        LEAST_VALUE <= len(text) <= MOST_VALUE and text.isascii() and text.isprintable() and " " not in text
    ):
        raise Invalid.of(
            "key.value_form",
            "{where} must have {least} to {most} printable ASCII characters without spaces.",
            where=where,
            least=LEAST_VALUE,
            most=MOST_VALUE,
        )
    return text


def _line(check: Callable[[Any, str], str], **schema: Any) -> Line:
    return Line(check, {"type": "string", **schema}, str)


OF_DOCUMENT = (
    Field(
        name="expires",
        kind=_line(as_text),
        meaning="How long the key is valid, from its creation, such as 90d; or the time at which it expires.",
    ),
    Field(
        name="value",
        kind=_line(check_value, minLength=LEAST_VALUE, maxLength=MOST_VALUE, pattern="^[!-~]+$"),
        meaning="The key itself. Without it, a new key is made, and shown once.",
        is_secret=True,
    ),
    Field(
        name="file",
        kind=_line(as_text),
        meaning="For `hookgw apply`: the file that gets the value of a new key. The server ignores it.",
    ),
    Field(
        name="command",
        kind=_line(as_text),
        meaning="For `hookgw apply`: a command that gets the value of a new key on its standard input. The "
        "server ignores it.",
    ),
)
"""Fields of a key in a document, beside those of the table of keys."""
OF_TABLE = tuple(one for one in FIELDS if one.name not in ("name", "expires_in", "expires_at"))


class KeyPlan(msgspec.Struct, frozen=True, kw_only=True):
    """What is to be done with one key.

    Attributes:
        given: fields for its creation.
        value: the key; ``None`` to make one.
        revoked: the stored key that goes.
    """

    planned: Change
    given: dict[str, Any] = {}
    value: str | None = None
    revoked: Key | None = None

    __repr__ = repr_without("value")


def plan_keys(
    document: Document,
    stored: Mapping[str, Key],
    instances: Callable[[str], Instance | None],
    principal: Principal,
    *,
    names_of: Callable[[Reach | None], list[str] | None],
    has_value: Callable[[Key, str], bool],
    prunes: bool,
    now: float,
) -> tuple[list[KeyPlan], int, list[Sentence]]:
    """Plan the keys of a document.

    Args:
        stored: the keys that the caller may see, by name.
        instances: returns the instance of a name.
        names_of: returns the present names of the instances that a reach names, sorted.
        has_value: returns whether a value is that of a stored key.

    Returns:
        The plans, how many keys are as the document says, and the mistakes.
    """
    plans, mistakes, same = [], [], 0
    for name, layers in document.keys.items():
        given, found = _read(layers, now)
        names = () if given["instances"] is UNSET else given["instances"]
        unknown = [one for one in names if instances(one) is None and one not in document.instances]
        for one in unknown:
            found.append(
                Sentence(
                    "document.instance_unknown",
                    "{where}.instances: there is no instance {name}.{hint}",
                    where=layers[0][0],
                    name=show_name(one),
                    hint=suggestion(one, document.instances),
                )
            )
        mistakes += found
        if found:
            continue
        value = given.pop("value")
        key = stored.get(name)
        if key is None or key.is_expired(now):
            planned = Change(action="create", kind="key", name=name)
            given.pop("expires_then", None)
            kept = {one: given[one] for one in given if given[one] is not UNSET}
            plans.append(KeyPlan(planned=planned, given=kept, value=None if value is UNSET else value))
            continue
        differing = _differences(key, given, names_of, principal)
        if value is not UNSET and not has_value(key, value):
            differing.append("value")
        if differing:
            why = (
                f"A key cannot be changed ({', '.join(differing)}): revoke it first, or give the new one "
                "another name."
            )
            conflict = Change(action="conflict", kind="key", name=name, fields=differing, messages=[why])
            plans.append(KeyPlan(planned=conflict))
        else:
            same += 1
    if prunes and document.name:
        plans += (
            KeyPlan(planned=Change(action="delete", kind="key", name=key.name), revoked=key)
            for key in stored.values()
            if key.declared_by == document.name and key.name not in document.keys
        )
    return plans, same, mistakes


def _read(layers: Layers, now: float) -> tuple[dict[str, Any], list[Sentence]]:
    path = layers[0][0]
    fields = Fields(*layers)
    own = read_fields(OF_DOCUMENT, fields)
    given = read_fields(OF_TABLE, fields)
    if given["tags"] is not UNSET and given["instances"] is not UNSET:
        fields.problems.append(
            Sentence("document.tags_or_instances", "{path}: give tags or instances, not both.", path=path)
        )
    if own["file"] is not UNSET and own["command"] is not UNSET:
        fields.problems.append(
            Sentence("document.file_or_command", "{path}: give file or command, not both.", path=path)
        )
    expires = own["expires"]
    if expires is not UNSET:
        try:
            parse_duration(expires)
            spelling = "expiresIn"
        except ValueError:
            spelling = "expiresAt"
        # By the checks of the table, and with the document's name of the field.
        table = tuple(one for one in FIELDS if one.json == spelling)
        inner = Fields((path, {spelling: expires}))
        read = read_fields(table, inner, now)
        fields.problems += (_named(one, f"{path}.{spelling}", f"{path}.expires") for one in inner.problems)
        if spelling == "expiresIn" and read["expires_in"] is not UNSET:
            given["expires_at"] = now + read["expires_in"]
        elif spelling == "expiresAt":
            given["expires_at"] = read["expires_at"]
            given["expires_then"] = True
    fields.refuse_unknown("a key")
    return {**given, "value": own["value"]}, fields.problems


def _differences(
    key: Key,
    given: dict[str, Any],
    names_of: Callable[[Reach | None], list[str] | None],
    principal: Principal,
) -> list[str]:
    found = []
    if given["tags"] is not UNSET:
        asked = Reach(tags=tuple(sorted(given["tags"].items()))).within(principal.reach)
        found += ["tags"] if asked != (key.reach or Reach()) else []
    if given["instances"] is not UNSET:
        # By the present names: a later instance of the same name is not reached.
        found += ["instances"] if names_of(key.reach) != sorted(given["instances"]) else []
    if given["rights"] is not UNSET and key.principal(None).rights != Rights.of(given["rights"]):
        found.append("rights")
    # A time in the document is compared; a length counts from the creation, which is over.
    if given.get("expires_then") and (
        key.expires_at is None or rfc3339(key.expires_at) != rfc3339(given["expires_at"])
    ):
        found.append("expires")
    return found


def _named(sentence: Sentence, spelling: str, name: str) -> Sentence:
    """Return the sentence with the document's name of a field."""
    values = {
        key: value.replace(spelling, name) if isinstance(value, str) else value
        for key, value in sentence.values.items()
    }
    return Sentence(sentence.id, sentence.template, **values)
