"""Setting, deleting, rotating and trying out registrations, through a running gateway."""

from functools import partial
from pathlib import Path
from typing import Any

import msgspec
import pytest
import trio
from trio.testing import MockClock

import hookgw
from hookgw import Conflict, DeliveryState, HookgwError, Invalid, NotFound, Outcome, Registration, Unavailable
from hookgw.records import registrations
from hookgw.testing import GatewayKit, Received, Receiver, answer, hang, open_kit
from tests.public.delivery import SignatureInvalid
from tests.public.kernel import Secret
from tests.public.store import DeliveryQuery
from tests.public.webhooks import MOST_REGISTRATIONS, RegistrationChange, enabling
from tests.support.disks import read_only, writes_again

pytestmark = pytest.mark.usefixtures("hookgw_clock")

DAY = 86_400.0
DATA = {"key": {"remoteJid": "55@s", "fromMe": False, "id": "A"}}


class Picky:
    """A plugin whose filter, transform and check of options can be scripted."""

    def __init__(self) -> None:
        self.lets_pass = True
        self.fails = False

    @hookgw.hookimpl
    def hookgw_check_registration(self, options: dict[str, Any]) -> None:
        if "level" not in options:
            raise ValueError("level is missing; give a number.")

    @hookgw.hookimpl
    def hookgw_filter(self, event: hookgw.Event) -> bool:
        return self.lets_pass

    @hookgw.hookimpl
    def hookgw_transform(self, event: hookgw.Event) -> hookgw.Event:
        if self.fails:
            raise RuntimeError("out of order")
        return event.replace(data={"seen": event.data})


@pytest.fixture
def picky() -> Picky:
    return Picky()


@pytest.fixture
def hookgw_plugins(picky: Picky) -> dict[str, object]:
    return {"picky": picky}


def signs(receiver: Receiver, request: Received, secret: Secret) -> bool:
    try:
        receiver.verify(request, secret.value)
    except SignatureInvalid:
        return False
    return True


# Setting and deleting


async def test_setting_again_keeps_what_is_left_out(hookgw_gateway: GatewayKit) -> None:
    old = await hookgw_gateway.register(
        "http://r.example/a", events=("CALL",), headers={"a": "1"}, plugins={"picky": {"level": 1}}
    )
    await hookgw_gateway.advance(5)
    new = await hookgw_gateway.register("http://r.example/b")
    kept = ("id", "instance", "label", "headers", "plugins", "secrets", "created_at")
    assert [getattr(new, name) for name in kept] == [getattr(old, name) for name in kept]
    assert (new.url, new.events, new.updated_at - old.updated_at) == ("http://r.example/b", (), 5)
    assert hookgw_gateway.gateway.registrations.find("shop") == new


async def test_the_same_label_set_at_once_is_one_registration(tmp_path: Path) -> None:
    async with open_kit(tmp_path) as kit:
        await kit.gateway.instances.create("shop")
        async with trio.open_nursery() as nursery:
            for number in range(8):
                nursery.start_soon(kit.register, f"http://r.example/{number}")
        [only] = kit.gateway.registrations.of_instance("shop")
        assert list(await kit.gateway.store.load_registrations()) == [only.id]
    async with open_kit(tmp_path) as kit:
        assert kit.gateway.registrations.of_instance("shop") == [only]


async def test_an_instance_has_sixteen_registrations_at_most(hookgw_gateway: GatewayKit) -> None:
    refused: list[HookgwError] = []

    async def register(label: str) -> None:
        try:
            await hookgw_gateway.register("http://r.example/", label=label)
        except Invalid as error:
            refused.append(error)

    await hookgw_gateway.gateway.instances.create("shop")
    async with trio.open_nursery() as nursery:
        for number in range(MOST_REGISTRATIONS + 3):
            nursery.start_soon(register, f"label-{number}")
    labels = [r.label for r in hookgw_gateway.gateway.registrations.of_instance("shop")]
    assert (MOST_REGISTRATIONS, len(labels), len(refused)) == (16, 16, 3)
    assert "at most 16 registrations" in str(refused[0])
    await hookgw_gateway.register("http://r.example/changed", label=labels[0])
    await hookgw_gateway.gateway.registrations.delete("shop", labels[1])
    await hookgw_gateway.register("http://r.example/", label="fits-again")
    await hookgw_gateway.register("http://r.example/", instance="other")


async def test_what_a_plugin_refuses_is_not_stored(hookgw_gateway: GatewayKit) -> None:
    with pytest.raises(Invalid, match=r"webhook\.plugins\.picky.*level is missing"):
        await hookgw_gateway.register("http://r.example/", plugins={"picky": {}})
    assert hookgw_gateway.gateway.instances.all() == []
    stored = await hookgw_gateway.register("http://r.example/", plugins={"picky": {"level": 1}})
    with pytest.raises(Invalid):
        await hookgw_gateway.register("http://other.example/", plugins={"picky": {}})
    assert hookgw_gateway.gateway.registrations.find("shop") == stored


async def test_a_registration_whose_plugin_is_gone_can_be_disabled(tmp_path: Path, picky: Picky) -> None:
    async with open_kit(tmp_path, plugins={"picky": picky}) as kit:
        for label in ("changed", "set"):
            await kit.register("http://r.example/", label=label, plugins={"picky": {"level": 1}})
    async with open_kit(tmp_path) as kit:
        registrations = kit.gateway.registrations
        await registrations.update("shop", "changed", enabling(False))
        await kit.register("http://r.example/", label="set", enabled=False)
        assert [(one.enabled, one.plugins) for one in registrations.of_instance("shop")] == [
            (False, {"picky": {"level": 1}})
        ] * 2
        with pytest.raises(Invalid, match="no plugin has this name"):
            await registrations.update("shop", "changed", enabling(True))


async def test_there_must_be_an_instance(tmp_path: Path) -> None:
    change = RegistrationChange(url="http://r.example/")
    async with open_kit(tmp_path, settings={"instances": {"auto_create": False}}) as kit:
        for create in (False, True):
            with pytest.raises(NotFound, match="instance 'shop'"):
                await kit.gateway.registrations.set("shop", "default", change, create=create)
        assert kit.gateway.instances.all() == []


async def test_deleting_parks_what_is_pending(hookgw_gateway: GatewayKit, hookgw_receiver: Receiver) -> None:
    hookgw_receiver.default = answer(503)
    gateway = hookgw_gateway.gateway
    await hookgw_gateway.register(hookgw_receiver.url)
    for _ in range(3):
        await hookgw_gateway.emit("MESSAGES_UPSERT", DATA)
    await hookgw_gateway.settled()
    await gateway.registrations.delete("shop")
    listed = await gateway.store.list_deliveries(DeliveryQuery(instance="shop"))
    assert {(d.state, d.reason) for d in listed.deliveries} == {
        (DeliveryState.DEAD, "The registration was deleted.")
    }
    with pytest.raises(NotFound, match="'shop' has no webhook 'default'"):
        await gateway.registrations.delete("shop")
    await hookgw_gateway.advance(3600)
    assert len(hookgw_receiver.requests) == 1


async def test_a_change_is_made_whole_where_the_caller_goes_away(
    hookgw_gateway: GatewayKit, hookgw_receiver: Receiver
) -> None:
    gateway = hookgw_gateway.gateway
    await gateway.instances.create("shop")
    calls: list[partial[Any]] = [
        partial(gateway.registrations.set, "shop", "default", RegistrationChange(url=hookgw_receiver.url)),
        partial(gateway.registrations.rotate_secret, "shop", "default", 60),
        partial(gateway.registrations.delete, "shop", "default"),
    ]
    seen: list[Registration | None] = []
    for call in calls:
        with trio.CancelScope() as scope:
            scope.cancel()
            await call()
        seen.append(gateway.registrations.find("shop"))
        assert list((await gateway.store.load_registrations()).values()) == [r for r in seen[-1:] if r]
    assert [len(registration.secrets) if registration else 0 for registration in seen] == [1, 2, 0]


# Secrets


async def test_both_secrets_sign_during_the_grace_and_the_new_one_alone_after_it(
    hookgw_gateway: GatewayKit, hookgw_receiver: Receiver
) -> None:
    first = (await hookgw_gateway.register(hookgw_receiver.url)).secrets[0]
    rotated = await hookgw_gateway.gateway.registrations.rotate_secret("shop", "default", 60)
    second = rotated.secrets[0]
    assert hookgw_gateway.gateway.registrations.find("shop") == rotated
    for seconds in (0, 58, 3):
        await hookgw_gateway.advance(seconds)
        await hookgw_gateway.emit("MESSAGES_UPSERT", DATA)
        await hookgw_gateway.settled()
    old = [signs(hookgw_receiver, request, first) for request in hookgw_receiver.requests]
    new = [signs(hookgw_receiver, request, second) for request in hookgw_receiver.requests]
    assert (old, new) == ([True, True, False], [True, True, True])


async def test_without_grace_the_old_secrets_end_at_once(
    hookgw_gateway: GatewayKit, hookgw_receiver: Receiver
) -> None:
    await hookgw_gateway.register(hookgw_receiver.url)
    await hookgw_gateway.gateway.registrations.rotate_secret("shop", "default", DAY)
    rotated = await hookgw_gateway.gateway.registrations.rotate_secret("shop", "default", 0)
    assert len(rotated.secrets) == 1
    await hookgw_gateway.emit("MESSAGES_UPSERT", DATA)
    [request] = await hookgw_receiver.wait_for(1)
    assert len((request.header("webhook-signature") or "").split()) == 1


async def test_rotating_again_cuts_no_promised_grace_short_nor_prolongs_it(
    hookgw_gateway: GatewayKit,
) -> None:
    gateway = hookgw_gateway.gateway
    first = (await hookgw_gateway.register("http://r.example/")).secrets[0]
    second = (await gateway.registrations.rotate_secret("shop", "default", 100)).secrets[0]
    start = gateway.clock.wall()
    await hookgw_gateway.advance(40)
    rotated = await gateway.registrations.rotate_secret("shop", "default", 100)
    ends = [(s.value, s.expires_at) for s in rotated.secrets[1:]]
    assert ends == [(second.value, start + 140), (first.value, start + 100)]
    again = await gateway.registrations.rotate_secret("shop", "default", 10)
    assert [s.expires_at for s in again.secrets] == [None, start + 50, start + 50, start + 50]


async def test_the_kept_secrets_are_bounded(hookgw_gateway: GatewayKit) -> None:
    await hookgw_gateway.register("http://r.example/")
    made: list[str] = []
    for _ in range(10):
        rotated = await hookgw_gateway.gateway.registrations.rotate_secret("shop", "default", DAY)
        made.insert(0, rotated.secrets[0].value)
    assert [s.value for s in rotated.secrets] == made[: registrations.MOST_OLD_SECRETS + 1]


async def test_rotating_at_once_loses_no_secret(hookgw_gateway: GatewayKit) -> None:
    gateway = hookgw_gateway.gateway
    old = await hookgw_gateway.register("http://r.example/")
    given: list[str] = []

    async def rotate() -> None:
        given.append((await gateway.registrations.rotate_secret("shop", "default", DAY)).secrets[0].value)

    async with trio.open_nursery() as nursery:
        nursery.start_soon(rotate)
        nursery.start_soon(rotate)
    now = gateway.registrations.find("shop")
    assert now is not None
    assert {s.value for s in now.secrets} == {old.secrets[0].value, *given}


async def test_there_is_no_secret_to_rotate(hookgw_gateway: GatewayKit) -> None:
    await hookgw_gateway.gateway.instances.create("shop")
    with pytest.raises(NotFound, match="'crm'"):
        await hookgw_gateway.gateway.registrations.rotate_secret("shop", "crm", 60)


# Trying out


async def test_a_test_event_is_sent_now_beside_a_lane_that_waits(
    hookgw_gateway: GatewayKit, hookgw_receiver: Receiver
) -> None:
    hookgw_receiver.will(answer(503), answer(201, "thanks"))
    registration = await hookgw_gateway.register(
        hookgw_receiver.url + "in", events=("CONNECTION_UPDATE", "CALL"), by_events=True, headers={"x-a": "b"}
    )
    await hookgw_gateway.emit("CONNECTION_UPDATE", {"state": "open"})
    await hookgw_gateway.settled()
    attempt = await hookgw_gateway.gateway.registrations.test("shop")
    assert (attempt.number, attempt.outcome, attempt.status) == (1, Outcome.DELIVERED, 201)
    assert (attempt.error, attempt.answer) == (None, "thanks")
    request = hookgw_receiver.requests[1]
    assert (request.path, request.header("x-a")) == ("/in/connection-update", "b")
    assert request.json["data"]["seen"]["profileName"] == "Shop"
    assert signs(hookgw_receiver, request, registration.secrets[0])
    assert await hookgw_gateway.gateway.store.find_delivery("shop", str(request.event_id)) is None


async def test_a_test_sends_a_message_where_no_kind_is_named(
    hookgw_gateway: GatewayKit, hookgw_receiver: Receiver, hookgw_clock: MockClock
) -> None:
    await hookgw_gateway.register(hookgw_receiver.url)
    assert (await hookgw_gateway.gateway.registrations.test("shop")).outcome is Outcome.DELIVERED
    assert hookgw_receiver.events()[0]["event"] == "MESSAGES_UPSERT"


async def test_a_test_tells_what_went_wrong_and_changes_nothing(
    hookgw_gateway: GatewayKit, hookgw_receiver: Receiver, picky: Picky
) -> None:
    gateway, receiver = hookgw_gateway.gateway, hookgw_receiver
    stored = await hookgw_gateway.register(receiver.url)
    receiver.will(answer(410), answer(500, "broken"))
    gone, failed = await gateway.registrations.test("shop"), await gateway.registrations.test("shop")
    assert (gone.outcome, failed.outcome, failed.answer) == (Outcome.GONE, Outcome.FAILED, "broken")
    picky.fails = True
    plugin = await gateway.registrations.test("shop")
    assert (plugin.outcome, plugin.status) == (Outcome.FAILED, None)
    assert "Plugin 'picky' failed in hookgw_transform: RuntimeError: out of order" in str(plugin.error)
    assert gateway.registrations.find("shop") == stored
    assert len(receiver.requests) == 2


async def test_a_test_of_a_receiver_that_is_not_there(
    hookgw_gateway: GatewayKit, hookgw_receiver: Receiver
) -> None:
    await hookgw_receiver.stop_listening()
    await hookgw_gateway.register(hookgw_receiver.url)
    attempt = await hookgw_gateway.gateway.registrations.test("shop")
    assert (attempt.outcome, attempt.status) == (Outcome.UNREACHABLE, None)
    await hookgw_gateway.register("http://10.255.255.1/")
    assert (await hookgw_gateway.gateway.registrations.test("shop")).outcome is Outcome.BLOCKED


async def test_a_test_ends_at_the_registrations_own_deadline(
    hookgw_gateway: GatewayKit, hookgw_receiver: Receiver, hookgw_clock: MockClock
) -> None:
    hookgw_receiver.default = hang()
    await hookgw_gateway.register(hookgw_receiver.url, timeout=2.0)
    found: list[Any] = []

    async def test() -> None:
        found.append(await hookgw_gateway.gateway.registrations.test("shop"))

    async with trio.open_nursery() as nursery:
        nursery.start_soon(test)
        await hookgw_receiver.wait_for(1)
        hookgw_clock.jump(2)
    assert (found[0].outcome, found[0].duration) == (Outcome.UNANSWERED, 2.0)


async def test_a_test_that_a_plugin_filters_out(
    hookgw_gateway: GatewayKit, hookgw_receiver: Receiver, picky: Picky
) -> None:
    picky.lets_pass = False
    await hookgw_gateway.register(hookgw_receiver.url)
    with pytest.raises(Conflict, match="filtered the event out"):
        await hookgw_gateway.gateway.registrations.test("shop")
    assert hookgw_receiver.requests == []


async def test_nothing_to_test(hookgw_gateway: GatewayKit) -> None:
    await hookgw_gateway.register("vazio", enabled=False)
    with pytest.raises(Conflict, match="disabled"):
        await hookgw_gateway.gateway.registrations.test("shop")
    with pytest.raises(NotFound, match="'crm'"):
        await hookgw_gateway.gateway.registrations.test("shop", "crm")
    with pytest.raises(NotFound):
        await hookgw_gateway.gateway.registrations.test("nowhere")


async def test_a_test_that_is_cancelled_closes_its_connection(
    hookgw_gateway: GatewayKit, hookgw_receiver: Receiver
) -> None:
    hookgw_receiver.default = hang()
    await hookgw_gateway.register(hookgw_receiver.url)
    async with trio.open_nursery() as nursery:
        nursery.start_soon(hookgw_gateway.gateway.registrations.test, "shop")
        await hookgw_receiver.wait_for(1)
        nursery.cancel_scope.cancel()
    await hookgw_gateway.settled()
    hookgw_receiver.default = answer(200)
    assert (await hookgw_gateway.gateway.registrations.test("shop")).outcome is Outcome.DELIVERED
    assert [request.connection for request in hookgw_receiver.requests] == [1, 2]


async def test_registrations_outlive_a_restart(tmp_path: Path, hookgw_receiver: Receiver) -> None:
    async with open_kit(tmp_path) as kit:
        stored = await kit.register(hookgw_receiver.url, headers={"x-a": "b"}, events=("MESSAGES_UPSERT",))
        rotated = await kit.gateway.registrations.rotate_secret("shop", "default", DAY)
    async with open_kit(tmp_path) as kit:
        assert kit.gateway.registrations.find("shop") == rotated
        assert (
            msgspec.structs.replace(rotated, secrets=stored.secrets, updated_at=stored.updated_at) == stored
        )
        await kit.emit("MESSAGES_UPSERT", DATA)
        await kit.settled()
    [request] = hookgw_receiver.requests
    assert signs(hookgw_receiver, request, rotated.secrets[0])
    assert signs(hookgw_receiver, request, stored.secrets[0])


async def commits_of(kit: GatewayKit) -> float:
    families = await kit.gateway.metrics.collect()
    samples = [sample for family in families for sample in family.samples]
    return next(one.value for one in samples if one.name == "hookgw_commit_seconds_count")


async def test_an_instance_and_its_first_registration_are_one_commit(
    hookgw_gateway: GatewayKit, hookgw_clock: MockClock
) -> None:
    """Where the disk refuses, there is neither; and there are never two commits between which it could."""
    gateway = hookgw_gateway.gateway
    change = RegistrationChange(url="http://r.example/")
    commits = await commits_of(hookgw_gateway)
    await hookgw_gateway.register("http://r.example/", instance="made", label="crm")
    await gateway.instances.create("created", webhook=change)
    assert await commits_of(hookgw_gateway) == commits + 2
    with read_only(gateway.store), pytest.raises(Unavailable):
        await hookgw_gateway.register("http://r.example/", instance="refused")
    await writes_again(gateway.store, hookgw_clock)
    assert [instance.name for instance in gateway.instances.all()] == ["created", "made"]
    assert set(await gateway.store.load_instances()) == {"created", "made"}
    stored = await gateway.store.load_registrations()
    assert {(one.instance, one.label) for one in stored.values()} == {("made", "crm"), ("created", "default")}
    assert stored.keys() == {
        one.id for name in ("made", "created") for one in gateway.registrations.of_instance(name)
    }
