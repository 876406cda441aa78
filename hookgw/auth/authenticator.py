"""Who gets in: the keyring, with what limits those who show keys."""

from __future__ import annotations

from collections.abc import Callable

from hookgw.auth.failed_attempts import FailedKeyLimiter
from hookgw.auth.keyring import KeyHolder, Keyring
from hookgw.config.settings import AuthSettings
from hookgw.models.errors import TooManyRequests


class Authenticator:
    """Looks at the key of every request.

    Args:
        keyring: knows the keys.
        settings: the limit of failed attempts.
        now: a clock that does not jump, in seconds.
        limited: called with the name of the limit for each request that one refuses.
    """

    def __init__(
        self,
        keyring: Keyring,
        settings: AuthSettings,
        now: Callable[[], float],
        limited: Callable[[str], None],
    ) -> None:
        self._keyring = keyring
        self._limited = limited
        limit = settings.failed_attempts
        self._attempts = FailedKeyLimiter(limit, settings.failed_window, now) if limit else None

    def authenticate(self, key: str | None, address: str | None) -> KeyHolder | None:
        """Whose key a request has.

        Args:
            key: what it shows. Nothing, or an empty key, is no attempt, and does not count as a failed one.
            address: where it comes from; ``None`` over a Unix socket, whose callers are not limited by their
                failures: the file's mode says who they are.

        Returns:
            Its holder; ``None`` where it has none, or one that nobody knows.

        Raises:
            TooManyRequests: too many wrong keys came from that address, or too many requests with that key.
        """
        if not key:
            return None
        holder = self._keyring.find(key)
        if self._attempts is not None and address is not None:
            self._check_attempt(self._attempts, address, holder)
        if holder is not None and holder.bucket is not None:
            wait = holder.bucket.take()
            if wait:
                self._limited("key_rate")
                raise TooManyRequests("This key makes too many requests; wait.", retry_after=wait)
        return holder

    def _check_attempt(self, attempts: FailedKeyLimiter, address: str, holder: KeyHolder | None) -> None:
        try:
            attempts.check(address, holder)
        except TooManyRequests:
            self._limited("failed_attempts")
            raise
