"""``hookgw plugin``: begin a plugin, and list the configured ones."""

from __future__ import annotations

import re
import shlex
import shutil
from importlib import resources
from pathlib import Path

import click

from hookgw._version import __version__
from hookgw.app.installed import IS_BINARY, installed_from
from hookgw.app.plugins import plugins
from hookgw.command.failure import Failed
from hookgw.command.group import CommandGroup
from hookgw.command.output import say
from hookgw.kernel.schemes import RESERVED_SCHEMES

_NAME = re.compile(r"[a-z][a-z0-9]*(-[a-z0-9]+)*")
_LONGEST_NAME = 30
_TEMPLATES = "plugin_templates"
# Each file of the package, and its template. The suffix keeps tools from taking them for Python.
_FILES = {
    "pyproject.toml": "common/pyproject.toml",
    "noxfile.py": "common/noxfile.py",
    ".gitignore": "common/gitignore",
    "README.md": "{{what}}/README.md",
    "{{module}}/__init__.py": "{{what}}/init.py",
    "tests/test_{{plugin}}.py": "{{what}}/test.py",
}
_CONNECTOR = {**_FILES, "{{module}}/connector.py": "connector/connector.py"}


@click.group(cls=CommandGroup)
def plugin() -> None:
    """Begin a plugin, or list the plugins of the configuration."""


plugin.add_command(plugins, "list")


def _check_name(_context: click.Context, _parameter: click.Parameter, value: str) -> str:
    name = value.removeprefix("hookgw-")
    if not _NAME.fullmatch(name) or len(name) > _LONGEST_NAME:
        raise click.BadParameter(
            f"{value!r} is not a name for a package: use up to {_LONGEST_NAME} lower-case letters, digits "
            "and single hyphens, beginning with a letter, such as acme-crm."
        )
    # Importing the plugins takes a second, and their names are those of files.
    from hookgw.plugins.discovery import first_party_folder

    folder = first_party_folder()
    # Two plugins with one name stop the start.
    if folder and name.replace("-", "_") in {one.stem for one in folder.iterdir() if one.name[0] not in "_."}:
        raise click.BadParameter(f"hookgw itself has a plugin {name.replace('-', '_')}: choose another name.")
    return name


@plugin.command("new")
@click.argument("name", callback=_check_name)
@click.option("--connector", is_flag=True, help="Begin a connector to a messaging network.")
@click.option("--destination", is_flag=True, help="Begin a plugin that sends to NAME:// URLs.")
@click.option(
    "--folder",
    type=click.Path(path_type=Path, exists=True, file_okay=False),
    default=".",
    help="Where the package's folder is made; by default the working directory.",
)
def new(name: str, connector: bool, destination: bool, folder: Path) -> None:
    """Write a package with a plugin and its tests.

    Its name is hookgw-NAME. It has an entry point and a nox file, and its tests pass at once. Then replace
    the example with your own code. A folder that exists is not touched.
    """
    if connector and destination:
        raise click.UsageError("Choose --connector or --destination, and write a package for each.")
    if destination and name in RESERVED_SCHEMES:
        raise click.UsageError(f"The scheme {name} is reserved for hookgw: choose another name.")
    plugin_name = name.replace("-", "_")
    what, description = "plugin", "A plugin for hookgw."
    if connector:
        what, description = "connector", f"Connects hookgw to {name}."
    elif destination:
        what, description = "destination", f"Sends hookgw's deliveries to {name}."
    values = {
        "what": what,
        "name": name,
        "plugin": plugin_name,
        "module": f"hookgw_{plugin_name}",
        "class": "".join(word.capitalize() for word in name.split("-")),
        "version": ".".join(__version__.split(".")[:2]),
        "description": description,
    }
    target = folder / f"hookgw-{name}"
    templates = resources.files("hookgw.app") / _TEMPLATES
    try:
        target.mkdir()
        try:
            for path, template in (_CONNECTOR if connector else _FILES).items():
                file = target / _filled(path, values)
                file.parent.mkdir(exist_ok=True)
                text = (templates / f"{_filled(template, values)}.template").read_text("utf-8")
                file.write_text(_filled(text, values), encoding="utf-8")
            (target / values["module"] / "py.typed").touch()
        except OSError:
            shutil.rmtree(target, ignore_errors=True)  # it would be in the way of the next try
            raise
    except FileExistsError as error:
        raise Failed(f"{error.filename} exists. Choose another name, or remove it.") from error
    except OSError as error:
        raise Failed(f"{error.filename or target}: {error.strerror}.") from error
    nox = f"HOOKGW={shlex.quote(source)} nox" if (source := installed_from()) else "nox"
    install = "pip install -e .    # beside hookgw"
    if IS_BINARY:  # pip cannot install anything beside it
        place = shlex.quote(str(Path("plugins").absolute() / plugin_name))
        install = f"cp -r {values['module']} {place}    # once it works"
    code = f"{values['module']}/{'connector' if connector else '__init__'}.py"
    say(
        f"{target} has a {what} and its tests. Next:",
        "",
        f"  cd {shlex.quote(str(target))}",
        f"  {nox}    # the tests, types and form (pip install nox)",
        f"  {install}; then `hookgw plugins` lists {plugin_name}",
        "",
        f"Write your own code in {code}, and change the tests with it. README.md says more.",
    )


def _filled(text: str, values: dict[str, str]) -> str:
    for name, value in values.items():
        text = text.replace("{{" + name + "}}", value)
    return text
