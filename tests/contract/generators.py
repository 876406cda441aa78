"""Generates clients from the document of a running gateway, and calls the gateway with each of them.

``python -m tests.contract.generators python go`` tries these two; without names it tries all. A tool that is
not installed is named in a sentence and left out. The tools of npm, and the modules of Go, come from their
registries, in the versions below.
"""

import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any, NamedTuple

from tests.contract.serving import gateway
from tests.support.gateway_process import KEY

CLIENTS = Path(__file__).parent / "clients"
NPM = {"openapi-typescript": "7.13.0", "openapi-fetch": "0.17.0", "typescript": "5.9.3"}
OAPI_CODEGEN = "github.com/oapi-codegen/oapi-codegen/v2/cmd/oapi-codegen@v2.8.2"
COMPLAINT = re.compile(
    r"warn|error|exception|unsupported|not supported|ignor|dropp|omitted|skipp|removed|duplicate|redeclared",
    re.IGNORECASE,
)
HARMLESS = re.compile(
    r"3\.1 support is still in beta|#####|"
    # Of openapi-generator: it names nothing, and no component is missing from its output.
    r"Failed to get the schema name: null|"
    # Of a query parameter of that name, which is no model.
    r"Error \(model name matches existing language type\)|"
    r"\[main\] INFO|writing file|Codegen property is null \(e\.g\. map/dict of undefined type\)"
)
GO_FOLDER = "/usr/local/go/bin"
"""Where Go's own installation is, which is often not in PATH."""


class Failed(Exception):
    """A tool complained, lost something, or made a client that does not work."""


class Output(NamedTuple):
    """What a generator made.

    Attributes:
        log: what it printed.
        types: the names of types.
        calls: the names of methods.
    """

    log: str
    types: Iterable[str]
    calls: Iterable[str]


def run(*command: str | Path, cwd: Path, **env: str) -> str:
    """Run a program and return what it printed.

    Raises:
        Failed: it failed.
    """
    done = subprocess.run(
        [str(word) for word in command],
        cwd=cwd,
        env=os.environ | env,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        check=False,
    )
    if done.returncode:
        raise Failed(f"{' '.join(map(str, command))} failed:\n{done.stdout[-4000:]}")
    return done.stdout


def names(pattern: str, folder: Path, files: str) -> list[str]:
    """Return what a pattern finds in the files of a folder."""
    text = "\n".join(path.read_text(encoding="utf-8") for path in sorted(folder.rglob(files)))
    return re.findall(pattern, text, re.MULTILINE)


def python(folder: Path, document: Path) -> Output:
    """openapi-python-client"""
    log = run("openapi-python-client", "generate", "--path", document, cwd=folder)
    client = folder / "hookgw-client"
    run(sys.executable, CLIENTS / "python_client.py", cwd=client, PYTHONPATH=str(client))
    calls = [path.stem for path in client.rglob("api/*/*.py")]
    return Output(log, names(r"^class (\w+)", client, "models/*.py"), calls)


def typescript(folder: Path, document: Path) -> Output:
    """openapi-typescript"""
    install_npm(folder)
    log = run("node_modules/.bin/openapi-typescript", document, "-o", "hookgw.d.ts", cwd=folder)
    compile_and_run(folder, "typescript.ts")
    types = names(r"^        (\w+): ", folder, "hookgw.d.ts")
    return Output(log, types, names(r"^    (\w+): \{$", folder, "hookgw.d.ts"))


def go(folder: Path, document: Path) -> Output:
    """oapi-codegen"""
    (folder / "hookgw").mkdir()
    options = ["-generate", "types,client", "-package", "hookgw", "-o", "hookgw/client.go"]
    (folder / "go.mod").write_text("module example.com/hookgw\n\ngo 1.25\n", encoding="utf-8")
    run("go", "install", OAPI_CODEGEN, cwd=folder, GOBIN=str(folder / "bin"))
    log = run(folder / "bin" / "oapi-codegen", *options, document, cwd=folder)
    shutil.copy(CLIENTS / "main.go", folder)
    run("go", "mod", "tidy", cwd=folder)
    run("go", "vet", "./...", cwd=folder)
    run("go", "run", ".", cwd=folder)
    calls = names(r"^func \(c \*ClientWithResponses\) (\w+?)(?:WithBody)?WithResponse\(", folder, "client.go")
    return Output(log, names(r"^type (\w+) ", folder, "client.go"), calls)


def generator_python(folder: Path, document: Path) -> Output:
    """openapi-generator (python)"""
    log = run_openapi_generator(folder, document, "python")
    client = folder / "client"
    run(sys.executable, CLIENTS / "generator_python.py", cwd=client, PYTHONPATH=str(client))
    calls = names(r"^    def (\w+)\($", client, "api/*_api.py")
    return Output(log, names(r"^class (\w+)", client, "models/*.py"), calls)


def generator_typescript(folder: Path, document: Path) -> Output:
    """openapi-generator (typescript-fetch)"""
    install_npm(folder)
    log = run_openapi_generator(folder, document, "typescript-fetch")
    compile_and_run(folder, "generator_typescript.ts")
    client = folder / "client"
    types = names(r"^export (?:interface|type|const) (\w+)", client, "models/*.ts")
    return Output(log, types, names(r"async (\w+)\(", client, "apis/*.ts"))


def run_openapi_generator(folder: Path, document: Path, language: str) -> str:
    """Generate a client in the folder ``client``, and return what the generator printed."""
    # Without the property it makes no type of a form, and imports it all the same.
    options = ["-g", language, "--global-property", "skipFormModel=false", "-o", "client"]
    return run("openapi-generator-cli", "generate", "-i", document, *options, cwd=folder)


def install_npm(folder: Path) -> None:
    """Install the packages of npm in a folder."""
    packages = [f"{name}@{version}" for name, version in NPM.items()]
    (folder / "package.json").write_text('{"type": "commonjs", "private": true}', encoding="utf-8")
    run("npm", "install", "--silent", "--no-audit", "--no-fund", *packages, cwd=folder)


def compile_and_run(folder: Path, script: str) -> None:
    """Compile a script with the strictest types, and run it."""
    shutil.copy(CLIENTS / script, folder)
    options = ["--strict", "--target", "es2022", "--module", "node16", "--outDir", "made"]
    run("node_modules/.bin/tsc", *options, script, cwd=folder)
    run("node", Path("made", script).with_suffix(".js"), cwd=folder)


NEEDS: dict[Callable[[Path, Path], Output], tuple[str, ...]] = {
    python: ("openapi-python-client",),
    typescript: ("npm", "node"),
    go: ("go",),
    generator_python: ("openapi-generator-cli", "java"),
    generator_typescript: ("openapi-generator-cli", "java", "npm", "node"),
}
"""The generators, with the programs that they need."""


def words(name: str) -> str:
    """What is left of a name when a generator has made it a name of its language."""
    return re.sub("[^a-z0-9]", "", name.lower())


def complaints(output: Output, document: dict[str, Any]) -> list[str]:
    """Return what a generator complained about, and what it lost."""
    found = [line for line in output.log.splitlines() if COMPLAINT.search(line) and not HARMLESS.search(line)]
    types, calls = set(map(words, output.types)), set(map(words, output.calls))
    for name, schema in document["components"]["schemas"].items():
        # A map has no name in most languages.
        if ("properties" in schema or "enum" in schema) and words(name) not in types:
            found.append(f"The schema {name} is missing.")
    for item in document["paths"].values():
        for operation in item.values():
            if words(operation["operationId"]) not in calls:
                found.append(f"The call {operation['operationId']} is missing.")
    return found


def try_generators(chosen: Iterable[str]) -> bool:
    """Try generators against a new gateway, and say how each went. Return whether all that ran are fine."""
    # Programs of the same environment, such as ruff, which openapi-python-client runs.
    os.environ["PATH"] = os.pathsep.join((str(Path(sys.executable).parent), os.environ["PATH"], GO_FOLDER))
    is_fine = True
    with gateway() as (server, receiver), tempfile.TemporaryDirectory() as name:
        os.environ |= {"HOOKGW_URL": server.url, "HOOKGW_KEY": KEY, "HOOKGW_RECEIVER": f"{receiver}/client"}
        path = Path(name, "openapi.json")
        path.write_bytes(server.http.get("/openapi.json").content)
        document = json.loads(path.read_bytes())
        for generate, needs in NEEDS.items():
            if generate.__name__ not in chosen:
                continue
            if missing := [program for program in needs if shutil.which(program) is None]:
                print(f"{generate.__doc__}: left out, without {' and '.join(missing)}.", flush=True)
                continue
            folder = Path(name, generate.__name__)
            folder.mkdir()
            try:
                problems = complaints(generate(folder, path), document)
            except Failed as failure:
                problems = [str(failure)]
            is_fine = is_fine and not problems
            how = "\n".join(problems) or "set, find, emit and delete work, and nothing is missing"
            print(f"{generate.__doc__}: {how}", flush=True)
    return is_fine


if __name__ == "__main__":
    sys.exit(not try_generators(sys.argv[1:] or [generate.__name__ for generate in NEEDS]))
