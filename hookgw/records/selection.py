"""Which deliveries a call concerns: the fields that lists, replays and cancellations share. No I/O."""

from __future__ import annotations

import msgspec

from hookgw.kernel.masking import repr_without
from hookgw.records.instances import Instance
from hookgw.records.tags import has_tags


class DeliverySelection(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Which deliveries a call concerns. ``None`` or empty does not filter.

    Attributes:
        instances: names, or beginnings of names followed by ``*``.
        tags: instances that carry all of these names with values, when the work on each of them begins.
        label: deliveries to registrations of that label.
        host: deliveries to registrations with a URL at that host, with or without its port.
        kinds: of the events.
        state: a state of deliveries; of a replay, ``dead`` or ``all``.
        status: the lowest and the highest status of the newest attempt.
        error: a text in the reason for the state, or in the error or answer of the newest attempt.
        person: payloads that name this person, by the rule of erasures.
        text: a text in the payload.
        since, until: when the events were accepted, in seconds since the epoch; ``until`` is excluded.
        finished_since: when the deliveries finished.
        failed_since: the number of a delivery: only that one and later ones.
        without_global: leave out deliveries to registrations of the configuration, present and past.
    """

    instances: tuple[str, ...] = ()
    tags: tuple[tuple[str, str], ...] = ()
    label: str | None = None
    host: str | None = None
    kinds: tuple[str, ...] = ()
    state: str | None = None
    status: tuple[int, int] | None = None
    error: str | None = None
    person: str | None = None
    text: str | None = None
    since: float | None = None
    until: float | None = None
    finished_since: float | None = None
    failed_since: int | None = None
    without_global: bool = False

    # What a person is called, and what they wrote, is nothing for a log.
    __repr__ = repr_without("person", "text")

    @property
    def reads_payloads(self) -> bool:
        return self.person is not None or self.text is not None

    def apart(self) -> DeliverySelection | None:
        """Return what it says of a delivery itself, without its event and receiver; ``None`` if nothing."""
        apart = DeliverySelection(
            state=self.state,
            status=self.status,
            error=self.error,
            finished_since=self.finished_since,
            failed_since=self.failed_since,
        )
        if apart == DeliverySelection():
            return None
        return msgspec.structs.replace(apart, without_global=self.without_global)

    def has(self, instance: Instance) -> bool:
        return self.names(instance.name) and has_tags(instance.tags, self.tags)

    def names(self, instance: str) -> bool:
        """Return whether the selection has an instance, by its name."""
        return not self.instances or any(
            instance.startswith(one[:-1]) if one.endswith("*") else instance == one for one in self.instances
        )
