"""Writes docs/reference/, a page for every public name, from the signatures and docstrings of the code. The
tables of fields in docs/http.md, and of keys in docs/configuration.md, come from those of the code.

``nox -s reference`` runs it; ``tests/test_reference.py`` fails while the pages differ from the code. A public
name without a place in :data:`PAGES`, and a field without a description, is an error here.
"""

import ast
import dataclasses
import enum
import functools
import inspect
import itertools
import math
import re
import textwrap
import types
import typing
from collections.abc import Callable, Iterator, Mapping, Sequence
from importlib import import_module
from pathlib import Path
from typing import Any

import msgspec

from hookgw import HookgwError
from hookgw._lazy import homes_of
from hookgw.instances import fields as instance_fields
from hookgw.kernel import signing_keys
from hookgw.keys import fields as key_fields
from hookgw.plugins import gateway_protocol, hookspecs
from hookgw.records import deliveries, events, instances, registrations, tls_identity
from hookgw.testing import pytest_plugin
from hookgw.web.openapi import describe
from hookgw.webhooks import fields as webhook_fields
from tests.public.config import Section, Settings, join_yaml, known_keys
from tests.public.kernel import REQUIRED, Field, SecretOptions, Sentence
from tests.public.keys import PORTAL_FIELDS
from tests.public.plugins import HOOKS
from tests.public.records import FilterOp
from tests.public.webhooks import OPERATIONS, TLS_PARTS, Showing
from tests.support.error_sentences import errors_page

FOLDER = Path(__file__).parents[2] / "docs" / "reference"
HTTP = FOLDER.parent / "http.md"
CONFIGURATION = FOLDER.parent / "configuration.md"
BEGIN = "<!-- Made by `nox -s reference` from {}: change that. -->"
END = "<!-- The end of what is made. -->"
NOTE = "<!-- Made by `nox -s reference` from the docstrings: change those. -->"


class Page(msgspec.Struct, frozen=True):
    """A page of the reference.

    Attributes:
        title: its heading.
        introduction: what is below the heading.
        module: how the names are imported.
        groups: names, by the heading of their group.
        others: objects that are not in the module, but in the types of those that are.
        elsewhere: names of the module that another page describes.
    """

    title: str
    introduction: str
    module: str
    groups: Mapping[str, Sequence[str]]
    others: Mapping[str, Any] = {}
    elsewhere: Sequence[str] = ()


PAGES = {
    "hookgw.md": Page(
        "Reference: hookgw",
        "Everything that a plugin imports from `hookgw`. All of it is stable within a major version: names "
        "and fields are added, never removed. [The manual](../plugins.md) says how to use it, "
        "[hooks.md](hooks.md) has the hooks, and [testing.md](testing.md) the test kit.",
        "hookgw",
        {
            "Plugins": [
                "hookimpl",
                "describes",
                "Right",
                "Body",
                "NotJson",
                "Parameter",
                "DashboardPage",
                "__version__",
            ],
            "Events": [
                *("Event", "EventKind", "NewEvent", "NetworkEvents", "event_id_of", "decode_json"),
            ],
            "Registrations and deliveries": [
                *("Registration", "Ordering", "RetryOptions", "Secret", "Signature", "TlsIdentity"),
                *("Delivery", "DeliveryState", "Attempt", "Outcome", "Outgoing", "LaneState"),
            ],
            "Destinations": ["OutgoingDelivery", "OutgoingStream", "Response"],
            "Connectors": [
                *("Connector", "OptionalCalls", "Session", "FetchedFile", "ConnectionState", "QRCode"),
                "InstanceSettings",
                *("IngestRequest", "IngestResponse", "MediaSink", "Recent"),
            ],
            "Messages": [
                *("Message", "TextMessage", "MediaMessage", "MediaKind", "LocationMessage", "ContactMessage"),
                *("Contact", "ReactionMessage", "TemplateMessage", "MessageKey", "MessageQuery"),
                *(
                    "whatsapp_chat_of",
                    "whatsapp_number_of",
                    "plain_jid",
                    "jids_of",
                    "chat_names",
                    "ChatFields",
                ),
            ],
            "Errors": [
                *("HookgwError", "Invalid", "NotFound", "Conflict", "TooLarge", "Unavailable"),
                *("NetworkRefused", "NotSupported", "ProofRefused", "EventLeftOut", "Sentence"),
            ],
            "The gateway": [
                *("PluginGateway", "Events", "Instances", "Registrations", "Catalog", "Receipt"),
                *("Instance", "LaneStatistics", "PluginRecords"),
                *("Problem", "ProblemKind", "ProblemReport", "Gateway"),
            ],
        },
        {
            "Body": describe.Body,
            "NotJson": describe.NotJson,
            "Parameter": describe.Parameter,
            "Ordering": registrations.Ordering,
            "RetryOptions": registrations.RetryOptions,
            "Secret": signing_keys.Secret,
            "Signature": signing_keys.Signature,
            "TlsIdentity": tls_identity.TlsIdentity,
            "Events": gateway_protocol.Events,
            "Instances": gateway_protocol.Instances,
            "Registrations": gateway_protocol.Registrations,
            "PluginRecords": gateway_protocol.PluginRecords,
            "Catalog": events.Catalog,
            "Receipt": events.Receipt,
            "Instance": instances.Instance,
            "LaneStatistics": deliveries.LaneStatistics,
        },
    ),
    "connectors.md": Page(
        "Reference: hookgw.connectors",
        "The kit for connectors. [Its page](../connectors.md#the-kit) shows how to use it. All of it "
        "is stable within a major version.",
        "hookgw.connectors",
        {
            "The connector": [
                "NetworkConnector",
                "Connections",
                "load_state",
                "read_or_close",
                "save_state",
                "schema_with",
            ],
            "Options": [
                "read_options",
                "defaults_for",
                "check_server_url",
                "check_public_url",
                "check_token",
                "check_names",
            ],
            "Requests": [
                *("NetworkClient", "Refused", "Unreachable", "retry_after_of", "wait_after", "pause_after"),
                *("WatchedConnection", "StatusReason"),
                *("REQUEST_TIMEOUT", "chunks_of", "read_file", "pass_file"),
            ],
            "JSON of the network": [
                *("mapping", "items", "each", "strings", "found_at", "text", "texts", "one_line", "number"),
                "any_number",
                *("raw_at", "raw_items", "as_written", "seconds", "degrees", "filled"),
                *("LARGEST_NUMBER", "LATEST_TIME", "baileys_names"),
            ],
            "Requests of the network": ["is_secret", "is_signature", "answer_challenge", "read_object"],
            "Events": ["emit_valid", "attach_file", "explain_missing_file", "network_event"],
            "Messages": [
                *("file_to_send", "FileToSend", "check_mimetype", "is_mimetype", "vcard_of", "vcard_text"),
                *("sent_content", "message_data", "text_data", "MediaUrl", "guess_mimetype", "suffix_of"),
            ],
            "Errors": [
                "EMPTY_TEXT",
                "PRESENCE_WITHOUT_CHAT",
            ],
            "Other": ["repr_without"],
        },
        elsewhere=("Recent", "NetworkEvents", "decode_json", "whatsapp_chat_of", "whatsapp_number_of"),
    ),
    "hooks.md": Page(
        "Reference: hooks",
        "The functions that a plugin may have, marked with [`hookgw.hookimpl`](hookgw.md#hookimpl). Each "
        "takes any of its arguments, by name. [The manual](../plugins.md#the-hooks) has an example of each, "
        "and says [how hooks are called](../plugins.md#how-hooks-are-called).",
        "",
        {"Hooks": list(HOOKS)},
        {name: getattr(hookspecs, name) for name in HOOKS},
    ),
    "testing.md": Page(
        "Reference: hookgw.testing",
        "The test kit, and its pytest fixtures. [Testing a plugin](../testing.md) shows how to use it. "
        "All of it is stable within a major version.",
        "hookgw.testing",
        {
            "The gateway": ["GatewayKit", "open_kit"],
            "Connectors": [
                *("FakeSession", "running", "EmittedEvent", "FakeMediaSink"),
                *("FakeConnector", "SentMessage", "ConnectorCall"),
            ],
            "The receiver": ["Receiver", "open_receiver", "Received"],
            "Answers": [
                *("Answer", "answer", "redirect", "raw", "hang", "reset", "close", "chunk"),
                *("Step", "Send", "Drip", "Stream", "Pause", "Hang", "HalfClose", "Close", "Reset"),
            ],
            "Fixtures": [name for name in vars(pytest_plugin) if name.startswith("hookgw_")],
        },
        {
            name: inspect.unwrap(getattr(fixture, "__wrapped__", fixture))
            for name, fixture in vars(pytest_plugin).items()
            if name.startswith("hookgw_")
        },
    ),
}
"""The pages, by file."""

# What hookgw itself needs of the records that it passes to plugins.
INTERNAL = {
    "Event": {"chat_hash"},
    "Catalog": {"add", "remove", "resolve"},
    "Delivery": {"charge"},
    "Registration": {
        *("detached", "paused", "resumed", "partitioning", "has_target_of", "generation"),
        *("fresh_since", "resumed_at"),
    },
    "Instance": {"keys", "ingest_token"},
    "Gateway": {"lanes", "ready"},
    "FakeConnector": {"hookgw_connectors"},
}
"""Public members that are not for plugins, by class."""

MADE_BY_HOOKGW = {"Catalog", "Gateway", "GatewayKit", "Receiver"}
ALIASES = {"Send": "Callable[[OutgoingDelivery], Awaitable[Response]]", "Position": "int", "WaitsFor": "str"}


def pages() -> dict[str, str]:
    """Return the text of each page, by its file.

    Raises:
        LookupError: a public name has no place, or a field no description.
    """
    links = {name: f"{file}#{slug}" for file, page in PAGES.items() for name, slug in _slugs(page).items()}
    for page in PAGES.values():
        listed = [name for names in page.groups.values() for name in names]
        public = set(import_module(page.module).__all__) if page.module else set()
        if missing := (public | set(page.others)) - set(page.elsewhere) ^ set(listed):
            raise LookupError(f"{page.title}: {sorted(missing)} must be in PAGES once")
    written = {file: _Writer(file, page, links).text() for file, page in PAGES.items()}
    return {**written, "errors.md": errors_page()}


def http_page() -> str:
    """Return ``docs/http.md`` with the tables of fields as they are now."""
    registration = registrations.Registration(id="", instance="", url="")
    showing = Showing("", events.Catalog([]), SecretOptions({}))
    tables = {
        "FIELDS in hookgw/webhooks/fields.py": _field_rows(
            webhook_fields.FIELDS,
            "if it is missing in a new registration",
            lambda field: field.reader()(registration, showing),
        ),
        "TLS_PARTS in hookgw/webhooks/tls.py": _field_rows(TLS_PARTS),
        "OPERATIONS in hookgw/webhooks/filters.py": _operation_rows(),
        "CREATION in hookgw/instances/fields.py": _field_rows(instance_fields.CREATION),
        "OPTIONS in hookgw/instances/fields.py": _field_rows(
            instance_fields.OPTIONS, "default", lambda _: None
        ),
        "SETTINGS in hookgw/instances/fields.py": _field_rows(
            instance_fields.SETTINGS,
            "default",
            lambda field: field.reader()(instances.InstanceSettings(), None),
        ),
        "FIELDS in hookgw/keys/fields.py": _field_rows(key_fields.FIELDS),
        "PORTAL_FIELDS in hookgw/keys/portal_fields.py": _field_rows(PORTAL_FIELDS),
    }
    return _with_tables(HTTP, tables)


def configuration_page() -> str:
    """Return ``docs/configuration.md`` with the tables of keys as they are now."""
    found, tables = meanings(), dict[str, list[list[str]]]()
    for key in known_keys():
        name = f"{key.path.partition('.')[0]} in hookgw/config/settings.py"
        rows = tables.setdefault(name, [["key", "default", "meaning"]])
        rows.append([f"`{key.path}`", f"`{_notation(key.default)}`", found[key.path]])
    return _with_tables(CONFIGURATION, tables)


def meanings(kind: type[Section] = Settings, path: str = "") -> dict[str, str]:
    """Return what each key of the configuration means, by its path."""
    comments, found = _comments(kind), dict[str, str]()
    for field in msgspec.structs.fields(kind):
        place = join_yaml(path, field.encode_name)
        if isinstance(field.type, type) and issubclass(field.type, Section):
            found |= meanings(field.type, place)
        else:
            found[place] = comments[field.name]
    return found


def _notation(default: object) -> str:
    """Return a default as it is written in the configuration."""
    if isinstance(default, tuple):
        return f"[{', '.join(map(_notation, default))}]"
    return {"": '""', "None": "null", "True": "true", "False": "false"}.get(str(default), str(default))


def _with_tables(page: Path, tables: Mapping[str, list[list[str]]]) -> str:
    text = page.read_text("utf-8")
    for name, rows in tables.items():
        begin = BEGIN.format(name)
        before, between, after = text.partition(begin)
        _, end, rest = after.partition(END)
        if not (between and end):
            raise LookupError(f"{page.name} has no place for {name}")
        lines = [f"| {' | '.join(row)} |\n" for row in rows]
        lines.insert(1, "|---" * len(rows[0]) + "|\n")
        text = f"{before}{begin}\n\n{''.join(lines)}\n{END}{rest}"
    return text


def _field_rows(
    table: Sequence[Field], default: str = "", new: Callable[[Field], Any] | None = None
) -> list[list[str]]:
    """Return the head and the rows of a table; ``new`` says how a field is shown if it is not given."""
    rows = [["field", *([default] if new else []), "meaning"]]
    for field in table:
        shown = [field.default] if new else []
        if new and not field.default:
            value = new(field)
            shown = ["none" if value is None else f"`{msgspec.json.encode(value).decode()}`"]
        names = ", ".join(f"`{spelling}`" for spelling in field.spellings)
        needed = " Required." if field.when_set is REQUIRED and not new else ""
        rows.append([names, *shown, field.meaning + field.kind.note + needed])
    return rows


def _operation_rows() -> list[list[str]]:
    rows = [[f"`{op}`", one.value, one.holds] for op, one in OPERATIONS.items()]
    opposites = ", ".join(f"`{op}`" for op in FilterOp if op not in OPERATIONS)
    holds = "the other does not hold, so also if nothing is at the pointer"
    return [["`op`", "`value`", "holds if"], *rows, [opposites, "the same", holds]]


def write() -> None:
    """Write the pages, and the tables in the two others."""
    HTTP.write_text(http_page(), encoding="utf-8")
    CONFIGURATION.write_text(configuration_page(), encoding="utf-8")
    FOLDER.mkdir(exist_ok=True)
    for file, text in pages().items():
        (FOLDER / file).write_text(text, encoding="utf-8")


def _slugs(page: Page) -> dict[str, str]:
    """Return the anchors of the names of a page, and of methods, as GitHub makes them from the headings."""
    found: dict[str, str] = {}
    used: dict[str, int] = {}
    for heading, names in page.groups.items():
        titles = [heading]
        for name in names:
            titles.append(name)
            value = _value(page, name)
            if inspect.isclass(value):
                titles += [f"{name}.{member}" for member, _ in _methods(name, value)]
        for title in titles:
            slug = re.sub(r"[^\w -]", "", title).lower().replace(" ", "-")
            number = used.get(slug, -1) + 1
            used[slug] = number
            if title != heading or title in names:
                found[title] = f"{slug}-{number}" if number else slug
    return found


def _value(page: Page, name: str) -> Any:
    return page.others[name] if name in page.others else getattr(import_module(page.module), name)


def _methods(name: str, cls: type) -> list[tuple[str, Callable[..., Any]]]:
    """Return the public methods that a class itself has, but not those of an enum or an error."""
    if issubclass(cls, enum.Enum | BaseException):
        return []
    return [
        (member, value.__func__ if isinstance(value, staticmethod | classmethod) else value)
        for member, value in vars(cls).items()
        if not member.startswith("_")
        and member not in INTERNAL.get(name, ())
        and isinstance(value, staticmethod | classmethod | types.FunctionType)
    ]


def _properties(name: str, cls: type) -> list[tuple[str, Callable[..., Any]]]:
    found = [(member, _getter(value)) for member, value in vars(cls).items() if not member.startswith("_")]
    return [(member, get) for member, get in found if get and member not in INTERNAL.get(name, ())]


class _Doc(msgspec.Struct):
    """A docstring: its paragraphs, and its sections with their entries."""

    body: str
    entries: dict[str, dict[str, str]]
    texts: dict[str, str]


_SECTIONS = ("Args", "Attributes", "Returns", "Yields", "Raises")


def _parse(docstring: str) -> _Doc:
    parts = re.split(rf"^({'|'.join(_SECTIONS)}):\n", inspect.cleandoc(docstring) + "\n", flags=re.MULTILINE)
    entries: dict[str, dict[str, str]] = {}
    texts: dict[str, str] = {}
    body = parts[0]
    for section, content in zip(parts[1::2], parts[2::2], strict=True):
        # What is not indented comes after the section.
        inside = re.match(r"(?:[ \t]+.*\n|\n)*", content)
        assert inside is not None
        body += content[inside.end() :]
        text = textwrap.dedent(inside[0]).strip()
        if section in ("Returns", "Yields"):
            texts[section] = text
            continue
        entries[section] = {}
        for entry in re.split(r"\n(?=\S)", text):
            names, _, meaning = entry.partition(":")
            for name in names.split(", "):
                entries[section][name.strip("`*")] = " ".join(meaning.split())
    return _Doc(body, entries, texts)


class _Writer:
    """Writes one page."""

    def __init__(self, file: str, page: Page, links: Mapping[str, str]) -> None:
        self._page = page
        own = {name: link.removeprefix(file) for name, link in links.items()}
        self._links = own
        self._lines: list[str] = []
        self._current = ""

    def text(self) -> str:
        page = self._page
        self._add(f"# {page.title}", NOTE, page.introduction)
        if len(page.groups) > 1:
            self._add(
                "\n".join(
                    f"- **{group}**: {', '.join(self._link(name) for name in names)}"
                    for group, names in page.groups.items()
                )
            )
        else:
            self._add("\n".join(f"- {self._link(name)}" for names in page.groups.values() for name in names))
        for group, names in page.groups.items():
            if len(page.groups) > 1:
                self._add(f"## {group}")
            for name in names:
                self._add(f"### {name}")
                self._current = name
                self._object(name, _value(page, name))
        return "\n\n".join(self._lines) + "\n"

    def _add(self, *texts: str) -> None:
        self._lines += [text for text in texts if text]

    def _link(self, name: str, shown: str = "") -> str:
        shown = f"`{shown or name}`"
        return f"[{shown}]({self._links[name]})" if name in self._links else shown

    def _object(self, name: str, value: Any) -> None:
        if name == "__version__":
            self._add("```python\nhookgw.__version__: str\n```", "The version of hookgw.")
        elif name == "hookimpl":
            self._add(
                "```python\n@hookgw.hookimpl\n@hookgw.hookimpl(tryfirst=True)\n```",
                "Mark a function as the implementation of the hook with its name. `tryfirst=True` and "
                "`trylast=True` call it before or after those of all other plugins. It is a "
                "[pluggy marker](https://pluggy.readthedocs.io/en/stable/#implementations).",
            )
        elif isinstance(value, int | float):
            self._add(f"```python\n{self._page.module}.{name} = {value:_}\n```")
            self._add(self._prose(_comments(import_module(homes_of(self._page.module)[name]))[name]))
        elif isinstance(value, Sentence | functools.partial):
            takes = "(**values) -> Sentence" if isinstance(value, functools.partial) else ": Sentence"
            self._add(f"```python\n{self._page.module}.{name}{takes}\n```")
            self._add(self._prose(_comments(import_module(homes_of(self._page.module)[name]))[name]))
        elif isinstance(value, types.UnionType):
            self._union(name, value)
        elif name in vars(pytest_plugin):
            self._add(self._prose(inspect.getdoc(value) or ""))
        elif inspect.isclass(value):
            self._class(name, value)
        else:
            signature = _signature(name, value)
            prefix = f"{self._page.module}." if self._page.module else ""
            self._add(f"```python\n{_folded(prefix, signature)}\n```")
            self._doc(inspect.getdoc(value) or "")
            if name in HOOKS:
                used = [word for word in re.findall(r"\w+", signature) if word in self._links]
                shown = [self._link(word) for word in dict.fromkeys(used) if word != name]
                self._add(", ".join([f"[An example](../plugins.md#{name.lower()})", *shown]))

    def _union(self, name: str, value: Any) -> None:
        members = [one.__name__ for one in typing.get_args(value)]
        home = inspect.getmodule(typing.get_args(value)[0])
        self._add(f"One of {', '.join(map(self._link, members))}.")
        self._add(self._prose(_comments(home)[name]))

    def _class(self, name: str, cls: type) -> None:
        doc = _parse(cls.__dict__.get("__doc__") or "")
        described = doc.entries.get("Attributes", {})
        if issubclass(cls, enum.Enum):
            self._add(self._prose(doc.body))
            rows = [
                [f"`{name}.{one.name}`", f"`{one.value!r}`", self._sentence(described[one.name])]
                for one in cls
            ]
            self._table(["member", "value", "meaning"], rows)
            return
        is_made = not getattr(cls, "_is_protocol", False) and name not in MADE_BY_HOOKGW
        if is_made:
            prefix = f"{self._page.module}." if name not in self._page.others else ""
            made = _folded(prefix, _constructor(name, cls))
            # The table shows the fields of a large record, and in the same order.
            if "\n" not in made or not issubclass(cls, msgspec.Struct):
                self._add(f"```python\n{made}\n```")
        self._doc_of(doc)
        if issubclass(cls, HookgwError):
            base = self._link(cls.__bases__[0].__name__)
            kind = "" if cls is HookgwError else f" It is a {base}."
            self._add(f"As a response, it has the status {cls.status.value}.{kind}")
        if name == "Gateway":
            return  # its parts are hookgw's own
        self._field_table(name, cls, described, has_defaults=is_made)
        self._attribute_table(name, cls, described)
        for member, call in _methods(name, cls):
            self._add(f"#### {name}.{member}", f"```python\n{_folded('', _signature(member, call))}\n```")
            self._doc(inspect.getdoc(call) or "")

    def _field_table(self, name: str, cls: type, described: dict[str, str], *, has_defaults: bool) -> None:
        """Add the table of the fields, and take them out of what is described."""
        rows = []
        for field, annotation, default in _fields(cls):
            meaning = described.pop(field, "") or _comments(cls).get(field, "")
            if field in INTERNAL.get(name, ()):
                continue
            if meaning:
                shown = [f"`{default}`" if default else "required"] if has_defaults else []
                rows.append([f"`{field}`", self._type(annotation), *shown, self._sentence(meaning)])
            elif issubclass(cls, msgspec.Struct):
                raise LookupError(f"{name}.{field} has no description")
        self._table(["field", "type", *(["default"] if has_defaults else []), "meaning"], rows)

    def _attribute_table(self, name: str, cls: type, described: Mapping[str, str]) -> None:
        properties = dict(_properties(name, cls))
        annotations = _annotations(cls) | _assigned(cls)
        rows = [
            [f"`{field}`", self._type(annotations.get(field, "")), self._sentence(meaning)]
            for field, meaning in described.items()
            if field not in properties
        ]
        for field, getter in properties.items():
            text = " ".join(_parse(inspect.getdoc(getter) or described.get(field, "")).body.split())
            if not text:
                raise LookupError(f"{name}.{field} has no description")
            rows.append([f"`{field}`", self._type(_annotation(getter, "return")), self._sentence(text)])
        self._table(["attribute", "type", "meaning"], rows)

    def _table(self, columns: Sequence[str], rows: Sequence[Sequence[str]]) -> None:
        if rows:
            lines = [f"| {' | '.join(cells)} |" for cells in (columns, *rows)]
            lines.insert(1, "|---" * len(columns) + "|")
            self._add("\n".join(lines))

    def _doc(self, docstring: str) -> None:
        self._doc_of(_parse(docstring))

    def _doc_of(self, doc: _Doc) -> None:
        self._add(self._prose(doc.body))
        if arguments := doc.entries.get("Args"):
            self._add("\n".join(f"- `{name}`: {self._inline(text)}" for name, text in arguments.items()))
        for section in ("Returns", "Yields"):
            if section in doc.texts:
                self._add(f"**{section}**: {self._prose(doc.texts[section])}")
        if errors := doc.entries.get("Raises"):
            found = [f"- {self._link(name)}: {self._inline(text)}" for name, text in errors.items()]
            self._add("**Raises**:\n\n" + "\n".join(found))

    def _sentence(self, text: str) -> str:
        is_word = text[:1].islower() and not text.startswith("hookgw")
        return self._inline(text[0].upper() + text[1:] if is_word else text)

    def _prose(self, text: str) -> str:
        """Return paragraphs of a docstring as Markdown; a literal block becomes a block of code."""
        found = []
        blocks = re.split(r"\n\s*\n", inspect.cleandoc(text)) if text.strip() else []
        index = 0
        while index < len(blocks):
            block = blocks[index]
            if block.rstrip().endswith("::") and index + 1 < len(blocks):
                lead = block.rstrip()[:-1]
                code = inspect.cleandoc("\n" + blocks[index + 1])
                found += [self._inline(" ".join(lead.split())), f"```python\n{code}\n```"]
                index += 2
                continue
            if block.lstrip().startswith("- "):
                items = re.split(r"\n(?=- )", block.strip())
                found.append("\n".join(self._inline(" ".join(item.split())) for item in items))
            else:
                found.append(self._inline(" ".join(block.split())))
            index += 1
        return "\n\n".join(found)

    def _inline(self, text: str) -> str:
        """Return a line of a docstring as Markdown, also for a cell of a table."""
        text = re.sub(r"; see :mod:`[^`]+`", "", text).replace("|", "\\|")
        text = re.sub(r":(class|meth|func|attr|data|exc):`~?([^`]+)`", self._reference, text)
        text = re.sub(r"``(.+?)``", lambda match: self._code(match[1]), text)
        return re.sub(r"(?<![\w/(\[`])(docs/[\w/]+\.md)", _page_link, text)

    def _reference(self, match: re.Match[str]) -> str:
        role, parts = match[1], match[2].split(".")
        if role in ("attr", "data"):
            return f"`{parts[-1]}`"
        call = "()" if role in ("meth", "func") else ""
        if role == "meth":
            owner = parts[-2] if len(parts) > 1 else self._current
            name = f"{owner}.{parts[-1]}"
            shown = parts[-1] if owner == self._current else name
            return self._link(name, shown + call)
        return self._link(parts[-1], parts[-1] + call)

    def _code(self, text: str) -> str:
        if match := re.fullmatch(r"(docs/[\w/]+\.md)", text):
            return _page_link(match)
        is_name = text != self._current and (text[0].isupper() or text in HOOKS)
        return self._link(text) if is_name else f"`{text}`"

    def _type(self, annotation: str) -> str:
        """Return a type in code, with links at the names that the reference has."""
        parts = re.split(r"([A-Za-z_]\w*)", annotation.replace("|", "\\|"))
        found, plain = [], ""
        for part in parts:
            if part in self._links:
                found += [f"`{plain}`"] if plain.strip() else []
                found.append(self._link(part))
                plain = ""
            else:
                plain += part
        found += [f"`{plain}`"] if plain.strip() else []
        return " ".join(found).replace("` [", "`[").replace(") `", ")`")


def _page_link(match: re.Match[str]) -> str:
    return f"[{match[1]}](../{match[1].removeprefix('docs/')})"


def _assigned(cls: type) -> dict[str, str]:
    """Return the types of the attributes that ``__init__`` assigns."""
    if "__init__" not in cls.__dict__ or issubclass(cls, msgspec.Struct) or dataclasses.is_dataclass(cls):
        return {}
    source = inspect.getsource(cls.__dict__["__init__"])
    parameters = {name: _plain(value) for name, value in cls.__dict__["__init__"].__annotations__.items()}
    found = {
        field: parameters[value]
        for field, value in re.findall(r"self\.(\w+) = (\w+)\b", source)
        if value in parameters
    }
    literals = {'""': "str", 'b""': "bytes", "0": "int"}
    for field, value in re.findall(r"self\.(\w+) = (\S+)$", source, re.MULTILINE):
        if value in literals:
            found[field] = literals[value]
    return found | dict(re.findall(r"self\.(\w+): (.+?) = ", source))


def _getter(value: Any) -> Callable[..., Any] | None:
    if isinstance(value, property):
        return value.fget
    return getattr(value, "func", None)  # a cached property


def _annotation(call: Callable[..., Any], name: str) -> str:
    return _plain(call.__annotations__.get(name, ""))


def _plain(annotation: Any) -> str:
    if annotation is type(None):
        return "None"
    if not isinstance(annotation, str):
        return str(getattr(annotation, "__name__", annotation))
    return re.sub(r"\w+", lambda match: ALIASES.get(match[0], match[0]), annotation.strip("'"))


def _annotations(cls: type) -> dict[str, str]:
    found: dict[str, str] = {}
    for base in reversed(cls.__mro__):
        found |= {name: _plain(value) for name, value in inspect.get_annotations(base).items()}
    return {
        name: value for name, value in found.items() if not name.startswith("_") and "ClassVar" not in value
    }


def _fields(cls: type) -> Iterator[tuple[str, str, str]]:
    """Yield name, type and default of each field; an empty default means that it is required."""
    annotations = _annotations(cls)
    if issubclass(cls, msgspec.Struct):
        for field in msgspec.structs.fields(cls):
            default = field.default
            if field.default_factory is not msgspec.NODEFAULT:
                default = field.default_factory()
            yield field.name, annotations[field.name], "" if field.required else _shown(default)
    elif dataclasses.is_dataclass(cls):
        for one in dataclasses.fields(cls):
            has_default = one.default is not dataclasses.MISSING
            yield one.name, annotations[one.name], _shown(one.default) if has_default else ""
    elif getattr(cls, "_is_protocol", False):
        for name, annotation in annotations.items():
            yield name, annotation, ""


def _shown(value: Any) -> str:
    if isinstance(value, enum.Enum):
        return f"{type(value).__name__}.{value.name}"
    if value is msgspec.UNSET:
        return "UNSET"
    if inspect.isfunction(value):
        return value.__name__
    if value == math.inf:
        return "math.inf"
    if isinstance(value, tuple) and any(inspect.isclass(one) for one in value):
        return f"({', '.join(one.__name__ for one in value)})"
    if isinstance(value, msgspec.Struct):
        return f"{type(value).__name__}()"
    return repr(value)


def _constructor(name: str, cls: type) -> str:
    """Return the call that makes an object."""
    if issubclass(cls, msgspec.Struct):
        shown = [f"{field}={default}" if default else field for field, _, default in _fields(cls)]
        star = ["*"] if _is_keyword_only(cls) else []
        return f"{name}({', '.join([*star, *shown])})"
    if issubclass(cls, BaseException) and "__init__" not in cls.__dict__:
        return f"{name}(*messages: str)"
    if issubclass(cls, tuple):
        return f"{name}({', '.join(f'{f}: {_annotations(cls)[f]}' for f in cls._fields)})"  # type: ignore[attr-defined]
    return _signature(name, cls, is_class=True)


def _is_keyword_only(cls: type) -> bool:
    parameters = inspect.signature(cls).parameters.values()
    return any(parameter.kind is parameter.KEYWORD_ONLY for parameter in parameters)


def _signature(name: str, call: Any, *, is_class: bool = False) -> str:
    signature = inspect.signature(call)
    parameters = [
        parameter.replace(annotation=_plain(parameter.annotation))
        if parameter.annotation is not parameter.empty
        else parameter
        for parameter in signature.parameters.values()
        if parameter.name not in ("self", "cls")
    ]
    shown, has_star = [], False
    for index, parameter in enumerate(parameters):
        text = parameter.name
        if parameter.kind is parameter.VAR_POSITIONAL:
            text, has_star = f"*{text}", True
        elif parameter.kind is parameter.VAR_KEYWORD:
            text = f"**{text}"
        elif parameter.kind is parameter.KEYWORD_ONLY and not has_star:
            shown.append("*")
            has_star = True
        if parameter.annotation is not parameter.empty:
            text += f": {parameter.annotation}"
        if parameter.default is not parameter.empty:
            text += f" = {_shown(parameter.default)}"
        shown.append(text)
        following = parameters[index + 1 : index + 2]
        if parameter.kind is parameter.POSITIONAL_ONLY and not (
            following and following[0].kind is parameter.POSITIONAL_ONLY
        ):
            shown.append("/")
    result = (
        ""
        if is_class or signature.return_annotation is signature.empty
        else _plain(signature.return_annotation)
    )
    wrapped = inspect.unwrap(call)
    prefix = "async " if inspect.iscoroutinefunction(wrapped) else ""
    if inspect.isasyncgenfunction(wrapped):
        prefix = "async with "
        result = result.removeprefix("AsyncIterator[").removesuffix("]")
    return f"{prefix}{name}({', '.join(shown)})" + (f" -> {result}" if result else "")


def _folded(prefix: str, signature: str) -> str:
    """Return a signature in one line, or with a line for each argument."""
    keyword = re.match(r"async (?:with )?", signature)
    if keyword:
        signature, prefix = signature[keyword.end() :], keyword[0] + prefix
    if len(prefix + signature) <= 100:
        return prefix + signature
    head, _, rest = signature.partition("(")
    end = rest.rindex(")") if " -> " not in rest else rest.rindex(") -> ")
    arguments, depth, start = [], 0, 0
    for index, character in enumerate(rest[:end]):
        depth += (character in "([{") - (character in ")]}")
        if character == "," and depth == 0:
            arguments.append(rest[start:index].strip())
            start = index + 1
    arguments.append(rest[start:end].strip())
    return f"{prefix}{head}(\n" + "".join(f"    {one},\n" for one in arguments) + rest[end:]


def _comments(place: Any) -> dict[str, str]:
    """Return the texts below assignments of a module or class."""
    nodes = ast.parse(textwrap.dedent(inspect.getsource(place))).body
    if inspect.isclass(place):
        nodes = nodes[0].body  # type: ignore[attr-defined]
    found = {}
    for assignment, text in itertools.pairwise(nodes):
        match assignment, text:
            case (
                ast.Assign(targets=[ast.Name(id=name)]) | ast.AnnAssign(target=ast.Name(id=name)),
                ast.Expr(value=ast.Constant(value=str(comment))),
            ):
                found[name] = " ".join(comment.split())
    return found


if __name__ == "__main__":
    write()
