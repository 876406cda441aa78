"""What the manual consists of: each page of ``docs/``, once, in order, which a test demands; shared files."""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple


class Chapter(NamedTuple):
    """A file of the repository that is a page of the manual, or one for each of its sections.

    Attributes:
        file: from the repository's root.
        title: in the navigation; by default, the heading of the file.
        path: below ``/docs``; by default, the name of the file below ``docs/``.
        in_sections: whether each second-level heading begins a page of its own.
    """

    file: str
    title: str = ""
    path: str = ""
    in_sections: bool = False


HOME = Chapter("docs/README.md", "Start here", "")
REFERENCE = "http"
"""The path of the HTTP reference, which the gateway makes of its own routes."""

SHARED_ASSETS = tuple(
    Path(__file__).parents[1] / "site" / "assets" / name for name in ("clipboard.js", "icon.svg")
)
"""What the manual has of the dashboard's files, beside its own."""

CONTENTS: dict[str, list[Chapter]] = {
    "Getting started": [
        Chapter("docs/start.md"),
        Chapter("docs/pt-BR/start.md", "A primeira entrega (português)"),
        Chapter("docs/es/start.md", "La primera entrega (español)"),
        Chapter("docs/install.md", in_sections=True),
        Chapter("docs/dashboard.md"),
    ],
    "Networks": [
        Chapter("docs/networks/README.md", "Which connector?", "networks"),
        Chapter("docs/networks/gowa.md"),
        Chapter("docs/networks/waha.md"),
        Chapter("docs/networks/whatsapp_cloud.md"),
        Chapter("docs/networks/evolution.md"),
        Chapter("docs/networks/telegram.md"),
        Chapter("docs/networks/matrix.md"),
        Chapter("docs/networks/webhook.md"),
    ],
    "Guides": [
        Chapter("docs/guides/verify.md"),
        Chapter("docs/guides/once.md"),
        Chapter("docs/guides/outage.md"),
        Chapter("docs/guides/missing.md"),
        Chapter("docs/guides/filter.md"),
        Chapter("docs/pull.md"),
        Chapter("docs/destinations.md"),
        Chapter("docs/event-log.md"),
        Chapter("docs/two-hundred-accounts.md"),
        Chapter("docs/apply.md"),
        Chapter("docs/portal.md"),
        Chapter("docs/alerts.md"),
        Chapter("docs/mcp.md"),
        Chapter("docs/migrating.md"),
    ],
    "Guarantees": [
        Chapter("docs/guarantees.md", in_sections=True),
        Chapter("docs/performance.md", in_sections=True),
    ],
    "Reference": [
        Chapter("docs/http.md", path="api", in_sections=True),
        Chapter("docs/reference/errors.md", in_sections=True),
        Chapter("docs/configuration.md"),
        Chapter("config.example.yaml", "The example configuration", "configuration/example"),
        Chapter("docs/cli.md", in_sections=True),
    ],
    "Plugins": [
        Chapter("docs/plugins.md", in_sections=True),
        Chapter("plugins/README.md", path="plugins/first-party", in_sections=True),
        Chapter("docs/connectors.md", in_sections=True),
        Chapter("docs/testing.md"),
        Chapter("docs/reference/hookgw.md", in_sections=True),
        Chapter("docs/reference/hooks.md"),
        Chapter("docs/reference/connectors.md", in_sections=True),
        Chapter("docs/reference/testing.md", in_sections=True),
    ],
    "Operations": [
        Chapter("docs/operations.md", in_sections=True),
        Chapter("docs/fleet.md", in_sections=True),
    ],
    "Security": [
        Chapter("docs/security.md", in_sections=True),
        Chapter("SECURITY.md", "Report a vulnerability", "security/report"),
    ],
    "Project": [
        Chapter("docs/architecture.md"),
        Chapter("docs/sharing.md"),
        Chapter("docs/proofs.md", in_sections=True),
        Chapter("CONTRIBUTING.md", path="contributing"),
        Chapter("CHANGELOG.md", path="changelog"),
    ],
}
"""By section of the navigation."""
