"""How a reader looks at a list: what they search, the order, the page, and the columns that they have chosen.

All of it is in the address of the page, so that it can be kept and passed on. The columns are also in a
cookie, for the next visit.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple
from urllib.parse import urlencode

from quart import Response, request
from werkzeug.datastructures import MultiDict

_COOKIE = "hookgw_columns_"
_YEAR = 31_536_000
MOST_SEARCH = 200


class Column(NamedTuple):
    """A column that can be chosen.

    Attributes:
        name: in addresses.
        title: its head.
        is_usual: whether it is shown unless others are chosen.
        sort: the name of the order that a click on its head asks for; empty for none.
        style: the class of its cells.
    """

    name: str
    title: str
    is_usual: bool = True
    sort: str = ""
    style: str = ""


class ListView(NamedTuple):
    """What a reader wants of a list.

    Attributes:
        path: of the page below the dashboard.
        filters: the values of the filters by name, without empty ones.
        sort: an order; ``-`` before it turns it round. Empty for the usual one.
        page: counts from 1.
        shown: the names of the columns that are shown.
        all_columns: those that can be chosen.
    """

    path: str
    filters: tuple[tuple[str, str], ...]
    sort: str
    page: int
    shown: tuple[str, ...]
    all_columns: tuple[Column, ...]

    def get(self, name: str) -> str:
        return dict(self.filters).get(name, "")

    @property
    def columns(self) -> list[Column]:
        return [one for one in self.all_columns if one.name in self.shown]

    def has(self, column: str) -> bool:
        return column in self.shown

    def query(self, **changes: str | int) -> str:
        """Return the query that shows the list so, or with changes: ``page``, ``sort`` or a filter."""
        values: dict[str, str | int] = {**dict(self.filters), "sort": self.sort, "page": self.page, **changes}
        if values["page"] == 1:
            values["page"] = ""
        pairs = [(name, value) for name, value in values.items() if value != ""]
        usual = tuple(one.name for one in self.all_columns if one.is_usual)
        if self.shown != usual:
            pairs += [("column", name) for name in self.shown]
        return urlencode(pairs)

    def address(self, **changes: str | int) -> str:
        query = self.query(**changes)
        return f"{self.path}?{query}" if query else self.path

    def sorted_by(self, column: Column) -> str:
        """Return the address that sorts by a column, or, if it does already, the other way round."""
        return self.address(sort=f"-{column.sort}" if self.sort == column.sort else column.sort, page=1)

    def direction(self, column: Column) -> str:
        """Return the value of ``aria-sort`` for a column; empty if the list is not sorted by it."""
        name = self.sort.removeprefix("-")
        if not column.sort or name != column.sort:
            return ""
        return "descending" if self.sort.startswith("-") else "ascending"


def read_view(path: str, filters: Sequence[str], sorts: Sequence[str], columns: Sequence[Column]) -> ListView:
    """Return how the current request wants a list. What is unknown in it has no effect."""
    args: MultiDict[str, str] = request.args
    given = ((name, args.get(name, "").strip()[:MOST_SEARCH]) for name in filters)
    sort, page = args.get("sort", ""), args.get("page", "1")
    known = [one.name for one in columns]
    chosen = args.getlist("column") or request.cookies.get(_cookie(path), "").split(".")
    shown = tuple(name for name in known if name in chosen)
    return ListView(
        path,
        tuple((name, value) for name, value in given if value),
        sort if sort.removeprefix("-") in sorts else "",
        # Six digits are enough, and int() raises another error beyond 4,300.
        max(1, int(page)) if page.isascii() and page.isdecimal() and len(page) <= 6 else 1,
        shown or tuple(one.name for one in columns if one.is_usual),
        tuple(columns),
    )


def keep_columns(response: Response, view: ListView, root: str) -> Response:
    """Let the browser keep the columns, if the current request has chosen some."""
    if request.args.getlist("column"):
        value = ".".join(view.shown)
        name = _cookie(view.path)
        response.set_cookie(name, value, max_age=_YEAR, path=root, samesite="Strict", httponly=True)
    return response


def _cookie(path: str) -> str:
    return _COOKIE + path.strip("/")


def in_pages(count: int, page: int, size: int) -> tuple[int, int]:
    """Return the page that exists, and how many there are."""
    pages = max(1, -(-count // size))
    return min(page, pages), pages
