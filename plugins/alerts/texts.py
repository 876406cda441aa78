"""The words of a notice. No I/O."""

from __future__ import annotations

from .options import Options
from .watch import Alert, Line, Notice

# For one problem, and for several: {name} is what it is about, {count} how many, {host} where.
TITLES = {
    "instance_closed": ("{name} is not connected", "{count} instances are not connected"),
    "instance_quiet": ("No event comes from {name}", "No event comes from {count} instances"),
    "webhook_failing": ("{name} fails", "{count} webhooks at {host} fail"),
    "webhook_disabled": ("{name} was disabled", "{count} webhooks at {host} were disabled"),
    "dead_letters": ("{name} has dead letters", "{count} instances have dead letters"),
    "backlog": ("Deliveries to {name} pile up", "Deliveries to {count} webhooks at {host} pile up"),
    "disk": ("The disk of hookgw fills up", "The disk fills up on {count} nodes"),
    "database": ("Deliveries wait for the database", "Deliveries wait for the database on {count} nodes"),
    "plugin": ("{name} fails", "{count} plugins fail"),
    "test": ("A test of hookgw's alerts", ""),
    "node_lost": ("{name} does not answer", "{count} nodes do not answer"),
}
STATES = {"raised": "{title}", "still": "Still: {title}", "over": "Over: {title}"}


def title_of(notice: Notice) -> str:
    return STATES[notice.state].format(title=_title(notice, notice.count))


def describe(alert: Alert) -> str:
    """Return the title of an alert, without its state."""
    return _title(alert, len(alert.keys))


def _title(of: Notice | Alert, count: int) -> str:
    one, many = TITLES[of.on]
    if count == 1 and of.lines:
        return one.format(name=_name(of.lines[0]))
    return many.format(count=count, host=of.host)


def text_of(notice: Notice, options: Options) -> str:
    """Return the lines below the title."""
    lines = []
    if notice.state == "over":
        lines.append(f"It began at {_time(notice.since, options)}.")
    else:
        for line in notice.lines:
            since = "" if line.since is None else f" Since {_time(line.since, options)}."
            place = "" if notice.count == 1 else f"{_name(line)}: "
            where = f" ({line.detail})" if line.detail else ""
            lines.append(f"{place}{line.why}{since}{where}")
        if notice.count > len(notice.lines):
            lines.append(f"And {notice.count - len(notice.lines):,} more.")
    if options.dashboard is not None:
        lines.append(options.dashboard)
    return "\n".join(lines)


def _name(line: Line) -> str:
    if line.label:
        of = "every instance" if line.instance == "*" else line.instance
        return f"Webhook {line.label} of {of}"
    if line.plugin:
        return f"Plugin {line.plugin}"
    return line.instance or f"Node {line.node}"


def _time(at: float, options: Options) -> str:
    return options.local(at).strftime("%Y-%m-%d %H:%M %Z").rstrip()


def in_words(seconds: float) -> str:
    """Return a duration as the configuration has it."""
    for size, unit in ((86_400, "d"), (3_600, "h"), (60, "m")):
        if seconds >= size and seconds % size == 0:
            return f"{seconds / size:g}{unit}"
    return f"{seconds:g}s"
