"""The bodies of ``/delivery/replay`` and ``/delivery/cancel``. No I/O.

The parsers take decoded JSON and raise ``Invalid`` with every mistake. Durations count back from ``now``, in
seconds since the epoch.
"""

from __future__ import annotations

from typing import Any, Literal, cast

import msgspec

from hookgw.kernel.json_fields import Fields, as_bool, as_object, list_of, one_of, text_up_to
from hookgw.kernel.json_moments import as_moment, check_range
from hookgw.records.deliveries import Cancellation
from hookgw.records.events import Catalog

_MAX_KINDS = 1_000
_MAX_LABEL = 128
REPLAY_STATES = ("dead", "all")


class Replay(msgspec.Struct, frozen=True, kw_only=True):
    """The finished deliveries of an instance to send again. ``None`` or empty does not filter.

    Attributes:
        since, until: the range of acceptance times of their events. ``until`` is excluded; ``None`` means
            now.
        state: ``dead`` for dead letters, ``all`` for every finished delivery.
    """

    since: float
    until: float | None = None
    state: Literal["dead", "all"] = "dead"
    kinds: tuple[str, ...] = ()
    label: str | None = None


def parse_replay(body: Any, catalog: Catalog, *, now: float) -> Replay:
    """Read the body of a replay. An unknown field is a mistake, and so is an empty range."""
    fields = Fields(("", as_object(body, "The body")))
    kinds = list_of(lambda value, where: catalog.resolve(value, where).name, _MAX_KINDS)
    replay = Replay(
        # Required, because replaying the whole history by accident cannot be undone.
        since=fields.need(as_moment(now), 0.0, "since"),
        until=fields.pick(as_moment(now), "until"),
        state=cast("Literal['dead', 'all']", fields.read(one_of(REPLAY_STATES), "dead", "state")),
        kinds=fields.read(kinds, (), "kinds", "events"),
        label=fields.pick(text_up_to(_MAX_LABEL), "label"),
    )
    fields.refuse_unknown("a replay")
    check_range(fields, replay.since, replay.until)
    fields.finish()
    return replay


def parse_cancellation(body: Any, catalog: Catalog, *, now: float) -> Cancellation:
    """Read the body of a cancellation. An unknown field is a mistake, and so is an empty range."""
    fields = Fields(("", as_object(body, "The body")))
    kinds = list_of(lambda value, where: catalog.resolve(value, where).name, _MAX_KINDS)
    cancellation = Cancellation(
        since=fields.pick(as_moment(now), "since"),
        until=fields.pick(as_moment(now), "until"),
        kinds=fields.read(kinds, (), "kinds", "events"),
        label=fields.pick(text_up_to(_MAX_LABEL), "label"),
        dry_run=fields.read(as_bool, False, "dryRun", "dry_run"),
    )
    fields.refuse_unknown("a cancellation")
    check_range(fields, cancellation.since, cancellation.until)
    fields.finish()
    return cancellation
