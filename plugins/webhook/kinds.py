"""Event kinds that the operator adds for the systems that post. No I/O."""

from __future__ import annotations

from typing import Any

from hookgw import EventKind


def read_kinds(options: dict[str, Any]) -> list[EventKind]:
    """Return the event kinds of the block ``plugins.options.webhook``.

    hookgw checks the names, as it does for every plugin.

    Raises:
        ValueError: the block has another form; the message says what would be right.
    """
    for name in options:
        if name != "kinds":
            raise ValueError(f"{name} is unknown: the only option is kinds")
    kinds = options.get("kinds") or {}
    if not isinstance(kinds, dict):
        raise ValueError('kinds must map names to sentences: {ORDER_PAID: "An order was paid."}')  # noqa: TRY004
    for name, meaning in kinds.items():
        if not isinstance(meaning, str) or not meaning.strip():
            raise ValueError(f"kinds.{name} must be a sentence that says when the event is raised")
    # Nothing is known of the payloads, which may be lists or texts too.
    return [EventKind(name=name, meaning=meaning, schema={}) for name, meaning in kinds.items()]
