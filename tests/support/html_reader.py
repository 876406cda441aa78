"""Reads pages of HTML, and checks that their tags are closed in order."""

from html.parser import HTMLParser

VOID = {"meta", "link", "input", "img", "br", "hr"}


class Reader(HTMLParser):
    """The tags of a page, with their attributes.

    Raises:
        AssertionError: a tag is not closed, or in another order.
    """

    def __init__(self, page: str) -> None:
        super().__init__()
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self._open: list[str] = []
        self.feed(page)
        self.close()
        assert self._open == []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))
        if tag not in VOID:
            self._open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self._open.pop() == tag

    def every(self, attribute: str) -> list[str]:
        """Return the values of an attribute, in the order of the page."""
        return [value for _, attrs in self.tags if (value := attrs.get(attribute)) is not None]
