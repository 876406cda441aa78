"""Whether the present task answers a request of a network, which repeats what gets no answer."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar

from hookgw.kernel.errors import Unavailable


class _Request:
    """A request of the network that a connector answers."""

    is_open = True


# A variable of the context, not of the session: its run, and other requests, go on meanwhile.
_request: ContextVar[_Request | None] = ContextVar("request", default=None)


@contextmanager
def answering() -> Iterator[None]:
    """Answer a request of the network within the block, also in tasks that the block starts."""
    request = _Request()
    token = _request.set(request)
    try:
        yield
    finally:
        request.is_open = False  # a task of the connector's that goes on may wait again
        _request.reset(token)


def is_answering() -> bool:
    request = _request.get()
    return request is not None and request.is_open


def refuse_request(message: str, retry_after: float = 5.0) -> None:
    """Raise ``Unavailable`` if this task answers a request of the network."""
    if is_answering():
        raise Unavailable(message, retry_after=retry_after)
