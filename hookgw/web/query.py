"""Checks the queries of lists, and reads the parameters that several of them have."""

from __future__ import annotations

from collections.abc import Mapping

from quart import request
from quart_trio import QuartTrio

from hookgw.kernel.errors import Invalid
from hookgw.kernel.nearest import MOST_LOOKED_UP, misspelled_parameter
from hookgw.kernel.sentences import Sentence
from hookgw.kernel.times import parse_rfc3339, time_of_query
from hookgw.records.tags import TAG_PART, parse_tags
from hookgw.web.openapi.describe import Parameter, filter_of, operation_of

_LISTS = ("/list", "/list/<instance>", "/figures/find", "/figures/find/<instance>")
"""How the routes of lists end; figures would count everything, too, if a filter were ignored."""
_LABELLED = ("/webhook/", "/delivery/pull/", "/delivery/ack/")
"""How the routes begin that exist with a label at the end, too."""
_SELECTING = (
    "/delivery/replay",
    "/delivery/cancel",
    "/delivery/resend",
    "/event/erase",
    "/webhook/backfill",
    "/webhook/test",
    "/webhook/rotateSecret",
    "/key/create",
    "/portal/link",
)
"""How the calls begin whose bodies refuse unknown fields: without them, more would be selected or given."""
DEFAULT_LIMIT, MAX_LIMIT = 100, 1000
"""Entries on a page of a list."""
TAGS = filter_of(
    "tag",
    "Only instances that carry this tag, as `name=value`. Repeat it for more: all must match.",
    {"type": "array", "items": {"type": "string", "pattern": f"^({TAG_PART}={TAG_PART})?$"}},
)


def page_of(entries: str, **cursor: str) -> tuple[Parameter, Parameter]:
    """Return the parameters of a list of such entries, in pages; ``cursor`` adds to the schema of one."""
    limit = {"type": "integer", "minimum": 1, "maximum": MAX_LIMIT, "default": DEFAULT_LIMIT}
    return (
        filter_of("cursor", "The `cursor` of the previous page.", {"type": "string", **cursor}),
        filter_of("limit", f"The most {entries} on a page.", limit),
    )


def install_query_check(app: QuartTrio) -> None:
    """Refuse what a list, a DELETE or ``/apply`` does not declare in its ``describes``, and what is repeated.

    If that were ignored, a misspelled filter would show everything, a DELETE would remove another thing than
    was meant, and a misspelled dryRun would change everything. Other calls, to which clients add parameters
    of their own, refuse only what looks like a misspelled one of theirs.
    """

    @app.before_request
    async def check_query() -> None:
        rule = request.url_rule
        if rule is None or not request.args:
            return
        is_list = rule.rule.endswith(_LISTS)
        if not is_list:
            _refuse_misplaced(rule.rule)
        is_strict = is_list or request.method == "DELETE" or rule.rule == "/apply"
        operation = operation_of(app.view_functions[rule.endpoint])
        if operation is None:  # a page, or a plugin's route, which may read what it likes
            return
        parameters = [parameter for parameter in operation.query if parameter.place == "query"]
        known = [parameter.name for parameter in parameters]
        several = {parameter.name for parameter in parameters if parameter.schema.get("type") == "array"}
        problems: list[Sentence] = []
        looked_up = 0
        for name, values in request.args.lists():
            if name not in known:
                looked_up += 1
                if looked_up > MOST_LOOKED_UP:
                    break
                problem = misspelled_parameter(name, known) or (_unknown(name, known) if is_strict else None)
                problems += [] if problem is None else [problem]
            elif is_strict and len(values) > 1 and name not in several:
                problems.append(
                    Sentence(
                        "query.repeated",
                        "{name} is given {count} times in the query; give it once.",
                        name=name,
                        count=len(values),
                    )
                )
        if problems:
            raise Invalid(*problems)


def _refuse_misplaced(rule: str) -> None:
    # As lists take them. Ignored, the registration called default would be deleted in place of another, and
    # everybody's deliveries would be cancelled in place of those of a tag.
    if rule.startswith(_LABELLED) and "label" in request.args:
        raise Invalid.of(
            "query.label",
            "A label belongs in the path, not in the query: {path}/<label>.",
            path=request.path.removesuffix(f"/{(request.view_args or {}).get('label')}"),
        )
    if rule.startswith(_SELECTING):
        raise Invalid.of(
            "query.of_body",
            "{name!r} in the query is not known: the fields of this call are in its body.",
            name=next(iter(request.args))[:64],
        )


def _unknown(name: str, known: list[str]) -> Sentence:
    if not known:
        return Sentence(
            "query.no_parameters",
            "{name!r} in the query is not known; this call has no parameters.",
            name=name[:64],
        )
    return Sentence(
        "query.unknown",
        "{name!r} in the query is not known; this call has {known}.",
        name=name[:64],
        known=", ".join(known),
    )


def read_limit(given: Mapping[str, str]) -> int:
    limit = given.get("limit", str(DEFAULT_LIMIT))
    # Six digits are enough, and int() raises another error beyond 4,300.
    number = int(limit) if limit.isascii() and limit.isdecimal() and len(limit) <= 6 else 0
    if not 1 <= number <= MAX_LIMIT:
        raise Invalid.of("query.limit", "limit must be a whole number from 1 to {most}.", most=MAX_LIMIT)
    return number


def read_tags() -> tuple[tuple[str, str], ...]:
    """Return the tags that the query of the request asks for; raise ``Invalid`` if one is none."""
    return parse_tags(request.args.getlist(TAGS.name))


def read_times(given: Mapping[str, str]) -> dict[str, float]:
    """Return the given parameters, in seconds since the epoch; raise ``Invalid`` if one is not a time."""
    times: dict[str, float] = {}
    for name in ("since", "until"):
        if name in given:
            try:
                times[name] = parse_rfc3339(time_of_query(given[name]))
            except (ValueError, OverflowError):
                raise Invalid.of(
                    "query.time",
                    "{name} must be an RFC 3339 time such as 2026-11-20T12:00:00Z, not {value!r}.",
                    name=name,
                    value=given[name][:64],
                ) from None
    return times
