"""The body of ``/webhook/backfill``. No I/O."""

from __future__ import annotations

from functools import partial
from typing import Any

import msgspec

from hookgw.kernel.errors import Invalid
from hookgw.kernel.json_fields import Fields, as_bool, list_of
from hookgw.kernel.json_moments import as_moment, check_range
from hookgw.records.event_filters import Condition as StoredCondition
from hookgw.records.event_kinds import MAX_KINDS
from hookgw.records.events import Catalog
from hookgw.webhooks.filters import read_filter


class BackfillRequest(msgspec.Struct, frozen=True, kw_only=True):
    """Which events of the log a registration is to get. ``None`` or empty does not filter.

    Attributes:
        since, until: the range of the acceptance times of the events. ``until`` is excluded; ``None`` means
            now.
        kinds, filter: beside those of the registration.
        dead: whether its dead letters are sent again, too.
        dry_run: only find what it would be.
    """

    since: float
    until: float | None = None
    kinds: tuple[str, ...] = ()
    filter: tuple[StoredCondition, ...] = ()
    dead: bool = False
    dry_run: bool = False


def parse_backfill(body: Any, catalog: Catalog, *, now: float) -> BackfillRequest:
    """Read the body of a backfill, in which an unknown field and an empty range are mistakes.

    Raises:
        Invalid: with every mistake.
    """
    fields = Fields.of_body(body)
    asked = BackfillRequest(
        # Required, because a receiver may not bear the whole log, sent by accident.
        since=fields.need(as_moment(now), 0.0, "since"),
        until=fields.pick(as_moment(now), "until"),
        kinds=fields.read(list_of(catalog.stored_name, MAX_KINDS), (), "events", "kinds"),
        filter=fields.read(partial(read_filter, fields), (), "filter"),
        dead=fields.read(as_bool, False, "dead"),
        dry_run=fields.read(as_bool, False, "dryRun", "dry_run"),
    )
    fields.refuse_unknown("a backfill")
    check_range(fields, asked.since, asked.until)
    fields.finish()
    return asked


def refuse_fields(body: Any, whole: str) -> None:
    """Refuse the fields of a body that means nothing to a call ("a deletion").

    A label there names another registration than the path does, which without one means ``default``.

    Raises:
        Invalid: the body has a field, or is no object.
    """
    fields = Fields.of_body(body)
    fields.refuse_unknown(whole)
    fields.finish()


def take_backfill(body: Any) -> tuple[Any, bool]:
    """Return the body of a change of some fields without ``backfill``, and whether that is true.

    Raises:
        Invalid: it is neither true nor false nor ``null``.
    """
    if not isinstance(body, dict):
        return body, False
    fields = Fields(("", body))
    nested = body.get("webhook")
    if isinstance(nested, dict):
        fields = Fields(("webhook", nested), ("", body))
        body = {**body, "webhook": {name: nested[name] for name in nested if name != "backfill"}}
    wanted: bool = fields.read(as_bool, False, "backfill")
    if fields.problems:
        raise Invalid(*fields.problems)
    return {name: body[name] for name in body if name != "backfill"}, wanted
