"""What a data file must hold, kept by a model that knows nothing of SQL, and what it does hold.

The recorded program says what it asks the store for before it asks, and says when the store has answered.
Writes take effect in the order in which they are asked for. So after a power cut, the file must hold what the
first so many requests make of it: at least all those up to the newest answered one, as the answer is the
promise that it is on disk, and at most all that were asked for. Half of a request is a failure, and so is a
later one without an earlier one.
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from typing import Any, TypeAlias

import msgspec

from tests.public.records import FIRST, JobState, Position
from tests.public.store import AuditQuery, DeliveryQuery, Store

STEP = 4
"""How many deliveries one commit of the recorded program parks, replays or prunes."""

Request: TypeAlias = dict[str, Any]
View: TypeAlias = dict[str, Any]
VALUES = ("one", "two", "three")
INSTANCES = {"shop": "id-shop", "mall": "id-mall"}


class Held(msgspec.Struct):
    """A delivery in the model."""

    event: str
    instance: str
    registration: str
    position: int
    person: str
    secret: bytes
    state: str = "pending"
    attempts: int = 0
    # When it was settled; ``None`` if it was parked, which is later than every settlement.
    at: float | None = None


class Model:
    """What the file holds after some requests."""

    def __init__(self) -> None:
        self.deliveries: dict[int, Held] = {}
        self.ids: set[tuple[str, str]] = set()
        self.view_of: dict[str, dict[str, Any]] = {
            name: {} for name in ("instances", "registrations", "values", "states", "jobs")
        }
        self.audit: list[str] = []
        self.places: dict[str, int] = {}
        self.scrubbed: set[bytes] = set()
        self._erased: set[bytes] = set()
        self._ticks = 0

    def copy(self) -> Model:
        new = Model()
        new.deliveries = {seq: msgspec.structs.replace(held) for seq, held in self.deliveries.items()}
        new.ids = set(self.ids)
        new.view_of = {name: dict(held) for name, held in self.view_of.items()}
        new.audit = list(self.audit)
        new.places = dict(self.places)
        new.scrubbed = set(self.scrubbed)
        new._erased = set(self._erased)
        new._ticks = self._ticks
        return new

    def pending(self, registration: str) -> list[int]:
        """Return the pending deliveries of a registration, in order."""
        found = [
            seq
            for seq, held in self.deliveries.items()
            if held.state == "pending" and held.registration == registration
        ]
        return sorted(found, key=lambda seq: self.deliveries[seq].position)

    def dead(self, instance: str, after: int = 0) -> list[int]:
        """Return the dead letters of an instance with greater numbers, in order."""
        return sorted(
            seq
            for seq, held in self.deliveries.items()
            if held.state == "dead" and held.instance == instance and seq > after
        )

    def old(self, before: float) -> set[int]:
        """Return the deliveries that were settled before a time, and are not pending."""
        return {
            seq
            for seq, held in self.deliveries.items()
            if held.state != "pending" and held.at is not None and held.at < before
        }

    def apply(self, request: Request) -> None:
        do: Callable[..., None] = getattr(self, f"_{request['do']}")
        do(**{name: value for name, value in request.items() if name not in ("do", "number")})

    def view(self) -> View:
        """Return what :func:`look` would find."""
        pending: dict[str, list[Any]] = {}
        finished: dict[int, Any] = {}
        for seq, held in sorted(self.deliveries.items(), key=lambda pair: pair[1].position):
            if held.state == "pending":
                lane = pending.setdefault(f"{held.registration}:0", [])
                lane.append((seq, held.event, held.instance, held.attempts))
            else:
                finished[seq] = (held.event, held.instance, held.state, held.attempts)
        return {"pending": pending, "finished": finished, "audit": self.audit, **self.view_of}

    # The requests

    def _append(self, events: list[dict[str, Any]], state: int | None = None) -> None:
        for one in events:
            key = one["instance"], one["id"]
            if key in self.ids:
                continue
            self.ids.add(key)
            for registration, seq in one["targets"]:
                secret = one["secret"].encode()
                self.deliveries[seq] = Held(
                    one["id"], one["instance"], registration, self._tick(), one["person"], secret
                )
        if state is not None:
            self.view_of["states"]["shop"] = state

    def _settle(self, seq: int, state: str, attempt: int, at: float) -> None:
        held = self.deliveries.get(seq)
        if held is not None and held.state == "pending":
            held.state, held.attempts, held.at = state, attempt, at

    def _put(self, shelf: str, key: str, value: Any, audit: str | None = None) -> None:
        self.view_of[shelf][key] = tuple(value) if isinstance(value, list) else value
        if audit is not None:
            self.audit.append(audit)

    def _put_instance(self, name: str, registration: str, url: str) -> None:
        self.view_of["instances"][name] = INSTANCES[name]
        self.view_of["registrations"][registration] = url

    def _park(self, registration: str, job: str | None) -> None:
        gone = self.pending(registration)[:STEP]
        for seq in gone:
            self.deliveries[seq].state, self.deliveries[seq].at = "dead", None
        if job is not None:
            self._advance(job, len(gone))

    def _remove_registration(self, registration: str, job: str) -> None:
        self.view_of["registrations"].pop(registration, None)
        self.view_of["jobs"][job] = (0, True)

    def _remove_jobs(self, jobs: list[str]) -> None:
        for job in jobs:
            self.view_of["jobs"].pop(job, None)

    def _drop_oldest(self, registration: str, instance: str, count: int) -> None:
        mine = [seq for seq in self.pending(registration) if self.deliveries[seq].instance == instance]
        for seq in mine[: min(count, STEP)]:
            self.deliveries[seq].state, self.deliveries[seq].at = "dead", None

    def _resend(self, seq: int) -> None:
        held = self.deliveries[seq]
        held.state, held.position, held.at = "pending", self._tick(), None

    def _replay(self, instance: str, job: str) -> None:
        is_first = job not in self.places
        found = self.dead(instance, self.places.get(job, 0))[:STEP]
        for seq in found:
            self._resend(seq)
        is_last = len(found) < STEP
        if found:
            self.places[job] = found[-1]
        if found and not (is_first and is_last):
            self._advance(job, len(found), is_last=is_last)

    def _erase(self, instance: str, person: str) -> None:
        for seq, held in list(self.deliveries.items()):
            if (held.instance, held.person) == (instance, person):
                self._erased.add(held.secret)
                del self.deliveries[seq]

    def _scrub(self) -> None:
        self.scrubbed |= self._erased

    def _retain(self, before: float) -> None:
        for seq in self.old(before):
            del self.deliveries[seq]

    def _nothing(self, **_: Any) -> None:
        """Do what changes nothing that can be seen: wait, back up, close and open again."""

    _flush = _back_up = _reopen = _nothing

    def _advance(self, job: str, count: int, *, is_last: bool = False) -> None:
        done, _ = self.view_of["jobs"].get(job, (0, True))
        self.view_of["jobs"][job] = (done + count, not is_last)

    def _tick(self) -> int:
        self._ticks += 1
        return self._ticks


async def look(store: Store) -> View:
    """Return what a store holds, as its clients see it."""
    pending: dict[str, list[Any]] = {}
    for lane in await store.pending_lanes():
        found = pending.setdefault(lane.lane, [])
        after: Position = FIRST
        while True:
            page = await store.read_lane(lane.lane, after, 1000)
            found += [(one.seq, one.event.id, one.event.instance, one.attempts) for one in page.deliveries]
            if not page.more:
                break
            after = page.deliveries[-1].position
    finished: dict[int, Any] = {}
    cursor = None
    while True:
        listed = await store.list_deliveries(DeliveryQuery(instance=None, limit=5000, cursor=cursor))
        for one in listed.deliveries:
            if one.state != "pending":
                finished[one.seq] = (one.event_id, one.instance, str(one.state), one.attempts)
        cursor = listed.cursor
        if cursor is None:
            break
    values = {key: await store.get_value(key) for key in VALUES}
    state = await store.load_state(INSTANCES["shop"])
    audit = await store.list_audit(AuditQuery(limit=5000))
    return {
        "pending": pending,
        "finished": finished,
        "audit": [entry.action for entry in reversed(audit.entries)],
        "instances": {name: one.id for name, one in (await store.load_instances()).items()},
        "registrations": {key: one.url for key, one in (await store.load_registrations()).items()},
        "values": {key: value for key, value in values.items() if value is not None},
        "states": {} if state is None else {"shop": state},
        "jobs": {
            key: (one.done, one.state is JobState.RUNNING) for key, one in (await store.load_jobs()).items()
        },
    }


def differences(expected: View, found: View, optional: Collection[int] = ()) -> list[str]:
    """Return in words how two views differ.

    Args:
        expected, found: the views.
        optional: finished deliveries that may be missing, because their removal was asked for.
    """
    said: list[str] = []
    for part, held in expected.items():
        wanted, there = held, found[part]
        if part == "finished":
            wanted = {seq: one for seq, one in held.items() if seq in there or seq not in optional}
        if wanted == there:
            continue
        if isinstance(wanted, dict):
            for key in sorted({*wanted, *there}, key=str):
                if wanted.get(key) != there.get(key):
                    said.append(f"{part}, {key}: {there.get(key)} in the place of {wanted.get(key)}")
        else:
            said.append(f"{part}: {there} in the place of {wanted}")
    return said
