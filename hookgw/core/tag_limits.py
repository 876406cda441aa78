"""Limits per tag: what the instances of each value of a tag may hold of the backlog together. No I/O.

Each value of a tag with limits (``tenant=acme``) is a group. It shares the total limits with other groups and
with instances that are in none, as one holder, whatever its instances hold. What it may hold then, at most
its own limit, its instances share in the same way. So a group never has more for having more instances.
"""

from __future__ import annotations

import math
from collections.abc import Mapping

from hookgw.config.settings import TagLimits
from hookgw.fair import share_of

SHARE = 4
"""How many times the free amount a holder may have."""

LAST_PART = 10
"""The last tenth of a limit is for holders that have little."""

LITTLE = 100
"""An instance has little if it has at most this fraction of what its group may hold, or its own reserve."""


LOW = 5
"""While a group holds less than this fraction of its own limits, no instance of it has much of them."""


class TagGroup:
    """The instances with one value of a tag.

    Attributes:
        name: as in ``tenant=acme``.
        tag: its name.
        most: its limits of deliveries and bytes; infinite for none.
        members: how many instances there are.
        count, size: the pending deliveries of their events, and the bytes of these.
        calm, calm_bytes: up to this many, no instance has too much, while at most four fifths of the total
            limits are used.
        low, low_bytes: up to this many, no instance has much of the group's own limits.
    """

    __slots__ = ("calm", "calm_bytes", "count", "low", "low_bytes", "members", "most", "name", "size", "tag")

    def __init__(self, tag: str, value: str, most: tuple[float, float]) -> None:
        self.tag = tag
        self.name = f"{tag}={value}"
        self.most = most
        self.low, self.low_bytes = most[0] / LOW, most[1] / LOW
        self.calm = self.calm_bytes = 0.0
        self.members = 0
        self.count = 0
        self.size = 0

    def held(self, unit: int) -> int:
        return max(0, self.size if unit else self.count)

    def joined(self, members: int, total: tuple[float, float]) -> None:
        """Change the number of instances."""
        self.members += members
        most, most_bytes = self.most
        if self.members > 1:
            # With h of the total T, it may hold 4/5 (T/5 + h) at least, and an instance 4/5 of that.
            part = SHARE / (SHARE + 1)
            most, most_bytes = min(part * most, total[0] / 3), min(part * most_bytes, total[1] / 3)
        self.calm, self.calm_bytes = most, most_bytes

    def share(self, most: float, left: float, reserved: int) -> float:
        """Return how much an instance of the group may hold.

        Args:
            most: what the group may hold.
            left: what the other instances leave of that.
            reserved: what is reserved for each instance where there are no groups.
        """
        if left == math.inf or self.members == 1:
            return left
        most = max(0, int(most))
        # One, at least: a share of few units is rounded down to none.
        little = max(1, min(reserved, most // LITTLE))
        return share_of(int(left), SHARE, most // LAST_PART if reserved else 0, little)


class TagGroups:
    """The groups of all instances whose tags have limits.

    Attributes:
        by_instance: the groups of each instance that is in some.
    """

    def __init__(self, limits: Mapping[str, TagLimits], total: tuple[float, float]) -> None:
        self._total = total
        self._limits = {
            tag: (one.deliveries or math.inf, one.bytes or math.inf) for tag, one in limits.items()
        }
        self._groups: dict[tuple[str, str], TagGroup] = {}
        self.by_instance: dict[str, tuple[TagGroup, ...]] = {}

    def of(self, instance: str) -> tuple[TagGroup, ...]:
        return self.by_instance.get(instance, ())

    def find(self, tag: str, value: str) -> TagGroup | None:
        return self._groups.get((tag, value))

    def change(
        self, instance: str, tags: Mapping[str, str]
    ) -> tuple[tuple[TagGroup, ...], tuple[TagGroup, ...]]:
        """Put an instance into the groups of its tags; return its former groups and its present ones."""
        old = self.by_instance.pop(instance, ())
        new = []
        for tag, most in self._limits.items():
            if (value := tags.get(tag)) is not None:
                group = self._groups.get((tag, value))
                if group is None:
                    group = self._groups[tag, value] = TagGroup(tag, value, most)
                group.joined(1, self._total)
                new.append(group)
        if new:
            self.by_instance[instance] = tuple(new)
        for group in old:
            group.joined(-1, self._total)
            if not group.members:
                del self._groups[group.tag, group.name.partition("=")[2]]
        return old, tuple(new)

    def sums(self, by_instance: Mapping[str, int]) -> dict[TagGroup, int]:
        found: dict[TagGroup, int] = {}
        for instance, amount in by_instance.items():
            for group in self.of(instance):
                found[group] = found.get(group, 0) + amount
        return found

    def are_calm(self, need: Mapping[tuple[str, str], tuple[int, int]]) -> bool:
        """Return whether no instance can have too much of its group's part, with a need that is added.

        At most four fifths of the total limits are used.
        """
        by_instance = self.by_instance
        if len(need) == 1:  # most events go to one registration
            for (_, instance), (count, size) in need.items():
                for group in by_instance.get(instance, ()):
                    if group.count + count > group.calm or group.size + size > group.calm_bytes:
                        return False
            return True
        more: dict[TagGroup, tuple[int, int]] = {}
        for (_, instance), (count, size) in need.items():
            for group in by_instance.get(instance, ()):
                has = more.get(group, (0, 0))
                more[group] = has[0] + count, has[1] + size
        return all(
            group.count + count <= group.calm and group.size + size <= group.calm_bytes
            for group, (count, size) in more.items()
        )
