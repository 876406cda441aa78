"""Making and revoking keys, through a running gateway."""

from collections.abc import Awaitable, Callable
from datetime import datetime
from functools import partial
from pathlib import Path

import pytest
import trio
from structlog.testing import capture_logs
from trio.testing import MockClock

from hookgw import Conflict, Gateway, Invalid, NotFound
from hookgw.testing import GatewayKit, open_kit
from tests.public.app import open_gateway
from tests.public.auth import KeyHolder
from tests.public.config import Settings, StorageSettings
from tests.public.kernel import Forbidden, Size, StorageUnavailable, Unauthorized
from tests.public.keys import MAX_KEYS
from tests.public.records import DEFAULT_KEY, Principal
from tests.support.disks import refuse
from tests.support.keys import principal_of

pytestmark = pytest.mark.usefixtures("hookgw_clock")

DAY = 86_400.0


@pytest.fixture
async def gateway(hookgw_gateway: GatewayKit, hookgw_clock: MockClock) -> Gateway:
    gateway = hookgw_gateway.gateway
    await gateway.instances.create("shop", token="shop-default-key")
    return gateway


def holder(gateway: Gateway, key: str) -> KeyHolder:
    found = gateway.authenticator.authenticate(key, None)
    assert found is not None
    return found


def everything(gateway: Gateway) -> KeyHolder:
    return holder(gateway, GatewayKit.key)


async def make(gateway: Gateway, scope: str | None, name: str, maker: str, life: float | None = None) -> str:
    expires_at = None if life is None else gateway.clock.steady() + life
    _, key = await gateway.keys.create(scope, name, expires_at=expires_at, maker=holder(gateway, maker))
    return key


def names(gateway: Gateway, scope: str | None) -> list[str]:
    return [key.name for key in gateway.keys.list(scope)]


async def test_an_instance_has_several_keys(gateway: Gateway) -> None:
    crm = await make(gateway, "shop", "crm", GatewayKit.key)
    n8n = await make(gateway, "shop", "n8n", "shop-default-key")
    assert names(gateway, "shop") == ["default", "crm", "n8n"]
    assert len({"shop-default-key", crm, n8n}) == 3
    assert all(holder(gateway, key).principal.instance == "shop" for key in ("shop-default-key", crm, n8n))


async def test_global_keys(gateway: Gateway) -> None:
    key = await make(gateway, None, "ops", GatewayKit.key)
    assert holder(gateway, key).principal.is_global
    assert names(gateway, None) == ["configuration", "ops"]
    await gateway.keys.revoke(None, "ops", by=holder(gateway, key))
    assert principal_of(gateway, key) is None


async def test_a_revoked_key_opens_nothing_at_once(gateway: Gateway) -> None:
    key = await make(gateway, "shop", "crm", GatewayKit.key)
    await gateway.keys.revoke("shop", "crm", by=everything(gateway))
    assert principal_of(gateway, key) is None
    assert names(gateway, "shop") == ["default"]
    with pytest.raises(NotFound, match="no key 'crm'"):
        await gateway.keys.revoke("shop", "crm", by=everything(gateway))


async def test_an_expired_key_opens_nothing_at_once(gateway: Gateway, hookgw_clock: MockClock) -> None:
    key = await make(gateway, "shop", "crm", GatewayKit.key, life=DAY)
    hookgw_clock.jump(DAY - 1)
    assert principal_of(gateway, key) is not None
    hookgw_clock.jump(1)
    assert principal_of(gateway, key) is None
    assert names(gateway, "shop") == ["default", "crm"]


async def test_the_name_of_an_expired_key_is_free(gateway: Gateway, hookgw_clock: MockClock) -> None:
    await make(gateway, "shop", "crm", GatewayKit.key, life=DAY)
    await make(gateway, "shop", "other", GatewayKit.key, life=DAY)
    hookgw_clock.jump(DAY)
    await make(gateway, "shop", "crm", GatewayKit.key)
    assert names(gateway, "shop") == ["default", "crm"]


@pytest.mark.parametrize("scope", ["shop", None])
async def test_the_value_of_an_expired_key_is_free(
    scope: str | None, gateway: Gateway, hookgw_clock: MockClock
) -> None:
    create, ops, value = gateway.keys.create, everything(gateway), "a-value-of-somebody"
    life = gateway.clock.steady() + DAY
    await create(scope, "crm", maker=ops, value=value, expires_at=life)
    with pytest.raises(Forbidden, match="This value cannot be used"):
        await create(scope, "other", maker=ops, value=value)
    hookgw_clock.jump(DAY)
    await create(scope, "other", maker=ops, value=value)
    assert holder(gateway, value).key.name == "other"


async def test_changes_outlive_a_restart(tmp_path: Path) -> None:
    async with open_kit(tmp_path) as kit:
        await kit.gateway.instances.create("shop")
        kept = [await make(kit.gateway, scope, "kept", kit.key) for scope in ("shop", None)]
        gone = [await make(kit.gateway, scope, "gone", kit.key) for scope in ("shop", None)]
        for scope in ("shop", None):
            await kit.gateway.keys.revoke(scope, "gone", by=everything(kit.gateway))
    async with open_kit(tmp_path) as kit:
        assert all(principal_of(kit.gateway, key) for key in kept)
        assert not any(principal_of(kit.gateway, key) for key in gone)
    data = (tmp_path / "hookgw.db").read_bytes()
    assert not [key for key in kept + gone if key.encode() in data]


@pytest.mark.parametrize("scope", ["shop", None])
async def test_how_many_there_may_be(scope: str | None, gateway: Gateway, hookgw_clock: MockClock) -> None:
    room = MAX_KEYS - len([name for name in names(gateway, scope) if name != "configuration"])
    for number in range(room):
        await make(gateway, scope, f"k{number}", GatewayKit.key, life=DAY if number == 0 else None)
    with pytest.raises(Conflict, match="32 keys, which is the limit"):
        await make(gateway, scope, "more", GatewayKit.key)
    hookgw_clock.jump(DAY)
    await make(gateway, scope, "more", GatewayKit.key)


@pytest.mark.parametrize(
    ("scope", "name", "reason"),
    [
        ("shop", "default", "is taken"),
        (None, "configuration", r"auth\.global_key"),
        (None, "ops", "is taken"),
    ],
)
async def test_names_that_are_taken(scope: str | None, name: str, reason: str, gateway: Gateway) -> None:
    await make(gateway, None, "ops", GatewayKit.key)
    await make(gateway, "shop", "configuration", GatewayKit.key)
    with pytest.raises(Conflict, match=reason):
        await make(gateway, scope, name, GatewayKit.key)


async def test_a_key_that_would_have_expired_already(gateway: Gateway) -> None:
    with pytest.raises(Invalid, match="expired already: it is 20"):
        await make(gateway, "shop", "crm", GatewayKit.key, life=0)
    assert names(gateway, "shop") == ["default"]


@pytest.mark.parametrize("scope", ["nobody", "*"])
async def test_unknown_instances(scope: str, gateway: Gateway) -> None:
    with pytest.raises(NotFound):
        gateway.keys.list(scope)
    with pytest.raises(NotFound):
        await make(gateway, scope, "crm", GatewayKit.key)
    with pytest.raises(NotFound):
        await gateway.keys.revoke(scope, "default", by=everything(gateway))


# A key does not buy more than it is worth


@pytest.mark.parametrize("scope", ["shop", None])
async def test_a_key_makes_none_that_outlives_it(scope: str | None, gateway: Gateway) -> None:
    maker = await make(gateway, scope, "for-a-day", GatewayKit.key, life=DAY)
    with pytest.raises(
        Forbidden, match=r"expires at .*: it can neither create nor revoke a key that outlives it"
    ):
        await make(gateway, "shop", "longer", maker, life=DAY + 1)
    same = holder(gateway, await make(gateway, "shop", "same", maker, life=DAY))
    left_out = holder(gateway, await make(gateway, "shop", "left-out", maker))
    assert same.key.expires_at == left_out.key.expires_at == holder(gateway, maker).key.expires_at


async def test_a_key_revokes_none_that_outlives_it(gateway: Gateway) -> None:
    guest = holder(gateway, await make(gateway, "shop", "guest", GatewayKit.key, life=DAY))
    await make(gateway, "shop", "sooner", GatewayKit.key, life=DAY / 2)
    with pytest.raises(Forbidden, match="it can neither create nor revoke a key that outlives it"):
        await gateway.keys.revoke("shop", "default", by=guest)
    await gateway.keys.revoke("shop", "sooner", by=guest)
    await gateway.keys.revoke("shop", "guest", by=guest)
    assert names(gateway, "shop") == ["default"]


async def test_an_instance_key_does_not_revoke_the_last_one(
    gateway: Gateway, hookgw_clock: MockClock
) -> None:
    own = holder(gateway, "shop-default-key")
    await make(gateway, "shop", "expired", GatewayKit.key, life=1)
    hookgw_clock.jump(1)
    with pytest.raises(Forbidden, match="last key of the instance"):
        await gateway.keys.revoke("shop", "default", by=own)
    await gateway.keys.revoke("shop", "default", by=everything(gateway))
    assert principal_of(gateway, "shop-default-key") is None


async def test_an_instance_key_gives_way_to_another(gateway: Gateway) -> None:
    fresh = await make(gateway, "shop", "fresh", "shop-default-key")
    await gateway.keys.revoke("shop", "default", by=holder(gateway, fresh))
    assert names(gateway, "shop") == ["fresh"]


@pytest.mark.parametrize("change", ["make", "revoke"])
async def test_a_key_that_was_revoked_while_its_request_was_read_does_nothing(
    change: str, gateway: Gateway
) -> None:
    leaked = await make(gateway, "shop", "leaked", GatewayKit.key)
    found = holder(gateway, leaked)
    await gateway.keys.revoke("shop", "leaked", by=everything(gateway))
    acts: dict[str, Callable[[], Awaitable[object]]] = {
        "make": partial(gateway.keys.create, "shop", "more", expires_at=None, maker=found),
        "revoke": partial(gateway.keys.revoke, "shop", "default", by=found),
    }
    with pytest.raises(Unauthorized, match="no longer valid"):
        await acts[change]()
    assert names(gateway, "shop") == ["default"]


async def test_where_a_key_comes_from(gateway: Gateway) -> None:
    first = await make(gateway, "shop", "first", "shop-default-key")
    await make(gateway, "shop", "second", first)
    await make(gateway, "shop", "apart", GatewayKit.key)
    ops = await make(gateway, None, "ops", GatewayKit.key)
    await make(gateway, None, "more-ops", ops)
    found = {key.name: key.origin for key in [*gateway.keys.list("shop"), *gateway.keys.list(None)]}
    assert found == {
        "default": "",
        "first": "default",
        "second": "default",
        "apart": "",
        "configuration": "",
        "ops": "configuration",
        "more-ops": "configuration",
    }


async def test_what_a_key_makes_counts_as_that_key_also_after_a_restart(tmp_path: Path) -> None:
    """Or a customer would multiply its shares by making keys, or instances with keys."""

    def found(gateway: Gateway) -> list[KeyHolder]:
        return [holder(gateway, key) for key in made]

    def check(gateway: Gateway) -> None:
        *of_acme, apart, of_other = found(gateway)
        assert {one.counted_as for one in of_acme} == {"key acme"}
        assert len({id(one.bucket) for one in of_acme}) == 1
        # What the operator makes counts by itself, whichever of its keys has made it.
        assert (apart.counted_as, of_other.counted_as) == ("acme-1", "key other")
        assert len({id(one.bucket) for one in found(gateway)}) == 3

    async with open_kit(tmp_path) as kit:
        keys, ops = kit.gateway.keys, everything(kit.gateway)
        tags = {"tenant": "acme"}
        _, acme = await keys.create(None, "acme", maker=ops, tags=tags)
        _, crm = await keys.create(None, "crm", maker=holder(kit.gateway, acme))
        _, other = await keys.create(None, "other", maker=ops, tags={"tenant": "other"})
        made = [acme, crm]
        for number, maker in enumerate([acme, crm], 1):
            limits = holder(kit.gateway, maker).limits
            created = await kit.gateway.instances.create(f"acme-{number}", tags=tags, limits=limits)
            made.append(created.key)
            for name, by in (("own", created.key), ("from-outside", maker)):
                _, key = await keys.create(f"acme-{number}", name, maker=holder(kit.gateway, by))
                made.append(key)
        _, apart = await keys.create("acme-1", "apart", maker=ops)
        made += [apart, other]
        check(kit.gateway)
    async with open_kit(tmp_path) as kit:
        check(kit.gateway)


async def test_how_many_a_key_makes_says_nothing_about_others(
    gateway: Gateway, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("hookgw.keys.service.MAX_MADE", 1)
    ops, acme = everything(gateway), ""
    for name in ("other", "acme"):
        _, acme = await gateway.keys.create(None, name, maker=ops, tags={"tenant": name})
    _, crm = await gateway.keys.create(None, "crm", maker=holder(gateway, acme))
    for maker in (acme, crm):
        with pytest.raises(Conflict, match="1 keys, which is the limit"):
            await gateway.keys.create(None, "more", maker=holder(gateway, maker))


async def test_keys_with_limits_leave_room_for_others_and_make_room_when_they_expire(
    gateway: Gateway, hookgw_clock: MockClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("hookgw.keys.service.MAX_LIMITED_KEYS", 2)
    tags = {"tenant": "acme"}
    _, acme = await gateway.keys.create(None, "acme", maker=everything(gateway), tags=tags)
    life = gateway.clock.steady() + DAY
    await gateway.keys.create(None, "crm", maker=everything(gateway), tags=tags, expires_at=life)
    for maker in (GatewayKit.key, acme):
        with pytest.raises(Conflict, match="2 keys, which is the limit"):
            await gateway.keys.create(None, "more", maker=holder(gateway, maker), tags=tags)
    await make(gateway, "shop", "more", GatewayKit.key)
    await make(gateway, None, "more-ops", GatewayKit.key)
    hookgw_clock.jump(DAY)
    await gateway.keys.create(None, "more", maker=holder(gateway, acme), tags=tags)
    assert names(gateway, None) == ["configuration", "acme", "more-ops", "more"]


async def test_the_log_tells_who_did_what_and_no_key(gateway: Gateway) -> None:
    with capture_logs() as logs:
        key = await make(gateway, "shop", "crm", "shop-default-key", life=DAY)
        await gateway.keys.revoke("shop", "crm", by=everything(gateway))
    assert [(log["event"], log["instance"], log["name"]) for log in logs] == [
        ("key created", "shop", "crm"),
        ("key revoked", "shop", "crm"),
    ]
    assert (logs[0]["maker"], logs[1]["by"]) == ("default", "configuration")
    assert datetime.fromisoformat(logs[0]["expires_at"])
    assert key not in repr(logs)


# Nobody is locked out


async def test_the_key_of_the_settings_cannot_be_revoked(gateway: Gateway) -> None:
    with pytest.raises(Conflict, match=r"auth\.global_key: change it in the configuration"):
        await gateway.keys.revoke(None, "configuration", by=everything(gateway))
    with pytest.raises(NotFound):
        await gateway.keys.revoke("shop", "configuration", by=everything(gateway))


async def test_the_last_global_key_that_lasts_stays(tmp_path: Path) -> None:
    async with open_kit(tmp_path) as kit:
        lasting = await make(kit.gateway, None, "lasting", kit.key)
    async with open_kit(tmp_path, settings={"auth": {"global_key": ""}}) as kit:
        gateway = kit.gateway
        assert names(gateway, None) == ["lasting"]
        await make(gateway, None, "for-a-day", lasting, life=DAY)
        with pytest.raises(Conflict, match="last global key that never expires"):
            await gateway.keys.revoke(None, "lasting", by=holder(gateway, lasting))
        other = await make(gateway, None, "other", lasting)
        await gateway.keys.revoke(None, "lasting", by=holder(gateway, lasting))
        assert principal_of(gateway, lasting) is None
        assert principal_of(gateway, other) is not None


async def test_the_way_back_when_every_global_key_is_lost(tmp_path: Path) -> None:
    """As ``docs/operations.md`` tells it: once with a new key in the configuration, then without."""
    made: list[str] = []
    without = Settings(storage=StorageSettings(path=str(tmp_path / "hookgw.db"), min_free=Size(0)))
    async with open_gateway(without, base=tmp_path) as gateway:
        await gateway.keys.ensure_lasting_global_key(made.append)
        [lost] = made
    async with open_kit(tmp_path) as kit:
        assert names(kit.gateway, None) == ["configuration", "default"]
        await kit.gateway.keys.revoke(None, "default", by=everything(kit.gateway))
        ops = await make(kit.gateway, None, "ops", kit.key)
    async with open_gateway(without, base=tmp_path) as gateway:
        await gateway.keys.ensure_lasting_global_key(made.append)
        assert [principal_of(gateway, key) is not None for key in (lost, kit.key, ops)] == [
            False,
            False,
            True,
        ]
    assert made == [lost]


# The key of the first start


def without_a_key(folder: Path) -> Settings:
    return Settings(storage=StorageSettings(path=str(folder / "hookgw.db"), min_free=Size(0)))


async def test_a_global_key_is_made_once_and_shown_once(tmp_path: Path) -> None:
    shown: list[str] = []
    for _ in range(2):
        async with open_gateway(without_a_key(tmp_path), base=tmp_path) as gateway:
            await gateway.keys.ensure_lasting_global_key(shown.append)
            [key] = shown
            assert principal_of(gateway, key) == Principal()
            assert names(gateway, None) == [DEFAULT_KEY]
    assert key.encode() not in (tmp_path / "hookgw.db").read_bytes()


async def test_with_a_configured_key_none_is_made(tmp_path: Path) -> None:
    shown: list[str] = []
    async with open_kit(tmp_path) as kit:
        await kit.gateway.keys.ensure_lasting_global_key(shown.append)
        assert (shown, names(kit.gateway, None)) == ([], ["configuration"])


async def test_a_key_is_stored_only_once_it_was_shown(tmp_path: Path) -> None:
    """A process that is killed between the two makes another key at its next start."""

    def killed(_key: str) -> None:
        raise KeyboardInterrupt

    async with open_gateway(without_a_key(tmp_path), base=tmp_path) as gateway:
        with pytest.raises(KeyboardInterrupt):
            await gateway.keys.ensure_lasting_global_key(killed)
        assert names(gateway, None) == []
    shown: list[str] = []
    async with open_gateway(without_a_key(tmp_path), base=tmp_path) as gateway:
        await gateway.keys.ensure_lasting_global_key(shown.append)
        assert principal_of(gateway, shown[0]) == Principal()


async def test_a_key_is_made_if_no_stored_key_lasts(tmp_path: Path) -> None:
    """An operator who took the key out of the settings is not locked out when the last other one expires."""
    shown: list[str] = []
    async with open_kit(tmp_path) as kit:
        dying = [await make(kit.gateway, None, name, kit.key, life=DAY) for name in ("default", "default-2")]
    for _ in range(2):
        async with open_kit(tmp_path, settings={"auth": {"global_key": ""}}) as kit:
            await kit.gateway.keys.ensure_lasting_global_key(shown.append)
            assert names(kit.gateway, None) == ["default", "default-2", "default-3"]
            for key in (*dying, *shown):
                assert principal_of(kit.gateway, key) == Principal()
    assert len(shown) == 1


# The disk, and those who go away


@pytest.mark.parametrize("scope", ["shop", None])
async def test_what_the_disk_refuses_did_not_happen(
    scope: str | None, gateway: Gateway, monkeypatch: pytest.MonkeyPatch
) -> None:
    key = await make(gateway, scope, "crm", GatewayKit.key)

    for write in ("put_instance", "put_key", "remove_keys"):
        monkeypatch.setattr(gateway.store, write, refuse)
    before = names(gateway, scope)
    with pytest.raises(StorageUnavailable):
        await make(gateway, scope, "more", GatewayKit.key)
    with pytest.raises(StorageUnavailable):
        await gateway.keys.revoke(scope, "crm", by=everything(gateway))
    assert names(gateway, scope) == before
    assert principal_of(gateway, key) is not None


async def test_a_change_is_finished_for_those_who_went_away(gateway: Gateway) -> None:
    key = await make(gateway, None, "ops", GatewayKit.key)
    with trio.CancelScope() as scope:
        scope.cancel()
        await gateway.keys.revoke(None, "ops", by=everything(gateway))
    assert principal_of(gateway, key) is None
    assert names(gateway, None) == ["configuration"]


async def test_changes_of_one_instance_wait_for_each_other(gateway: Gateway) -> None:
    async with trio.open_nursery() as nursery:
        for number in range(10):
            nursery.start_soon(make, gateway, "shop", f"k{number}", GatewayKit.key)
            nursery.start_soon(make, gateway, None, f"k{number}", GatewayKit.key)
    assert len(names(gateway, "shop")) == len(names(gateway, None)) == 11


@pytest.mark.parametrize("other", ["key", "instance"])
async def test_a_value_that_two_choose_at_once_is_one_key(gateway: Gateway, other: str) -> None:
    await gateway.instances.create("cafe")
    make = partial(gateway.keys.create, maker=everything(gateway), value="chosen-by-two-0123456789")
    calls: list[Callable[[], Awaitable[object]]] = [
        partial(make, "shop", "a"),
        partial(make, "cafe", "b")
        if other == "key"
        else partial(gateway.instances.create, "bar", token="chosen-by-two-0123456789"),
    ]
    refused: list[Forbidden] = []

    async def call(one: Callable[[], Awaitable[object]]) -> None:
        try:
            await one()
        except Forbidden as error:
            refused.append(error)

    async with trio.open_nursery() as nursery:
        for one in calls:
            nursery.start_soon(call, one)
    assert len(refused) == 1
    stored = [key.name for one in gateway.instances.all() for key in gateway.keys.list(one.name)]
    assert len(stored) == len(gateway.instances.all()) + ("a" in stored or "b" in stored)
