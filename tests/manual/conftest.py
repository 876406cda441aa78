"""The manual, made once for all tests."""

from pathlib import Path

import pytest

from hookgw.manual.make import GATEWAY, SITE, make

ROOT = Path(__file__).parents[2]
LAYOUTS = {"gateway": GATEWAY, "site": SITE}


@pytest.fixture(scope="session")
def manuals() -> dict[str, dict[str, bytes]]:
    """The files of the manual, as in a gateway and as a site."""
    return {name: make(ROOT, layout, "1.2.3") for name, layout in LAYOUTS.items()}


@pytest.fixture(params=LAYOUTS)
def manual(request: pytest.FixtureRequest, manuals: dict[str, dict[str, bytes]]) -> dict[str, bytes]:
    return manuals[request.param]
