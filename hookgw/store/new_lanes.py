"""The lanes of deliveries that are moved or sent again: the same for every engine. No I/O of its own."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence

from hookgw.records.events import Event
from hookgw.records.lanes import LaneRule
from hookgw.records.registrations import Ordering

# The most bytes of payload that a step reads to find lanes, unless its first payload alone has more: others
# wait for the commit meanwhile.
MOST_READ = 2**20


def lanes_by_rule(
    rules: Mapping[int, LaneRule],
    read_names: Callable[[list[int]], Iterable[tuple[int, str, str]]],
    read_payloads: Callable[[list[int]], Iterable[tuple[int, bytes]]],
) -> dict[int, str]:
    """Return the lane of each delivery by its rule, in the order of the mapping.

    Args:
        rules: by the numbers of the deliveries.
        read_names: reads the number of each delivery, and the id and the instance of its event.
        read_payloads: reads the number and the payload of each delivery, a few at a time. It is only called
            for registrations that are ordered by chat.
    """
    lanes = {seq: rule.generation_prefix for seq, rule in rules.items()}
    keyed = [seq for seq, rule in rules.items() if rule.ordering in (Ordering.INSTANCE, Ordering.NONE)]
    chats = [seq for seq, rule in rules.items() if rule.ordering is Ordering.CHAT and rule.concurrency > 1]
    # A rule looks at the id, the instance and the payload of an event only; the rest is left out.
    if keyed:
        for seq, event_id, instance in read_names(keyed):
            event = Event(id=event_id, kind="", instance=instance, data_json=b"null", time=0.0)
            lanes[seq] = rules[seq].lane(event)
    if chats:
        for seq, data in read_payloads(chats):
            event = Event(id="", kind="", instance="", data_json=data, time=0.0)
            lanes[seq] = rules[seq].lane(event)
    return lanes


def readable(found: Sequence[tuple[int, int]], rule: LaneRule) -> Sequence[tuple[int, int]]:
    """Return as many of the first deliveries (numbers and bytes) as a step may read to find their lanes."""
    if rule.ordering is Ordering.CHAT:
        total = 0
        for number, (_, size) in enumerate(found):
            total += size
            if number and total > MOST_READ:
                return found[:number]
    return found


def fitting(
    found: Iterable[tuple[int, str, int]], rules: Mapping[str, LaneRule], size: int
) -> tuple[dict[int, LaneRule], bool]:
    """Choose the first deliveries of a replay that fit.

    Args:
        found: their numbers, the ids of their registrations, and the bytes of their payloads, in order.
        rules: of the registrations, by id.
        size: the most bytes of payload, unless the first delivery alone has more.

    Returns:
        The rules of the deliveries that fit, by number, and whether other deliveries did not fit.
    """
    chosen: dict[int, LaneRule] = {}
    total = 0
    for seq, registration, bytes_of in found:
        total += bytes_of
        if chosen and total > size:
            return chosen, True
        chosen[seq] = rules[registration]
    return chosen, False
