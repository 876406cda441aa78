"""The document of ``apply``: which instances, webhooks and keys should be there. No I/O.

A field that the document does not have stays as it is. ``defaults`` has fields for all instances and their
webhooks. A value of an instance or a webhook replaces the default for the same field as a whole; ``options``,
``settings`` and ``tags`` are merged name by name. Fields are read from layers, the document's own before the
defaults, so that a mistake in the defaults is reported at its place, and once.

The names and checks of fields are those of the tables of instances, webhooks and keys.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import msgspec

from hookgw.kernel.errors import Invalid
from hookgw.kernel.json_fields import Fields, as_object, as_text, place
from hookgw.kernel.masking import repr_without
from hookgw.kernel.sentences import Sentence
from hookgw.records.instances import check_name

DEFAULTS = "defaults"
OF_EVERY_WEBHOOK = "webhook"
"""The field of the defaults with fields of all webhooks, whatever their labels."""
IGNORED_PREFIX = "x-"
"""Fields of the document that begin so are a place for anchors."""

Layers = tuple[tuple[str, dict[str, Any]], ...]
"""Objects with fields, each with its path in the document; the first one that has a field wins."""


class DeclaredInstance(msgspec.Struct, frozen=True, kw_only=True):
    """What the document says of one instance, as far as it can be read without the stored one.

    Attributes:
        path: in the document.
        connector: ``None`` if the document does not say.
        connector_path: where it says so.
        options, settings, tags: empty if the document has none. ``None`` removes an option, or a default.
        webhooks: the layers of each, by label.
    """

    name: str
    path: str
    connector: str | None = None
    connector_path: str = ""
    options: Layers = ()
    settings: Layers = ()
    tags: Layers = ()
    webhooks: dict[str, Layers] = {}

    __repr__ = repr_without("options", "settings", "webhooks")


class Document(msgspec.Struct, frozen=True, kw_only=True):
    """A document that was read.

    Attributes:
        name: tells what this document has made from what others have; empty if it has none.
        keys: the layers of each, by name.
        body: as it was given.
        warnings: what is allowed and probably not meant.
    """

    name: str
    instances: dict[str, DeclaredInstance]
    keys: dict[str, Layers]
    body: dict[str, Any]
    warnings: list[str] = []

    __repr__ = repr_without("instances", "keys", "body")

    def part(self, names: Mapping[str, Any] | set[str]) -> dict[str, Any]:
        """Return the body of a document with only these instances, and without keys."""
        instances = self.body.get("instances") or {}
        return {
            "name": self.name or None,
            DEFAULTS: self.body.get(DEFAULTS),
            "instances": {name: value for name, value in instances.items() if name in names},
        }


def parse_document(body: Any) -> tuple[Document, list[Sentence]]:
    """Read a document as far as it says the same whatever is stored.

    Return it with the mistakes; each begins with its path. A part with a mistake is missing.
    """
    top = Fields(("", as_object(body, "The document")))
    name = top.read(check_name, "", "name")
    defaults = top.read(as_object, {}, DEFAULTS)
    instances = top.read(as_object, {}, "instances")
    keys = top.read(as_object, {}, "keys")
    top.ignore(*(one for one in body if one.startswith(IGNORED_PREFIX)))
    top.refuse_unknown("the document")
    problems = top.problems
    common = _read_defaults(defaults, problems)
    found = {}
    for instance, value in instances.items():
        path = place("instances", instance)
        try:
            check_name(instance, path)
            own = {} if value is None else as_object(value, path)
        except Invalid as error:
            problems += error.messages
            continue
        found[instance] = _read_instance(instance, path, own, common, problems)
    declared: dict[str, Layers] = {}
    for key, value in keys.items():
        path = place("keys", key)
        try:
            check_name(key, path)
            declared[key] = ((path, {} if value is None else as_object(value, path)),)
        except Invalid as error:
            problems += error.messages
    document = Document(name=name, instances=found, keys=declared, body=body, warnings=list(_twins(found)))
    return document, list(dict.fromkeys(problems))


def _read_defaults(defaults: dict[str, Any], problems: list[Sentence]) -> dict[str, Any]:
    fields = Fields((DEFAULTS, defaults))
    read: dict[str, Any] = {"connector": fields.pick(as_text, "connector")}
    for name in ("options", "settings", "tags", OF_EVERY_WEBHOOK, "webhooks"):
        read[name] = fields.read(as_object, {}, name)
    fields.refuse_unknown("the defaults")
    problems += fields.problems
    return read


def _read_instance(
    name: str, path: str, own: dict[str, Any], defaults: Mapping[str, Any], problems: list[Sentence]
) -> DeclaredInstance:
    fields = Fields((path, own))
    connector = fields.pick(as_text, "connector")
    objects = {one: fields.read(as_object, {}, one) for one in ("options", "settings", "tags", "webhooks")}
    fields.refuse_unknown("an instance")
    problems += fields.problems
    # Empty tags of its own remove the stored ones: they are replaced as a whole.
    given = {one for one, value in objects.items() if value or (one == "tags" and own.get(one) is not None)}
    layers = {
        one: tuple(
            (where, objects_of)
            for where, objects_of, is_given in (
                (f"{path}.{one}", objects[one], one in given),
                (f"{DEFAULTS}.{one}", defaults[one], bool(defaults[one])),
            )
            if is_given
        )
        for one in ("options", "settings", "tags")
    }
    return DeclaredInstance(
        name=name,
        path=path,
        connector=defaults["connector"] if connector is None else connector,
        connector_path=f"{DEFAULTS if connector is None else path}.connector",
        webhooks=_read_webhooks(f"{path}.webhooks", objects["webhooks"], defaults, problems),
        **layers,
    )


def _read_webhooks(
    path: str, own: dict[str, Any], defaults: Mapping[str, Any], problems: list[Sentence]
) -> dict[str, Layers]:
    found: dict[str, Layers] = {}
    for label in {**defaults["webhooks"], **own}:
        where = place(path, label)
        given = ((where, own), (place(f"{DEFAULTS}.webhooks", label), defaults["webhooks"]))
        try:
            check_name(label, where)
            layers = [(at, as_object(objects[label] or {}, at)) for at, objects in given if label in objects]
        except Invalid as error:
            problems += error.messages
            continue
        found[label] = (*layers, (f"{DEFAULTS}.{OF_EVERY_WEBHOOK}", defaults[OF_EVERY_WEBHOOK]))
    return found


def _twins(names: Mapping[str, Any]) -> Iterator[str]:
    by_lower: dict[str, str] = {}
    for name in names:
        twin = by_lower.setdefault(name.lower(), name)
        if twin != name:
            yield (
                f"{place('instances', name)}: there is {twin}, too. Names are case-sensitive: these are two "
                "instances."
            )
