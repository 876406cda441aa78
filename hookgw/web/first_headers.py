"""The headers of a request, without Quart. No I/O."""

from __future__ import annotations

from collections.abc import Iterable


class FirstHeaders:
    """The request's headers; the first of several with one name counts, as in Quart."""

    def __init__(self, headers: Iterable[tuple[bytes, bytes]]) -> None:
        self._headers = headers
        self._values: dict[str, str] = {}
        for name, value in headers:  # ASGI does not promise lower case
            self._values.setdefault(name.decode("latin-1").lower(), value.decode("latin-1"))

    def get(self, name: str, /) -> str | None:
        return self._values.get(name.lower())

    def getlist(self, name: str, /) -> list[str]:
        wanted = name.lower().encode("latin-1")
        return [value.decode("latin-1") for given, value in self._headers if given.lower() == wanted]

    def texts(self) -> dict[str, str]:
        return self._values.copy()
