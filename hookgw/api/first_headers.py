"""The headers of a request, without Quart. No I/O."""

from __future__ import annotations

from collections.abc import Iterable


class FirstHeaders:
    """The request's headers as bytes; the first of several with one name counts, as in Quart."""

    def __init__(self, headers: Iterable[tuple[bytes, bytes]]) -> None:
        self._headers = headers
        self._values: dict[bytes, bytes] = {}
        for name, value in headers:
            self._values.setdefault(name.lower(), value)  # ASGI does not promise lower case

    def get(self, name: str, /) -> str | None:
        """Return the first header of a name; ``None`` if there is none."""
        value = self._values.get(name.lower().encode("latin-1"))
        return None if value is None else value.decode("latin-1")

    def getlist(self, name: str, /) -> list[str]:
        """Return the values of all headers of a name."""
        wanted = name.lower().encode("latin-1")
        return [value.decode("latin-1") for given, value in self._headers if given.lower() == wanted]

    def texts(self) -> dict[str, str]:
        """Return the first header of each name, by name in lower case."""
        return {name.decode("latin-1"): value.decode("latin-1") for name, value in self._values.items()}
