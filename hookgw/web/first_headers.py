"""The headers of a request, without Quart. No I/O."""

from __future__ import annotations

from collections.abc import Iterable


class FirstHeaders(dict[str, str]):
    """The request's headers by their names in lower case; the first of several with one name counts."""

    def __init__(self, headers: Iterable[tuple[bytes, bytes]]) -> None:
        super().__init__()
        self._headers = headers
        for name, value in headers:  # ASGI does not promise lower case
            self.setdefault(name.decode("latin-1").lower(), value.decode("latin-1"))

    def getlist(self, name: str, /) -> list[str]:
        wanted = name.lower().encode("latin-1")
        return [value.decode("latin-1") for given, value in self._headers if given.lower() == wanted]
