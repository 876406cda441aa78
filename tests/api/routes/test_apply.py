"""``POST /apply``: what should be there, and what it answers."""

import json
from functools import partial
from pathlib import Path
from typing import Any

import httpx
import msgspec
import pytest
import trio

from hookgw import Gateway
from tests.api.conftest import KEY, open_whole_gateway
from tests.public.accounts import ApplyAsked, change_instances, parse_document
from tests.public.auth import KeyHolder
from tests.public.config import Settings
from tests.public.core import OUT_OF_REACH
from tests.public.kernel import Unauthorized, finish
from tests.public.plugins import ConnectorOptions
from tests.public.records import HOOKGW, Key, Limits, Principal, Reach, Right, new_secret
from tests.public.store import AuditQuery
from tests.public.webhooks import MOST_REGISTRATIONS

HOOK = "https://crm.example/hook"


HOLDER = KeyHolder(Principal(), Key(name="test", hash=""), None)


class Api:
    """Applies documents with the global key."""

    def __init__(self, client: httpx.AsyncClient) -> None:
        self._client = client

    async def post(self, document: Any, **query: str) -> httpx.Response:
        return await self._client.post("/apply", json=document, params=query, headers={"apikey": KEY})

    async def apply(self, document: Any, **query: str) -> Any:
        response = await self.post(document, **query)
        assert response.status_code == 200, response.text
        return response.json()

    async def get(self, **query: str) -> httpx.Response:
        response = await self._client.get("/apply", params=query, headers={"apikey": KEY})
        assert response.status_code == 200, response.text
        return response

    async def mistakes(self, document: Any, **query: str) -> list[str]:
        response = await self.post(document, **query)
        assert response.status_code == 400, response.text
        found: list[str] = response.json()["response"]["message"]
        return found


@pytest.fixture
def api(client: httpx.AsyncClient) -> Api:
    return Api(client)


def shown(applied: Any) -> list[str]:
    """Return the changes as a plan shows them."""
    signs = {"create": "+", "change": "~", "delete": "-", "conflict": "!"}
    return sorted(
        f"{signs[one['action']]} {one['name']}{'/' + one['label'] if one['label'] else ''}"
        f"{' ' + ','.join(one['fields']) if one['fields'] else ''}"
        for one in applied["changes"]
    )


DOCUMENT = {
    "name": "acme",
    "defaults": {
        "connector": "simulator",
        "tags": {"plan": "gold"},
        "webhook": {"events": ["MESSAGES_UPSERT"], "headers": {"authorization": "Bearer s3cret-s3cret"}},
    },
    "instances": {
        "loja1": {
            "webhooks": {"crm": {"url": HOOK}, "n8n": {"url": "https://n8n.example"}},
            "tags": {"tenant": "a"},
        },
        "loja2": {"settings": {"rejectCall": True}, "options": {"quietAfter": "1h"}},
        "loja3": None,
    },
}


async def test_a_document_makes_what_it_says_and_then_changes_nothing(api: Api, gateway: Gateway) -> None:
    planned = await api.apply(DOCUMENT, dryRun="true")
    assert shown(planned) == ["+ loja1", "+ loja1/crm", "+ loja1/n8n", "+ loja2", "+ loja3"]
    assert {one["state"] for one in planned["changes"]} == {"planned"}
    assert gateway.instances.count() == 0
    applied = await api.apply(DOCUMENT)
    assert {one["state"] for one in applied["changes"]} == {"done"}
    loja1, loja2 = gateway.instances.get("loja1"), gateway.instances.get("loja2")
    assert (loja1.integration, loja1.tags) == ("simulator", {"plan": "gold", "tenant": "a"})
    assert loja2.settings.reject_call
    assert loja2.quiet_after == 3600
    crm = gateway.registrations.get("loja1", "crm")
    assert crm.events == ("MESSAGES_UPSERT",)
    assert crm.headers == {"authorization": "Bearer s3cret-s3cret"}
    again = await api.apply(DOCUMENT)
    assert (again["changes"], again["unchanged"]) == ([], 5)


async def test_only_differences_are_changed_and_absent_fields_stay(api: Api, gateway: Gateway) -> None:
    await api.apply(DOCUMENT)
    crm = gateway.registrations.get("loja1", "crm")
    changed = {
        "instances": {
            "loja1": {"webhooks": {"crm": {"timeout": "5s", "events": []}}},
            "loja2": {"options": {"rate": 2, "quietAfter": None}, "settings": {"rejectCall": False}},
        }
    }
    applied = await api.apply(changed)
    assert shown(applied) == [
        "~ loja1/crm events,timeout",
        "~ loja2 options.quietAfter,options.rate,settings.rejectCall",
    ]
    after = gateway.registrations.get("loja1", "crm")
    assert (after.timeout, after.events, after.headers, after.secrets) == (5.0, (), crm.headers, crm.secrets)
    assert gateway.instances.get("loja2").quiet_after is None
    assert (await api.apply(changed))["changes"] == []
    assert (await api.apply({"instances": {"loja1": None}}))["changes"] == []


async def test_every_mistake_is_reported_with_its_path_and_nothing_is_changed(
    api: Api, gateway: Gateway
) -> None:
    document = {
        "nmae": "acme",
        "defaults": {"settings": {"rejectCalls": True}, "webhook": {"timeout": "never"}},
        "instances": {
            "lo ja": None,
            "loja1": {
                "connector": "simulatr",
                "webhooks": {"crm": {"url": "ftp://x y"}, "b/c": {"url": HOOK}},
            },
            "loja2": {"connector": "simulator", "options": {"rate": -1, "rat": 2}, "webhooks": {"crm": {}}},
            "loja3": {"tags": {"tenant": "a b"}, "webhook": {}},
            "loja4": [1],
        },
    }
    mistakes = await api.mistakes(document)
    beginnings = [
        "nmae is not a field of the document. Did you mean name?",
        "instances.lo ja must be 1 to 128",
        "instances.loja1.webhooks.b/c must be 1 to 128",
        "instances.loja3.webhook is not a field of an instance. Did you mean webhooks?",
        "instances.loja4 must be an object",
        "instances.loja1.connector: there is no connector 'simulatr'. Did you mean simulator?",
        "defaults.settings.rejectCalls is not a field of the settings. Did you mean rejectCall?",
        "instances.loja1.webhooks.crm.url: ",
        "defaults.webhook.timeout: ",
        "instances.loja2.options.rate: ",
        "instances.loja2.webhooks.crm.url is missing.",
        "instances.loja3.tags.tenant must be",
    ]
    unmatched = [one for one in mistakes if not one.startswith(tuple(beginnings))]
    assert unmatched == []
    assert [one for one in beginnings if not any(m.startswith(one) for m in mistakes)] == []
    assert len([one for one in mistakes if one.startswith("defaults")]) == 2, "each of them once"
    assert gateway.instances.count() == 0


async def test_an_option_that_the_connector_does_not_have_is_a_mistake(api: Api) -> None:
    options = {"rate": 1, "rat": 2}
    mistakes = await api.mistakes({"instances": {"loja1": {"connector": "simulator", "options": options}}})
    assert mistakes == [
        "instances.loja1.options.rat is not an option of the connector simulator. Did you mean rate?"
    ]


async def test_what_plugins_refuse_of_a_webhook_has_its_path_in_the_document(api: Api) -> None:
    webhooks = {"crm": {"url": HOOK}, "line": {"url": "line://crm.example:1/", "plugins": {}}}
    mistakes = await api.mistakes(
        {
            "defaults": {"webhook": {"plugins": {"nope": {}}}},
            "instances": {"loja1": {"webhooks": webhooks}},
        }
    )
    assert [one.partition(": ")[0] for one in mistakes] == [
        "defaults.webhook.plugins.nope",
        "instances.loja1.webhooks.line.url",
    ]


async def test_on_a_full_instance_webhooks_replace_others(
    api: Api, gateway: Gateway, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("hookgw.webhooks.service.MOST_REGISTRATIONS", 2)
    monkeypatch.setattr("hookgw.accounts.service.MOST_REGISTRATIONS", 2)
    for labels in ("ab", "bc", "de"):
        hooks = {label: {"url": HOOK} for label in labels}
        done = await api.apply({"name": "acme", "instances": {"full": {"webhooks": hooks}}}, prune="true")
        assert {one["state"] for one in done["changes"]} == {"done"}, done["changes"]
        assert {one.label for one in gateway.registrations.of_instance("full")} == set(labels)


async def test_prune_deletes_only_what_this_document_has_made(api: Api, gateway: Gateway) -> None:
    await gateway.instances.create("by-hand")
    hooks = {"crm": {"url": HOOK}}
    await api.apply({"name": "other", "instances": {"theirs": {"webhooks": hooks}}})
    everything = {
        "loja1": {"webhooks": {**hooks, "n8n": {"url": HOOK}}},
        "loja2": None,
        "by-hand": {"webhooks": hooks},
        "theirs": {"webhooks": {"mine": {"url": HOOK}}},
    }
    await api.apply({"name": "acme", "instances": everything})
    rest = {"name": "acme", "instances": {"loja1": {"webhooks": {"n8n": {}}}}}
    assert (await api.apply(rest))["changes"] == [], "without prune, nothing is deleted"
    pruned = await api.apply(rest, prune="true")
    assert shown(pruned) == ["- by-hand/crm", "- loja1/crm", "- loja2", "- theirs/mine"]
    assert {one["state"] for one in pruned["changes"]} == {"done"}
    assert [one.name for one in gateway.instances.all()] == ["by-hand", "loja1", "theirs"]
    assert [one.label for one in gateway.registrations.of_instance("theirs")] == ["crm"]
    assert (await api.apply(rest, prune="true"))["changes"] == []
    assert (await api.mistakes({"instances": {}}, prune="true"))[0].startswith("name is missing")


async def test_what_was_made_before_keeps_its_maker_after_a_restart(
    settings: Settings, tmp_path: Path
) -> None:
    async with open_whole_gateway(settings, base=tmp_path) as gateway:
        document, _ = parse_document(
            {"name": "acme", "instances": {"loja1": {"webhooks": {"a": {"url": HOOK}}}}}
        )
        plan = finish(gateway.accounts.plan_all(document, [], Principal(), prunes=False))
        await change_instances(
            gateway.views.nodes, document, plan, prunes=False, holder=HOLDER, check_key=lambda: None
        )
    async with open_whole_gateway(settings, base=tmp_path) as gateway:
        document, _ = parse_document({"name": "acme"})
        plan = finish(gateway.accounts.plan_all(document, [], Principal(), prunes=True))
        assert [(one.action, one.name) for one in plan.changes] == [("delete", "loja1")]
        assert gateway.registrations.get("loja1", "a").declared_by == "acme"


async def test_a_connector_cannot_be_changed_and_the_rest_is_done(api: Api, gateway: Gateway) -> None:
    await gateway.instances.create("loja1")
    document = {
        "instances": {
            "loja1": {"connector": "simulator", "tags": {"a": "b"}, "webhooks": {"crm": {"url": HOOK}}}
        }
    }
    applied = await api.apply(document)
    assert shown(applied) == ["! loja1 connector", "+ loja1/crm", "~ loja1 tags.a"]
    (conflict,) = (one for one in applied["changes"] if one["action"] == "conflict")
    assert "It cannot be changed: delete the instance first" in conflict["messages"][0]
    assert applied["failed"] == 1
    assert gateway.instances.get("loja1").tags == {"a": "b"}


async def test_what_fails_does_not_stop_the_rest(api: Api, gateway: Gateway) -> None:
    hooks = {f"h{number}": {"url": HOOK} for number in range(MOST_REGISTRATIONS + 2)}
    applied = await api.apply(
        {"instances": {"full": {"webhooks": hooks}, "loja1": {"webhooks": {"a": {"url": HOOK}}}}}
    )
    failed = [one for one in applied["changes"] if one["state"] == "failed"]
    assert len(failed) == applied["failed"] == 2
    assert failed[0]["messages"] == ["An instance has at most 16 registrations; delete one first."]
    assert len(gateway.registrations.of_instance("full")) == MOST_REGISTRATIONS
    assert gateway.registrations.find("loja1", "a") is not None


async def test_a_refused_address_is_a_warning(api: Api) -> None:
    applied = await api.apply({"instances": {"loja1": {"webhooks": {"a": {"url": "http://10.0.0.1/in"}}}}})
    (hook,) = (one for one in applied["changes"] if one["kind"] == "webhook")
    assert hook["state"] == "done"
    assert "blocked" in hook["messages"][0]


async def test_two_at_once_make_everything_once(api: Api, gateway: Gateway) -> None:
    document = {
        "name": "acme",
        "instances": {
            f"loja{number}": {"connector": "simulator", "webhooks": {"crm": {"url": HOOK}}}
            for number in range(40)
        },
    }
    results = []

    async def apply() -> None:
        results.append(await api.apply(document))

    async with trio.open_nursery() as nursery:
        for _ in range(3):
            nursery.start_soon(apply)
    assert [
        m for one in results for c in one["changes"] if c["state"] == "failed" for m in c["messages"]
    ] == []
    assert gateway.instances.count() == 40
    assert (await api.apply(document))["changes"] == []


async def test_secrets_are_compared_and_never_shown(api: Api, gateway: Gateway) -> None:
    secret = new_secret().value
    hook = {
        "url": "https://ann:s3cret-of-url@crm.example/hook",
        "headers": {"authorization": "Bearer s3cret-of-header"},
        "secret": secret,
    }
    document = {
        "name": "acme",
        "instances": {"loja1": {"settings": {"wavoipToken": "s3cret-token"}, "webhooks": {"crm": hook}}},
    }
    texts = [json.dumps(await api.apply(document, dryRun="true")), json.dumps(await api.apply(document))]
    assert (await api.apply(document))["changes"] == []
    for field, value in {
        "url": "https://ann:s3cret-other@crm.example/hook",
        "headers": {"authorization": "Bearer s3cret-other"},
        "secret": new_secret().value,
    }.items():
        hook[field] = value
        applied = await api.apply(document)
        assert shown(applied) == [f"~ loja1/crm {field}"]
        texts.append(json.dumps(applied))
    texts += [str(entry) for entry in (await gateway.audit.list(AuditQuery(limit=100))).entries]
    exported = (await api.get()).text
    assert not [text for text in [*texts, exported] if "s3cret" in text or secret in text]
    assert gateway.registrations.get("loja1", "crm").secrets[0].value == hook["secret"]


async def test_a_name_that_differs_in_case_alone_is_a_warning(api: Api, gateway: Gateway) -> None:
    applied = await api.apply({"instances": {"loja1": None, "Loja1": None}})
    assert applied["warnings"] == [
        "instances.Loja1: there is loja1, too. Names are case-sensitive: these are two instances."
    ]
    assert gateway.instances.count() == 2


async def test_a_misspelt_dry_run_changes_nothing(api: Api, gateway: Gateway) -> None:
    assert "Did you mean dryRun?" in (await api.mistakes(DOCUMENT, dryrun="true"))[0]
    assert "this call has dryRun, prune" in (await api.mistakes(DOCUMENT, colour="true"))[0]
    for value in ("yes", "2", ""):
        assert (await api.mistakes(DOCUMENT, dryRun=value)) == ["dryRun must be true or false."]
    assert gateway.instances.count() == 0


async def test_a_dry_run_of_clients_in_python_and_php(api: Api, gateway: Gateway) -> None:
    for value in ("True", "1"):
        assert (await api.apply(DOCUMENT, dryRun=value, prune="0"))["dryRun"] is True
    assert gateway.instances.count() == 0


async def test_what_is_there_is_exported_and_applied_without_a_change(api: Api) -> None:
    await api.apply(DOCUMENT)
    exported = (await api.get()).json()
    assert exported["document"]["name"] == "acme"
    paths = [f"instances.loja1.webhooks.{label}.headers.authorization" for label in ("crm", "n8n")]
    assert exported["secrets"] == [{"variable": "LOJA1_CRM_AUTHORIZATION", "paths": paths, "isText": True}], (
        "the same secret in two places is one"
    )
    text = json.dumps(exported["document"])
    for one in exported["secrets"]:
        text = text.replace(f"${{{one['variable']}}}", "Bearer s3cret-s3cret")
    assert (await api.apply(json.loads(text)))["changes"] == []


async def test_a_paused_webhook_is_exported_and_made_paused_elsewhere(api: Api, gateway: Gateway) -> None:
    await api.apply(DOCUMENT)
    await gateway.registrations.pause("loja1", "crm")
    exported = (await api.get()).json()["document"]
    assert exported["instances"]["loja1"]["webhooks"]["crm"]["paused"] is True
    assert "paused" not in exported["instances"]["loja1"]["webhooks"]["n8n"]
    instances = {"copy": {"webhooks": {"crm": {"url": HOOK, "paused": True}}}}
    await api.apply({"instances": instances})
    made = gateway.registrations.get("copy", "crm")
    assert (made.is_paused, made.resumed_at) == (True, 0.0)
    assert (await api.apply({"instances": instances}))["changes"] == []


async def test_a_document_pauses_and_resumes_and_leaves_a_pause_that_it_does_not_name(
    api: Api, gateway: Gateway
) -> None:
    async def changed(**given: Any) -> list[str]:
        document = {"instances": {"loja1": {"webhooks": {"crm": {"url": HOOK, **given}}}}}
        return [name for one in (await api.apply(document))["changes"] for name in one["fields"]]

    await changed()
    assert await changed(paused=True) == ["paused"]
    assert gateway.registrations.get("loja1", "crm").is_paused
    assert await changed() == []
    assert gateway.registrations.get("loja1", "crm").is_paused
    assert await changed(paused=False) == ["paused"]
    resumed = gateway.registrations.get("loja1", "crm")
    assert not resumed.is_paused
    assert resumed.resumed_at > 0, "the pause does not count as age"


async def test_what_looks_like_a_variable_is_exported_as_it_is(api: Api) -> None:
    condition = {"pointer": "/data/${X}", "op": "in", "value": ["${NAME}", "$${NAME}", "$"]}
    document = {"loja1": {"webhooks": {"crm": {"url": HOOK, "filter": [condition]}}}}
    await api.apply({"instances": document})
    # Files stand for it so; the command reads them.
    written = json.loads(json.dumps(document).replace("${", "$${"))
    assert (await api.get()).json()["document"]["instances"] == written


async def key_of(gateway: Gateway, **given: Any) -> dict[str, str]:
    """Make a key, and return the header with it."""
    maker = gateway.keys.holder_of(KEY)
    assert maker is not None
    _, key = await gateway.keys.create(None, f"k{len(gateway.keys.list(None))}", maker=maker, **given)
    return {"apikey": key}


HOOKS = {"webhooks": {"crm": {"url": HOOK}}}


@pytest.mark.parametrize(
    ("instances", "keys", "query", "right"),
    [
        ({"loja1": HOOKS}, {}, {}, "webhooks"),
        ({"loja1": {"options": {"quietAfter": "1h"}}}, {}, {}, "connect"),
        ({"loja1": {"settings": {"rejectCall": True}}}, {}, {}, "connect"),
        ({"loja1": {"tags": {"tenant": "acme", "a": "b"}}}, {}, {}, "operate"),
        ({"new": None}, {}, {}, "instances"),
        ({}, {"k": {"rights": ["read"]}}, {}, "keys"),
        ({}, {}, {"prune": "true"}, "instances"),
    ],
)
async def test_each_part_needs_its_right(
    gateway: Gateway,
    stranger: httpx.AsyncClient,
    instances: Any,
    keys: Any,
    query: dict[str, str],
    right: str,
) -> None:
    await gateway.instances.create("loja1", tags={"tenant": "acme"})
    document = {"name": "acme", "instances": instances, "keys": keys}
    tags = {"tenant": "acme"}
    without = await key_of(gateway, tags=tags, rights=[one for one in Right if one != right])
    refused = await stranger.post("/apply", json=document, params=query, headers=without)
    assert refused.status_code == 403
    assert refused.json()["response"]["message"] == [f"This key does not have the right '{right}'."]
    with_all = await key_of(gateway, tags=tags)
    allowed = await stranger.post("/apply", json=document, params=query, headers=with_all)
    assert (allowed.status_code, allowed.json()["failed"]) == (200, 0)
    assert gateway.instances.get("loja1").tags["tenant"] == "acme"


async def test_a_document_stays_within_the_reach_of_its_key(
    gateway: Gateway, stranger: httpx.AsyncClient, api: Api
) -> None:
    await api.apply(
        {
            "name": "acme",
            "instances": {"mine": {"tags": {"tenant": "a"}}, "theirs": {"tags": {"tenant": "b"}, **HOOKS}},
        }
    )
    mine = await key_of(gateway, tags={"tenant": "a"})
    for document in (
        {"instances": {"theirs": None}},
        {"instances": {"theirs": HOOKS}},
        {"instances": {"new": {"tags": {"tenant": "b"}}}},
        {"instances": {"mine": {"tags": {"tenant": "b"}}}},
        {"keys": {"k": {"instances": ["theirs"]}}},
        {"keys": {"k": {"instances": ["nowhere"]}}},
    ):
        refused = await stranger.post("/apply", json=document, headers=mine)
        assert refused.status_code == 403, document
    # Of the same name, and what it has made is out of this key's reach.
    pruned = await stranger.post("/apply", json={"name": "acme"}, params={"prune": "true"}, headers=mine)
    assert shown(pruned.json()) == ["- mine"]
    assert gateway.instances.find("theirs") is not None
    made = await stranger.post("/apply", json={"instances": {"new": None}}, headers=mine)
    assert made.json()["failed"] == 0
    assert gateway.instances.get("new").tags == {"tenant": "a"}, "new instances are within its reach"
    gold = {"instances": {"new": {"tags": {"plan": "gold"}}}}
    for expected in (["~ new tags.plan"], []):
        applied = await stranger.post("/apply", json=gold, headers=mine)
        assert shown(applied.json()) == expected, "and stay there, however often it is applied"
    assert gateway.instances.get("new").tags == {"plan": "gold", "tenant": "a"}
    exported = (await stranger.get("/apply", headers=mine)).json()
    assert list(exported["document"]["instances"]) == ["new"]


@pytest.mark.parametrize("declared", [None, HOOKS, {"tags": {"tenant": "a"}}, {"tags": {"tenant": "b"}}])
@pytest.mark.parametrize("rights", [None, ["read", "webhooks"]])
async def test_a_key_that_creates_no_instances_does_not_learn_which_names_exist(
    declared: Any, rights: list[str] | None, gateway: Gateway, stranger: httpx.AsyncClient, api: Api
) -> None:
    await api.apply({"instances": {"mine": None, "theirs": {"tags": {"tenant": "b"}}}})
    mine = await key_of(gateway, instances=["mine"], rights=rights)
    theirs, nobodys = [
        await stranger.post(
            "/apply", json={"instances": {name: declared}}, params={"dryRun": "true"}, headers=mine
        )
        for name in ("theirs", "nobodys")
    ]
    assert theirs.status_code == nobodys.status_code == 403
    assert theirs.text == nobodys.text


async def tenant(gateway: Gateway) -> KeyHolder:
    holder = gateway.keys.holder_of((await key_of(gateway, tags={"tenant": "a"}))["apikey"])
    assert holder is not None
    return holder


async def carry_out(gateway: Gateway, given: Any, holder: KeyHolder, meanwhile: Any, **query: Any) -> Any:
    """Plan a document, let something happen, and carry the plan out."""
    document, _ = parse_document(given)
    prunes = bool(query)
    plan = finish(gateway.accounts.plan_all(document, [], holder.principal, prunes=prunes))
    await meanwhile()
    check_key = partial(gateway.keys.check_held, holder)
    return await change_instances(
        gateway.views.nodes, document, plan, prunes=prunes, holder=holder, check_key=check_key
    )


@pytest.mark.parametrize("tags", [{}, {"tags": {"tenant": "a"}}])
async def test_a_name_that_another_tenant_takes_meanwhile_stays_that_tenants(
    gateway: Gateway, tags: Any
) -> None:
    holder = await tenant(gateway)

    async def take() -> None:
        await gateway.instances.create("new", tags={"tenant": "b"})

    changes = await carry_out(gateway, {"instances": {"new": {**HOOKS, **tags}}}, holder, take)
    assert [(one.kind, one.state, one.messages) for one in changes] == [
        ("instance", "failed", [OUT_OF_REACH]),
        ("webhook", "failed", ["Its instance was refused."]),
    ]
    assert gateway.registrations.of_instance("new") == []
    assert gateway.instances.get("new").tags == {"tenant": "b"}


async def test_an_instance_that_is_another_tenants_meanwhile_is_not_deleted(gateway: Gateway) -> None:
    holder = await tenant(gateway)
    declared = {"declared_by": "acme"}
    await gateway.instances.create("mine", tags={"tenant": "a"}, own_options=declared)

    async def take() -> None:
        await gateway.instances.delete("mine")
        await gateway.instances.create("mine", tags={"tenant": "b"}, own_options=declared)

    await carry_out(gateway, {"name": "acme"}, holder, take, prune=True)
    assert gateway.instances.get("mine").tags == {"tenant": "b"}


async def test_webhooks_go_to_the_instance_that_was_planned(
    gateway: Gateway, monkeypatch: pytest.MonkeyPatch
) -> None:
    holder = await tenant(gateway)
    await gateway.instances.create("mine", tags={"tenant": "a"})
    change_settings = gateway.instances.change_settings

    async def slowly(*given: Any) -> Any:
        warnings = await change_settings(*given)
        await gateway.instances.delete("mine")
        await gateway.instances.create("mine", tags={"tenant": "b"})
        return warnings

    monkeypatch.setattr(gateway.instances, "change_settings", slowly)
    document = {"instances": {"mine": {**HOOKS, "settings": {"rejectCall": True}}}}
    _, hook = await carry_out(gateway, document, holder, trio.lowlevel.checkpoint)
    assert (hook.state, hook.messages) == ("failed", ["The instance 'mine' was deleted."])
    assert gateway.registrations.of_instance("mine") == []


async def test_a_document_of_a_revoked_key_is_not_carried_out(gateway: Gateway) -> None:
    holder = await tenant(gateway)
    revoke = partial(gateway.keys.revoke, None, holder.key.name, by=holder)
    with pytest.raises(Unauthorized):
        await carry_out(gateway, {"instances": {"new": None}}, holder, revoke)
    assert gateway.instances.find("new") is None


async def test_only_an_operator_gives_a_new_instance_the_operators_options(
    gateway: Gateway, stranger: httpx.AsyncClient, api: Api, monkeypatch: pytest.MonkeyPatch
) -> None:
    region = {"type": "string", "x-operator": True}
    rules = ConnectorOptions("simulator", {"type": "object", "properties": {"region": region}})
    (simulator,) = (one for one in gateway.connectors.all() if one.name == "simulator")
    monkeypatch.setattr(simulator, "option_rules", rules)
    document = {"instances": {"new": {"connector": "simulator", "options": {"region": "us"}}}}
    mine = await key_of(gateway, tags={"tenant": "a"})
    applied = await stranger.post("/apply", json=document, headers=mine)
    assert applied.status_code == 200, applied.text
    (change,) = applied.json()["changes"]
    assert change["messages"] == ["region can be set only with a global key."]
    assert gateway.instances.find("new") is None
    assert (await api.apply(document))["failed"] == 0


async def test_a_new_key_is_in_the_answer_once(api: Api, gateway: Gateway) -> None:
    document = {"keys": {"acme": {"rights": ["read"], "file": "ignored"}, "own": {"value": "v" * 40}}}
    assert (await api.apply(document, dryRun="true"))["keys"] == []
    applied = await api.apply(document)
    assert [one["name"] for one in applied["keys"]] == ["acme"]
    holder = gateway.keys.holder_of(applied["keys"][0]["key"])
    assert holder is not None
    assert holder.principal.rights.words == ("read",)
    assert gateway.keys.holder_of("v" * 40) is not None
    again = await api.apply(document)
    assert (again["changes"], again["keys"]) == ([], [])


async def test_keys_that_replace_others_need_no_room_beside_them(
    api: Api, gateway: Gateway, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("hookgw.keys.service.MAX_LIMITED_KEYS", 3)

    def document(*names: str) -> Any:
        return {"name": "acme", "keys": {name: {"rights": ["read"]} for name in names}}

    await api.apply(document("a1", "b1"))
    applied = await api.apply(document("a2", "b2"), prune="true")
    assert (applied["failed"], shown(applied)) == (0, ["+ a2", "+ b2", "- a1", "- b1"])
    assert [one.name for one in gateway.keys.list(None) if one.is_limited] == ["a2", "b2"]
    # Without room at all, the answer says so, and what is to go is gone all the same.
    applied = await api.apply(document("a3", "b3", "c3", "d3"), prune="true")
    assert [one["name"] for one in applied["changes"] if one["state"] == "failed"] == ["d3"]
    assert [one.name for one in gateway.keys.list(None) if one.is_limited] == ["a3", "b3", "c3"]


async def test_a_key_gets_another_name(api: Api, gateway: Gateway) -> None:
    value = "v" * 40
    await api.apply({"name": "acme", "keys": {"old": {"value": value}}})
    applied = await api.apply({"name": "acme", "keys": {"new": {"value": value}}}, prune="true")
    assert (applied["failed"], shown(applied)) == (0, ["+ new", "- old"])
    holder = gateway.keys.holder_of(value)
    assert holder is not None
    assert holder.key.name == "new"


async def test_a_document_that_was_applied_in_part_is_completed(api: Api, gateway: Gateway) -> None:
    instances: Any = DOCUMENT["instances"]
    await gateway.instances.create("loja2", integration="simulator")
    await api.apply({**DOCUMENT, "instances": {"loja1": {"tags": {"tenant": "a"}}}})
    applied = await api.apply(DOCUMENT)
    assert applied["failed"] == 0
    assert shown(applied) == [
        "+ loja1/crm",
        "+ loja1/n8n",
        "+ loja3",
        "~ loja2 options.quietAfter,settings.rejectCall,tags.plan",
    ]
    assert len(instances) == gateway.instances.count()


def test_what_nodes_ask_each_other_can_be_sent() -> None:
    document, _ = parse_document({"name": "acme", "instances": {"loja1": HOOKS}, "x-base": 1})
    limits = Limits(Reach(tags=(("a", "b"),)), ("read",), 5.0)
    asked = ApplyAsked(document.part({"loja1"}), ["gone"], True, Principal(), limits, HOOKGW)
    assert msgspec.msgpack.decode(msgspec.msgpack.encode(asked), type=ApplyAsked) == asked
    again, mistakes = parse_document(asked.body)
    assert (again.name, list(again.instances), mistakes) == ("acme", ["loja1"], [])
