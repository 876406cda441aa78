"""The account of a soak run: every accepted event, once for each registration that wanted it. No I/O."""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

FINAL = ("delivered", "dead", "dropped", "pending")


class Arrival(NamedTuple):
    """A request that a receiver saw: which event, for which registration, and whether it got a 2xx."""

    event: str
    registration: str
    delivered: bool


class Account(NamedTuple):
    """What came of all of it."""

    accepted: int
    states: Counter[str]
    arrivals: int
    repeats: int


def settle_up(
    accepted: Mapping[str, Sequence[str]],
    listed: Mapping[str, Iterable[Mapping[str, Any]]],
    registrations: Mapping[str, Sequence[str]],
    arrivals: Sequence[Arrival],
) -> Account:
    """Check that what was accepted is what there is, each once.

    Args:
        accepted: the ids of events that were answered with 202, by instance.
        listed: every delivery as ``/delivery/list`` gives it, by instance.
        registrations: the ids of registrations that heard all events, by instance.
        arrivals: what the receivers saw.

    Raises:
        AssertionError: an event is missing, or is there twice, or came from nowhere; a delivery that is
            ``delivered`` never got a 2xx.
    """
    states: Counter[str] = Counter()
    got_2xx = Counter((a.event, a.registration) for a in arrivals if a.delivered)
    expected = 0
    for instance, ids in accepted.items():
        wanted = {(event, registration) for event in ids for registration in registrations[instance]}
        deliveries = list(listed[instance])
        found = Counter((one["eventId"], one["registrationId"]) for one in deliveries)
        assert not (wanted - found.keys()), f"lost: {sorted(wanted - found.keys())[:5]}"
        assert not (found.keys() - wanted), f"from nowhere: {sorted(found.keys() - wanted)[:5]}"
        twice = [key for key, count in found.items() if count > 1]
        assert not twice, f"more than once: {twice[:5]}"
        for one in deliveries:
            key = (one["eventId"], one["registrationId"])
            assert one["state"] in FINAL
            assert one["state"] != "delivered" or got_2xx[key], f"delivered without a 2xx: {key}"
            states[one["state"]] += 1
        expected += len(wanted)
    assert states.total() == expected
    return Account(expected, states, len(arrivals), sum(got_2xx.values()) - len(got_2xx))
