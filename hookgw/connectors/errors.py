"""What goes wrong between hookgw and a network's server, and when to try again."""

from __future__ import annotations

import random
from collections.abc import Mapping
from http import HTTPStatus
from typing import Any

import trio

from hookgw.kernel.errors import NetworkRefused
from hookgw.records.connectors import ConnectionState, Session

_FIRST_WAIT, _LONGEST_WAIT = 0.5, 60.0
_LONGEST_ASKED = 3600.0  # as of receivers: a proxy's page may ask for a day
_MOMENT = 10.0
_PASSING = (HTTPStatus.REQUEST_TIMEOUT, HTTPStatus.TOO_EARLY, HTTPStatus.TOO_MANY_REQUESTS)


class Unreachable(NetworkRefused):
    """A server did not answer, or not as it should. Whether it did what was asked is not known."""


class Refused(NetworkRefused):
    """A server refused a request.

    Args:
        reason: a sentence, mostly the server's own.
        remote_status: the status of its answer.
        status: for the caller; by default that of the answer, but 409 for 401, which the caller would take
            for a wrong key of its own, and 502 for 500 and above.
        code, retry_after, unknown_numbers: see :class:`hookgw.NetworkRefused`.

    Attributes:
        remote_status: as given.
        is_temporary: whether the same request may succeed later.
        is_unauthorized: whether the server does not accept the login: 401 and 403, unless a subclass knows.
    """

    def __init__(
        self,
        reason: str,
        *,
        remote_status: int,
        status: int | None = None,
        code: str | None = None,
        retry_after: float | None = None,
        unknown_numbers: Mapping[str, str] | None = None,
    ) -> None:
        if status is None:
            status = remote_status if remote_status < 500 else HTTPStatus.BAD_GATEWAY
            if remote_status == HTTPStatus.UNAUTHORIZED:
                status = HTTPStatus.CONFLICT
        super().__init__(
            reason, code=code, status=status, retry_after=retry_after, unknown_numbers=unknown_numbers
        )
        self.remote_status = remote_status
        self.is_temporary = remote_status in _PASSING or not 400 <= remote_status < 500
        self.is_unauthorized = remote_status in (HTTPStatus.UNAUTHORIZED, HTTPStatus.FORBIDDEN)


def wait_after(error: NetworkRefused, failures: int) -> float:
    """Return how long to wait before the next try, in seconds.

    Args:
        error: the last failure, which may say how long; at most an hour.
        failures: in a row, at least 1. The wait doubles with each, from half a second to a minute.
    """
    if error.retry_after is not None:
        return min(max(error.retry_after, _FIRST_WAIT), _LONGEST_ASKED)
    return min(_LONGEST_WAIT, _FIRST_WAIT * 2.0 ** min(failures - 1, 10)) * random.uniform(1, 1.2)  # noqa: S311 (no secret)


async def pause_after(
    session: Session,
    error: NetworkRefused,
    failures: int,
    what: str,
    logger: Any,
    *,
    is_open: bool,
    was_open: bool,
) -> bool:
    """Report an outage, log the failure, and wait before the next try; see :func:`wait_after`.

    One failure is no outage, unless the server wants nothing for a while. After a second one, a send would
    fail, too.

    Args:
        session: of the instance.
        error, failures: the last failure, and how many there were in a row.
        what: has failed, for the log.
        logger: of structlog.
        is_open: whether the connection counts as open. After an outage, it is ``connecting``.
        was_open: whether its state is to stay if it is not open. Otherwise, the state becomes ``close``, with
            the failure as the reason: perhaps the options name another server.

    Returns:
        Whether the connection still counts as open.
    """
    if failures > 1 or (error.retry_after or 0.0) > _MOMENT:
        if is_open:
            is_open = False
            await session.set_state(ConnectionState.CONNECTING, 503, message=str(error))
        elif not was_open:
            reason = str(error).removesuffix(".")
            await session.set_state(ConnectionState.CLOSE, 503, message=f"{reason}. hookgw keeps trying.")
    wait = wait_after(error, failures)
    more = {"reason": str(error), "code": error.code, "retry_after": round(wait, 1)}
    logger.warning(what, instance=session.instance, **more)
    await trio.sleep(wait)
    return is_open
