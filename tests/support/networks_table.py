"""Writes the table of docs/networks/README.md: what each connector has, by its methods and its messages.

``python -m tests.support.networks_table`` runs it; ``tests/first_party/test_conventions.py`` fails while the
page differs from the code.
"""

import tempfile
from collections.abc import Mapping
from pathlib import Path

from hookgw import (
    ContactMessage,
    LocationMessage,
    MediaMessage,
    ReactionMessage,
    TemplateMessage,
    TextMessage,
)
from tests.public.config import PluginsSettings
from tests.public.plugins import ContainedConnector, Hooks, load_plugins

PAGE = Path(__file__).parents[2] / "docs" / "networks" / "README.md"
BEGIN = "<!-- Made by `python -m tests.support.networks_table` from the connectors. -->\n\n"
END = "\n<!-- End of what is made. -->"
_ROWS: dict[str, type | str] = {
    "texts": TextMessage,
    "pictures, videos, audio, documents": MediaMessage,
    "locations": LocationMessage,
    "contact cards": ContactMessage,
    "reactions": ReactionMessage,
    "templates": TemplateMessage,
    "edit a message": "edit",
    "delete a message": "delete",
    "mark as read": "mark_read",
    "typing, presence": "set_presence",
    "check numbers (`whatsappNumbers`)": "find_numbers",
    "pictures of profiles (`fetchProfilePictureUrl`)": "find_picture",
    "groups (`fetchAllGroups`, `findGroupInfos`, `participants`)": "list_groups",
    "links to received files": "open_media",
    "the network calls hookgw (`ingestUrl`)": "ingest",
    "logout ends the login on the network": "logout",
}


def all_connectors() -> dict[str, ContainedConnector]:
    """Return the first-party connectors by name, without the simulator, which has no network."""
    with tempfile.TemporaryDirectory() as folder:
        hooks = Hooks(load_plugins(PluginsSettings(), base=Path(folder)))
        hooks.configure({})
        found = hooks.connectors()
    return {name: found[name] for name in sorted(found) if name != "simulator"}


def table(connectors: Mapping[str, ContainedConnector]) -> str:
    """Return the table in Markdown: a column for each connector."""
    heads = [f"[{name}]({name}.md)" for name in connectors]
    lines = [["", *heads], ["---", *[":-:"] * len(heads)]]
    for row, need in _ROWS.items():
        has = [need in one.methods or need in one.message_types for one in connectors.values()]
        lines.append([row, *["yes" if it else "–" for it in has]])
    return "".join(f"| {' | '.join(cells)} |\n".replace("|  |", "| |", 1) for cells in lines)


def page(connectors: Mapping[str, ContainedConnector]) -> str:
    """Return the page with its table as it must be."""
    before, _, rest = PAGE.read_text("utf-8").partition(BEGIN)
    return before + BEGIN + table(connectors) + END + rest.partition(END)[2]


if __name__ == "__main__":
    PAGE.write_text(page(all_connectors()), "utf-8")
