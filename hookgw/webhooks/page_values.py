"""What pages show of a registration: its row in a list, the values of its form, its lanes' heads."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import msgspec

from hookgw.kernel.errors import HookgwError
from hookgw.kernel.fields import Field, Input
from hookgw.kernel.masking import with_masked_user
from hookgw.lanes.fetches import LastFetch
from hookgw.records.deliveries import Attempt, LaneStatistics
from hookgw.records.registrations import DEFAULT_LABEL, Registration
from hookgw.records.stuck_lanes import advice_for, skippable
from hookgw.site.field_form import form_values, inputs_of, into_form
from hookgw.site.page_paths import delivery_path
from hookgw.site.seen import seen
from hookgw.site.words import wait_in_words
from hookgw.webhooks.fields import FIELDS, Showing
from hookgw.webhooks.responses import present_registration

if TYPE_CHECKING:
    from hookgw.app.gateway import Gateway
    from hookgw.site.site import Form

MOST_HEADS = 3
"""The most lanes of a registration whose heads its page shows."""


class Row(NamedTuple):
    """A registration in the list.

    Attributes:
        url: with masked user and password.
        state: ``active``, ``paused``, ``disabled`` or ``failing``.
        reason: why it is not active.
        since: when it began to fail, in seconds since the epoch; ``None`` unless it does.
        kinds: how many kinds it receives; 0 for all of them.
        fetched: when its receiver fetched last; ``None`` if its deliveries are posted.
    """

    label: str
    url: str
    state: str
    reason: str | None
    since: float | None
    kinds: int
    backlog: int
    fetched: LastFetch | None


class Values(NamedTuple):
    """What is in the fields of the form that sets a registration.

    Attributes:
        is_pulled: whether its receiver fetches.
        inputs: by their names.
        is_special: whether one of the inputs is not as for a new registration.
        seen: see :mod:`hookgw.site.seen`.
    """

    label: str
    url: str
    is_pulled: bool
    enabled: bool
    kinds: frozenset[str]
    inputs: dict[str, Any]
    is_special: bool
    seen: str
    fields: Sequence[tuple[Field, Field, Input]] = tuple(inputs_of(FIELDS))


class Head(NamedTuple):
    """The first delivery of a lane, and what the lane does with it.

    Attributes:
        path: of the delivery's page below the dashboard; empty if the lane has not read it, as while paused.
        since, waiting_until: seconds since the epoch.
        waits_for: the reason of its wait beside a time, in words.
        answer: its newest attempt; ``None`` before the first.
        skips: as ``<instance>/<id>``, if the lane tries it in vain.
        advice: why the lane is held up, and the remedy, in sentences.
    """

    lane: LaneStatistics
    path: str
    since: float | None
    waiting_until: float | None
    waits_for: str | None
    answer: Attempt | None
    skips: str
    advice: str | None


def row_of(gateway: Gateway, registration: Registration) -> Row:
    state, reason = "active", None
    since = gateway.auto_disable.failing_since(registration.id)
    if not registration.enabled:
        state, reason = "disabled", registration.disabled_reason
    elif registration.is_paused:
        state = "paused"
    elif since is not None:
        errors = [lane.last_error for lane in gateway.dispatcher.lanes(registration.id)]
        _, error = gateway.auto_disable.last_failure(registration.id)
        state, reason = "failing", next(filter(None, [*errors, error]), None)
    return Row(
        registration.label,
        with_masked_user(registration.url),
        state,
        reason,
        since + gateway.clock.apart() if since and state == "failing" else None,
        len(registration.events),
        gateway.backlog.of(registration.id)[0],
        gateway.pulls.fetched(registration),
    )


def values_of(gateway: Gateway, instance: str, form: Form | None, label: str = DEFAULT_LABEL) -> Values:
    """Return the form's values: the entered ones, else the stored ones, else the defaults."""
    stored = gateway.registrations.find(instance, form.get("label", label) if form else label)
    shown = shown_of(gateway, instance, stored)
    url, is_pulled, enabled, kinds, inputs = shown
    blank = shown_of(gateway, instance, None)[-1]
    if form is not None:
        inputs, label = form_values(FIELDS, form), form.get("label", DEFAULT_LABEL)
        url, enabled, kinds = form.get("url"), form.has("enabled"), frozenset(form.all("kind"))
        is_pulled = form.get("way") == "pull"
    url = "" if is_pulled else url
    return Values(label, url, is_pulled, enabled, kinds, inputs, inputs != blank, seen(shown, form))


def shown_of(
    gateway: Gateway, instance: str, stored: Registration | None
) -> tuple[str, bool, bool, frozenset[str], dict[str, Any]]:
    """Return the URL, whether it is fetched, whether it is enabled, the kinds, and the inputs by name."""
    one = stored or Registration(id="", instance=instance, url="")
    showing = Showing("", gateway.catalog, gateway.hooks.secret_options)
    inputs = into_form(FIELDS, msgspec.to_builtins(present_registration(one, showing)))
    return with_masked_user(one.url), one.is_pulled, one.enabled, frozenset(one.events), inputs


async def heads_of(gateway: Gateway, registration: Registration) -> list[Head]:
    """Return the lanes with work, that with the oldest delivery first, at most :data:`MOST_HEADS`."""
    steady = gateway.clock.steady()
    apart = gateway.clock.apart()
    lanes = [one for one in gateway.dispatcher.lanes(registration.id) if one.backlog]
    lanes.sort(key=lambda one: one.head_since or steady)
    heads = []
    for lane in lanes[:MOST_HEADS]:
        answer = None
        if lane.head_instance is not None:
            try:
                report = await gateway.history.find(lane.head_instance, f"dlv_{lane.head}")
            except HookgwError:
                pass  # it was settled a moment ago, or the storage is busy: the page needs neither
            else:
                answer = next(reversed(report.attempts), None)
        heads.append(
            Head(
                lane,
                delivery_path(lane.head_instance, f"dlv_{lane.head}") if lane.head_instance else "",
                None if lane.head_since is None else lane.head_since + apart,
                None if lane.waiting_until is None else lane.waiting_until + apart,
                wait_in_words(lane.waits_for),
                answer,
                skippable(lane),
                advice_for(lane, steady),
            )
        )
    return heads
