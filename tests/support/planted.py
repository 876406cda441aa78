"""Secrets that are planted where they can stand, and looked for in everything that comes out."""

import base64
from collections.abc import Iterator
from urllib.parse import quote


def forms(secret: str) -> Iterator[bytes]:
    """How a secret may look in a text: as it is, URL-encoded, in hexadecimal, in base64 at any place.

    What base64 makes of the first and last characters depends on what is beside them: they are left out.
    """
    raw = secret.encode()
    yield raw
    yield quote(secret, safe="").encode()
    yield raw.hex().encode()
    for shift in range(3):
        encoded = base64.b64encode(bytes(shift) + raw)
        yield encoded[4 : len(encoded) - 4]
        yield encoded[4 : len(encoded) - 4].replace(b"+", b"-").replace(b"/", b"_")


class Planted:
    """Planted secrets by name, each longer than 12 characters and like no other."""

    def __init__(self) -> None:
        self._forms: dict[str, set[bytes]] = {}

    def plant(self, name: str, secret: str | None = None) -> str:
        """A secret of that name; the given one, or a new one."""
        secret = secret or f"planted:{name}/{len(self._forms):03d}~secret"
        self._forms[name] = {form for form in forms(secret) if len(form) >= 12}
        return secret

    def found_in(self, content: bytes) -> dict[str, bytes]:
        """The secrets that a content shows in any form, by name, each with what stands round it."""
        found = {}
        for name, looks in self._forms.items():
            for look in looks:
                if (at := content.find(look)) >= 0:
                    found[name] = content[max(0, at - 100) : at + 100]
        return found
