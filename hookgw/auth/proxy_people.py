"""The people whom a reverse proxy names in a header (``auth.proxy_header``). No I/O.

Only a trusted proxy's header counts, and only for the pages of the dashboard: it comes with any request that
another site makes a browser send, and the API, whose callers show keys, has no other protection from that.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from hookgw.config.people import LONGEST_PERSON, is_person
from hookgw.config.settings import AuthSettings
from hookgw.kernel.errors import Forbidden


class ProxyPeople:
    """Reads the header that names people.

    Attributes:
        header: its name, in lower case; empty if no header names people.
        users: the names of global keys by person.
    """

    def __init__(self, settings: AuthSettings) -> None:
        self.header = (settings.proxy_header or "").lower()
        self.users = settings.users
        self._raw = self.header.encode()

    def named_in(self, headers: Iterable[tuple[bytes, bytes]]) -> tuple[str, ...]:
        """Return the values of the header in a request, as they are."""
        # What is no UTF-8 stays different from every name in the configuration.
        return tuple(value.decode("utf-8", "surrogateescape") for name, value in headers if name == self._raw)

    def person_of(self, named: Sequence[str]) -> str:
        """Return the person whom a trusted proxy names; empty if it names nobody.

        Raises:
            Forbidden: the header is there twice, or has no name that a person can have.
        """
        if len(named) > 1:
            raise Forbidden.of(
                "person.header_repeated",
                "The request has more than one {header} header. The proxy must remove the {header} headers "
                "that browsers send.",
                header=self.header,
            )
        person = named[0].strip(" \t") if named else ""
        if person and not is_person(person):
            raise Forbidden.of(
                "person.header_names_nobody",
                "The {header} header names nobody: a name has at most {longest} visible characters, "
                "in UTF-8.",
                header=self.header,
                longest=LONGEST_PERSON,
            )
        return person

    def key_of(self, person: str) -> str:
        """Return the name of the key of a person.

        Raises:
            Forbidden: ``auth.users`` does not have the person.
        """
        key = self.users.get(person)
        if key is None:
            raise Forbidden.of(
                "person.without_key",
                "You are signed in as {person!r}, and nobody has given this name a key. Ask the "
                "operator to add it to auth.users, or log in with a key.",
                person=person,
            )
        return key
