"""Exceptions that code of others may raise."""

import trio


async def stray_cancelled() -> BaseException:
    """Return a Cancelled of a scope that has ended."""
    kept: list[BaseException] = []
    with trio.CancelScope() as scope:
        scope.cancel()
        try:
            await trio.sleep_forever()
        except trio.Cancelled as cancelled:
            kept.append(cancelled)
    return kept[0]
