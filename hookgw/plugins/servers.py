"""Reads the option ``servers`` of plugins with connectors or background tasks. No I/O."""

from __future__ import annotations

from typing import Any

from hookgw.kernel.errors import Invalid
from hookgw.kernel.json_fields import as_list, as_text
from hookgw.kernel.target_url import Origin, parse_target

SERVERS = "servers"
"""The name of the option. A plugin with connectors or ``hookgw_run`` cannot have it for itself."""


def parse_servers(value: Any) -> tuple[Origin, ...]:
    """Read the list of URLs; ``null`` is an empty list.

    Raises:
        Invalid: with a sentence for each wrong item, which begins with its place.
    """
    servers: list[Origin] = []
    problems: list[str] = []
    for index, item in enumerate(as_list([] if value is None else value, SERVERS)):
        where = f"{SERVERS}[{index}]"
        try:
            target = parse_target(as_text(item, where))
            if target.authorization is not None:
                raise ValueError("The URL must not contain a user or a password.")
            if target.path != "/":
                raise ValueError(
                    "The URL must be only scheme, host and port, as in https://matrix.internal:8448."
                )
        except Invalid as error:
            problems += error.messages
        except ValueError as error:
            problems.append(f"{where}: {error}")
        else:
            servers.append(target.origin)
    if problems:
        raise Invalid(*problems)
    return tuple(servers)
