"""Who changed what: entries follow from the records before and after a change."""

from pathlib import Path
from typing import Any

import msgspec
import pytest
import trio
from trio.testing import MockClock

from hookgw import Gateway, InstanceSettings, Registration
from hookgw.testing import GatewayKit, Receiver, answer, open_kit
from tests.public.app import AUDITED as ALL
from tests.public.concurrency import virtual_clock
from tests.public.core import (
    Audit,
    act_as,
    acting_as,
    current_actor,
    holder_as_actor,
    instance_changed,
    registration_changed,
)
from tests.public.instances import AUDITED as OF_INSTANCE
from tests.public.kernel import LONGEST, MOST_FIELDS, FieldChange, Rate
from tests.public.records import (
    CONFIGURATION,
    HOOKGW,
    Actor,
    ActorKind,
    AuditEntry,
    DeliverySelection,
    Instance,
    Ordering,
    RetryOptions,
    TlsIdentity,
    new_secret,
)
from tests.public.store import AuditQuery
from tests.public.webhooks import AUDITED, RegistrationChange

CRM = Actor(kind=ActorKind.KEY, name="crm", instance="shop", address="10.0.0.7")
SHOP = Instance(name="shop", id="id-1")
HOOK = Registration(
    id="reg_1", instance="shop", url="https://user:pass@r.example/hook", secrets=(new_secret(),)
)


@pytest.fixture
async def audit(autojump_clock: MockClock) -> Audit:
    unused: Any = None
    return Audit(unused, virtual_clock())


def changed(audit: Audit, **fields: Any) -> list[FieldChange]:
    values = {name: getattr(HOOK, name) for name in HOOK.__struct_fields__} | fields
    entries = registration_changed(audit, AUDITED, HOOK, Registration(**values), SHOP)
    return [change for entry in entries for change in entry.changes]


async def test_a_changed_url_is_shown_without_user_and_password(audit: Audit) -> None:
    assert changed(audit, url="https://other:secret@new.example/?a=b") == [
        FieldChange("url", "https://r.example/hook", "https://new.example/?a=b")
    ]
    # Only the password: that it changed is said, and nothing of it.
    (change,) = changed(audit, url="https://user:new@r.example/hook")
    assert (change.field, change.before, change.after) == (
        "url",
        "https://r.example/hook",
        "https://r.example/hook",
    )


async def test_fields_have_their_names_in_the_interface_and_values_only_if_none_is_a_secret(
    audit: Audit,
) -> None:
    changes = changed(
        audit,
        events=("CALL", "MESSAGES_UPSERT"),
        enabled=False,
        by_events=True,
        base64=True,
        headers={"authorization": "Bearer 8sK3"},
        secrets=(new_secret(),),
        ordering=Ordering.CHAT,
        concurrency=4,
        timeout=2.5,
        retry=RetryOptions(schedule=(1.0,)),
        plugins={"message_filters": {"deny": ["me"]}},
        tls=TlsIdentity("authority", "certificate", "key", "receiver.internal"),
    )
    assert changes == [
        FieldChange("events", "all", "CALL, MESSAGES_UPSERT"),
        FieldChange("enabled", "true", "false"),
        FieldChange("webhookByEvents"),
        FieldChange("webhookBase64"),
        FieldChange("headers.authorization"),
        FieldChange("secret"),
        FieldChange("ordering", "url", "chat"),
        FieldChange("concurrency", "1", "4"),
        FieldChange("timeout", None, "2.5"),
        FieldChange("retry.schedule"),
        FieldChange("plugins.message_filters"),
        FieldChange("tls.ca"),
        FieldChange("tls.clientCertificate"),
        FieldChange("tls.clientKey"),
        FieldChange("tls.serverName"),
    ]


async def test_a_changed_rate_is_shown_as_clients_write_it(audit: Audit) -> None:
    slow, fast = Rate(20, "s"), Rate(30, "s")
    assert changed(audit, rate=fast) == [FieldChange("rate", None, "30/s")]
    (entry,) = registration_changed(
        audit,
        AUDITED,
        msgspec.structs.replace(HOOK, rate=slow),
        msgspec.structs.replace(HOOK, rate=fast),
        SHOP,
    )
    assert entry.changes == (FieldChange("rate", "20/s", "30/s"),)


async def test_what_no_client_changed_is_no_change(audit: Audit) -> None:
    assert changed(audit, failing_since=1.0, updated_at=2.0, generation=3, disabled_reason="x") == []
    assert registration_changed(audit, AUDITED, HOOK, HOOK, SHOP) == []
    assert instance_changed(audit, ALL, SHOP, SHOP) == []


async def test_a_pause_is_a_change_and_its_time_is_none(audit: Audit) -> None:
    assert changed(audit, paused_at=5.0, resumed_at=6.0, fresh_since=7.0) == [
        FieldChange("paused", "false", "true")
    ]


def test_each_field_of_a_record_is_audited_or_hookgw_s() -> None:
    assert set(Registration.__struct_fields__) - AUDITED.keys() == {
        *(
            "id",
            "instance",
            "label",
            "generation",
            "disabled_reason",
            "failing_since",
            "failed_for",
            "fresh_since",
            "disabled_at",
            "enabled_at",
            "declared_by",
        ),
        *("resumed_at", "created_at", "updated_at"),
    }
    assert set(Instance.__struct_fields__) - OF_INSTANCE.keys() == {
        *("name", "id", "keys", "connected", "disconnection", "erased", "created_at", "updated_at"),
        "declared_by",
    }


async def test_long_values_and_many_fields_are_cut(audit: Audit) -> None:
    headers = {f"x-{number}": "v" for number in range(3 * MOST_FIELDS)}
    *changes, last = changed(audit, headers=headers)
    assert (len(changes), last) == (MOST_FIELDS, FieldChange("…"))
    (change,) = changed(audit, url="x" * 10_000)
    assert change.after == "x" * LONGEST
    (change,) = changed(audit, headers={"x" * 10_000: ""})
    assert change.field == "headers." + "x" * (LONGEST - 8)


async def test_secrets_of_accounts_are_not_shown(audit: Audit) -> None:
    new = Instance(
        name="shop",
        id="id-1",
        integration="matrix",
        options={"password": "hunter2"},
        settings=InstanceSettings(wavoip_token="t0ken", reject_call=True),
        ingest_token="abc",
        connected=True,
    )
    change, connect = instance_changed(audit, ALL, SHOP, new)
    assert change.changes == (
        FieldChange("integration", None, "matrix"),
        FieldChange("options.password"),
        FieldChange("settings.rejectCall"),
        FieldChange("settings.wavoipToken"),
        FieldChange("ingestUrl"),
    )
    assert (change.action, connect.action) == ("instance.change", "instance.connect")
    (logout,) = instance_changed(audit, ALL, Instance(name="shop", id="id-1", connected=True), SHOP)
    assert (logout.action, logout.changes) == ("instance.logout", ())


async def test_the_actor_is_that_of_the_task(nursery: trio.Nursery) -> None:
    assert current_actor() == HOOKGW
    seen: list[Actor] = []

    async def child() -> None:
        seen.append(current_actor())
        act_as(CRM)
        await trio.lowlevel.checkpoint()
        seen.append(current_actor())

    plugin = Actor(kind=ActorKind.PLUGIN, name="audit")
    async with trio.open_nursery() as own:
        with acting_as(plugin):
            own.start_soon(child)
        assert current_actor() == HOOKGW
    assert seen == [plugin, CRM]
    assert current_actor() == HOOKGW


# Through a running gateway


async def entries(gateway: Gateway, **query: Any) -> list[AuditEntry]:
    """Return the entries, the oldest first."""
    return (await gateway.audit.list(AuditQuery(**query))).entries[::-1]


def shown(found: list[AuditEntry]) -> list[tuple[str, str | None, str | None]]:
    return [(entry.action, entry.instance, entry.subject) for entry in found]


async def test_a_life_of_an_instance(hookgw_gateway: GatewayKit) -> None:
    gateway = hookgw_gateway.gateway
    with acting_as(CRM):
        holder = gateway.authenticator.authenticate(GatewayKit.key, None)
        assert holder is not None
        await gateway.registrations.set(
            "shop", "crm", RegistrationChange(url="http://a.example/"), create=True
        )
        await gateway.registrations.set("shop", "crm", RegistrationChange(url="http://b.example/"))
        await gateway.registrations.set("shop", "crm", RegistrationChange(url="http://b.example/"))
        await gateway.registrations.rotate_secret("shop", "crm", 0.0)
        await gateway.keys.create("shop", "n8n", expires_at=None, maker=holder)
        await gateway.keys.create(None, "ops", expires_at=gateway.clock.steady() + 5, maker=holder)
        await hookgw_gateway.advance(6)
        await gateway.keys.create(None, "ops", expires_at=None, maker=holder)
        await gateway.keys.revoke("shop", "n8n", by=holder)
        await gateway.instances.change_settings("shop", {"reject_call": True})
        await gateway.registrations.delete("shop", "crm")
        await gateway.instances.delete("shop")
        await gateway.instances.create("shop")
    found = await entries(gateway)
    assert shown(found) == [
        ("instance.create", "shop", None),
        ("registration.create", "shop", "crm"),
        ("registration.change", "shop", "crm"),
        ("registration.change", "shop", "crm"),
        ("key.create", "shop", "n8n"),
        ("key.create", None, "ops"),
        ("key.revoke", None, "ops"),
        ("key.create", None, "ops"),
        ("key.revoke", "shop", "n8n"),
        ("instance.change", "shop", None),
        ("registration.delete", "shop", "crm"),
        ("instance.delete", "shop", None),
        ("instance.create", "shop", None),
    ]
    expired = found.pop(6)
    assert (expired.actor, expired.details) == (HOOKGW, {"reason": "It had expired."})
    assert {entry.actor for entry in found} == {CRM}
    assert found[3].changes == (FieldChange("secret"),)
    assert found[-3].changes == (FieldChange("url", "http://b.example/"),)
    present = gateway.instances.get("shop").id
    assert shown(await entries(gateway, instance="shop", instance_id=present)) == [
        ("instance.create", "shop", None)
    ]
    assert len(await entries(gateway, instance="shop")) == 10


async def test_a_registration_that_hookgw_disables_is_no_act_of_a_client(
    hookgw_gateway: GatewayKit, hookgw_receiver: Receiver
) -> None:
    gateway = hookgw_gateway.gateway
    hookgw_receiver.will(answer(410))
    await hookgw_gateway.register(hookgw_receiver.url)
    with acting_as(CRM):
        await hookgw_gateway.emit("CALL", {})
        await hookgw_gateway.settled()
    *_, last = await entries(gateway)
    assert (last.action, last.actor) == ("registration.change", HOOKGW)
    assert last.changes == (FieldChange("enabled", "true", "false"),)
    assert "410" in last.details["reason"]


async def test_sending_again(hookgw_gateway: GatewayKit, hookgw_receiver: Receiver) -> None:
    gateway = hookgw_gateway.gateway
    await hookgw_gateway.register(hookgw_receiver.url)
    await hookgw_gateway.emit("CALL", {})
    await hookgw_gateway.settled()
    with acting_as(CRM):
        await gateway.deliveries.resend("shop", "dlv_1")
        await hookgw_gateway.settled()
        await gateway.deliveries.replay("shop", DeliverySelection(since=0.0, state="all", kinds=("CALL",)))
        await gateway.deliveries.replay("shop", DeliverySelection(since=0.0))
    resent, replayed = await entries(gateway, action="delivery")
    assert (resent.action, resent.subject, resent.actor) == ("delivery.resend", "dlv_1", CRM)
    assert (replayed.action, replayed.subject, replayed.actor) == ("delivery.replay", None, CRM)
    assert replayed.details.keys() == {"job", "state", "since", "kinds"}


async def test_a_first_start_records_the_key_that_it_creates(tmp_path: Path, hookgw_clock: MockClock) -> None:
    async with open_kit(tmp_path, settings={"auth": {"global_key": None}}) as kit:
        await kit.gateway.keys.ensure_lasting_global_key(lambda _: None)
        (entry,) = await entries(kit.gateway)
        assert (entry.action, entry.subject, entry.actor) == ("key.create", "default", HOOKGW)


async def test_the_holder_of_a_key(hookgw_gateway: GatewayKit) -> None:
    gateway = hookgw_gateway.gateway
    await gateway.instances.create("bar", token="the-key-of-bar")
    holder = gateway.authenticator.authenticate("the-key-of-bar", None)
    assert holder is not None
    assert holder_as_actor(holder, "10.0.0.1", via="dashboard") == Actor(
        kind=ActorKind.KEY, name="default", instance="bar", address="10.0.0.1", via="dashboard"
    )


async def test_webhooks_of_the_configuration_that_differ_from_the_last_start(
    tmp_path: Path, hookgw_clock: MockClock
) -> None:
    def settings(url: str) -> dict[str, Any]:
        return {"global_webhooks": [{"url": url, "label": "crm"}]}

    for url in ("http://u:p@a.example/", "http://u:q@a.example/", "http://b.example/"):
        async with open_kit(tmp_path, settings=settings(url)) as kit:
            found = await entries(kit.gateway)
    assert shown(found) == [("registration.create", None, "crm"), ("registration.change", None, "crm")]
    assert {entry.actor for entry in found} == {CONFIGURATION}
    assert found[1].changes == (FieldChange("url", "http://a.example/", "http://b.example/"),)
