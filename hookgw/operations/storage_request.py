"""The body of ``/storage/backup``. No I/O."""

from __future__ import annotations

from typing import Any

from hookgw.kernel.json_fields import Fields, as_object, as_text


def parse_backup(body: Any) -> tuple[str | None, list[str]]:
    """Read the body of a backup, which may be missing.

    Return the name of the file, if it is given, and a warning for each ignored field. The gateway checks the
    name.

    Raises:
        Invalid: the body is not an object, or the name is no text.
    """
    fields = Fields(("", as_object({} if body is None else body, "The body")))
    name = fields.pick(as_text, "name")
    return name, fields.finish()
