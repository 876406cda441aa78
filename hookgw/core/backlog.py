"""Counts pending deliveries per registration, per instance and in total, and limits them. No I/O.

The counts are exact. Appended deliveries are counted before they are written, so that callers at once cannot
exceed a limit together, and the count is corrected if the write fails. Every other change is counted when its
commit is reported. Nothing is counted twice, so the cost of an event does not grow with the backlog. In a
fleet, every node counts the backlog of all nodes: its own changes at once, the others' a moment later
(:mod:`hookgw.fleet.backlog_exchange`).

Sharing
-------

Every delivery counts towards the instance of its event, whatever registration it goes to. Instances share the
total limits by a dynamic threshold (:mod:`hookgw.fair.share`): after a request, an instance may hold at most
:data:`SHARE` times the amount that is then still free. So a lone instance may use four fifths of a limit; two
instances that take all they can get have four ninths each, and a ninth stays free.

Only the total limits refuse an instance that holds little (``limits.instance_reserved_*``), and their last
tenth is for such instances: without it, five instances that come one after the other and never drain would
leave the next one a 3,000th.

Instances whose tags have limits share as groups first (:mod:`hookgw.core.tag_limits`).

The registrations of the configuration hear every instance. Their own limits are shared in the same way.
Operational events count towards the total, and towards no instance.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Iterable, Mapping
from typing import NamedTuple, Protocol

from hookgw.config.settings import LimitsSettings
from hookgw.core.tag_limits import LAST_PART, SHARE, TagGroup, TagGroups
from hookgw.fair import share_of
from hookgw.kernel.errors import TooLarge, TooManyRequests, Unavailable
from hookgw.kernel.sentences import Sentence
from hookgw.records.instances import is_retired
from hookgw.records.operational_kinds import OPERATIONS_ID
from hookgw.records.registrations import GLOBAL_INSTANCE, is_global
from hookgw.store import Append

REPLAY_STEP = (1000, 16 * 2**20)
"""The most deliveries and bytes that a replay takes room for at a time."""

NORMAL_PART = 0.8
"""A high backlog is normal again once it has fallen to this part of the threshold."""

HIGH_PART = 0.5
"""An instance's backlog is high above this part of what the instance may hold."""

_RETRY_AFTER = 5.0

Amount = tuple[int, int]
"""Deliveries, and bytes of their payloads."""

Need = dict[tuple[str, str], Amount]
"""How much is to be appended, by registration id and instance."""

LEAST_SWEPT = 1000
_LEAST_PARTS_SWEPT = 64

_UNITS = ("deliveries", "bytes")
_BYTES = 1


class Shortage(NamedTuple):
    """The room that a request lacks.

    Attributes:
        limit: the key of the setting, such as ``limits.deliveries``; ``value`` is its value.
        is_of_bytes: whether the limit counts bytes, not deliveries.
        excess: how much less must be pending for the request to fit, in deliveries or bytes.
        instance: its backlog is to shrink.
        registration: the deliveries to this registration must be fewer; ``None`` for any registration.
    """

    limit: str
    value: int
    is_of_bytes: bool
    excess: int
    instance: str
    registration: str | None


class BacklogFull(Unavailable):
    """A total limit is reached."""

    def __init__(self, shortage: Shortage) -> None:
        super().__init__(
            Sentence(
                "backlog.full",
                "The backlog is full ({limit}: {most:,}): receivers are not keeping up. Nothing was stored; "
                "retry later.",
                limit=shortage.limit,
                most=shortage.value,
            ),
            retry_after=_RETRY_AFTER,
        )
        self.shortage = shortage


class ShareFull(TooManyRequests):
    """An instance or a registration holds as much as it may; others have room.

    Args:
        holder: of the full backlog, for the message.
        has: how much it holds of a shared limit; ``None`` for a limit of its own.
        who: what shares that.
    """

    def __init__(self, holder: str, has: int | None, shortage: Shortage, who: str = "an instance") -> None:
        limit, most = shortage.limit, shortage.value
        super().__init__(
            Sentence(
                "backlog.holder_full",
                "The backlog of {holder} is full ({limit}: {most:,}): receivers are not keeping up. Nothing "
                "was stored; retry later.",
                holder=holder,
                limit=limit,
                most=most,
            )
            if has is None
            else Sentence(
                "backlog.share_full",
                "The backlog of {holder} is full ({held:,} {unit} are pending, and {who} may hold at most "
                "{share} times what is free of {limit}: {most:,}): receivers are not keeping up. Nothing was "
                "stored; retry later.",
                holder=holder,
                held=has,
                unit=_UNITS[shortage.is_of_bytes],
                who=who,
                share=SHARE,
                limit=limit,
                most=most,
            ),
            retry_after=_RETRY_AFTER,
        )
        self.shortage = shortage


class Tally:
    """The pending deliveries of a registration or an instance.

    Attributes:
        size: bytes of their payloads.
        is_high: the high backlog was reported, and its end was not.
    """

    __slots__ = ("count", "is_high", "size")

    def __init__(self) -> None:
        self.count = 0
        self.size = 0
        self.is_high = False


# Of a registration without a backlog; only read.
_NOTHING = Tally()


class InstanceTally(Tally):
    """The pending deliveries of one instance's events.

    Attributes:
        parts: the same by registration id.
        groups: of the tags that have limits.
        is_held: room is held for it, which counts as pending: whether the backlog is high shows after that.
    """

    __slots__ = ("_sweep_at", "groups", "is_held", "parts")

    def __init__(self, groups: tuple[TagGroup, ...] = ()) -> None:
        super().__init__()
        self.groups = groups
        self.is_held = False
        self.parts: dict[str, Tally] = {}
        self._sweep_at = _LEAST_PARTS_SWEPT

    def add_part(self, registration: str) -> Tally:
        # Here, too: a tenant that replaces its registrations again and again adds no instance.
        if len(self.parts) >= self._sweep_at:
            self.sweep()
        part = self.parts[registration] = Tally()
        return part

    def sweep(self) -> None:
        """Forget registrations without a backlog."""
        self.parts = {name: part for name, part in self.parts.items() if part.count or part.size}
        self._sweep_at = max(_LEAST_PARTS_SWEPT, 2 * len(self.parts))


class BacklogObserver(Protocol):
    """Hears of high backlogs and their ends."""

    def backlog_crossed(self, registration_id: str, tally: Tally) -> None: ...

    def instance_backlog_crossed(self, instance: str, tally: Tally, allowed: tuple[float, float]) -> None:
        """The backlog of an instance has become high, or normal again.

        ``allowed`` is the most deliveries and bytes that it may hold now; infinite without a limit.
        """


class Backlog:
    """Counts the pending deliveries, including those that are about to be appended.

    Args:
        limits: 0 means no limit.
        threshold: a registration with more pending deliveries has a high backlog; 0 disables this.

    Attributes:
        count, size: all pending deliveries, and their bytes.
        is_tight: set when a request came near a limit, for the caller to reset.
        has_retired: likewise when a deleted instance counts under another name.
    """

    def __init__(self, limits: LimitsSettings, threshold: int, observer: BacklogObserver) -> None:
        # Infinity for "no limit", so that the checks for every event need no special case.
        self._most = (limits.deliveries or math.inf, limits.bytes or math.inf)
        self._most_of_one = (
            limits.registration_deliveries or math.inf,
            limits.registration_bytes or math.inf,
        )
        self._reserved = (limits.instance_reserved_deliveries, limits.instance_reserved_bytes)
        # Below these, no instance has a high backlog.
        self._watched, self._watched_bytes = (HIGH_PART * one for one in self._reserved)
        self._last = tuple(map(_last_part, self._most, self._reserved))
        # Up to this many, no instance can hold too much.
        self._calm, self._calm_bytes = map(_share_of, self._most)
        self._calm_of_one, self._calm_bytes_of_one = map(_share_of, self._most_of_one)
        self._high = threshold or math.inf
        self._normal = threshold * NORMAL_PART
        self._observer = observer
        self._registrations: dict[str, Tally] = {}
        self._instances: dict[str, InstanceTally] = {}
        self._groups = TagGroups(limits.tags, self._most)
        self._sweep_at = LEAST_SWEPT
        self._noted: Need | None = None
        self.is_tight = self.has_retired = False
        self.count = 0
        self.size = 0

    def of(self, registration: str) -> Amount:
        """Return the number and the payload bytes of a registration's pending deliveries."""
        return _amount(self._registrations.get(registration))

    def of_instance(self, instance: str) -> Amount:
        """Return the number and the payload bytes of the pending deliveries of an instance's events."""
        return _amount(self._instances.get(instance))

    def of_tag(self, tag: str, value: str) -> Amount:
        """Return the number and the payload bytes of what is pending of a value of a tag that has limits."""
        group = self._groups.find(tag, value)
        return (0, 0) if group is None else (group.held(0), group.held(1))

    def tags_changed(self, instance: str, tags: Mapping[str, str]) -> None:
        """Count what is pending of an instance towards the limits of the tags that it has now."""
        old, new = self._groups.change(instance, tags)
        holder = self._instances.get(instance)
        if holder is not None:
            holder.groups = new
            for group in old:
                group.count -= holder.count
                group.size -= holder.size
            for group in new:
                group.count += holder.count
                group.size += holder.size

    def is_high(self, registration: str) -> bool:
        """Return whether a registration's backlog was reported as high, and not as normal again."""
        return self._registrations.get(registration, _NOTHING).is_high

    def instances(self) -> Iterable[tuple[str, Amount]]:
        return (
            (name, (tally.count, tally.size)) for name, tally in self._instances.items() if tally.count > 0
        )

    def registrations(self) -> Iterable[tuple[str, int]]:
        return ((name, tally.count) for name, tally in self._registrations.items() if tally.count > 0)

    def largest(self, instance: str, *, by_bytes: bool) -> str | None:
        """Return the id of the registration with the most pending of an instance, or ``None``."""
        tally = self._instances.get(instance)
        if tally is None or tally.count <= 0:
            return None
        parts = tally.parts
        # All of it may be held for a replay.
        return max(parts, key=lambda name: parts[name].size if by_bytes else parts[name].count, default=None)

    def to_free(self, need: Need, freed: Amount) -> tuple[float, float]:
        """Return the most deliveries and bytes that may still be dropped for an append.

        That is infinite, unless other nodes change the backlog, too: what is too much in this node's count,
        all nodes would drop, each for itself, and the count may be wrong for a moment. So each node drops
        what its appends need, and no more.

        Args:
            freed: what was dropped for it so far.
        """
        if self._noted is None:
            return (math.inf, math.inf)
        return (
            sum(count for count, _ in need.values()) - freed[0],
            sum(size for _, size in need.values()) - freed[1],
        )

    def check(self, need: Need, freed: Amount = (0, 0)) -> None:
        """Check that there is room for an append, which has room if :meth:`to_free` returns nothing.

        Raises:
            TooLarge: the need exceeds a limit on its own, so that there will never be room.
            ShareFull: an instance, or a registration, has no room now.
            BacklogFull: there is no room for anybody now.
        """
        count = size = 0
        for (registration, _), (more, more_bytes) in need.items():
            count += more
            size += more_bytes
            has = self._registrations.get(registration, _NOTHING)
            # With all that was counted so far: a registration may be there for several instances.
            if has.count + count > self._calm_of_one or has.size + size > self._calm_bytes_of_one:
                break
        else:
            if (
                self.count + count <= self._calm
                and self.size + size <= self._calm_bytes
                and (not self._groups.by_instance or self._groups.are_calm(need))
            ):
                return
        if need:  # events without a registration take no room
            self.is_tight = True
            for unit, left in enumerate(self.to_free(need, freed)):
                if left > 0:
                    self._check_unit(need, unit)

    def _check_unit(self, need: Need, unit: int) -> None:  # noqa: C901 -- a list of limits
        by_registration: dict[str, int] = {}
        by_instance: dict[str, int] = {}
        total = 0
        for (registration, instance), amount in need.items():
            by_registration[registration] = by_registration.get(registration, 0) + amount[unit]
            by_instance[instance] = by_instance.get(instance, 0) + amount[unit]
            total += amount[unit]
        limit, most = f"limits.{_UNITS[unit]}", self._most[unit]
        limit_of_one, most_of_one = f"limits.registration_{_UNITS[unit]}", self._most_of_one[unit]
        reserved = self._reserved[unit]
        share, share_of_one = _share_of(most, SHARE, 0, reserved), _share_of(most_of_one, SHARE, 0, reserved)

        # Check first for needs that will never fit: their callers would wait for ever.
        _check_alone(max(by_registration.values()), most_of_one, f"{limit_of_one} ({most_of_one:,.0f})")
        _check_alone(total, most, f"{limit} ({most:,.0f})")
        for (registration, _), amount in need.items():
            if is_global(registration):
                limited = f"four fifths of {limit_of_one} ({most_of_one:,.0f})"
                _check_alone(amount[unit], share_of_one, limited)
        _check_alone(max(by_instance.values()), share, f"four fifths of {limit} ({most:,.0f})")
        by_group = self._groups.sums(by_instance)
        for group, more in by_group.items():
            limited = f"limits.tags.{group.tag}.{_UNITS[unit]} ({group.most[unit]:,.0f})"
            _check_alone(more, group.most[unit], limited)
            for instance, of_one in by_instance.items():
                if group in self._groups.of(instance):
                    share_of_group = group.share(group.most[unit], group.most[unit], reserved)
                    _check_alone(of_one, share_of_group, f"four fifths of {limited}")

        def shortage(excess: float, instance: str, registration: str | None) -> Shortage:
            name, value = (limit_of_one, most_of_one) if registration else (limit, most)
            return Shortage(name, int(value), unit == _BYTES, int(excess), instance, registration)

        for (registration, instance), amount in need.items():
            free = most_of_one - self.of(registration)[unit] - by_registration[registration]
            if is_global(registration):
                tally = self._instances.get(instance)
                has = _amount(tally.parts.get(registration) if tally else None)[unit]
                held = has + amount[unit]
                last = _last_part(most_of_one, reserved)
                excess = held - _share_of(free + held, SHARE, last, reserved)
                if excess > 0:
                    holder = f"instance {instance!r} for registration {registration}"
                    raise ShareFull(holder, has, shortage(excess, instance, registration))
            if free < 0:
                raise ShareFull(f"registration {registration}", None, shortage(-free, instance, registration))
        free = most - (self.count, self.size)[unit] - total
        for instance, more in by_instance.items():
            groups = self._groups.of(instance)
            for group in groups:
                self._check_group(group, by_group[group], instance, more, free, unit)
            if groups:
                continue
            has = self.of_instance(instance)[unit]
            held = has + more
            excess = held - _share_of(free + held, SHARE, self._last[unit], reserved)
            if excess > 0:
                raise ShareFull(f"instance {instance!r}", has, shortage(excess, instance, None))
        if free < 0:
            largest = max(by_instance, key=lambda name: self.of_instance(name)[unit])
            raise BacklogFull(shortage(-free, largest, None))

    def _check_group(
        self, group: TagGroup, of_group: int, instance: str, more: int, free: float, unit: int
    ) -> None:
        """Check the share of an instance in a group, and that of the group.

        Args:
            of_group: the need of all instances of the group.
            free: what stays free of the total limit.
        """
        group_held, reserved = group.held(unit) + of_group, self._reserved[unit]
        most = self._most_of_group(group, group_held, free, unit)
        is_own = most == group.most[unit]
        limit = f"limits.tags.{group.tag}.{_UNITS[unit]}" if is_own else f"limits.{_UNITS[unit]}"
        value = group.most[unit] if is_own else self._most[unit]

        def shortage(excess: float) -> Shortage:
            return Shortage(limit, int(value), unit == _BYTES, int(excess), instance, None)

        has = self.of_instance(instance)[unit]
        held, left = has + more, most - group_held
        excess = held - group.share(most, left + held, reserved)
        if left >= 0 and excess > 0:
            holder = f"instance {instance!r} ({group.name})"
            raise ShareFull(holder, has, shortage(excess), f"an instance of {group.name}")
        if left < 0:
            of_all = None if is_own else group.held(unit)
            raise ShareFull(group.name, of_all, shortage(-left), f"all of {group.name}")

    def _most_of_group(self, group: TagGroup, held: int, free: float, unit: int) -> float:
        """Return what a group may hold that would hold so much, with so much free of the total limit."""
        allowed = _share_of(free + held, SHARE, self._last[unit], self._reserved[unit])
        return min(group.most[unit], allowed)

    def replay_room(self, instance: str, registrations: Iterable[str]) -> Amount:
        """Return how much of an instance may be made pending again now, for these registrations together.

        A replay leaves room for new events: it may fill half of their room. With nothing pending, there is
        room for one delivery, or a smaller limit would hold a replay up for ever.

        Returns:
            Deliveries and bytes, at most :data:`REPLAY_STEP`; zeros if there is no room.
        """
        room: list[float] = []
        tally = self._instances.get(instance)
        for unit, step in enumerate(REPLAY_STEP):
            has = _amount(tally)[unit]
            free = self._most[unit] - (self.count, self.size)[unit]
            # As much as stays free beside it, not four times as much.
            share = _share_of(has + free - self._last[unit], 1, 0, self._reserved[unit] // 2) - has
            of_all = free
            for group in self._groups.of(instance):
                held = group.held(unit)
                free = min(free, self._most_of_group(group, held, of_all, unit) - held)
                share = min(share, _share_of(max(0, has + free), 1) - has)
            most = min(share, free, step)
            for registration in registrations:
                most = min(most, self._most_of_one[unit] / 2 - self.of(registration)[unit])
            room.append(max(most, 1) if not has and free >= 1 else most)
        count, size = map(int, room)
        return (count, size) if count > 0 and size > 0 else (0, 0)

    def hold(self, instance: str, amount: Amount) -> None:
        """Count deliveries that an instance is about to make pending again; :meth:`release` must follow.

        An instance holds one amount at a time.
        """
        holder = self._adjust_instance(instance, *amount)
        if holder is not None:
            holder.is_held = True

    def release(self, instance: str, amount: Amount) -> None:
        """Take back the count of :meth:`hold`. The commit has counted the pending deliveries."""
        holder = self._adjust_instance(instance, -amount[0], -amount[1])
        if holder is not None:
            holder.is_held = False
            self._watch_instance(instance, holder)

    def add(self, need: Mapping[tuple[str, str], Amount], *, is_heard: bool = False) -> list[tuple[str, str]]:
        """Count deliveries that are about to be appended; return what to :meth:`watch` once they are.

        Args:
            is_heard: another node has changed the backlog: this is none of the changes of this node.
        """
        noted = None if is_heard else self._noted
        to_watch: list[tuple[str, str]] = []
        for key, (count, size) in need.items():
            if noted is not None:
                has = noted.get(key, (0, 0))
                noted[key] = has[0] + count, has[1] + size
            registration, instance = key
            tally = self._registrations.get(registration)
            if tally is None:
                tally = self._registrations[registration] = Tally()
            tally.count += count
            tally.size += size
            # Down here, up in `watch`: an append that fails must not report a backlog that never was.
            may_be_high = tally.count > self._high
            if not may_be_high and tally.is_high and tally.count <= self._normal:
                tally.is_high = False
                self._observer.backlog_crossed(registration, tally)
            # Otherwise registrations that come and go would add up. A node may learn of other nodes'
            # deliveries before it learns of their appends, so that a count is 0 before the size is.
            if not tally.count and not tally.size:
                del self._registrations[registration]
            holder = self._adjust_instance(instance, count, size)
            if holder is not None:
                part = holder.parts.get(registration)
                if part is None:
                    part = holder.add_part(registration)
                part.count += count
                part.size += size
                if holder.count > self._watched or holder.size > self._watched_bytes or holder.groups:
                    may_be_high = True
            if may_be_high:
                to_watch.append(key)
        return to_watch

    def take(self, need: Need) -> None:
        """Take back the count of deliveries that were not appended."""
        self.add({key: (-count, -size) for key, (count, size) in need.items()})

    def changed(self, change: Mapping[tuple[str, str], Amount]) -> None:
        """Count a commit that changed the pending deliveries by other means than appending."""
        self.watch(self.add(change))

    def retired(self, instance: str, name: str) -> None:
        """Count what is pending of a deleted instance under another name, as the store does.

        A later instance of its name begins with nothing. Commits may have been counted under the other name
        before. What is held for a replay stays where :meth:`release` takes it back.
        """
        holder = self._instances.get(instance)
        if holder is None:
            return
        parts = {registration: (part.count, part.size) for registration, part in holder.parts.items()}
        # Added first: a registration's backlog does not become normal meanwhile. Other nodes do the same.
        self.add({(one, name): amount for one, amount in parts.items()}, is_heard=True)
        self.add({(one, instance): (-count, -size) for one, (count, size) in parts.items()}, is_heard=True)
        self.has_retired = True

    # In a fleet, where other nodes change the backlog, too.

    def take_noted(self) -> Need:
        """Return this node's changes since the last call, and note further ones.

        A registration and instance whose changes add up to nothing is included, with zeros.
        """
        noted, self._noted = self._noted, {}
        return noted or {}

    @property
    def noted(self) -> Need:
        """The result that :meth:`take_noted` would return."""
        return self._noted or {}

    def stop_noting(self) -> None:
        """Stop noting this node's changes."""
        self._noted = None

    def heard(self, change: Mapping[tuple[str, str], Amount]) -> None:
        """Count the changes of another node."""
        self.watch(self.add(change, is_heard=True))

    def recount(
        self, found: Mapping[tuple[str, str], Amount], only: Collection[tuple[str, str]] | None = None
    ) -> None:
        """Replace the count by a count of the store, and add the changes that this node noted since then.

        Args:
            found: the pending deliveries, by registration id and instance.
            only: replace the counts of these alone; ``None`` for all.
        """
        change = dict(found)
        for key, (count, size) in (self._noted or {}).items():
            has = change.get(key, (0, 0))
            change[key] = has[0] + count, has[1] + size
        counted = {
            (registration, instance): (part.count, part.size)
            for instance, holder in self._instances.items()
            for registration, part in holder.parts.items()
        }
        counted[OPERATIONS_ID, GLOBAL_INSTANCE] = self.of(OPERATIONS_ID)
        for key, (count, size) in counted.items():
            has = change.get(key, (0, 0))
            change[key] = has[0] - count, has[1] - size
        self.heard(
            {
                key: amount
                for key, amount in change.items()
                if amount != (0, 0) and (only is None or key in only)
            }
        )

    def _adjust_instance(self, instance: str, count: int, size: int) -> InstanceTally | None:
        """Change the counts of an instance and the total; operational events have no instance."""
        self.count += count
        self.size += size
        if instance == GLOBAL_INSTANCE:
            return None
        holder = self._instances.get(instance)
        if holder is None:
            if len(self._instances) >= self._sweep_at:
                self._sweep()
            holder = self._instances[instance] = InstanceTally(self._groups.of(instance))
        holder.count += count
        holder.size += size
        for group in holder.groups:
            group.count += count
            group.size += size
        if holder.is_high and not self._is_high(holder, HIGH_PART * NORMAL_PART):
            holder.is_high = False
            self._observer.instance_backlog_crossed(instance, holder, self._allowed(holder))
        return holder

    def _sweep(self) -> None:
        """Forget instances and registrations without a backlog, now and then.

        Most events are delivered at once: making and removing these for each event would cost more than the
        counting.
        """
        self._instances = {
            name: holder for name, holder in self._instances.items() if holder.count or holder.size
        }
        for holder in self._instances.values():
            holder.sweep()
        self._sweep_at = max(LEAST_SWEPT, 2 * len(self._instances))

    def watch(self, need: Iterable[tuple[str, str]]) -> None:
        """Report registrations and instances whose backlog has become high."""
        for registration, instance in need:
            tally = self._registrations.get(registration)
            if tally is not None and tally.count > self._high and not tally.is_high:
                tally.is_high = True
                self._observer.backlog_crossed(registration, tally)
            holder = self._instances.get(instance)
            if holder is not None:
                self._watch_instance(instance, holder)

    def _watch_instance(self, instance: str, holder: InstanceTally) -> None:
        if (
            not holder.is_high
            and not holder.is_held
            and self._is_high(holder, HIGH_PART)
            and not is_retired(instance)  # nobody can do anything about it
        ):
            holder.is_high = True
            self._observer.instance_backlog_crossed(instance, holder, self._allowed(holder))

    def _is_high(self, holder: InstanceTally, part: float) -> bool:
        """Return whether an instance has more than this part of its allowance; see :meth:`_allowed`."""
        reserved, reserved_bytes = self._reserved
        if holder.count <= part * reserved and holder.size <= part * reserved_bytes:
            for group in holder.groups:
                if group.count > group.low or group.size > group.low_bytes:
                    break
            else:
                return False
        allowed, allowed_bytes = self._allowed(holder)
        return holder.count > part * allowed or holder.size > part * allowed_bytes

    def _allowed(self, holder: InstanceTally) -> tuple[float, float]:
        """Return how many deliveries and bytes an instance may hold, if the others stay as they are."""
        (most, most_bytes), (last, last_bytes) = self._most, self._last
        reserved, reserved_bytes = self._reserved
        if holder.groups:
            return (self._allowed_in_groups(holder, 0), self._allowed_in_groups(holder, 1))
        return (
            _share_of(most - self.count + holder.count, SHARE, last, reserved),
            _share_of(most_bytes - self.size + holder.size, SHARE, last_bytes, reserved_bytes),
        )

    def _allowed_in_groups(self, holder: InstanceTally, unit: int) -> float:
        free, has = self._most[unit] - (self.count, self.size)[unit], _amount(holder)[unit]
        found = math.inf
        for group in holder.groups:
            most = self._most_of_group(group, group.held(unit), free, unit)
            found = min(found, group.share(most, most - group.held(unit) + has, self._reserved[unit]))
        return found


def need_of(appends: Iterable[Append]) -> Need:
    need: Need = {}
    for append in appends:
        size, instance = len(append.event.data_json), append.event.instance
        for registration, _ in append.targets:
            key = registration, instance
            has = need.get(key)
            need[key] = (1, size) if has is None else (has[0] + 1, has[1] + size)
    return need


def _amount(tally: Tally | None) -> Amount:
    # In a fleet, a node may have counted that a delivery ended before it has counted that it came.
    return (max(0, tally.count), max(0, tally.size)) if tally else (0, 0)


def _share_of(left: float, ratio: int = SHARE, spare: int = 0, reserved: int = 0) -> float:
    return left if left == math.inf else share_of(int(left), ratio, spare, reserved)


def _last_part(limit: float, reserved: int) -> int:
    """Return the part of a limit that is for instances that hold less than their reserve."""
    return 0 if limit == math.inf or not reserved else int(limit) // LAST_PART


def _check_alone(more: int, most: float, limit: str) -> None:
    if more > most:
        raise TooLarge.of(
            "request.exceeds_limit",
            "This request exceeds {limit} on its own. Split it into smaller batches.",
            limit=limit,
        )
