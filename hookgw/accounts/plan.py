"""Plans what has to change until an instance is as a document says. No I/O.

Values are compared here, where the stored secrets are: a plan names fields and has no value of any.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any, Literal

import msgspec
from msgspec import UNSET

from hookgw.accounts.document import DeclaredInstance, Layers
from hookgw.instances.fields import OPTIONS, SETTINGS
from hookgw.instances.requests import parse_option_changes
from hookgw.kernel.errors import Invalid
from hookgw.kernel.fields import read_fields
from hookgw.kernel.json_fields import Fields, as_bool, place, show_name
from hookgw.kernel.masking import MASK, repr_without
from hookgw.kernel.nearest import suggestion
from hookgw.kernel.rules import check_destination
from hookgw.kernel.secret_options import SecretOptions
from hookgw.kernel.sentences import Sentence, sentence_of
from hookgw.plugins.connector_options import ConnectorOptions
from hookgw.records.events import Catalog
from hookgw.records.instances import Instance, InstanceSettings
from hookgw.records.registrations import Registration
from hookgw.records.tags import check_tags
from hookgw.webhooks.change import RegistrationChange, read_change, unmask_change
from hookgw.webhooks.fields import FIELDS

Action = Literal["create", "change", "delete", "conflict"]
Kind = Literal["instance", "webhook", "key"]
_OUTCOME = "; it was ignored."


class Change(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A difference between a document and what is there, and how its removal went.

    Attributes:
        action: ``conflict`` for what ``apply`` cannot change.
        name: of the instance or the key.
        label: of the webhook.
        fields: those that are not as the document says.
        state: ``planned`` until it was tried.
        messages: why it failed, or is a conflict, in sentences; of one that is done, warnings.
    """

    action: Action
    kind: Kind
    name: str
    label: str = ""
    fields: list[str] = []
    state: Literal["planned", "done", "failed"] = "planned"
    messages: list[str] = []

    @property
    def place(self) -> tuple[Kind, str, str, bool]:
        """Which thing it is about; its conflicts are a change of their own."""
        return self.kind, self.name, self.label, self.action == "conflict"

    @property
    def is_failed(self) -> bool:
        return self.state == "failed" or self.action == "conflict"

    def done(self, warnings: Sequence[str] = ()) -> Change:
        return msgspec.structs.replace(self, state="done", messages=[*map(str, warnings)])

    def failed(self, *messages: str) -> Change:
        return msgspec.structs.replace(self, state="failed", messages=[*map(str, messages)])


class WebhookPlan(msgspec.Struct, frozen=True, kw_only=True):
    """What is to be done with one webhook: a change of the stored one, or the creation or removal."""

    planned: Change
    change: RegistrationChange | None = None

    __repr__ = repr_without("change")


class InstancePlan(msgspec.Struct, kw_only=True):
    """What is to be done with one instance.

    Attributes:
        planned: the change of the instance itself; ``None`` if it is as it should be.
        conflict: what cannot be changed; ``None`` for nothing.
        options: of the connector: the new values, ``None`` to remove one.
        fields: the others, by the names of the fields of the record.
        settings: likewise.
        tags: all of them; ``None`` for no change.
        same: how many of its parts are as they should be.
        mistakes: in the document, each with its path.
    """

    planned: Change | None = None
    conflict: Change | None = None
    options: dict[str, Any] = {}
    fields: dict[str, Any] = {}
    settings: dict[str, Any] = {}
    tags: dict[str, str] | None = None
    webhooks: list[WebhookPlan] = []
    same: int = 0
    mistakes: list[Sentence] = []

    __repr__ = repr_without("options", "fields", "settings")

    @property
    def changes(self) -> list[Change]:
        first = [one for one in (self.conflict, self.planned) if one is not None]
        return first + [webhook.planned for webhook in self.webhooks]


class Rules(msgspec.Struct, frozen=True):
    """What is known here of kinds, connectors and plugins.

    Attributes:
        connectors: returns the names of those that are there.
        option_rules: returns the rules for the options of a connector.
        check_registration: raises ``Invalid`` if a plugin refuses a registration that replaces another.
    """

    catalog: Catalog
    secret_options: SecretOptions
    connectors: Callable[[], Sequence[str]]
    option_rules: Callable[[str], ConnectorOptions]
    check_registration: Callable[[Registration, Registration | None], None]


def plan_instance(
    declared: DeclaredInstance,
    stored: Instance | None,
    registrations: Mapping[str, Registration],
    rules: Rules,
    *,
    owner: str,
    tags: Mapping[str, str],
    prunes: bool,
    now: float,
) -> InstancePlan:
    """Plan what makes an instance as it is declared.

    Args:
        registrations: the stored ones by label.
        owner: the name of the document.
        tags: of the caller's reach, which the instance keeps.
        prunes: whether to delete the webhooks that an earlier apply of this document has made, and that it no
            longer has.
        now: seconds since the epoch.
    """
    plan = InstancePlan(webhooks=[], mistakes=[])
    base = stored or Instance(name=declared.name, id="", integration=declared.connector or "")
    changed: list[str] = []
    is_unknown = stored is None and declared.connector and declared.connector not in rules.connectors()
    if is_unknown:
        plan.mistakes.append(
            Sentence(
                "document.connector_unknown",
                "{where}: there is no connector {name!r}.{hint} Known connectors: {known}.",
                where=declared.connector_path,
                name=show_name(declared.connector or ""),
                hint=suggestion(declared.connector or "", rules.connectors()),
                known=", ".join(rules.connectors()) or "none is installed",
            )
        )
    is_other = stored is not None and declared.connector not in (None, stored.integration)
    if is_other:
        sentence = (
            f"Its connector is {base.integration or 'none'}, and {declared.connector or 'none'} in the "
            "document. It cannot be changed: delete the instance first, or change the document."
        )
        plan.conflict = Change(
            action="conflict", kind="instance", name=declared.name, fields=["connector"], messages=[sentence]
        )
    elif not is_unknown:
        changed += _plan_options(plan, declared, base, rules)
    changed += _plan_settings(plan, declared, base)
    changed += _plan_tags(plan, declared, base, tags)
    if stored is None:
        plan.planned = Change(action="create", kind="instance", name=declared.name)
    elif changed:
        plan.planned = Change(action="change", kind="instance", name=declared.name, fields=changed)
    plan.same += plan.planned is None and plan.conflict is None
    for label, layers in declared.webhooks.items():
        path = place(f"{declared.path}.webhooks", label)
        _plan_webhook(plan, declared.name, label, layers, path, registrations.get(label), rules, now)
    if prunes:
        plan.webhooks += plan_removals(declared.name, registrations, owner, declared.webhooks)
    return plan


def plan_removals(
    instance: str, registrations: Mapping[str, Registration], owner: str, kept: Collection[str] = ()
) -> list[WebhookPlan]:
    """Plan to delete the webhooks that an earlier apply of a document has made, except some labels."""
    return [
        WebhookPlan(planned=Change(action="delete", kind="webhook", name=instance, label=label))
        for label, one in registrations.items()
        if owner and one.declared_by == owner and label not in kept
    ]


def _plan_options(plan: InstancePlan, declared: DeclaredInstance, base: Instance, rules: Rules) -> list[str]:
    """Plan the options of every instance, and those of its connector. Return the names of changed ones."""
    given: dict[str, Any] = {}
    paths: dict[str, str] = {}
    for path, layer in reversed(declared.options):
        given |= layer
        paths |= {name: place(path, name) for name in layer}
    fallback = f"{declared.path}.options"

    def placed(message: Sentence) -> Sentence:
        # The messages about options begin with the name of one, or with a sentence about all.
        name = max((one for one in paths if message.startswith(one)), key=len, default=None)
        return message.at(f"{fallback}: " if name is None else paths[name].removesuffix(name))

    try:
        own, options = parse_option_changes(given)
        option_rules = rules.option_rules(base.integration)
        if options and not base.integration:
            raise Invalid(
                *(
                    Sentence(
                        "options.no_connector",
                        "{name} is an option of a connector, and there is none.",
                        name=name,
                    )
                    for name in options
                )
            )
        kept = option_rules.changed(base.options, options)
        unknown = option_rules.check(kept) if options or not base.id else []
    except Invalid as error:
        plan.mistakes += map(placed, error.messages)
        return []
    plan.mistakes += (
        placed(sentence_of(one)) for one in unknown if any(one.startswith(name) for name in options)
    )
    plan.fields = {name: value for name, value in own.items() if not _same(value, getattr(base, name))}
    names = {one.name: one.json for one in OPTIONS}
    changed = [f"options.{names[name]}" for name in plan.fields]
    if not _same(kept, base.options):
        plan.options = options
        changed += (
            f"options.{name}"
            for name in options
            if not _same(kept.get(name, UNSET), base.options.get(name, UNSET))
        )
    return changed


def _plan_settings(plan: InstancePlan, declared: DeclaredInstance, base: Instance) -> list[str]:
    fields = Fields(*declared.settings) if declared.settings else Fields((f"{declared.path}.settings", {}))
    found = read_fields(SETTINGS, fields)
    fields.refuse_unknown("the settings")
    plan.mistakes += fields.problems
    stored: InstanceSettings = base.settings
    plan.settings = {
        name: value
        for name, value in found.items()
        # A masked secret keeps its stored value.
        if value is not UNSET and value != MASK and value != getattr(stored, name)
    }
    names = {one.name: one.json for one in SETTINGS}
    return [f"settings.{names[name]}" for name in plan.settings]


def _plan_tags(
    plan: InstancePlan, declared: DeclaredInstance, base: Instance, kept: Mapping[str, str]
) -> list[str]:
    if not declared.tags:
        return []
    tags: dict[str, Any] = {}
    mistakes: list[Sentence] = []
    for path, layer in reversed(declared.tags):
        tags |= layer
        try:
            check_tags({name: value for name, value in layer.items() if value is not None}, path)
        except Invalid as error:
            mistakes += error.messages
    tags = {name: value for name, value in tags.items() if value is not None}
    tags |= kept
    try:
        if not mistakes:
            check_tags(tags, f"{declared.path}.tags")
    except Invalid as error:
        mistakes += error.messages
    plan.mistakes += mistakes
    if mistakes or tags == base.tags:
        return []
    plan.tags = tags
    names = [name for name in {**tags, **base.tags} if tags.get(name) != base.tags.get(name)]
    return [f"tags.{name}" for name in names]


def _plan_webhook(
    plan: InstancePlan,
    instance: str,
    label: str,
    layers: Layers,
    path: str,
    old: Registration | None,
    rules: Rules,
    now: float,
) -> None:
    fields = Fields(*layers)
    change = read_change(fields, rules.catalog, stored_enabled=None if old is None else old.enabled)
    change = msgspec.structs.replace(change, paused=fields.read(as_bool, UNSET, "paused"))
    fields.refuse_unknown("a webhook")
    # Of fields within fields: a caller of the API is warned, and a file is wrong.
    mistakes = [
        *fields.problems,
        *(
            Sentence("document.warning", "{warning}.", warning=one.removesuffix(_OUTCOME))
            for one in fields.warnings
        ),
    ]
    if mistakes:
        plan.mistakes += mistakes
        return
    try:
        change = unmask_change(change, old, rules.secret_options)
        if old is not None and change.secret is not UNSET and change.secret.value == old.secrets[0].value:
            # To set it again would end the grace of an older one.
            change = msgspec.structs.replace(change, secret=UNSET, signature=UNSET)
        new = change.apply(old, instance=instance, label=label, now=now)
        if new.enabled:
            check_destination(new.url, "url")  # the stored one of a disabled registration may be anything
        changed = [
            one.spellings[0]
            for one in FIELDS
            if old is not None and not _same(getattr(old, one.attribute), getattr(new, one.attribute))
        ]
        if old is not None and old.paused_at != new.paused_at:
            changed.append("paused")
        if old is None or changed:
            rules.check_registration(new, old)
    except Invalid as error:
        plan.mistakes += (place_of(path, layers, one) for one in error.messages)
        return
    if old is None or changed:
        action: Action = "create" if old is None else "change"
        planned = Change(action=action, kind="webhook", name=instance, label=label, fields=changed)
        plan.webhooks.append(WebhookPlan(planned=planned, change=change))
    else:
        plan.same += 1


def place_of(path: str, layers: Layers, message: Sentence) -> Sentence:
    """Return a message about a field, which begins with its name, with the path of that field."""
    for where, layer in layers:
        if any(message.startswith(name) for name in layer):
            return message.at(f"{where}.")
    return message.at(f"{path}.")


def _same(one: Any, other: Any) -> bool:
    # As JSON: to Python, true and 1 in a filter or in options of a plugin are equal.
    if one is UNSET or other is UNSET:
        return one is other
    return msgspec.json.encode(one, order="sorted") == msgspec.json.encode(other, order="sorted")
