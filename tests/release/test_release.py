"""The wheel and the sdist that ``nox -s release`` built: equal builds, contents, a clean install."""

import base64
import configparser
import gettext
import hashlib
import io
import os
import shutil
import subprocess
import sys
import tarfile
import tomllib
import venv
import zipfile
from email.message import Message
from email.parser import Parser
from pathlib import Path
from typing import Any

import pytest

from hookgw import __version__
from hookgw.manual.archive import Archive
from hookgw.manual.make import GATEWAY, make
from tests.support.processes import run

VARIABLE = "HOOKGW_RELEASE"
FOLDER = Path(os.environ.get(VARIABLE, "missing"))
ROOT = Path(__file__).parents[2]
PROJECT: dict[str, Any] = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))
INFO = f"hookgw-{__version__}.dist-info"

pytestmark = [
    pytest.mark.skipif(VARIABLE not in os.environ, reason=f"{VARIABLE} names no build: run nox -s release"),
    pytest.mark.process,
]


@pytest.fixture
def wheel() -> Path:
    (found,) = (FOLDER / "first" / "dist").glob("*.whl")
    return found


@pytest.fixture
def sdist() -> Path:
    (found,) = (FOLDER / "first" / "dist").glob("*.tar.gz")
    return found


@pytest.fixture
def metadata(wheel: Path) -> Message:
    with zipfile.ZipFile(wheel) as archive:
        return Parser().parsestr(archive.read(f"{INFO}/METADATA").decode())


def digests(folder: Path) -> dict[str, str]:
    return {path.name: hashlib.sha256(path.read_bytes()).hexdigest() for path in folder.iterdir()}


def files_of(*folders: str) -> set[str]:
    listed = subprocess.run(
        ["git", "ls-files", "--cached", "--others", "--exclude-standard", *folders],
        capture_output=True,
        text=True,
        check=True,
        cwd=ROOT,
    )
    return {name for name in listed.stdout.splitlines() if (ROOT / name).is_file()}


def test_two_builds_are_equal_to_the_last_byte() -> None:
    first = digests(FOLDER / "first" / "dist")
    assert len(first) == 2
    assert digests(FOLDER / "another-folder" / "dist") == first


def test_the_sdist_builds_the_same_wheel(wheel: Path) -> None:
    (again,) = (FOLDER / "again").glob("*/dist/*.whl")
    assert again.read_bytes() == wheel.read_bytes()


def test_the_metadata_is_the_projects(metadata: Message) -> None:
    project = PROJECT["project"]
    assert metadata["Name"] == "hookgw"
    assert metadata["Version"] == __version__
    assert metadata["Summary"] == project["description"]
    assert metadata["Requires-Python"] == project["requires-python"]
    assert metadata["License-Expression"] == project["license"]
    assert metadata.get_all("License-File") == project["license-files"]
    assert metadata.get_all("Classifier") == project["classifiers"]
    assert metadata["Description-Content-Type"] == "text/markdown"
    assert "# " in str(metadata.get_payload())
    assert {*metadata.get_all("Provides-Extra", [])} == {*project["optional-dependencies"]}
    required = {line.partition(";")[0].strip() for line in metadata.get_all("Requires-Dist", [])}
    wanted = [
        *project["dependencies"],
        *(one for extra in project["optional-dependencies"].values() for one in extra),
    ]
    assert {name_of(one) for one in required} == {name_of(one) for one in wanted}


def name_of(requirement: str) -> str:
    name = requirement.partition(">")[0].partition("=")[0].partition("[")[0]
    return name.strip().lower().replace("_", "-")


def test_the_entry_points_are_there(wheel: Path) -> None:
    points = configparser.ConfigParser()
    with zipfile.ZipFile(wheel) as archive:
        points.read_string(archive.read(f"{INFO}/entry_points.txt").decode())
    assert dict(points["console_scripts"]) == PROJECT["project"]["scripts"]
    assert dict(points["pytest11"]) == PROJECT["project"]["entry-points"]["pytest11"]


def test_the_wheel_has_the_package_and_nothing_else(wheel: Path) -> None:
    with zipfile.ZipFile(wheel) as archive:
        names = {name for name in archive.namelist() if not name.endswith("/")}
        assert archive.testzip() is None
    wanted = files_of("hookgw")
    wanted |= {name.replace("plugins/", "hookgw/_first_party/", 1) for name in files_of("plugins")}
    wanted |= {"hookgw/app/compose.yaml", "hookgw/manual/manual.zip"}
    wanted = {f"{name[:-3]}.mo" if name.endswith(".po") else name for name in wanted}  # compiled
    assert {name for name in names if not name.startswith(INFO)} == wanted
    assert f"{INFO}/licenses/LICENSE" in names


def test_the_wheel_has_the_manual_of_its_docs(wheel: Path) -> None:
    with zipfile.ZipFile(wheel) as archive:
        manual = Archive(archive.read("hookgw/manual/manual.zip"))
    made = make(ROOT, GATEWAY, __version__)
    assert {name: manual.read(name) for name in manual.names} == made


def test_the_wheel_has_the_translations(wheel: Path) -> None:
    with zipfile.ZipFile(wheel) as archive:
        for language, words in (("pt_BR", "Salvar"), ("es", "Guardar")):
            content = archive.read(f"hookgw/locale/{language}/LC_MESSAGES/hookgw.mo")
            assert gettext.GNUTranslations(io.BytesIO(content)).gettext("Save") == words


def test_every_file_of_the_wheel_is_recorded(wheel: Path) -> None:
    with zipfile.ZipFile(wheel) as archive:
        rows = [line.rsplit(",", 2) for line in archive.read(f"{INFO}/RECORD").decode().splitlines()]
        assert {row[0] for row in rows} == {*archive.namelist()}
        for name, digest, _ in rows:
            if digest:
                found = base64.urlsafe_b64encode(hashlib.sha256(archive.read(name)).digest())
                assert digest == f"sha256={found.rstrip(b'=').decode()}", name


def test_the_sdist_has_what_a_packager_needs(sdist: Path) -> None:
    with tarfile.open(sdist) as archive:
        names = {name.partition("/")[2] for name in archive.getnames()}
    missing = files_of("hookgw", "plugins", "tests", "docs", "deploy") - names
    assert not missing
    assert {
        "hatch_build.py",
        "pyproject.toml",
        "README.md",
        "LICENSE",
        "CHANGELOG.md",
        "noxfile.py",
        "PKG-INFO",
    } <= names
    assert not [
        name for name in names if "__pycache__" in name or name.startswith((".git/", ".venv", "dist/"))
    ]


def test_a_python_that_is_too_old_is_named(sdist: Path, tmp_path: Path) -> None:
    shutil.unpack_archive(sdist, tmp_path)
    folder = tmp_path / sdist.name.removesuffix(".tar.gz")
    project = folder / "pyproject.toml"
    text = project.read_text("utf-8")
    project.write_text(text.replace(f'"{PROJECT["project"]["requires-python"]}"', '">=99"'), "utf-8")
    done = run(["-m", "hatchling", "build", "-t", "wheel"], cwd=folder, patience=60)
    assert done.returncode == 1
    assert done.stderr.startswith("hookgw needs Python >=99, and this is 3.")


def test_the_version_is_that_of_the_tag() -> None:
    """A commit without a tag is no release, and has the version of hookgw/_version.py."""
    listed = subprocess.run(
        ["git", "tag", "--points-at", "HEAD", "v*"], capture_output=True, text=True, check=True, cwd=ROOT
    )
    tags = listed.stdout.split()
    assert tags in ([], [f"v{__version__}"]), (
        f"hookgw/_version.py has {__version__}: change it, and tag again."
    )


@pytest.mark.timeout(600)  # it compiles every dependency
def test_it_is_installed_and_works_without_a_network(wheel: Path, tmp_path: Path) -> None:
    venv.create(tmp_path / "venv", with_pip=True)
    programs = tmp_path / "venv" / ("Scripts" if sys.platform == "win32" else "bin")
    # Nothing is cached, and a request would go to a port where nobody listens.
    environ = {
        "HOME": str(tmp_path),
        "PATH": f"{programs}:/usr/bin:/bin",
        "PIP_NO_CACHE_DIR": "1",
        "PIP_CONFIG_FILE": os.devnull,
        "HTTPS_PROXY": "http://127.0.0.1:9",
        "HTTP_PROXY": "http://127.0.0.1:9",
    }

    def run(*command: str) -> str:
        done = subprocess.run(
            [str(programs / command[0]), *command[1:]],
            capture_output=True,
            text=True,
            check=False,
            cwd=tmp_path,
            env=environ,
            timeout=300,
        )
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout

    wheels = ("--no-index", "--find-links", str(FOLDER / "wheels"))
    run("python", "-m", "pip", "install", "--quiet", *wheels, f"{wheel}[mcp,otel,postgresql]")
    run("python", "-m", "pip", "check")
    assert run("hookgw", "--version") == f"hookgw {__version__}\n"
    assert "whatsapp_cloud" in run("hookgw", "plugins")
    run("hookgw", "demo", "--once")
