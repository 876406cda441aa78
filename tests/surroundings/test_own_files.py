"""The files of hookgw itself are replaced or removed while it runs: an upgrade, a cleaner of /tmp."""

import re
import shutil
from pathlib import Path

import pytest

import hookgw
from tests.public.plugins import first_party_folder
from tests.surroundings.surrounded import surrounded

pytestmark = pytest.mark.process


def test_pages_are_shown_after_the_files_of_the_program_are_gone(tmp_path: Path) -> None:
    program = tmp_path / "program"
    package, plugins = Path(hookgw.__file__).parent, first_party_folder()
    assert plugins is not None
    without = shutil.ignore_patterns("__pycache__")
    shutil.copytree(package, program / "hookgw", ignore=without)
    shutil.copytree(plugins, program / "hookgw" / "_first_party", ignore=without, dirs_exist_ok=True)
    with surrounded(tmp_path, env={"PYTHONPATH": str(program)}) as gateway:
        gateway.wait_ready()
        shutil.rmtree(program)
        login = gateway.http.get("/dashboard/login")
        assert login.status_code == 200
        assets = {part for part in login.text.split('"') if part.startswith("/dashboard/assets/")}
        assert assets
        for asset in assets:
            assert gateway.http.get(asset).status_code == 200
        gateway.http.headers["origin"] = str(gateway.http.base_url).rstrip("/")
        fields = dict(re.findall(r'name="(\w+)"[^>]*value="([^"]+)"', login.text))
        entered = gateway.http.post(
            "/dashboard/login", data={**fields, "key": gateway.http.headers["apikey"]}
        )
        assert entered.status_code in (302, 303), entered.text
        gateway.register("shop", "http://127.0.0.1:9/hook")
        pages = ("", "/instances", "/deliveries", "/lanes", "/kinds", "/system", "/instances/shop")
        for page in (*pages, "/instances/shop/webhooks/default", "/new-instance"):
            assert gateway.http.get(f"/dashboard{page}", follow_redirects=True).status_code == 200, page
        for path in ("/docs", "/openapi.json"):
            assert gateway.http.get(path).status_code == 200
        assert gateway.stop() == 0
