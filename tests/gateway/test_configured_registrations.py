"""The registrations of the configuration, which hear every instance."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import msgspec
import pytest
import trustme

from hookgw import Registration
from hookgw.testing import Receiver, answer, open_kit, open_receiver
from tests.public.concurrency import Clock
from tests.public.config import OperationsSettings
from tests.public.kernel import MASK, ConfigError
from tests.public.records import (
    BUILT_IN_KINDS,
    GLOBAL_INSTANCE,
    OPERATIONS_ID,
    Catalog,
    Ordering,
    TlsIdentity,
    lane_rule,
)
from tests.public.store import Store, open_store
from tests.public.webhooks import parse_global_webhooks, read_global_webhooks, read_operations
from tests.support.certificates import certificate_of
from tests.support.waits import FIRST_WAIT

pytestmark = pytest.mark.usefixtures("hookgw_clock")

CATALOG = Catalog(BUILT_IN_KINDS)
DATA = {"key": {"remoteJid": "55@s", "fromMe": False, "id": "A"}}
SECRET = "whsec_" + "QUFB" * 8


@asynccontextmanager
async def opened(folder: Path) -> AsyncIterator[Store]:
    async with open_store(folder / "hookgw.db", clock=Clock()) as store:
        yield store


async def read(folder: Path, *blocks: dict[str, Any]) -> tuple[Registration, ...]:
    refused: ConfigError | None = None
    async with opened(folder) as store:
        try:
            return await read_global_webhooks(parse_global_webhooks(blocks, CATALOG), store)
        except ConfigError as error:
            refused = error  # raised outside of the store, whose nursery would put it into a group
    assert refused is not None
    raise refused


async def test_a_block_is_the_body_of_a_set_with_a_label(tmp_path: Path) -> None:
    [one] = await read(
        tmp_path,
        {
            "url": "https://crm.example/in",
            "label": "crm",
            "events": ["messages.upsert"],
            "webhookByEvents": True,
            "headers": {"x-a": "b"},
            "secret": SECRET,
        },
    )
    assert (one.id, one.instance, one.label) == ("global_crm", GLOBAL_INSTANCE, "crm")
    assert (one.url, one.events, one.by_events) == ("https://crm.example/in", ("MESSAGES_UPSERT",), True)
    assert (one.headers, [s.value for s in one.secrets]) == ({"x-a": "b"}, [SECRET])


async def test_none_are_asked_for(tmp_path: Path) -> None:
    assert await read(tmp_path) == ()


async def test_every_problem_is_named_with_its_place(tmp_path: Path) -> None:
    blocks: list[dict[str, Any]] = [
        {"url": "https://ok.example/", "label": "twice"},
        {"url": "ftp://no.example/", "events": ["MESSAGES_UPSETT"]},
        {"url": "https://ok.example/", "lable": "x"},
        {"url": "https://ok.example/", "label": "a b"},
        {"url": "https://ok.example/", "label": 7},
        {"url": "https://other.example/", "label": "twice"},
        {},
        {"ulr": "https://ok.example/", "webhook": {"headers": {}, "orderng": "chat"}},
        {"url": "https://ok.example/2", "retry": {"scedule": []}},
    ]
    with pytest.raises(ConfigError) as caught:
        await read(tmp_path, *blocks)
    starts = [
        "global_webhooks[1].url: The URL must begin with http",
        "global_webhooks[1].events[0]: 'MESSAGES_UPSETT' is not a known event kind. Did you mean",
        "global_webhooks[2].lable is not a field of a webhook. Did you mean label?",
        "global_webhooks[3].label must be 1 to 128",
        "global_webhooks[4].label must be 1 to 128",
        "global_webhooks[5].label: 'twice' is used twice; give each block its own.",
        "global_webhooks[6].url is missing",
        "global_webhooks[7].webhook.url is missing",
        "global_webhooks[7].webhook.orderng is not a field of a webhook. Did you mean ordering?",
        "global_webhooks[7].ulr is not a field of a webhook. Did you mean url?",
        "global_webhooks[8].retry.scedule is an unknown field",
    ]
    for message, start in zip(caught.value.messages, starts, strict=True):
        assert message.startswith(start)
        assert "ignored" not in message


async def test_a_block_may_have_a_tls_identity(tmp_path: Path) -> None:
    authority = trustme.CA()
    certificate, key = certificate_of(authority, not_after=datetime(2026, 1, 1, tzinfo=UTC))
    tls = {"clientCertificate": certificate, "clientKey": key}
    # An expired certificate fails the attempts of one webhook; it does not stop the start.
    [one] = await read(tmp_path, {"url": "https://crm.example/in", "label": "crm", "tls": tls})
    assert one.tls == TlsIdentity(client_certificate=certificate, client_key=key)
    with pytest.raises(ConfigError) as caught:
        await read(tmp_path, {"url": "https://crm.example/in", "tls": tls | {"clientKey": MASK}})
    assert str(caught.value) == ("global_webhooks[0].tls.clientKey is masked, but no key is stored: send it.")


async def test_blocks_without_a_label_must_differ_in_their_urls(tmp_path: Path) -> None:
    with pytest.raises(ConfigError) as caught:
        await read(
            tmp_path,
            {"url": "https://ok.example/"},
            {"url": "https://other.example/"},
            {"url": "https://u:p@ok.example/"},
        )
    assert caught.value.messages == (
        "global_webhooks[2] has the same URL as global_webhooks[0]; give each of them a label.",
    )


async def test_what_the_api_only_shows_cannot_be_configured(tmp_path: Path) -> None:
    """Ignored, ``instance`` would let the events of every instance go to the URL of one."""
    with pytest.raises(ConfigError) as caught:
        await read(
            tmp_path,
            {"url": "https://ok.example/", "instance": "loja1", "paused": True, "state": "paused", "id": "x"},
            {"webhook": {"url": "https://ok.example/", "instanceId": "x", "label": "crm"}},
        )
    every = "a global webhook receives the events of every instance."
    assert caught.value.messages == (
        f"global_webhooks[0].instance cannot be set here: {every}",
        "global_webhooks[0].paused cannot be set here: a global webhook has no pause; use enabled: false.",
        "global_webhooks[0].state cannot be set here: it follows from enabled.",
        "global_webhooks[0].id cannot be set here: hookgw sets it.",
        f"global_webhooks[1].webhook.instanceId cannot be set here: {every}",
        "global_webhooks[1].webhook.label cannot be set here: write label beside webhook.",
    )


async def test_nothing_is_kept_of_what_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ConfigError):
        await read(tmp_path, {"url": "https://ok.example/", "label": "ok"}, {})
    async with opened(tmp_path) as store:
        assert await store.get_value("global_webhooks.ok.secret") is None


async def test_a_secret_that_was_made_stays_through_restarts_and_changes(tmp_path: Path) -> None:
    block = {"url": "https://crm.example/", "label": "crm"}
    [first] = await read(tmp_path, block)
    [again] = await read(tmp_path, block)
    assert again == first
    [moved] = await read(
        tmp_path, {**block, "url": "https://other.example/", "events": ["CONNECTION_UPDATE"]}
    )
    assert moved.secrets == first.secrets
    [given] = await read(tmp_path, {**block, "secret": SECRET})
    assert [s.value for s in given.secrets] == [SECRET]
    [other] = await read(tmp_path, {**block, "label": "other"})
    assert other.secrets != first.secrets


async def test_a_block_without_a_label_is_known_by_its_url(tmp_path: Path) -> None:
    """Its place in the file means nothing: another block before it does not take its secret."""
    one, two = {"url": "https://one.example/"}, {"url": "https://two.example/"}
    [first] = await read(tmp_path, one)
    second, again = await read(tmp_path, two, one)
    assert again == first
    assert second.id != first.id
    assert second.secrets != first.secrets
    with pytest.raises(ConfigError, match=r"global_webhooks\[1\] has the same URL as global_webhooks\[0\]"):
        await read(tmp_path, one, one)


@pytest.mark.parametrize(
    ("ordering", "concurrency", "is_redivided"),
    [("instance", 16, False), ("instance", 2, False), ("url", 1, True), ("chat", 1, True), ("chat", 4, True)],
)
async def test_another_division_into_lanes_raises_the_generation(
    tmp_path: Path, ordering: str, concurrency: int, is_redivided: bool
) -> None:
    block = {"url": "https://crm.example/", "label": "crm"}
    [first] = await read(tmp_path, block)
    assert (first.ordering, first.concurrency, first.generation) == (Ordering.INSTANCE, 16, 0)
    for _ in range(2):  # once: the next start finds the lanes as they are
        [changed] = await read(tmp_path, {**block, "ordering": ordering, "concurrency": concurrency})
        assert changed.generation == int(is_redivided)


async def test_a_block_with_an_ordering_of_its_own_keeps_it(tmp_path: Path) -> None:
    [one] = await read(tmp_path, {"url": "https://crm.example/", "ordering": "url"})
    assert (one.ordering, one.concurrency) == (Ordering.URL, 1)
    [two] = await read(tmp_path, {"url": "https://crm.example/", "concurrency": 4})
    assert (two.ordering, two.concurrency) == (Ordering.URL, 4)


async def test_a_damaged_note_of_the_last_start_is_as_none(tmp_path: Path) -> None:
    block = {"url": "https://crm.example/", "label": "crm"}
    async with opened(tmp_path) as store:
        await store.put_value("global_webhooks.crm.last_start", ["?"])
    [one] = await read(tmp_path, block)
    assert one.generation == 0


OPERATIONS = OperationsSettings(url="https://ops.example/hook", headers={"X-Token": "abc"})


async def test_without_an_operations_url_there_is_no_registration(tmp_path: Path) -> None:
    async with opened(tmp_path) as store:
        assert await read_operations(OperationsSettings(), store) is None


async def test_the_operations_registration_is_made_of_the_settings(tmp_path: Path) -> None:
    async with opened(tmp_path) as store:
        found = await read_operations(OPERATIONS, store)
    assert found is not None
    assert (found.id, found.instance, found.url) == (OPERATIONS_ID, GLOBAL_INSTANCE, OPERATIONS.url)
    assert (found.headers, found.enabled) == ({"X-Token": "abc"}, True)
    assert lane_rule(found).generation_prefix == "operations:0"


async def test_a_generated_operations_secret_is_kept_and_a_given_one_goes_before_it(tmp_path: Path) -> None:
    given = msgspec.structs.replace(OPERATIONS, secret=SECRET)
    secrets = []
    for settings in (OPERATIONS, OPERATIONS, given, OPERATIONS):
        async with opened(tmp_path) as store:
            found = await read_operations(settings, store)
            assert found is not None
            secrets.append(found.secrets[0].value)
    assert secrets[0] == secrets[1] == secrets[3]
    assert secrets[2] == SECRET


async def test_what_is_pending_moves_along_with_a_changed_block(
    tmp_path: Path, hookgw_receiver: Receiver
) -> None:
    async with open_receiver() as old:
        old.default = answer(503)
        for url in (old.url, hookgw_receiver.url):
            settings = {"global_webhooks": [{"url": url, "label": "crm"}]}
            async with open_kit(tmp_path, settings=settings) as kit:
                if kit.gateway.instances.find("shop") is None:
                    await kit.gateway.instances.create("shop")
                ids = [f"{url[-6:-1]}-{n}" for n in range(3)]
                for event_id in ids:
                    await kit.emit("MESSAGES_UPSERT", DATA, event_id=event_id)
                await kit.advance(FIRST_WAIT)
    assert set(old.ids) == {f"{old.url[-6:-1]}-0"}
    assert hookgw_receiver.ids == [f"{old.url[-6:-1]}-{n}" for n in range(3)] + ids


async def test_it_hears_every_instance_also_those_that_come_later(
    tmp_path: Path, hookgw_receiver: Receiver
) -> None:
    blocks = [{"url": hookgw_receiver.url, "events": ["MESSAGES_UPSERT"], "secret": SECRET}]
    async with open_kit(tmp_path, settings={"global_webhooks": blocks}) as kit:
        for name in ("shop", "bar"):
            await kit.gateway.instances.create(name)
            await kit.emit("MESSAGES_UPSERT", DATA, instance=name)
            await kit.emit("CONNECTION_UPDATE", {"state": "open"}, instance=name)
        await kit.settled()
        assert kit.gateway.registrations.of_instance("shop") == []
    assert [request.json["instance"] for request in hookgw_receiver.requests] == ["shop", "bar"]
    for request in hookgw_receiver.requests:
        hookgw_receiver.verify(request, SECRET)


async def test_what_is_pending_goes_to_the_new_url_after_a_restart(
    tmp_path: Path, hookgw_receiver: Receiver
) -> None:
    block = {"url": hookgw_receiver.url + "old", "label": "crm"}
    hookgw_receiver.will(answer(503))
    async with open_kit(tmp_path, settings={"global_webhooks": [block]}) as kit:
        await kit.gateway.instances.create("shop")
        for number in range(3):
            await kit.emit("MESSAGES_UPSERT", DATA, event_id=f"e{number}")
        await kit.settled()
    block["url"] = hookgw_receiver.url + "new"
    async with open_kit(tmp_path, settings={"global_webhooks": [block]}) as kit:
        await kit.emit("MESSAGES_UPSERT", DATA, event_id="e3")
        await kit.advance(10)
    arrived = [(request.path, request.event_id) for request in hookgw_receiver.requests]
    assert arrived == [("/old", "e0"), *(("/new", f"e{n}") for n in range(4))]


async def test_one_that_the_receiver_ended_is_disabled_until_the_next_start(
    tmp_path: Path, hookgw_receiver: Receiver
) -> None:
    hookgw_receiver.will(answer(410))
    blocks = [{"url": hookgw_receiver.url}]
    async with open_kit(tmp_path, settings={"global_webhooks": blocks}) as kit:
        await kit.gateway.instances.create("shop")
        for _ in range(2):
            await kit.emit("MESSAGES_UPSERT", DATA)
            await kit.settled()
        assert len(hookgw_receiver.requests) == 1
        [problem] = (await kit.gateway.problems()).problems
        assert (problem.kind, problem.instance) == ("webhook_disabled", GLOBAL_INSTANCE)
        assert problem.since is not None
        # It is the operator's: whoever has one account does not hear of it.
        assert (await kit.gateway.views.overview(("shop",), 10)).problems == []
    async with open_kit(tmp_path, settings={"global_webhooks": blocks}) as kit:
        await kit.emit("MESSAGES_UPSERT", DATA)
        await kit.settled()
        assert len(hookgw_receiver.requests) == 2
        assert (await kit.gateway.problems()).problems == []


async def test_its_high_backlog_is_a_problem(tmp_path: Path, hookgw_receiver: Receiver) -> None:
    hookgw_receiver.default = answer(503)
    settings = {"global_webhooks": [{"url": hookgw_receiver.url}], "operations": {"backlog_threshold": 2}}
    async with open_kit(tmp_path, settings=settings) as kit:
        await kit.gateway.instances.create("shop")
        for _ in range(3):
            await kit.emit("MESSAGES_UPSERT", DATA)
        await kit.settled()
        found = (await kit.gateway.problems()).problems
    assert [(one.kind, one.instance, one.pending) for one in found] == [
        ("webhook_failing", GLOBAL_INSTANCE, 3),
        ("backlog", GLOBAL_INSTANCE, 3),
    ]


async def test_a_bad_block_stops_the_start(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"global_webhooks\[0\]\.url"):
        async with open_kit(tmp_path, settings={"global_webhooks": [{"url": "nowhere"}]}):
            pytest.fail("it started")
