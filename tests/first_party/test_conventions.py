"""What all first-party connectors have in common: options, pages, and what they say without an option."""

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest
import trio
from trio.testing import MockClock

from hookgw import ConnectionState, Invalid
from hookgw import connectors as kit
from hookgw.testing import FakeSession, GatewayKit
from tests.public.config import PluginsSettings
from tests.public.instances import calls_of
from tests.public.kernel import ConfigError
from tests.public.plugins import ContainedConnector, Hooks, load_plugins
from tests.public.records import BUILT_IN_KINDS, Catalog, check_schema
from tests.support import networks_table

ROOT = Path(__file__).parents[2]
CONNECTORS = networks_table.all_connectors()
NETWORKS = sorted(CONNECTORS)
ALL = [*NETWORKS, "simulator"]
# A name of an option that holds a secret, in any network.
SECRET = re.compile(r"token|secret|password|api_?key|hmac|^value$")
SENTENCE = re.compile(r"[A-Z`a-z].*[.?]$", re.DOTALL)


@pytest.fixture(scope="module")
def hooks(tmp_path_factory: pytest.TempPathFactory) -> Hooks:
    hooks = Hooks(load_plugins(PluginsSettings(), base=tmp_path_factory.mktemp("plugins")))
    hooks.configure({})
    return hooks


@pytest.fixture
def connector(hooks: Hooks, request: pytest.FixtureRequest) -> ContainedConnector:
    return hooks.connectors()[request.param]


def page_of(name: str) -> str:
    path = "plugins/README.md" if name == "simulator" else f"docs/networks/{name}.md"
    return (ROOT / path).read_text("utf-8")


def properties(connector: ContainedConnector) -> Iterator[tuple[str, dict[str, Any]]]:
    assert connector.options_schema is not None
    yield from connector.options_schema["properties"].items()


@pytest.mark.parametrize("connector", ALL, indirect=True)
def test_options_are_described_and_secrets_are_masked(connector: ContainedConnector) -> None:
    schema = connector.options_schema
    assert schema is not None
    assert check_schema(schema) is None
    # Unknown options get a warning, or are refused; they are never taken in silence.
    assert schema.get("additionalProperties", False) is False
    for name, described in properties(connector):
        assert SENTENCE.fullmatch(described["description"]), name
        assert "type" in described, name
        assert described.get("writeOnly", False) is bool(SECRET.search(name)), name
        assert "default" not in described or "writeOnly" not in described, name


@pytest.mark.parametrize("connector", ALL, indirect=True)
def test_the_page_has_every_option(connector: ContainedConnector) -> None:
    page = page_of(connector.name)
    for name, described in properties(connector):
        row = re.search(rf"^\| `{name}` \|(.*)$", page, re.MULTILINE)
        assert row is not None, f"{connector.name}: {name} has no row in a table of its page"
        if isinstance(described.get("default"), str) and connector.name != "simulator":
            assert f"`{described['default']}`" in row[1], name


@pytest.mark.parametrize("name", NETWORKS)
def test_the_page_can_be_found(name: str) -> None:
    assert f"(docs/networks/{name}.md)" in (ROOT / "README.md").read_text("utf-8")
    assert f"| [{name}]({name})" in (ROOT / "plugins" / "README.md").read_text("utf-8")
    overview, _, _ = networks_table.PAGE.read_text("utf-8").partition("## What each one has")
    assert re.search(rf"^\| .* \| \[{name}\]\({name}\.md\)", overview, re.MULTILINE)


@pytest.mark.parametrize("name", NETWORKS)
def test_the_page_leads_to_the_first_message_and_says_what_is_missing(name: str) -> None:
    page = page_of(name)
    assert "## From nothing to the first delivered message" in page
    assert f'"integration": "{name}"' in page
    assert "/instance/create" in page
    assert "/instance/connect/" in page
    assert re.search(r"not supported", page, re.IGNORECASE)


def test_the_overview_has_what_the_connectors_have() -> None:
    assert networks_table.PAGE.read_text("utf-8") == networks_table.page(CONNECTORS), (
        "Run python -m tests.support.networks_table"
    )


@pytest.mark.parametrize("connector", ALL, indirect=True)
def test_calls_without_a_network_are_answered_by_all(connector: ContainedConnector) -> None:
    assert {"findChats", "findContacts", "restart"} <= set(calls_of(connector))


async def test_an_instance_without_options_is_made_or_refused_with_sentences(
    hookgw_gateway: GatewayKit,
) -> None:
    refused = {}
    for name in ALL:
        try:
            await hookgw_gateway.gateway.instances.create(f"with-{name}", integration=name)
        except Invalid as error:
            refused[name] = error.messages
    assert refused.keys() == set(NETWORKS)
    for name, sentences in refused.items():
        options = dict(properties(CONNECTORS[name]))
        for sentence in sentences:
            assert SENTENCE.fullmatch(sentence), (name, sentence)
        assert any(option in sentence for option in options for sentence in sentences), (name, sentences)
    assert hookgw_gateway.plugin_failures == []


@pytest.mark.parametrize("connector", NETWORKS, indirect=True)
async def test_an_instance_that_lacks_its_options_says_so(
    connector: ContainedConnector, autojump_clock: MockClock
) -> None:
    """It was made by an earlier version, or the configuration had what is missing."""
    async with httpx.AsyncClient(transport=httpx.MockTransport(never)) as http:
        catalog = Catalog(BUILT_IN_KINDS)
        session = FakeSession(options=connector.option_rules.with_defaults({}), http=http, catalog=catalog)
        with trio.move_on_after(1000) as run:
            await connector.run(session)
    assert run.cancelled_caught, (
        "a return is a logout: it would not start again when the configuration is corrected"
    )
    assert ConnectionState.OPEN not in {state for state, _, _ in session.states}
    state, _, more = session.states[-1]
    assert state is ConnectionState.CLOSE
    assert SENTENCE.fullmatch(more["message"])
    assert any(option in more["message"] for option, _ in properties(connector))


def never(request: httpx.Request) -> httpx.Response:
    raise AssertionError(f"{request.url} was asked without the options that it takes")


@pytest.mark.parametrize("connector", NETWORKS, indirect=True)
def test_secrets_of_the_configuration_are_declared_and_not_shown(
    connector: ContainedConnector, tmp_path: Path
) -> None:
    """hookgw masks what a plugin declares in its messages and tracebacks; a schema is shown to clients."""
    secrets = [name for name, described in properties(connector) if described.get("writeOnly")]
    taken = []
    has_server = "base_url" in dict(properties(connector))
    server = {"base_url": "https://x.example"} if has_server else {}
    for name in secrets:
        loaded = load_plugins(PluginsSettings(), base=tmp_path)
        hooks = Hooks(loaded)
        module: Any = loaded.manager.get_plugin(connector.name)
        try:
            hooks.configure({connector.name: {**server, name: "planted-secret"}})
        except ConfigError:
            continue  # only an instance has it
        else:
            taken.append(name)
            assert "planted" not in str(hooks.connectors()[connector.name].options_schema)
        finally:
            hooks.configure({})
    declared = module.hookgw_secret_options() if hasattr(module, "hookgw_secret_options") else []
    assert sorted(declared) == sorted(taken)


@pytest.mark.parametrize("connector", NETWORKS, indirect=True)
async def test_a_secret_of_the_configuration_goes_to_no_server_that_a_tenant_chose(
    connector: ContainedConnector, tmp_path: Path
) -> None:
    options = dict(properties(connector))
    loaded = load_plugins(PluginsSettings(), base=tmp_path)
    hooks = Hooks(loaded)
    module: Any = loaded.manager.get_plugin(connector.name)
    declared = module.hookgw_secret_options() if hasattr(module, "hookgw_secret_options") else []
    if not declared or options["base_url"].get("x-operator"):
        return
    secrets = dict.fromkeys(declared, "planted-secret")
    hooks.configure({connector.name: {"base_url": "https://own.example", **secrets}})
    try:
        with pytest.raises(Invalid, match=r"is missing|must be set"):
            await hooks.connectors()[connector.name].check_options(
                {"base_url": "https://other.example"}, public_url="https://hooks.example"
            )
    finally:
        hooks.configure({})


ODD_URLS = (
    *(
        "http://[",
        "https://[::1",
        "https://x:99999",
        "https://\0",
        "https://x\r\nA: b",
        "https://xn--",
        "http:///",
    ),
    *("https://u:p@", "ftp://x", "x"),
)
ODD_TOKENS = ("tok\u0435n", "“token”", "token\n", "to ken", "😀" * 5)
URLS = {"base_url", "homeserver"}
TOKENS = {"api_key", "access_token", "bot_token"}
WORKING: dict[str, dict[str, Any]] = {
    "evolution": {"base_url": "https://e.example", "api_key": "key"},
    "gowa": {"base_url": "https://g.example"},
    "matrix": {"homeserver": "https://m.example", "user": "@a:b", "password": "p"},
    "telegram": {"bot_token": "123456:ABC-DEF1234ghIkl-zyx57W2v1u1", "base_url": "https://t.example"},
    "waha": {"base_url": "https://w.example"},
    "webhook": {"kind": "/kind", "header": "x", "value": "v"},
    "whatsapp_cloud": {"phone_number_id": "1", "access_token": "t", "app_secret": "s", "verify_token": "v"},
}


@pytest.mark.parametrize("connector", NETWORKS, indirect=True)
async def test_an_odd_url_or_token_is_a_sentence_and_no_failure(
    connector: ContainedConnector, autojump_clock: MockClock
) -> None:
    """People paste them, with a line break, or with quotation marks that a program has made beautiful."""
    odd = [(name, one) for name, _ in properties(connector) for one in ODD_URLS if name in URLS]
    odd += [(name, one) for name, _ in properties(connector) for one in ODD_TOKENS if name in TOKENS]
    for name, value in odd:
        options = {**WORKING[connector.name], name: value}
        said = ""
        try:
            connector.option_rules.check(options)
            if "check_options" in connector.methods:
                await connector.check_options(options, public_url="https://hooks.example")
        except Invalid as error:
            said = str(error)
        assert said or connector.name == "matrix", (name, value)
        # An instance may have it from before.
        async with httpx.AsyncClient(transport=httpx.MockTransport(lambda _: httpx.Response(404))) as http:
            options = connector.option_rules.with_defaults(options)
            session = FakeSession(options=options, http=http, catalog=Catalog(BUILT_IN_KINDS))
            with trio.move_on_after(100):
                await connector.run(session)
        state, _, more = session.states[-1]
        assert state is ConnectionState.CLOSE, (name, value)
        assert name in more["message"]


@pytest.mark.parametrize("connector", NETWORKS, indirect=True)
def test_the_option_with_the_networks_server_is_marked(connector: ContainedConnector) -> None:
    """Without the mark, an instance does not reach its own server at a private address."""
    marked = {name for name, described in properties(connector) if described.get("x-server")}
    assert marked == {name for name, _ in properties(connector) if name in URLS}


@pytest.mark.parametrize("name", NETWORKS)
def test_the_page_says_what_the_network_has_what_the_receiver_gets_and_what_is_lost(name: str) -> None:
    tables = re.findall(r"^\|.*\| lost \|\n\|[-|]*\|\n((?:\|.*\n)+)", page_of(name), re.MULTILINE)
    assert re.search("[Ww]hat the network has, what the receiver gets", page_of(name))
    assert tables
    for row in "".join(tables).splitlines():
        on_network, received, lost = (cell.strip() for cell in row.strip("|").split("|"))
        assert on_network
        assert received, row
        # What reaches nobody needs a reason.
        assert lost or not received.startswith("nothing"), row


# A URL of a tenant's is fetched by `session.fetch`, which reaches none of the operator's servers.
CLIENT = re.compile(r"\bClient\((self\.)?session\.http\b")


@pytest.mark.parametrize("name", ALL)
def test_only_the_client_of_the_network_uses_the_connectors_http(name: str) -> None:
    for file in sorted((ROOT / "plugins" / name).glob("*.py")):
        code = file.read_text("utf-8")
        assert code.count("session.http") == len(CLIENT.findall(code)), file.name
        assert "httpx.AsyncClient(" not in code, file.name


# Another function of the same name: WAHA's engines write numbers and times in forms of their own, and each
# connector reads its own options.
NAMESAKES = {"waha": {"number", "seconds"}}


@pytest.mark.parametrize("name", ALL)
def test_what_the_kit_has_no_connector_has_again(name: str) -> None:
    allowed = {"read_options", *NAMESAKES.get(name, ())}
    for file in sorted((ROOT / "plugins" / name).glob("*.py")):
        defined = set(re.findall(r"^(?:async )?(?:def|class) _?(\w+)", file.read_text("utf-8"), re.MULTILINE))
        again = defined & set(kit.__all__) - allowed
        # A subclass says how its network refuses.
        assert again <= {"Refused"}, file.name
