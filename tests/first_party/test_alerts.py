"""The plugin alerts in a gateway: who is told what, once, through restarts."""

import json
import re
import smtplib
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from email.message import EmailMessage
from pathlib import Path
from typing import Any

import msgspec
import pytest
import structlog
import trio
import trio.lowlevel
from trio.testing import MockClock

from hookgw import Gateway, Invalid, PluginGateway
from hookgw.testing import GatewayKit, Receiver, answer, open_kit, open_receiver
from tests.api.conftest import KEY, open_client
from tests.public.kernel import ConfigError
from tests.public.records import Problem, ProblemKind, ProblemReport
from tests.support.application import create_app

pytestmark = pytest.mark.usefixtures("hookgw_clock")


@pytest.fixture
async def phone(hookgw_clock: MockClock) -> AsyncIterator[Receiver]:
    async with open_receiver() as receiver:
        yield receiver


@asynccontextmanager
async def alerting(
    folder: Path, phone: Receiver, *rules: dict[str, Any], **options: Any
) -> AsyncIterator[GatewayKit]:
    channels = {"phone": {"type": "url", "url": phone.url}, **options.pop("channels", {})}
    settings = options.pop("settings", {})
    rules = tuple({"to": ["phone"], **rule} for rule in rules)
    block = {"channels": channels, "rules": [*rules], "zone": "UTC", **options}
    async with open_kit(folder, settings={"alerts": block, **settings}) as kit:
        yield kit
        assert kit.plugin_failures == []


async def pass_time(kit: GatewayKit) -> None:
    """Let some seconds pass, few enough that no request in flight runs into its limit of 15 s."""
    await kit.advance(5)
    await trio.testing.wait_all_tasks_blocked(0.01)


async def looks(kit: GatewayKit, seconds: float) -> None:
    """Let the plugin look at the problems for some time."""
    for _ in range(int(seconds // 5) + 3):
        await pass_time(kit)


async def until(kit: GatewayKit, condition: Callable[[], bool]) -> None:
    for _ in range(300):
        if condition():
            return
        await pass_time(kit)
    raise AssertionError("it did not happen")


def told(phone: Receiver) -> list[tuple[str, str]]:
    """What the channel was told: state and title."""
    return [
        (found["state"], found["title"]) for found in map(json.loads, (one.body for one in phone.requests))
    ]


async def test_a_failing_webhook_is_told_once_through_a_restart_and_so_is_its_end(
    tmp_path: Path, phone: Receiver, hookgw_receiver: Receiver
) -> None:
    hookgw_receiver.default = answer(500)
    rule = {"on": "webhook_failing", "for": "5m"}
    async with alerting(tmp_path, phone, rule) as kit:
        await kit.register(hookgw_receiver.url)
        await kit.emit("CALL", {})
        await looks(kit, 240)
        assert told(phone) == []
        await until(kit, lambda: bool(phone.requests))
        await looks(kit, 300)
    async with alerting(tmp_path, phone, rule) as kit:
        await looks(kit, 300)
        assert told(phone) == [("raised", "Webhook default of shop fails")]
        hookgw_receiver.default = answer(200)
        await until(kit, lambda: len(phone.requests) > 1)
        await looks(kit, 300)
    assert told(phone) == [
        ("raised", "Webhook default of shop fails"),
        ("over", "Over: Webhook default of shop fails"),
    ]


@pytest.mark.parametrize("kind", ["discord", "teams"])
async def test_no_text_of_others_hides_where_a_link_leads(
    kind: str, tmp_path: Path, phone: Receiver, hookgw_receiver: Receiver
) -> None:
    """A receiver chooses where it redirects to."""
    hookgw_receiver.default = answer(302, headers={"location": "https://a.example/[x](https://b.example)[1]"})
    chat = {"it": {"type": kind, "url": phone.url}}
    rule = {"on": "webhook_failing", "for": "1m", "to": ["it"]}
    async with alerting(tmp_path, phone, rule, channels=chat) as kit:
        await kit.register(hookgw_receiver.url)
        await kit.emit("CALL", {})
        await until(kit, lambda: bool(phone.requests))
    said = phone.requests[0].body.decode()
    assert "https://a.example/\\\\[x](https://b.example)[1]" in said


@pytest.mark.parametrize("kind", sorted(set(ProblemKind) - {ProblemKind.NODE_LOST, ProblemKind.DEAD_LETTERS}))
async def test_each_kind_is_told_once_through_a_restart_and_so_is_its_end(
    kind: ProblemKind, tmp_path: Path, phone: Receiver, monkeypatch: pytest.MonkeyPatch
) -> None:
    present = [Problem(kind, "It is so.", instance="shop", label="crm", plugin="acme")]
    await tell_of(
        tmp_path,
        phone,
        monkeypatch,
        {"on": kind.value, "for": "1m"},
        lambda: {"problems": present},
        {"problems": []},
    )


async def test_a_lost_node_is_told_once_through_a_restart_and_so_is_its_return(
    tmp_path: Path, phone: Receiver, monkeypatch: pytest.MonkeyPatch
) -> None:
    rule = {"on": "node_lost", "for": "1m"}
    with_both = {"nodes": ["a", "b"]}
    # It is lost once it was there.
    calls = iter(range(10_000))
    await tell_of(
        tmp_path,
        phone,
        monkeypatch,
        rule,
        lambda: with_both if next(calls) < 2 else {"nodes": ["a"]},
        with_both,
    )


async def test_dead_letters_are_told_once_through_a_restart_and_so_is_their_end(
    tmp_path: Path, phone: Receiver, hookgw_receiver: Receiver
) -> None:
    hookgw_receiver.default = answer(400)
    rule = {"on": "dead_letters", "for": "0s", "within": "20m"}
    async with alerting(tmp_path, phone, rule) as kit:
        await kit.register(hookgw_receiver.url, retry={"schedule": []})
        await kit.emit("CALL", {})
        await until(kit, lambda: bool(phone.requests))
    async with alerting(tmp_path, phone, rule) as kit:
        await looks(kit, 300)
        assert [state for state, _ in told(phone)] == ["raised"]
        await looks(kit, 1500)
    assert [state for state, _ in told(phone)] == ["raised", "over"]


async def tell_of(
    folder: Path,
    phone: Receiver,
    patch: pytest.MonkeyPatch,
    rule: dict[str, Any],
    present: Callable[[], dict[str, Any]],
    absent: dict[str, Any],
) -> None:
    """Let a gateway report something, start again, and report the end; what it was told comes once each."""
    is_over, real = False, Gateway.problems

    async def problems(gateway: Gateway) -> ProblemReport:
        report = await real(gateway)
        return msgspec.structs.replace(report, **(absent if is_over else present()))

    patch.setattr(Gateway, "problems", problems)
    async with alerting(folder, phone, rule) as kit:
        await until(kit, lambda: bool(phone.requests))
        await looks(kit, 120)
    async with alerting(folder, phone, rule) as kit:
        await looks(kit, 120)
        assert [state for state, _ in told(phone)] == ["raised"]
        is_over = True
        await until(kit, lambda: len(phone.requests) > 1)
        await looks(kit, 120)
    assert [state for state, _ in told(phone)] == ["raised", "over"]


async def test_sixteen_webhooks_of_one_host_are_one_message(
    tmp_path: Path, phone: Receiver, hookgw_receiver: Receiver
) -> None:
    hookgw_receiver.default = answer(503)
    async with alerting(tmp_path, phone, {"on": ["webhook_failing", "disk"], "for": "1m"}) as kit:
        for number in range(16):
            await kit.register(hookgw_receiver.url, label=f"crm{number}")
        await kit.emit("CALL", {})
        await until(kit, lambda: bool(phone.requests))
        await looks(kit, 120)
    assert told(phone) == [("raised", "16 webhooks at 127.0.0.1 fail")]
    assert json.loads(phone.requests[0].body)["count"] == 16


async def test_the_next_channel_gets_what_the_first_does_not_take(
    tmp_path: Path, phone: Receiver, hookgw_receiver: Receiver
) -> None:
    async with open_receiver(default=answer(500)) as broken:
        second = {"type": "url", "url": broken.url}
        rule = {"on": "webhook_failing", "for": "1m", "to": ["broken", "phone"]}
        hookgw_receiver.default = answer(500)
        async with alerting(tmp_path, phone, rule, channels={"broken": second}) as kit:
            await kit.register(hookgw_receiver.url)
            await kit.emit("CALL", {})
            await until(kit, lambda: bool(phone.requests))
            await looks(kit, 60)
        assert len(broken.requests) == 1
    assert told(phone) == [("raised", "Webhook default of shop fails")]


async def listed(kit: GatewayKit) -> Any:
    async with (
        trio.open_nursery() as nursery,
        open_client(create_app(kit.gateway), nursery, apikey=KEY) as client,
    ):
        return (await client.get("/alerts/list")).json()


async def test_an_alert_that_no_channel_takes_is_shown_with_the_reason(
    tmp_path: Path, phone: Receiver, hookgw_receiver: Receiver
) -> None:
    hookgw_receiver.default = phone.default = answer(500)
    settings = {"auth": {"global_key": KEY}}
    async with alerting(tmp_path, phone, {"on": "webhook_failing", "for": "1m"}, settings=settings) as kit:
        await kit.register(hookgw_receiver.url)
        await kit.emit("CALL", {})
        await until(kit, lambda: bool(phone.requests))
        await trio.testing.wait_all_tasks_blocked(0.01)
        found = await listed(kit)
        [refused] = found["refused"]
        assert (refused["alert"], refused["channels"]) == (found["alerts"][0]["id"], ["phone"])
        assert "500" in refused["error"]
        [page] = [one for one in kit.gateway.hooks.dashboard_pages() if one.path == "alerts"]
        shown = str(await page.render(kit.gateway.for_plugin("alerts"), {}, 10))
        assert f"phone does not take it: {refused['error']}" in shown
        phone.default = answer(200)
        await looks(kit, 300)
        assert (await listed(kit))["refused"] == []


async def test_a_notice_that_some_recipients_have_is_not_sent_again(
    tmp_path: Path, phone: Receiver, hookgw_receiver: Receiver, monkeypatch: pytest.MonkeyPatch
) -> None:
    mails: list[str] = []

    class Server:
        sock = None

        def __init__(self, *_: object, **options: object) -> None: ...

        def send_message(self, message: EmailMessage) -> dict[str, tuple[int, bytes]]:
            mails.append(message["Subject"])
            return {"g@h.i": (550, b"no such user")}

        def putcmd(self, command: str) -> None: ...

        def close(self) -> None: ...

    monkeypatch.setattr(smtplib, "SMTP", Server)
    mail = {"type": "email", "host": "mail", "tls": "none", "from": "a@b.c", "to": ["d@e.f", "g@h.i"]}
    rule = {"on": "webhook_failing", "for": "1m", "to": ["mail", "phone"]}
    hookgw_receiver.default = answer(500)
    async with alerting(tmp_path, phone, rule, channels={"mail": mail}) as kit:
        await kit.register(hookgw_receiver.url)
        await kit.emit("CALL", {})
        await until(kit, lambda: bool(mails))
        await looks(kit, 300)
    assert (mails, told(phone)) == (["Webhook default of shop fails"], [])


@pytest.mark.parametrize(
    "channel", [{"type": "ntfy", "token": "tk_ç"}, {"type": "telegram", "token": "1:abc\n", "chat": 1}]
)
async def test_a_channel_whose_values_cannot_be_sent_holds_up_no_other(
    tmp_path: Path, phone: Receiver, hookgw_receiver: Receiver, channel: dict[str, Any]
) -> None:
    hookgw_receiver.default = answer(500)
    broken = {**channel, "url": f"http://127.0.0.1:{phone.port}/x"}
    rules = [{"on": "webhook_failing", "for": "1m", "to": to} for to in (["broken", "phone"], ["phone"])]
    async with alerting(tmp_path, phone, *rules, channels={"broken": broken}) as kit:
        await kit.register(hookgw_receiver.url)
        await kit.emit("CALL", {})
        await until(kit, lambda: bool(phone.requests))
        await looks(kit, 300)
    assert told(phone) == [("raised", "Webhook default of shop fails")] * 2


async def test_dead_letters_are_counted_over_a_time(
    tmp_path: Path, phone: Receiver, hookgw_receiver: Receiver
) -> None:
    hookgw_receiver.default = answer(400)
    rule = {"on": "dead_letters", "for": "0s", "count": 3, "within": "10m"}
    async with alerting(tmp_path, phone, rule) as kit:
        await kit.register(hookgw_receiver.url, retry={"schedule": []})
        await kit.emit("CALL", {})
        await kit.emit("CALL", {})
        await looks(kit, 120)
        assert told(phone) == []
        await kit.emit("CALL", {})
        await until(kit, lambda: bool(phone.requests))
        assert told(phone) == [("raised", "shop has dead letters")]
        await looks(kit, 900)
    assert told(phone)[1:] == [("over", "Over: shop has dead letters")]


async def test_dead_letters_of_a_webhook_of_the_configuration_are_those_of_no_instance(
    tmp_path: Path, phone: Receiver, hookgw_receiver: Receiver
) -> None:
    hookgw_receiver.default = answer(400)
    hook = {"url": hookgw_receiver.url, "label": "crm", "retry": {"schedule": []}}
    rule = {"on": "dead_letters", "for": "0s"}
    async with alerting(tmp_path, phone, rule, settings={"global_webhooks": [hook]}) as kit:
        await kit.gateway.instances.create("shop")
        await kit.emit("CALL", {})
        await until(kit, lambda: bool(phone.requests))
    assert told(phone) == [("raised", "Webhook crm of every instance has dead letters")]


async def test_a_rule_of_the_dashboard_lasts(
    tmp_path: Path, phone: Receiver, hookgw_receiver: Receiver
) -> None:
    hookgw_receiver.default = answer(500)
    async with alerting(tmp_path, phone) as kit:
        [page] = [one for one in kit.gateway.hooks.dashboard_pages() if one.path == "alerts"]
        gateway = kit.gateway.for_plugin("alerts")
        form = {"do": "add", "on": "webhook_failing", "to": "phone", "for": "1m"}
        for tags, reason in (("tenant=acme, tenant=bolt", "tenant is given twice"), ("acme", "NAME=VALUE")):
            with pytest.raises(Invalid, match=reason):
                await page.submit(gateway, form | {"tags": tags}, 10)
        assert await page.submit(gateway, form, 10) == "The rule is added."
    async with alerting(tmp_path, phone) as kit:
        [page] = [one for one in kit.gateway.hooks.dashboard_pages() if one.path == "alerts"]
        gateway = kit.gateway.for_plugin("alerts")
        shown = str(await page.render(gateway, {}, 10))
        assert "webhook_failing" in shown
        assert "No alert is open." in shown
        shown = str(await page.render(gateway, {"on": "dead_letters", "quiet": "22:00'>", "for": "1x"}, 10))
        assert "<option selected>dead_letters</option>" in shown
        assert "name='quiet' value='22:00&#39;&gt;'" in shown
        assert "name='for' value='1x'" in shown
        await kit.register(hookgw_receiver.url)
        await kit.emit("CALL", {})
        await until(kit, lambda: bool(phone.requests))
        shown = str(await page.render(gateway, {}, 10))
        assert "Webhook default of shop fails" in shown
        assert '<time datetime="' in shown
        rule = shown.split("remove:")[1].split("'")[0]
        assert await page.submit(gateway, {"do": f"remove:{rule}"}, 10) == "The rule is removed."
        assert await page.submit(gateway, {"do": "test:phone"}, 10) == "phone has the test."
    assert told(phone)[-1] == ("raised", "A test of hookgw's alerts")


async def stored_rules(gateway: PluginGateway) -> dict[str, Any]:
    return {key: rule for key, rule in (await gateway.records.load()).items() if key.startswith("rule ")}


async def test_a_rule_whose_channel_is_gone_is_shown_with_the_reason(tmp_path: Path, phone: Receiver) -> None:
    """It tells nobody: the page had no trace of it, and a new rule looked as if it were the first."""
    async with alerting(tmp_path, phone, settings={"auth": {"global_key": KEY}}) as kit:
        gateway = kit.gateway.for_plugin("alerts")
        wanted = {
            f"rule {on}": {"on": on, "to": [to]} for on, to in (("disk", "mail"), ("dead_letters", "phone"))
        }
        await gateway.records.put(wanted)
        [page] = [one for one in kit.gateway.hooks.dashboard_pages() if one.path == "alerts"]
        shown = str(await page.render(gateway, {}, 10))
        [row] = re.findall(r"<tr><td>disk</td>.*?</tr>", shown)
        assert "there is no channel &#39;mail&#39;; the channels are: phone" in row
        reason = "to: there is no channel 'mail'; the channels are: phone"
        assert (await listed(kit))["leftOut"] == [{"on": ["disk"], "to": ["mail"], "reason": reason}]
        [rule] = re.findall("remove:([^']+)'", row)
        assert await page.submit(gateway, {"do": f"remove:{rule}"}, 10) == "The rule is removed."
        assert (await stored_rules(gateway)) == {"rule dead_letters": wanted["rule dead_letters"]}


async def test_a_rule_is_removed_beside_one_of_another_version(tmp_path: Path, phone: Receiver) -> None:
    async with alerting(tmp_path, phone) as kit:
        gateway = kit.gateway.for_plugin("alerts")
        wanted = {f"rule {on}": {"on": on, "to": ["phone"]} for on in ("rain", "disk")}
        await gateway.records.put(wanted)
        [page] = [one for one in kit.gateway.hooks.dashboard_pages() if one.path == "alerts"]
        [rule] = re.findall("remove:([^']+)'", str(await page.render(gateway, {}, 10)))
        assert await page.submit(gateway, {"do": f"remove:{rule}"}, 10) == "The rule is removed."
        assert (await stored_rules(gateway)) == {"rule rain": wanted["rule rain"]}


async def test_rules_that_two_add_at_once_both_last(
    tmp_path: Path, phone: Receiver, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with alerting(tmp_path, phone) as kit:
        [page] = [one for one in kit.gateway.hooks.dashboard_pages() if one.path == "alerts"]
        gateway, load = kit.gateway.for_plugin("alerts"), kit.gateway.store.load_plugin_records

        async def load_slowly(plugin: str) -> dict[str, Any]:
            found = await load(plugin)
            await trio.testing.wait_all_tasks_blocked(0.01)
            return found

        with monkeypatch.context() as patched:
            patched.setattr(kit.gateway.store, "load_plugin_records", load_slowly)
            async with trio.open_nursery() as nursery:
                for kind in ("webhook_failing", "dead_letters"):
                    form = {"do": "add", "on": kind, "to": "phone"}
                    nursery.start_soon(page.submit, gateway, form, 10)
        rules = await stored_rules(gateway)
        assert sorted(rule["on"] for rule in rules.values()) == ["dead_letters", "webhook_failing"]


@pytest.mark.parametrize(
    ("block", "message"),
    [
        ({"channels": {"a": {"type": "slack", "url": "ftp://x"}}}, "channels.a.url: use a URL that begins"),
        ({"channels": {"a": {"type": "ntfy", "url": "https://ntfy.sh/"}}}, "channels.a.url: end it with the"),
        ({"dashboard": f"https://a/{'b' * 1000}"}, "dashboard: use a URL of at most 1000 characters"),
        ({"channels": {"a": {"type": "fax"}}}, r"channels\.a: Invalid value 'fax'"),
        ({"rules": [{"on": "disk", "to": ["b"]}]}, r"rules\[0\].to: there is no channel 'b'"),
        ({"rules": [{"on": "rain", "to": ["b"]}]}, "Invalid enum value 'rain'"),
        (
            {
                "channels": {"b": {"type": "url", "url": "http://b"}},
                "rules": [{"on": "disk", "to": ["b"], "tags": {"a b": "x"}}],
            },
            r"rules\[0\].tags: the name",
        ),
        (
            {
                "channels": {"b": {"type": "url", "url": "http://b"}},
                "rules": [{"on": "disk", "to": ["b"], "quiet": "22:00Z-07:00Z"}],
            },
            r"rules\[0\].quiet: use two times of day",
        ),
        ({"zone": "Mars/Base"}, "zone: there is no time zone"),
        ({"zone": "America"}, "zone: there is no time zone"),
    ],
)
async def test_a_wrong_block_stops_the_start(tmp_path: Path, block: dict[str, Any], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        async with open_kit(tmp_path, settings={"alerts": block}):
            pass


async def test_a_rule_for_the_instances_of_a_tag(
    tmp_path: Path, phone: Receiver, hookgw_receiver: Receiver
) -> None:
    hookgw_receiver.default = answer(400)
    rules: list[dict[str, Any]] = [
        {"on": "dead_letters", "for": "0s", "tags": {"tenant": name}} for name in ("acme", "bolt")
    ]
    async with alerting(tmp_path, phone, *rules) as kit:
        await kit.register(hookgw_receiver.url, retry={"schedule": []})
        await kit.gateway.instances.change_tags("shop", {"tenant": "acme", "plan": "gold"})
        await kit.emit("CALL", {})
        await until(kit, lambda: bool(phone.requests))
        await looks(kit, 60)
        assert told(phone) == [("raised", "shop has dead letters")]
        # It changes hands: the new tenant's rule tells, and the former one's is over.
        await kit.gateway.instances.change_tags("shop", {"tenant": "bolt"})
        await until(kit, lambda: len(phone.requests) == 3)
    assert sorted(told(phone)[1:]) == [
        ("over", "Over: shop has dead letters"),
        ("raised", "shop has dead letters"),
    ]


async def test_a_kill_while_a_notice_is_sent_sends_it_again(
    tmp_path: Path, phone: Receiver, hookgw_receiver: Receiver
) -> None:
    """It is stored before it is sent, and removed after that."""
    hookgw_receiver.default = answer(500)
    rule = {"on": "webhook_failing", "for": "1m"}
    records: list[dict[str, Any]] = []
    async with alerting(tmp_path, phone, rule) as kit:
        gateway = kit.gateway.for_plugin("alerts")

        async def note(_: object) -> Any:
            records.append(await gateway.records.load())
            return answer(200)

        phone.default = note
        await kit.register(hookgw_receiver.url)
        await kit.emit("CALL", {})
        await until(kit, lambda: bool(records))
        await trio.lowlevel.checkpoint()
        await looks(kit, 15)
        after = await gateway.records.load()
    assert [one["state"] for one in waiting(records[0])] == ["raised"]
    assert waiting(after) == []


def waiting(records: dict[str, Any]) -> list[dict[str, Any]]:
    """Return the notices in a state as it is stored, in parts."""
    parts = [records[key] for key in sorted(records) if key.startswith("state ")]
    return [*json.loads("".join(parts))["notices"].values()]


async def test_what_fails_at_many_hosts_at_once_is_told_as_one(
    tmp_path: Path, phone: Receiver, monkeypatch: pytest.MonkeyPatch
) -> None:
    present = [
        Problem(ProblemKind.WEBHOOK_FAILING, "No route.", instance=f"i{n}", label="x", detail=f"http://h{n}/")
        for n in range(200)
    ]
    real = Gateway.problems

    async def problems(gateway: Gateway) -> ProblemReport:
        return msgspec.structs.replace(await real(gateway), problems=present)

    monkeypatch.setattr(Gateway, "problems", problems)
    async with alerting(tmp_path, phone, {"on": "webhook_failing", "for": "0s"}) as kit:
        await looks(kit, 60)
    assert told(phone) == [("raised", "200 webhooks at several hosts fail")]


async def test_a_storm_that_many_rules_tell_is_told_through_a_restart(
    tmp_path: Path, phone: Receiver, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What is remembered of it is more than one record of a plugin takes."""
    present = [
        Problem(
            ProblemKind.WEBHOOK_FAILING,
            "503",
            instance=f"i{n}.{m}",
            label="x",
            detail=f"http://h{n}/{'é' * 999}",
        )
        for n in range(80)
        for m in range(5)
    ]
    rules = [{"on": "webhook_failing", "for": "0s", "instances": [f"i{n}.*"]} for n in range(80)]
    real = Gateway.problems

    async def problems(gateway: Gateway) -> ProblemReport:
        return msgspec.structs.replace(await real(gateway), problems=present)

    monkeypatch.setattr(Gateway, "problems", problems)
    for _ in range(2):
        async with alerting(tmp_path, phone, *rules) as kit:
            await looks(kit, 60)
    assert len(phone.requests) > 30
    assert len(set(told(phone))) == len(phone.requests)


async def test_the_dead_letters_of_a_week_are_few_records(
    tmp_path: Path, phone: Receiver, hookgw_receiver: Receiver
) -> None:
    hookgw_receiver.default = answer(400)
    rule = {"on": "dead_letters", "for": "0s", "within": "7d", "count": 9_991}
    async with alerting(tmp_path, phone, rule) as kit:
        records = kit.gateway.for_plugin("alerts").records
        minute = int(kit.gateway.clock.wall() // 60)
        await records.put({f"dead {minute - n} a": {"shop": 1} for n in range(1, 9_991)})
        await kit.register(hookgw_receiver.url, retry={"schedule": []})
        await looks(kit, 60)
        assert told(phone) == []
        await kit.emit("CALL", {})
        await until(kit, lambda: bool(phone.requests))
        stored = await records.load()
    counts = [sum(counted.values()) for key, counted in stored.items() if key.startswith("dead ")]
    assert sum(counts) == 9_991
    assert len(counts) < 7 * 24 * 6 + 90
    assert told(phone) == [("raised", "shop has dead letters")]


async def test_dead_letters_that_cannot_be_stored_are_counted_later(
    tmp_path: Path, phone: Receiver, hookgw_receiver: Receiver
) -> None:
    hookgw_receiver.default = answer(400)
    async with alerting(tmp_path, phone, {"on": "dead_letters", "for": "0s"}) as kit:
        await kit.register(hookgw_receiver.url, retry={"schedule": []})
        await looks(kit, 15)
        records = kit.gateway.for_plugin("alerts").records
        room = 10_000 - len(await records.load())
        await records.put({f"other {n}": 1 for n in range(room)})
        with structlog.testing.capture_logs() as logs:
            await kit.emit("CALL", {})
            await looks(kit, 60)
        assert told(phone) == []
        # Not for each look: an outage may last for a night.
        assert [entry["event"] for entry in logs].count("dead letters wait to be counted") == 1
        await records.put({"other 0": None})
        await until(kit, lambda: bool(phone.requests))
    assert told(phone) == [("raised", "shop has dead letters")]
