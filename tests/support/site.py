"""Writes the manual as a static site, with the HTTP reference: ``nox -s site``."""

from __future__ import annotations

import hashlib
import sys
import tempfile
from pathlib import Path

import msgspec
import trio

from hookgw import __version__
from hookgw.manual.curl import ADDRESS
from hookgw.manual.examples import shown_example
from hookgw.manual.make import SITE, make
from tests.public.app import open_gateway, request_schemas
from tests.public.config import Settings, StorageSettings
from tests.public.kernel import Size
from tests.public.web import OpenApiRoutes
from tests.support.application import create_app

ROOT = Path(__file__).parents[2]


async def write(site: Path) -> None:
    """Write the whole site into a folder. Its reference is that of a gateway with the default settings."""
    for name, content in make(ROOT, SITE, __version__).items():
        target = site / name
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_bytes(content)
    assets = {}
    for file in (site / "assets").iterdir():
        version = hashlib.sha256(file.read_bytes()).hexdigest()[:12]
        assets[file.name] = f"assets/{file.name}?v={version}"
    with tempfile.TemporaryDirectory() as folder:
        storage = StorageSettings(path=f"{folder}/hookgw.db", min_free=Size(0))
        async with open_gateway(Settings(storage=storage), base=Path(folder)) as gateway:
            app = create_app(gateway)
            reference = OpenApiRoutes(app, gateway, request_schemas)
            (site / "openapi.json").write_bytes(msgspec.json.encode(reference.document))
            (site / "http").mkdir(exist_ok=True)
            async with app.routing.app_context():
                for name in ("", "schemas", *(group.slug for group in reference.groups)):
                    page = await reference.html(name, ADDRESS, assets, shown_example, is_site=True)
                    (site / (f"http/{name}.html" if name else "http.html")).write_text(page, "utf-8")


if __name__ == "__main__":
    trio.run(write, Path(sys.argv[1]))
