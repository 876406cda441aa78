"""The audit: written with the changes, listed, and removed when it is old."""

import pytest

from hookgw import Invalid, Registration
from tests.public.kernel import FieldChange, StorageUnavailable
from tests.public.records import Actor, ActorKind, AuditEntry, Instance, Job, JobKind
from tests.public.store import AuditQuery, ReplayQuery, Store
from tests.store.conformance.engines import Engine
from tests.store.support import AT, RULE, finish, replay

SHOP = Instance(name="shop", id="id-1")
HOOK = Registration(id="reg_1", instance="shop", url="http://r.example/")
CRM = Actor(kind=ActorKind.KEY, name="crm", instance="shop", address="10.0.0.7", via="dashboard")


def entry(
    subject: str,
    action: str = "key.create",
    at: float = AT,
    instance: str | None = None,
    instance_id: str | None = None,
) -> AuditEntry:
    return AuditEntry(
        at=at, action=action, actor=CRM, instance=instance, instance_id=instance_id, subject=subject
    )


async def subjects(store: Store, **query: object) -> list[str | None]:
    """Return the subjects of a list, page after page."""
    found: list[str | None] = []
    cursor: str | None = None
    while True:
        page = await store.list_audit(AuditQuery(**query, cursor=cursor))  # type: ignore[arg-type]
        found += [one.subject for one in page.entries]
        cursor = page.cursor
        if cursor is None:
            return found


async def test_an_entry_outlasts_a_restart(engine: Engine) -> None:
    written = AuditEntry(
        at=AT,
        action="registration.change",
        actor=CRM,
        instance="shop",
        instance_id="id-1",
        subject="ü",
        changes=(FieldChange("url", "http://a", None), FieldChange("headers.x")),
        details={"reason": "because"},
    )
    async with engine.open() as store:
        await store.record_audit([written])
    async with engine.open() as store:
        assert (await store.list_audit(AuditQuery())).entries == [written]


async def test_every_change_of_a_record_takes_its_entries_along(store: Store) -> None:
    job = Job(id="job_1", kind=JobKind.REPLAY, instance="shop", started=AT)
    await store.put_instance(SHOP, HOOK, audit=[entry("created"), entry("registered")])
    await store.put_registration(HOOK, due=True, job=job, audit=[entry("changed")])
    await store.put_job(job, audit=[entry("asked for")])
    await store.put_value("some.value", [], audit=[entry("revoked")])
    await store.remove_registration("reg_1", audit=[entry("removed")])
    await store.remove_instance("shop", audit=[entry("deleted")])
    assert await subjects(store) == [
        "deleted",
        "removed",
        "revoked",
        "asked for",
        "changed",
        "registered",
        "created",
    ]


async def test_a_refused_change_leaves_no_entry(engine: Engine) -> None:
    async with engine.open() as store, engine.refuse(store):
        with pytest.raises(StorageUnavailable):
            await store.put_registration(HOOK, audit=[entry("refused")])
    async with engine.open() as store:
        assert await subjects(store) == []
        assert await store.load_registrations() == {}


async def test_a_change_without_its_entry_is_undone(store: Store) -> None:
    with pytest.raises(OverflowError):
        await store.put_instance(SHOP, audit=[entry("first"), entry("bad", at=float("inf"))])
    job = Job(id="job_1", kind=JobKind.ERASE, instance="shop", started=AT)
    with pytest.raises(OverflowError):
        await store.put_job(job, audit=[entry("bad", at=float("inf"))])
    assert await store.load_instances() == {}
    assert await store.load_jobs() == {}
    assert await subjects(store) == []


async def test_sending_again_is_recorded_if_anything_is_sent(store: Store) -> None:
    (seq,) = await finish(store, "e1")
    assert await store.resend("other", seq, RULE, audit=[entry("not its own")]) is None
    assert await store.resend("shop", seq, RULE, audit=[entry("resent")]) == "reg_1:0"
    assert await store.resend("shop", seq, RULE, audit=[entry("still pending")]) is None
    await finish(store, "e2", "e3")
    query = ReplayQuery(instance="shop")
    assert (await store.replay_step(query, {"reg_1": RULE}, None, audit=[entry("replayed")])).count == 2
    assert (await store.replay_step(query, {"reg_1": RULE}, None, audit=[entry("nothing left")])).count == 0
    assert await subjects(store) == ["replayed", "resent"]
    assert await replay(store) == [0]


async def test_filters(store: Store) -> None:
    await store.record_audit(
        [
            entry("a", at=AT, instance="shop", instance_id="id-1"),
            entry("b", "key.revoke", at=AT + 1, instance="shop", instance_id="id-2"),
            entry("c", "keyring.load", at=AT + 2),
            entry("d", at=AT + 3, instance="bar", instance_id="id-3"),
        ]
    )
    assert await subjects(store) == ["d", "c", "b", "a"]
    assert await subjects(store, instance="shop") == ["b", "a"]
    assert await subjects(store, instance="shop", instance_id="id-1") == ["a"]
    assert await subjects(store, action="key") == ["d", "b", "a"]
    assert await subjects(store, action="key.revoke") == ["b"]
    assert await subjects(store, action="") == []
    assert await subjects(store, since=AT + 1, until=AT + 3) == ["c", "b"]
    assert await subjects(store, instance="shop", action="key.create", since=AT) == ["a"]


@pytest.mark.parametrize("instance", [None, "shop"])
async def test_pages_follow_one_another_even_within_one_moment(store: Store, instance: str | None) -> None:
    names = [f"e{number}" for number in range(7)]
    await store.record_audit([entry(name, instance="shop") for name in names])
    assert await subjects(store, limit=2, instance=instance) == names[::-1]
    assert await subjects(store, limit=7, instance=instance) == names[::-1]
    page = await store.list_audit(AuditQuery(limit=3))
    await store.record_audit([entry("newer", at=AT + 1)])
    rest = await store.list_audit(AuditQuery(limit=10, cursor=page.cursor))
    assert [one.subject for one in rest.entries] == names[3::-1]


async def test_a_list_of_some_instances_is_as_long_as_without_the_others(store: Store) -> None:
    await store.record_audit(
        [entry(f"e{n}", at=AT + n, instance=f"i{n % 4}", instance_id=f"id-{n % 4}") for n in range(12)]
        + [entry("of none", at=AT + 20)]
    )
    wanted = ["e10", "e8", "e6", "e4", "e2", "e0"]
    for limit in (1, 3, 6, 100):
        assert await subjects(store, among=frozenset({"id-0", "id-2"}), limit=limit) == wanted
    assert await subjects(store, among=frozenset()) == []
    page = await store.list_audit(AuditQuery(among=frozenset({"id-0", "id-2"}), limit=4))
    assert len(page.entries) == 4


@pytest.mark.parametrize("cursor", ["", "x", "1", "1-x", "-1-1", "1-" + "9" * 30, "١-1"])
async def test_a_cursor_of_somebody_else(store: Store, cursor: str) -> None:
    with pytest.raises(Invalid, match="cursor must be that of the previous page"):
        await store.list_audit(AuditQuery(cursor=cursor))


async def test_a_search_that_takes_long_ends_early(engine: Engine) -> None:
    engine.shorten_searches(3)
    async with engine.open() as store:
        await store.record_audit([entry(f"e{n}", "rare" if n == 0 else "key.create") for n in range(8)])
        page = await store.list_audit(AuditQuery(action="rare"))
        assert (page.entries, page.cursor is None) == ([], False)
        assert await subjects(store, action="rare") == ["e0"]


async def test_what_is_old_goes_and_the_rest_stays(engine: Engine) -> None:
    engine.set_step(2)
    async with engine.open() as store:
        await store.record_audit([entry(f"e{number}", at=AT + number) for number in range(7)])
        assert await store.prune_audit(before=AT + 5, most=1) == 5
        assert await subjects(store) == ["e6", "e5"]
        assert await store.prune_audit(before=AT + 5, most=1) == 0


async def test_an_instance_with_too_many_entries_loses_the_oldest_of_them(engine: Engine) -> None:
    engine.set_step(2)
    async with engine.open() as store:
        for number in range(6):
            await store.record_audit(
                [entry(f"{name or 'all'}{number}", instance=name) for name in ("a", None, "b")][
                    : 3 - number // 4
                ]
            )
        assert await store.prune_audit(before=0, most=3) == 4
        assert await subjects(store, instance="a") == ["a5", "a4", "a3"]
        assert await subjects(store, instance="b") == ["b3", "b2", "b1"]
        assert sum("all" in str(one) for one in await subjects(store)) == 6
