from hypothesis import given
from hypothesis import strategies as st

from tests.dispatch.fakes import registration
from tests.public.records import GLOBAL_INSTANCE, SHARDS, shard_of, shard_of_registration, share_targets

HOLDINGS = st.dictionaries(st.text("abcdefgh", min_size=1, max_size=3), st.integers(0, 40), max_size=8)


def test_known_shards() -> None:
    # All nodes of a fleet agree on these, whatever their version.
    assert [shard_of(name) for name in ("shop", "bank", "", "Zoë")] == [162, 122, 0, 42]


def test_an_instance_and_its_registrations_are_in_one_shard() -> None:
    assert shard_of_registration(registration(instance="shop")) == shard_of("shop")


def test_a_registration_of_the_configuration_has_a_shard_of_its_own() -> None:
    found = registration("all_crm", instance=GLOBAL_INSTANCE)
    assert shard_of_registration(found) == shard_of("all_crm")


@given(st.text())
def test_every_name_has_a_shard(name: str) -> None:
    assert 0 <= shard_of(name) < SHARDS


@given(HOLDINGS, st.integers(0, 400))
def test_targets_are_balanced_and_complete(held: dict[str, int], shards: int) -> None:
    targets = share_targets(held, shards)
    assert targets.keys() == held.keys()
    if held:
        assert sum(targets.values()) == shards
        assert max(targets.values()) - min(targets.values()) <= 1


@given(HOLDINGS.filter(bool), st.integers(0, 200))
def test_no_balanced_targets_move_fewer_shards(held: dict[str, int], free: int) -> None:
    shards = sum(held.values()) + free
    targets = share_targets(held, shards)
    each, more = divmod(shards, len(held))
    moved = sum(max(0, count - targets[node]) for node, count in held.items())
    # The best that any choice of the ``more`` nodes with one shard more can do.
    surplus = sum(max(0, count - each) for count in held.values())
    assert moved == surplus - min(more, sum(count > each for count in held.values()))


@given(HOLDINGS.filter(bool))
def test_targets_that_are_reached_move_nothing(held: dict[str, int]) -> None:
    targets = share_targets(held)
    assert share_targets(targets) == targets
