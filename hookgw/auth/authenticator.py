"""Authentication: the keyring, and the limits on callers that show keys."""

from __future__ import annotations

from collections.abc import Callable

from hookgw.auth.failed_attempts import FailedKeyLimiter
from hookgw.auth.keyring import KeyHolder, Keyring
from hookgw.config.settings import AuthSettings
from hookgw.kernel.errors import TooManyRequests


class Authenticator:
    """Checks the key of every request.

    Args:
        settings: the limit of failed attempts.
        now: a monotonic clock, in seconds.
        on_limited: called with the name of the limit for each refused request.
    """

    def __init__(
        self,
        keyring: Keyring,
        settings: AuthSettings,
        now: Callable[[], float],
        on_limited: Callable[[str], None],
    ) -> None:
        self.keyring = keyring
        self._on_limited = on_limited
        limit, window = settings.failed_attempts, settings.failed_window
        self._failed_keys = FailedKeyLimiter(limit, window, now, on_limited) if limit else None

    def authenticate(
        self, key: str | None, address: str | None, known: KeyHolder | None = None
    ) -> KeyHolder | None:
        """Return the holder of a request's key, or ``None`` if the key is missing, unknown or expired.

        Args:
            key: no key, or an empty one, does not count as a failed attempt.
            address: the client's IP address; ``None`` over a Unix socket.
            known: the key's holder when it was last shown, to save the look-up if it still holds the key.

        Raises:
            TooManyRequests: too many wrong keys came from that address, or too many requests with that key.
        """
        if not key:
            return None
        holder = known if known is not None and self.keyring.is_held(known) else self.keyring.find(key)
        # Over a Unix socket failures are not limited: the file's mode decides who may connect.
        if self._failed_keys is not None and address is not None:
            self._failed_keys.check(address, holder)
        if holder is not None and holder.bucket is not None:
            self.admit(holder)
        return holder

    def check_address(self, address: str | None) -> None:
        """Check that an address may show an unknown key, before the key is looked up elsewhere.

        Raises:
            TooManyRequests: too many wrong keys came from that address.
        """
        if self._failed_keys is not None and address is not None:
            self._failed_keys.check_address(address)

    def note_failure(self, address: str | None) -> None:
        """Count as a wrong key: a portal link that cannot be opened, a key that cannot be looked up.

        Raises:
            TooManyRequests: too many wrong keys and links came from that address.
        """
        if self._failed_keys is not None and address is not None:
            self._failed_keys.check(address, None)

    def admit(self, holder: KeyHolder) -> None:
        """Count a request against the rate of a key; raise ``TooManyRequests``."""
        wait = holder.bucket.take() if holder.bucket is not None else 0.0
        if wait:
            self._on_limited("key_rate")
            raise TooManyRequests.of(
                "key.too_many_requests", "This key makes too many requests. Retry later.", retry_after=wait
            )

    def divide(self, nodes: int) -> None:
        """Divide the limits among the nodes of a fleet."""
        self.keyring.rates.divide(nodes)
        if self._failed_keys is not None:
            self._failed_keys.divide(nodes)
