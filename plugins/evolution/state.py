"""What the connector keeps of an instance over restarts. No I/O."""

from __future__ import annotations

from typing import Any

import msgspec

from .options import Options


class Target(msgspec.Struct, frozen=True, kw_only=True):
    """The remote instance whose webhook hookgw has set, with what opens it."""

    base_url: str
    remote: str
    api_key: str


class State(msgspec.Struct, kw_only=True):
    """The connector's state.

    Attributes:
        secret: proves the requests of Evolution API; it stays the same, because requests with it may be on
            their way.
        target: where the webhook is set; ``None`` for nowhere.
        former: the webhook that was set there before, as ``set`` takes it; ``None`` for none.
        settings: of the account, as they were forwarded last; ``None`` for never.
    """

    secret: str = ""
    target: Target | None = None
    former: dict[str, Any] | None = None
    settings: dict[str, Any] | None = None


def target_of(options: Options) -> Target:
    """Return the remote instance that options name."""
    return Target(base_url=options.base_url, remote=options.remote, api_key=options.api_key)
