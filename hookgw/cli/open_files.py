"""How many files the process may open: every lane with a connection is one."""

from __future__ import annotations

import resource
from contextlib import suppress

import structlog

ENOUGH = 16_384
"""For 10,000 lanes with their connections, and as many requests at once as a busy server has."""
_MOST = 2**20
"""More than that is never of use, and some systems say infinity where they do not mean it."""

logger = structlog.get_logger("hookgw")


def raise_file_limit(enough: int = ENOUGH) -> int:
    """Let this process open as many files as the machine allows, and warn where those are few.

    The usual soft limit of 1,024 is there for programs that call ``select``, which hookgw does not.
    Where the limit is reached, a new connection fails, and its delivery waits as for a receiver that is
    unreachable.

    Args:
        enough: how many should be allowed.

    Returns:
        how many are.
    """
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    most = _MOST if hard == resource.RLIM_INFINITY else min(hard, _MOST)
    if soft != resource.RLIM_INFINITY and soft < most:
        with suppress(OSError, ValueError):  # some systems allow less than they say
            resource.setrlimit(resource.RLIMIT_NOFILE, (most, hard))
            soft = most
    allowed = _MOST if soft == resource.RLIM_INFINITY else soft
    if allowed < enough:
        logger.warning(
            "few open files are allowed",
            allowed=allowed,
            enough=enough,
            advice="Each lane with a connection needs one; raise the limit: ulimit -Hn, or LimitNOFILE=.",
        )
    return allowed
