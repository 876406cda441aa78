"""Documents of ``apply``, whatever they say: applied, exported, and applied again.

The records are changed here as the services change them, without a gateway: see ``tests/api/routes``.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import msgspec
from hypothesis import given, settings
from hypothesis import strategies as st

from hookgw import Registration
from tests.public.accounts import (
    AccountsFile,
    Change,
    Document,
    Export,
    InstancePlan,
    Rules,
    parse_document,
    plan_instance,
    plan_removals,
)
from tests.public.config import write_document
from tests.public.kernel import MASK, SecretOptions
from tests.public.plugins import ConnectorOptions
from tests.public.records import BUILT_IN_KINDS, Catalog, Instance

NOW = 1_790_000_000.0
SCHEMA = {
    "type": "object",
    "properties": {
        "rate": {"type": "integer"},
        "name": {"type": "string"},
        "apiKey": {"type": "string", "writeOnly": True},
        "pin": {"type": "integer", "writeOnly": True},
        "login": {"type": "object", "writeOnly": True},
    },
}
RULES = Rules(
    Catalog(BUILT_IN_KINDS),
    SecretOptions({"filters": frozenset({"key"})}),
    lambda: ["simulator"],
    lambda name: ConnectorOptions(name, SCHEMA if name else None),
    lambda _, stored: None,
)

names = st.sampled_from(["loja1", "loja.2", "Loja1", "a-b_c", "9"])
labels = st.sampled_from(["default", "crm", "n8n.2"])
texts = st.one_of(
    st.sampled_from(
        ["${HOME}", "$${X}", "true", "012", "null", "", " padded ", "a: b", "#", "é\u2028ü", "1e3"]
    ),
    st.text(st.characters(exclude_categories=["Cs"]), max_size=12),
).filter(lambda text: text != MASK)
visible = st.from_regex(r"[!-~]{1,20}", fullmatch=True).filter(lambda text: text != MASK)
tags = st.dictionaries(st.sampled_from(["tenant", "plan", "a.b"]), st.sampled_from(["acme", "1", "true"]))
urls = st.sampled_from(
    [
        "https://crm.example/hook",
        "http://ann:s3cret$%7B@crm.example:8080/x?y=${z}",
        "pull:",
        "HTTPS://CRM.ex/a",
    ]
)
options_of_webhooks: dict[str, Any] = {
    "enabled": st.booleans(),
    "paused": st.booleans(),
    "events": st.lists(st.sampled_from(["MESSAGES_UPSERT", "messages.update", "CALL"][:2]), max_size=2),
    "byEvents": st.booleans(),
    "headers": st.dictionaries(st.sampled_from(["authorization", "x-a", "X-B"]), visible),
    "ordering": st.sampled_from(["url", "chat", "instance", "none"]),
    "signature": st.sampled_from(["v1", "v1a"]),
    "concurrency": st.integers(1, 64),
    "rate": st.sampled_from(["20/s", "100/m", ""]),
    "timeout": st.sampled_from(["200ms", "10s", "1.5s", None]),
    "retry": st.fixed_dictionaries(
        {}, optional={"maxAge": st.just("1h"), "schedule": st.just(["1s", "90s"])}
    ),
    "filter": st.just([{"pointer": "/data/a", "op": "equals", "value": "${x}"}]),
    "plugins": st.fixed_dictionaries(
        {}, optional={"filters": st.dictionaries(st.sampled_from(["key", "open"]), texts)}
    ),
    "tls": st.fixed_dictionaries({}, optional={"serverName": st.just("crm.test")}),
}
parts = {
    "options": st.fixed_dictionaries(
        {},
        optional={
            "rate": st.integers(0, 9),
            "name": texts,
            "apiKey": texts,
            "pin": st.integers(0, 99_999),
            "login": st.dictionaries(
                st.sampled_from(["user", "codes"]), st.one_of(texts, st.lists(texts, max_size=2))
            ),
            "quietAfter": st.sampled_from(["0s", "90s", "2h"]),
            "catchUp": st.sampled_from([{"limit": 0}, {"span": "2h"}, {}]),
        },
    ),
    "settings": st.fixed_dictionaries(
        {}, optional={"rejectCall": st.booleans(), "msgCall": texts, "wavoipToken": texts}
    ),
    "tags": tags,
    "webhooks": st.dictionaries(
        labels, st.fixed_dictionaries({"url": urls}, optional=options_of_webhooks), max_size=3
    ),
}
instances = st.dictionaries(names, st.none() | st.fixed_dictionaries({}, optional=parts), max_size=4)
documents = st.fixed_dictionaries(
    {"name": st.sampled_from(["acme", "other"]), "instances": instances},
    optional={
        "defaults": st.fixed_dictionaries(
            {"connector": st.just("simulator")},
            optional=parts | {"webhook": st.fixed_dictionaries({}, optional=options_of_webhooks)},
        )
    },
)


class World:
    """The records of a gateway."""

    def __init__(self) -> None:
        self.instances: dict[str, Instance] = {}
        self.webhooks: dict[str, dict[str, Registration]] = {}

    def plan(self, document: Document, *, prunes: bool = False) -> dict[str, InstancePlan]:
        return {
            name: plan_instance(
                declared,
                self.instances.get(name),
                self.webhooks.get(name, {}),
                RULES,
                owner=document.name,
                tags={},
                prunes=prunes,
                now=NOW,
            )
            for name, declared in document.instances.items()
        }

    def apply(self, document: Document) -> list[Change]:
        """Carry out the plans that have no mistakes. Return all changes."""
        changes = []
        for name, plan in self.plan(document).items():
            if plan.mistakes:
                continue
            changes += plan.changes
            declared, stored = document.instances[name], self.instances.get(name)
            if stored is None:
                stored = Instance(
                    name=name, id=name, integration=declared.connector or "", declared_by=document.name
                )
            rules = RULES.option_rules(stored.integration)
            self.instances[name] = msgspec.structs.replace(
                stored,
                options=rules.changed(stored.options, plan.options),
                settings=msgspec.structs.replace(stored.settings, **plan.settings),
                tags=stored.tags if plan.tags is None else plan.tags,
                **plan.fields,
            )
            hooks = self.webhooks.setdefault(name, {})
            for one in plan.webhooks:
                assert one.change is not None
                label = one.planned.label
                made = one.change.apply(hooks.get(label), instance=name, label=label, now=NOW)
                owner = hooks[label].declared_by if label in hooks else document.name
                hooks[label] = msgspec.structs.replace(made, declared_by=owner)
        return changes

    def exported(self) -> tuple[str, dict[str, str]]:
        """Return a file of what is there, and the variables that it needs, with what they stand for."""
        export = Export(RULES.secret_options)
        found = {
            name: export.instance(
                one, self.webhooks.get(name, {}).values(), RULES.option_rules(one.integration)
            )
            for name, one in self.instances.items()
        }
        plain = {f"${{{one.variable}}}" for one in export.needed if not one.is_text}
        return write_document({"instances": found}, plain), {
            one.variable: self._secret(one.paths[0]) for one in export.needed
        }

    def _secret(self, path: str) -> str:
        # Longest first: Loja1 and loja1 differ, and no name begins another one with a dot behind it.
        name = next(name for name in self.instances if path.startswith(f"instances.{name}."))
        rest = path.removeprefix(f"instances.{name}.")
        value: Any
        if rest.startswith("options."):
            value = self.instances[name].options
            rest = rest.removeprefix("options.")
        elif rest == "settings.wavoipToken":
            return self.instances[name].settings.wavoip_token
        else:
            rest = rest.removeprefix("webhooks.")
            label = next(label for label in self.webhooks[name] if rest.startswith(f"{label}."))
            hook, rest = self.webhooks[name][label], rest.removeprefix(f"{label}.")
            if rest == "url":
                return hook.url.partition("//")[2].rpartition("@")[0]
            value = {"headers": hook.headers, "plugins": hook.plugins}
        for part in rest.split("."):
            value = value[int(part)] if isinstance(value, list) else value[part]
        return str(value)


def read(body: Any) -> Document:
    document, mistakes = parse_document(body)
    assert mistakes == []
    return document


@given(documents)
@settings(max_examples=150, deadline=None)
def test_a_document_that_is_applied_again_changes_nothing(body: Any) -> None:
    world, document = World(), read(body)
    wrong = {name for name, plan in world.plan(document).items() if plan.mistakes}
    world.apply(document)
    again = world.plan(document)
    assert [plan.changes for name, plan in again.items() if name not in wrong and plan.changes] == []


@given(st.lists(documents, min_size=1, max_size=3))
@settings(max_examples=150, deadline=None)
def test_an_exported_document_changes_nothing(bodies: list[Any]) -> None:
    world = World()
    for body in bodies:
        world.apply(read(body))
    text, variables = world.exported()
    assert not any(value in text for value in variables.values() if len(value) > 8 and value.isalnum())
    file = AccountsFile("accounts.yaml", text, Path.cwd(), variables)
    assert file.problems == [], text
    plans = world.plan(read(file.body))
    assert [plan.mistakes for plan in plans.values() if plan.mistakes] == [], text
    assert [plan.changes for plan in plans.values() if plan.changes] == [], text


@given(st.lists(documents, min_size=1, max_size=3), documents)
@settings(max_examples=100, deadline=None)
def test_prune_removes_only_what_the_document_has_made(bodies: list[Any], last: Any) -> None:
    world = World()
    for body in bodies:
        world.apply(read(body))
    document = read(last)
    removed = [
        change
        for plan in world.plan(document, prunes=True).values()
        for change in plan.changes
        if change.action == "delete"
    ]
    for name, hooks in world.webhooks.items():
        if name not in document.instances:
            removed += [one.planned for one in plan_removals(name, hooks, document.name)]
    for change in removed:
        hook = world.webhooks[change.name][change.label]
        assert hook.declared_by == document.name
        declared = document.instances.get(change.name)
        assert declared is None or change.label not in declared.webhooks
