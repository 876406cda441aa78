"""Exceptions that code of others may raise, and those in groups."""

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


def leaves(error: BaseException) -> list[BaseException]:
    """Return the exceptions of a group and of all groups in it, or the exception that is no group."""
    if isinstance(error, BaseExceptionGroup):
        return [leaf for one in error.exceptions for leaf in leaves(one)]
    return [error]
