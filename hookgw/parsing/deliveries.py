"""The bodies of ``/delivery/replay``. No I/O."""

from __future__ import annotations

from typing import Any, Literal, cast

import msgspec

from hookgw.models.clock import parse_rfc3339
from hookgw.models.errors import Invalid
from hookgw.models.events import Catalog
from hookgw.models.units import parse_duration
from hookgw.parsing.fields import Check, Fields, as_object, kind_of, list_of, one_of, text_up_to

_MOST_KINDS = 1_000
_LONGEST_LABEL = 128
_STATES = ("dead", "all")
_TIME_FORM = "an RFC 3339 time such as 2026-11-20T12:00:00Z, or how long ago: 10m, 2h, 3d"


class Replay(msgspec.Struct, frozen=True, kw_only=True):
    """Which finished deliveries of an instance to send again.

    Attributes:
        since, until: when their events were accepted, in seconds since the epoch; the end is excluded,
            and ``None`` means now.
        state: ``dead`` for dead letters alone, ``all`` for everything that is finished.
        kinds: of those kinds alone; empty for every kind.
        label: to the registration of that label alone; ``None`` for all.
    """

    since: float
    until: float | None = None
    state: Literal["dead", "all"] = "dead"
    kinds: tuple[str, ...] = ()
    label: str | None = None


def parse_replay(body: Any, catalog: Catalog, *, now: float) -> tuple[Replay, list[str]]:
    """What a replay asks for, and warnings about what was ignored of it.

    Args:
        body: the decoded JSON.
        catalog: the known event kinds.
        now: what lengths of time count from, in seconds since the epoch.

    Raises:
        Invalid: with everything that is wrong.
    """
    fields = Fields(("", as_object(body, "The body")))
    replay = Replay(
        since=fields.need(_moment(now), 0.0, "since"),
        until=fields.pick(_moment(now), "until"),
        state=cast("Literal['dead', 'all']", fields.read(one_of(_STATES), "dead", "state")),
        kinds=fields.read(list_of(_kind(catalog), _MOST_KINDS), (), "kinds", "events"),
        label=fields.pick(text_up_to(_LONGEST_LABEL), "label"),
    )
    return replay, fields.finish()


def _moment(now: float) -> Check[float]:
    """A check for a time, or how long before ``now``."""

    def check(value: Any, where: str) -> float:
        if not isinstance(value, str):
            raise Invalid(f"{where} must be {_TIME_FORM}, not {kind_of(value)}.")
        try:
            return now - parse_duration(value)
        except ValueError:
            pass
        try:
            return parse_rfc3339(value)
        except (ValueError, OverflowError):
            raise Invalid(f"{where} must be {_TIME_FORM}, not {value[:64]!r}.") from None

    return check


def _kind(catalog: Catalog) -> Check[str]:
    def check(value: Any, where: str) -> str:
        return catalog.resolve(value, where).name

    return check
