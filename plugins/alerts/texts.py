"""The words of a notice, in the language that ``HOOKGW_LANG`` names. No I/O."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable

from hookgw.kernel.language import N_
from hookgw.kernel.language import gettext as _
from hookgw.records.told_sentences import sentence_text

from .options import Options
from .watch import MANY, Alert, Line, Notice

# For one problem, and for several: {name} is what it is about, {count} how many, {host} where.
TITLES = {
    "instance_closed": (N_("{name} is not connected"), N_("{count} instances are not connected")),
    "instance_quiet": (N_("No event comes from {name}"), N_("No event comes from {count} instances")),
    "webhook_failing": (N_("{name} fails"), N_("{count} webhooks at {host} fail")),
    "webhook_disabled": (N_("{name} was disabled"), N_("{count} webhooks at {host} were disabled")),
    "dead_letters": (N_("{name} has dead letters"), N_("{count} instances have dead letters")),
    "backlog": (N_("Deliveries to {name} pile up"), N_("Deliveries to {count} webhooks at {host} pile up")),
    "disk": (N_("The disk of hookgw fills up"), N_("The disk fills up on {count} nodes")),
    "database": (
        N_("Deliveries wait for the database"),
        N_("Deliveries wait for the database on {count} nodes"),
    ),
    "plugin": (N_("{name} fails"), N_("{count} plugins fail")),
    "test": (N_("A test of hookgw's alerts"), ""),
    "node_lost": (N_("{name} does not answer"), N_("{count} nodes do not answer")),
}
STATES = {"raised": "{title}", "still": N_("Still: {title}"), "over": N_("Over: {title}")}


def title_of(notice: Notice) -> str:
    state = STATES[notice.state]
    title = _title(notice, notice.count)
    return title if notice.state == "raised" else _(state, title=title)


def describe(alert: Alert) -> str:
    """Return the title of an alert, without its state."""
    return _title(alert, len(alert.keys))


def _title(of: Notice | Alert, count: int) -> str:
    one, many = TITLES[of.on]
    if count == 1 and of.lines:
        return _(one, name=_name(of.lines[0]))
    # Receivers that fetch have none.
    return _(many, count=count, host=_("several hosts") if of.host in (MANY, "") else of.host)


def text_of(notice: Notice, options: Options, fits: Callable[[str], bool]) -> str:
    """Return the lines below the title, with as many of the problems as fit.

    Args:
        fits: whether a channel takes a text.
    """
    lines, end = [], [] if options.dashboard is None else [options.dashboard]
    if notice.state == "over":
        end.insert(0, _("It began at {time}.", time=_time(notice.since, options)))
    else:
        for line in notice.lines:
            since = "" if line.since is None else " " + _("Since {time}.", time=_time(line.since, options))
            place = "" if notice.count == 1 else f"{_name(line)}: "
            where = f" ({line.detail})" if line.detail else ""
            lines.append(f"{place}{sentence_text(line.why)}{since}{where}")

    def whole(lines: list[str]) -> str:
        rest = notice.count - len(lines) if lines else 0
        more = [_("And {count} more.", count=rest)] if rest else []
        return "\n".join([*lines, *more, *end])

    while len(lines) > 1 and not fits(whole(lines)):
        lines.pop()
    if lines and not fits(whole(lines)):  # a server said much, or the URL is long
        [first] = lines
        too_long = bisect_left(range(len(first)), 1, key=lambda size: not fits(whole([f"{first[:size]}…"])))
        lines = [f"{first[: max(0, too_long - 1)]}…"]
    return whole(lines)


def _name(line: Line) -> str:
    if line.label:
        of = _("every instance") if line.instance == "*" else line.instance
        return _("Webhook {label} of {instance}", label=line.label, instance=of)
    if line.plugin:
        return _("Plugin {name}", name=line.plugin)
    return line.instance or _("Node {name}", name=line.node)


def _time(at: float, options: Options) -> str:
    return options.local(at).strftime("%Y-%m-%d %H:%M %Z").rstrip()
