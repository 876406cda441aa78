"""Set up all tests: no name servers, short paths of sockets, nothing slow that every gateway would repeat."""

import gc
import os
import signal
import socket
import sys
import tempfile
import traceback
import warnings
from collections.abc import Generator, Iterable, Iterator, Mapping
from contextlib import suppress
from importlib import metadata
from itertools import chain
from pathlib import Path
from typing import Any

import httpx
import pytest
import trio
from hypothesis import HealthCheck, settings
from trio.testing import MockClock

from hookgw.manual.markdown import BrokenLink
from hookgw.manual.packaged import open_manual
from hookgw.plugins import discovery, loading, startup_hooks
from hookgw.testing import kit, receiver
from hookgw.testing.pytest_plugin import run_on
from hookgw.web.openapi import routes
from tests.public.concurrency import Hub
from tests.public.config import everything_in
from tests.public.kernel import Schema
from tests.public.postgresql import Server, migrate
from tests.public.web import Route, Routing, build_document
from tests.support.compiled_rules import CompiledOnce
from tests.support.compiled_templates import KeptTemplates
from tests.support.exceptions import leaves
from tests.support.first_party_modules import FirstPartyModules
from tests.support.hub import choice, light_steps_checked
from tests.support.postgres import PostgresServer, find_binaries, run_postgres

# A busy machine makes any test slow, so Hypothesis must not fail one for its time.
settings.register_profile("hookgw", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.register_profile("few", settings.get_profile("hookgw"), max_examples=20)
settings.load_profile("hookgw")
# A shell ignores Ctrl-C for what it starts in the background, and so would all processes that tests start.
signal.signal(signal.SIGINT, signal.default_int_handler)
_abandoned: list[object] = []


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--few-cases", action="store_true", help="of each test, run the first and the last case")
    parser.addoption(
        "--few-cases-of",
        action="append",
        default=[],
        metavar="FOLDER",
        help="the same for those tests of a folder that have files, as a gateway has, or start processes",
    )
    parser.addoption(
        "--hub", choices=("on", "off"), default="on", help="off: without the hub, and without light steps"
    )


def pytest_configure(config: pytest.Config) -> None:
    choice.is_on = config.getoption("--hub") == "on"


def pytest_sessionstart(session: pytest.Session) -> None:
    # The first request for /docs in a checkout makes the manual, which takes longer than clients wait. If a
    # page is wrong, the tests of the manual say so.
    if not hasattr(session.config, "workerinput"):
        with suppress(BrokenLink, OSError):
            open_manual()


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Function]) -> None:
    for item in items:  # before pytest looks at the marks
        if "postgres" in item.fixturenames:
            item.add_marker("process")
    are_few, folders = config.getoption("--few-cases"), tuple(config.getoption("--few-cases-of"))
    if not (are_few or folders):
        return
    cases: dict[str, list[pytest.Item]] = {}
    for item in items:
        is_large = "tmp_path" in item.fixturenames or item.get_closest_marker("process") is not None
        is_one_of_few = are_few or (is_large and item.nodeid.startswith(folders))
        cases.setdefault(item.nodeid.partition("[")[0] if is_one_of_few else item.nodeid, []).append(item)
    chosen = {item for found in cases.values() for item in (found[0], found[-1])}
    config.hook.pytest_deselected(items=[item for item in items if item not in chosen])
    items[:] = [item for item in items if item in chosen]


def pytest_collection_finish() -> None:
    # Thousands of tests with their parameters stay until the end. Each full collection of garbage would look
    # at all of them again: a tenth of the time of all tests.
    gc.collect()
    gc.freeze()


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(
    call: pytest.CallInfo[None],
) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    found = leaves(call.excinfo.value) if call.excinfo else []
    for frame, _ in chain.from_iterable(traceback.walk_tb(one.__traceback__) for one in found):
        # A test that took too long left the event loop while that waited. All later tests of this process
        # would fail: "Attempted to call run() from inside a run()", or what its tasks raise once collected.
        if frame.f_code is trio.run.__code__ and (loop := frame.f_locals["gen"]).gi_frame is not None:
            _abandoned.append(frame.f_locals["runner"])
            with warnings.catch_warnings(action="ignore"):
                loop.close()
    report = yield
    # pytest shows ten groups in each other. A gateway has more nurseries, so its failure would be unseen.
    if "(max_group_depth is " in report.longreprtext:
        shown = ["".join(traceback.format_exception(one)) for one in found]
        report.sections.append(("Exceptions in the innermost groups", "\n".join(shown)))
    return report


@pytest.fixture(scope="session", autouse=True)
def _no_name_servers() -> Iterator[None]:
    """Every name but that of this machine is unknown."""
    usual = socket.getaddrinfo

    def getaddrinfo(host: Any, port: Any, *others: int, **named: int) -> Any:
        options = dict(zip(("family", "type", "proto", "flags"), others, strict=False)) | named
        if host not in (None, "localhost", b"localhost"):
            options["flags"] = options.get("flags", 0) | socket.AI_NUMERICHOST
        return usual(host, port, **options)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(socket, "getaddrinfo", getaddrinfo)
        yield


@pytest.fixture(scope="session", autouse=True)
def _patience() -> Iterator[None]:
    """Clients, receivers and kits of tests wait for a minute: on a busy machine, pages take longer than
    httpx's five seconds.
    """
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(kit, "SETTLE_TIMEOUT", 60.0)
        patch.setattr(receiver, "PATIENCE", 60.0)
        for init in (httpx.Client.__init__, httpx.AsyncClient.__init__):
            patch.setitem(init.__kwdefaults__ or {}, "timeout", httpx.Timeout(60))
        yield


@pytest.fixture(scope="session", autouse=True)
def _distributions_read_once() -> Iterator[None]:
    """Look for plugins among the installed distributions once for each ``sys.path``.

    Hundreds of tests open a gateway, and each would read the files of every distribution again (10 ms).
    """
    found: dict[tuple[str, ...], metadata.EntryPoints] = {}

    def known(group: str) -> metadata.EntryPoints:
        path = (group, *sys.path)
        if path not in found:
            found[path] = metadata.entry_points(group=group)
        return found[path]

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(discovery, "entry_points", known)
        yield


@pytest.fixture(scope="session", autouse=True)
def _first_party_modules() -> Iterator[FirstPartyModules]:
    """Load hookgw's own plugins faster, and check once who can write to their files."""
    folder = discovery.first_party_folder()
    assert folder is not None
    checked: set[Path] = set()

    def unchecked(path: Path) -> Iterator[Path]:
        if path not in checked:
            yield from everything_in(path)
        if path == folder:
            checked.add(path)

    finder = FirstPartyModules(folder)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(sys, "meta_path", [finder, *sys.meta_path])
        patch.setattr(loading, "everything_in", unchecked)
        patch.setattr(startup_hooks, "check_connector", finder.check_connector)
        patch.setattr(startup_hooks, "check_kind", finder.check_kind)
        yield finder


@pytest.fixture(scope="module", autouse=True)
def _plugins_forgotten(_first_party_modules: FirstPartyModules) -> Iterator[None]:
    """Forget the plugins that a file's tests have loaded: else 100,000 modules would stay."""
    before = set(sys.modules)
    yield
    _first_party_modules.forget(before)


@pytest.fixture(scope="session", autouse=True)
def _routes_compiled_once() -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Routing, "url_rule_class", CompiledOnce)
        yield


@pytest.fixture(scope="session", autouse=True)
def _templates_compiled_once() -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setitem(Routing.jinja_options, "bytecode_cache", KeptTemplates())
        yield


@pytest.fixture(scope="session", autouse=True)
def _documents_built_once() -> Iterator[None]:
    """Build ``/openapi.json`` once for the same routes and names: every client of a test compares with it."""
    built: list[tuple[list[Route], Mapping[str, Schema], str, bool, dict[str, Any]]] = []

    def known(
        found: Iterable[Route], names: Mapping[str, Schema], base_path: str, *, nests_messages: bool = False
    ) -> dict[str, Any]:
        wanted = list(found)
        for *before, document in built:
            if before == [wanted, names, base_path, nests_messages]:
                return document
        document = build_document(wanted, names, base_path, nests_messages=nests_messages)
        built.append((wanted, names, base_path, nests_messages, document))
        return built[-1][-1]

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(routes, "build_document", known)
        yield


@pytest.fixture(scope="session", autouse=True)
def _hub() -> Iterator[None]:
    """With ``--hub=off``, no gateway of this process has a hub."""
    with pytest.MonkeyPatch.context() as patch, light_steps_checked():
        if not choice.is_on:
            patch.setattr("hookgw.app.open.Hub", lambda **_: Hub(is_on=False))
        yield


@pytest.fixture
def autojump_clock(request: pytest.FixtureRequest) -> MockClock:
    """pytest-trio's, but ``usefixtures`` suffices for it."""
    return run_on(MockClock(autojump_threshold=0), request)


@pytest.fixture
def mock_clock(request: pytest.FixtureRequest) -> MockClock:
    """pytest-trio's, but ``usefixtures`` suffices for it."""
    return run_on(MockClock(), request)


@pytest.fixture
def socket_folder() -> Iterator[Path]:
    """A folder for Unix sockets: their paths have 107 bytes at most, and a checkout can lie deep."""
    with tempfile.TemporaryDirectory(prefix="hookgw-", dir="/tmp") as folder:
        yield Path(folder)


@pytest.fixture(scope="session")
def postgres() -> Iterator[PostgresServer]:
    """A PostgreSQL server for the whole test run. Its commits do not reach the disk."""
    if find_binaries() is None and not os.environ.get("CI"):
        pytest.skip("There is no PostgreSQL: apt-get install postgresql.")
    with run_postgres() as server:
        yield server


@pytest.fixture
def database(postgres: PostgresServer) -> Iterator[Server]:
    """A database with hookgw's tables."""
    with postgres.new_schema() as schema:
        # Of a server of its own: that session ends some time later, and tests count those of theirs.
        server = Server(postgres.url(), schema)
        with server.connect() as connection:
            migrate(connection, schema, server.place)
        connection.close()
        yield Server(postgres.url(), schema)
