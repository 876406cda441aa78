"""What a portal link is to give: its fields, once, and the body of ``/portal/link``. No I/O."""

from __future__ import annotations

from typing import Any, NamedTuple
from urllib.parse import urlsplit

from msgspec import UNSET

from hookgw.kernel.errors import Invalid
from hookgw.kernel.fields import Field, Line, Option, Period, read_fields, request_schema
from hookgw.kernel.json_fields import Fields, as_text, one_of
from hookgw.kernel.schema_parts import ref
from hookgw.kernel.sentences import Sentence
from hookgw.kernel.units import DAY, Duration
from hookgw.keys.fields import FIELDS
from hookgw.records.api_keys import Right, Rights
from hookgw.records.browser_sessions import PORTAL_PAGES

LIFETIME = 900.0
SHORTEST_LIFETIME, LONGEST_LIFETIME = 60, 7 * DAY
"""Seconds for which a link can be opened: by default, at least and at most."""
LONGEST_URL = 2048
DEFAULT_RIGHTS = ("read",)
GIVEN = tuple(right for right in Right if right not in (Right.KEYS, Right.OPERATE))
"""Rights that a link can give. A key would outlast the session; and what concerns everything, or gives reach
away, is not for somebody who has no key."""
_OF_KEYS = {field.name: field.kind for field in FIELDS}


class PortalRequest(NamedTuple):
    """What a link is to give.

    Attributes:
        instances: names; ``None`` for those with the tags.
        rights: words.
        lifetime: seconds for which it can be opened.
        opens: a word of :data:`PORTAL_PAGES`.
    """

    tags: dict[str, str] | None
    instances: tuple[str, ...] | None
    rights: tuple[str, ...]
    lifetime: float
    return_url: str
    opens: str = PORTAL_PAGES[0]


def _check_return_url(value: Any, where: str) -> str:
    """Check a URL that pages may link to: anything but http and https could run a script."""
    text = as_text(value, where)
    wrong = Sentence(
        "portal.return_url",
        "{where} must be an http or https URL of at most {most:,} characters, without a user.",
        where=where,
        most=LONGEST_URL,
    )
    if not (text.isascii() and text.isprintable() and " " not in text and "\\" not in text):
        raise Invalid(wrong)
    try:
        parts = urlsplit(text)
        is_right = parts.scheme in ("http", "https") and bool(parts.hostname) and parts.port != 0
    except ValueError:
        raise Invalid(wrong) from None
    if not is_right or "@" in parts.netloc or len(text) > LONGEST_URL:
        raise Invalid(wrong)
    return text


PORTAL_FIELDS = (
    Field(
        name="tags",
        kind=_OF_KEYS["tags"],
        meaning="The link shows the instances that carry all of these tags, also those made later.",
    ),
    Field(
        name="instances",
        kind=_OF_KEYS["instances"],
        meaning="The link shows these instances, and no later ones of their names.",
    ),
    Field(
        name="rights",
        kind=_OF_KEYS["rights"],
        meaning=f"What the link allows, by default `{', '.join(DEFAULT_RIGHTS)}`: some of "
        f"{', '.join(f'`{right}`' for right in GIVEN)}.",
        when_set=DEFAULT_RIGHTS,
    ),
    Field(
        name="expires",
        kind=Period(SHORTEST_LIFETIME, LONGEST_LIFETIME),
        meaning=f"For how long the link can be opened, by default {Duration(LIFETIME)}.",
        when_set=LIFETIME,
        option=Option("For how long it can be opened.", "DURATION", default=str(Duration(LIFETIME))),
    ),
    Field(
        name="return_url",
        kind=Line(_check_return_url, {"type": "string", "maxLength": LONGEST_URL}, str),
        meaning="An http or https URL to which “Back to …” leads on every page.",
        when_set="",
        option=Option("Where “Back to …” leads on every page.", "URL"),
    ),
    Field(
        name="opens",
        kind=Line(one_of(PORTAL_PAGES), ref("PortalPage"), str),
        meaning="The first page: `overview`, the default, or `code`, the code that an account's owner scans, "
        "which needs the right `connect`.",
        when_set=PORTAL_PAGES[0],
        option=Option("The first page: overview, or code, to scan it.", "PAGE", default=PORTAL_PAGES[0]),
    ),
)
PORTAL_REQUEST = request_schema(PORTAL_FIELDS, "Send `tags` or `instances`, and not both.", is_closed=True)


def parse_portal_request(body: Any) -> PortalRequest:
    """Read the body of ``/portal/link``. Raise ``Invalid`` with every mistake."""
    fields = Fields.of_body(body)
    given = read_fields(PORTAL_FIELDS, fields)
    if (fields.find("tags") is None) == (fields.find("instances") is None):
        fields.problems.append(
            Sentence(
                "portal.tags_or_instances",
                'Send tags or instances, and not both, such as {{"tags": {{"tenant": "acme"}}}}.',
            )
        )
    rights = given["rights"]
    for word in rights:
        if word.partition(":")[0] not in GIVEN:
            fields.problems.append(
                Sentence(
                    "portal.right_not_given",
                    "rights: a link can give {choices}, not {right!r}.",
                    choices=", ".join(GIVEN),
                    right=word,
                )
            )
    if given["opens"] == "code" and not Rights.of(rights).has(Right.CONNECT):
        fields.problems.append(
            Sentence(
                "portal.code_needs_connect", "opens: whoever is to scan the code needs the right connect."
            )
        )
    # A misspelt limit would give more than is meant.
    fields.refuse_unknown("a portal link")
    fields.finish()
    tags, instances = (None if given[name] is UNSET else given[name] for name in ("tags", "instances"))
    return PortalRequest(tags, instances, rights, given["expires"], given["return_url"], given["opens"])
