"""A person is erased, and the instance deleted meanwhile; then the node is restarted."""

from collections.abc import Collection
from contextlib import suppress
from pathlib import Path
from typing import Any

import msgspec
import pytest
import trio

from hookgw import Gateway
from hookgw.core import jobs
from hookgw.testing import answer, open_receiver
from tests.gateway.fleet.test_two_nodes import settings_of, settled
from tests.public.app import open_gateway
from tests.public.kernel import StorageUnavailable
from tests.public.records import Job, JobKind
from tests.public.store import LaneBacklog
from tests.public.webhooks import parse_registration
from tests.support.emits import parse_events
from tests.support.ports import free_port
from tests.support.postgres import PostgresServer
from tests.support.waits import until

ANA = "5511999@s.whatsapp.net"


async def test_what_waits_for_a_deleted_webhook_is_parked_after_a_restart(
    postgres: PostgresServer, schema: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The erasure goes on, and what the attempt in flight had is left to it. No shard has its lane."""
    monkeypatch.setattr(jobs, "ANSWER_WITHIN", 0.0)
    settings = settings_of(
        postgres, schema, "a", free_port(), server={"bind": ["127.0.0.1:0"], "shutdown_grace": 0.5}
    )

    async def hang() -> None:
        await trio.sleep_forever()

    with trio.fail_after(60):
        async with open_receiver() as receiver:
            receiver.default = answer(wait=1000)
            async with open_gateway(settings, base=tmp_path) as gateway:
                await settled(gateway)
                change, _ = parse_registration({"url": receiver.url}, gateway.catalog)
                await gateway.registrations.set("shop", "default", change, create=True)
                event = msgspec.json.encode({"event": "CALL", "data": {"remoteJid": ANA}})
                batch = parse_events(event, "shop", gateway.catalog, now=gateway.clock.wall())
                await gateway.events.accept(batch.events)
                await receiver.wait_for(1)
                erase, flush, has_looked = gateway.store.erase, gateway.store.flush, trio.Event()

                async def erase_and_tell(*arguments: Any, **more: Any) -> Any:
                    erased = await erase(*arguments, **more)
                    has_looked.set()
                    return erased

                monkeypatch.setattr(gateway.store, "erase", erase_and_tell)
                monkeypatch.setattr(gateway.store, "flush", hang)  # else the erasure ends with the attempt
                await gateway.erasures.erase("shop", ANA)
                await has_looked.wait()
                deletion = await gateway.instances.delete("shop")
                await until(lambda: (job := gateway.jobs.find(deletion.id)) is None or not job.is_running)
                assert gateway.jobs.running(JobKind.ERASE, "shop") is not None
                monkeypatch.setattr(gateway.store, "flush", flush)
            async with open_gateway(settings, base=tmp_path) as gateway:
                await settled(gateway)
                await until(lambda: not any(job.is_running for job in gateway.jobs.all()))
                assert await gateway.store.pending_lanes() == []
                await until(lambda: "shop" not in dict(gateway.backlog.instances()))
                rendered, _ = gateway.metrics.render()
                assert b'registration="reg_' not in rendered
                assert b"\nhookgw_backlog_bytes 0.0" in rendered


async def test_a_name_is_not_free_before_its_deletion_goes_on(
    postgres: PostgresServer, schema: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A node takes over, and reads which jobs there are: a call could create an instance of the name before.
    The keys of the former one find the job until its end, and would have opened the new one.
    """
    monkeypatch.setattr(jobs, "ANSWER_WITHIN", 0.0)
    settings = settings_of(postgres, schema, "a", free_port())

    async def hang(*_: Any, **__: Any) -> None:
        await trio.sleep_forever()

    with trio.fail_after(60):
        async with open_gateway(settings, base=tmp_path) as gateway:
            await settled(gateway)
            await gateway.instances.create("shop")
            change, _ = parse_registration({"url": "pull:"}, gateway.catalog)
            await gateway.registrations.set("shop", "default", change)
            monkeypatch.setattr(gateway.store, "park_step", hang)
            assert (await gateway.instances.delete("shop")).is_running

        is_free = False

        def prepare(gateway: Gateway) -> None:
            load_jobs = gateway.store.load_jobs

            async def load_and_create(job_ids: Collection[str] | None = None) -> dict[str, Job]:
                nonlocal is_free
                found = await load_jobs(job_ids)
                with suppress(StorageUnavailable):
                    await gateway.instances.create("shop")
                    is_free = True
                return found

            gateway.store.load_jobs = load_and_create  # type: ignore[method-assign]

        async with open_gateway(settings, base=tmp_path, prepare=prepare) as gateway:
            await settled(gateway)
            assert not is_free


async def test_lanes_start_beside_an_erasure_that_begins_while_their_node_takes_them_up(
    postgres: PostgresServer, schema: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Only a job that an earlier process has left starts them at its end."""
    monkeypatch.setattr(jobs, "ANSWER_WITHIN", 0.0)
    settings = settings_of(postgres, schema, "a", free_port())
    has_begun, may_go_on = trio.Event(), trio.Event()

    def prepare(gateway: Gateway) -> None:
        pending_lanes, find_concerned = gateway.store.pending_lanes, gateway.store.find_concerned

        async def read_and_erase(registration: str | None = None) -> list[LaneBacklog]:
            found = await pending_lanes(registration)
            if not has_begun.is_set():
                has_begun.set()
                await gateway.erasures.erase("shop", ANA)
            return found

        async def find(*given: Any, **more: Any) -> Any:
            await may_go_on.wait()
            return await find_concerned(*given, **more)

        gateway.store.pending_lanes = read_and_erase  # type: ignore[method-assign]
        gateway.store.find_concerned = find  # type: ignore[method-assign]

    with trio.fail_after(60):
        async with open_receiver() as receiver:
            async with open_gateway(settings, base=tmp_path) as gateway:
                await settled(gateway)
                await gateway.instances.create("shop")
                change, _ = parse_registration({"url": receiver.url}, gateway.catalog)
                await gateway.registrations.set("shop", "default", change)
                await gateway.registrations.pause("shop")
                events = msgspec.json.encode([{"event": "CALL", "data": {}, "id": f"e{n}"} for n in range(2)])
                batch = parse_events(events, "shop", gateway.catalog, now=gateway.clock.wall())
                await gateway.events.accept(batch.events)
            async with open_gateway(settings, base=tmp_path, prepare=prepare) as gateway:
                await has_begun.wait()
                await settled(gateway)
                await gateway.registrations.resume("shop")
                may_go_on.set()
                await receiver.wait_for(2)
                assert receiver.ids == ["e0", "e1"]
