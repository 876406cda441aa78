"""Instances, registrations and values."""

import pytest

from hookgw import Registration
from tests.public.config import MasterKeys
from tests.public.records import BrowserSession, Instance, Job, JobKind, Key, Reach
from tests.public.store import Append, Store
from tests.store.conformance.engines import Engine
from tests.store.support import (
    HOOK,
    LANE,
    SHOP,
    Watch,
    event,
    failed,
    finish,
    listed,
    pending,
    report,
    seqs_of,
    settle,
    to,
)

KEYS = [MasterKeys(), MasterKeys(bytes(32))]


@pytest.mark.parametrize("keys", KEYS, ids=["clear", "encrypted"])
async def test_records_outlast_a_restart(engine: Engine, keys: MasterKeys) -> None:
    async with engine.open(keys=keys) as store:
        await store.put_instance(SHOP)
        await store.put_registration(HOOK)
        await store.put_value("auth.salt", {"a": [1, None, "ü"]})
    async with engine.open(keys=keys) as store:
        assert await store.load_instances() == {"shop": SHOP}
        assert await store.load_registrations() == {"reg_1": HOOK}
        assert await store.get_value("auth.salt") == {"a": [1, None, "ü"]}
        assert await store.get_value("no.such") is None
        for _ in range(2):
            await store.remove_instance("shop")
            await store.remove_registration("reg_1")
        assert await store.load_instances() == {}
        assert await store.load_registrations() == {}


async def test_tags_outlast_a_restart(engine: Engine) -> None:
    tagged = Instance(name="shop", id="id", tags={"tenant": "acme", "plan": "gold"})
    async with engine.open() as store:
        await store.put_instance(tagged)
    async with engine.open() as store:
        assert await store.load_instances() == {"shop": tagged}


async def test_records_are_replaced(store: Store) -> None:
    await store.put_instance(SHOP)
    await store.put_instance(Instance(name="shop", id="new"))
    await store.put_registration(HOOK)
    await store.put_registration(Registration(id="reg_1", instance="shop", url="http://new.test"))
    await store.put_value("key", 1)
    await store.put_value("key", [2])
    assert (await store.load_instances())["shop"].id == "new"
    assert (await store.load_registrations())["reg_1"].url == "http://new.test"
    assert await store.get_value("key") == [2]


async def test_an_instance_with_its_first_registration(store: Store) -> None:
    await store.put_instance(SHOP, HOOK)
    assert await store.load_instances() == {"shop": SHOP}
    assert await store.load_registrations() == {"reg_1": HOOK}


async def test_a_value_that_is_not_json_changes_nothing(store: Store) -> None:
    await store.put_value("key", 1)
    with pytest.raises(TypeError):
        await store.put_value("key", object())
    assert await store.get_value("key") == 1


async def test_jobs_can_be_read_by_their_ids(store: Store) -> None:
    made = [Job(id=f"job_{n}", kind=JobKind.REPLAY, instance="shop", started=1.0) for n in range(3)]
    jobs = {job.id: job for job in made}
    await store.put_job(*made)
    assert await store.load_jobs() == jobs
    assert await store.load_jobs({"job_2", "job_0", "gone"}) == {one: jobs[one] for one in ("job_0", "job_2")}
    assert await store.load_jobs([]) == {}
    assert await store.job_ids() == jobs.keys()
    assert len(await store.load_jobs([*jobs, *(f"gone_{n}" for n in range(2_000))])) == 3


async def test_what_has_ended_goes_in_commits_of_bounded_size(engine: Engine) -> None:
    """Tens of thousands in one commit, as after a day without hookgw, held up all events."""
    jobs = [Job(id=f"job_{n}", kind=JobKind.REPLAY, instance="shop", started=1.0) for n in range(1_200)]
    watch = Watch()
    async with engine.open(watch) as store:
        await store.put_job(*jobs)
        before = watch.commits
        await store.remove_jobs([job.id for job in jobs[1:]] + ["gone"])
        assert watch.commits - before == 3
        assert await store.load_jobs() == {jobs[0].id: jobs[0]}


async def test_a_session_begins_as_many_others_end(store: Store) -> None:
    first, last = (BrowserSession(id=one, key_hash="k", created_at=1.0, used_at=1.0) for one in "ab")
    await store.put_session(first)
    await store.put_session(last, ended=[*(f"gone_{n}" for n in range(1_200)), "a"])
    assert await store.load_sessions() == {"b": last}


async def test_a_changed_registration_is_due_at_once_if_asked(store: Store) -> None:
    await store.append(to("e1"))
    [seq] = await seqs_of(store)
    await settle(store, failed(seq))
    waiting = (await pending(store))[0].next_at
    await store.put_registration(HOOK)
    assert (await pending(store))[0].next_at == waiting > 0
    await store.put_registration(HOOK, due=True)
    assert (await pending(store))[0].next_at == 0
    assert await store.load_registrations() == {"reg_1": HOOK}


async def test_the_deliveries_of_a_removed_registration_stay(store: Store) -> None:
    await store.put_registration(HOOK)
    await store.append(to("e1"))
    await store.remove_registration("reg_1")
    assert len(await pending(store)) == 1


async def test_a_later_instance_does_not_inherit_from_a_retired_one(store: Store) -> None:
    await store.put_instance(SHOP)
    await finish(store, "e1")
    # A kind and a registration may have the name of the instance, and keep it.
    await store.append([Append(event("e2", kind="shop"), (("shop", "shop:0"),))])
    await store.remove_instance("shop", retired_as="shop/0b0c")
    await store.put_instance(Instance(name="shop", id="new"))
    assert await listed(store) == []
    assert await store.find_delivery("shop", "e1") is None
    assert await store.append(to("e1")) == [True]
    assert await listed(store) == ["e1"]
    retired = await report(store, "e2", "shop/0b0c")
    assert (retired.summary.kind, retired.summary.registration) == ("shop", "shop")
    assert [d.event.instance for d in await pending(store, "shop:0")] == ["shop/0b0c"]
    assert [d.event.instance for d in await pending(store, LANE)] == ["shop"]


@pytest.mark.parametrize("keys", KEYS, ids=["clear", "encrypted"])
async def test_keys_outlast_a_restart(engine: Engine, keys: MasterKeys) -> None:
    acme = Key(name="acme", hash="aa", reach=Reach(tags=(("tenant", "acme"),)), rights=("read",))
    named = Key(name="named", hash="bb", reach=Reach(instances=frozenset({"1", "2"})))
    async with engine.open(keys=keys) as store:
        await store.put_key(acme)
        await store.put_key(named)
    async with engine.open(keys=keys) as store:
        assert await store.load_keys() == {"acme": acme, "named": named}
        await store.remove_keys(["acme", "no.such"])
        assert await store.load_keys() == {"named": named}
