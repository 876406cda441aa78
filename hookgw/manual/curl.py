"""Turns the ``curl`` commands of an example into the same calls in Python and JavaScript. No I/O."""

from __future__ import annotations

import json
import re
import shlex
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

ADDRESS = "http://127.0.0.1:8080"
"""The address of a gateway in every example; a gateway that shows it writes its own."""
_BASES = (ADDRESS, "$HOOKGW_URL", "$HOOKGW")
_WITHOUT_MEANING = {"-s", "-S", "-sS", "-fsS", "-f"}
_VARIABLE = re.compile(r"\$\{?([A-Z][A-Z0-9_]*)\}?")
_SHELL = re.compile(r"\$[a-z({]|`")
"""What only a shell can work out."""
_LINE = 88


class Call(NamedTuple):
    """A request to a gateway.

    Attributes:
        path: with the query, below the gateway's address.
        headers: without the key.
        key: as the command writes it: a text or a variable; empty without one.
    """

    method: str
    url: str
    path: str
    headers: dict[str, str]
    key: str
    body: str

    @property
    def as_json(self) -> Any:
        """The body, decoded, or None if it is no JSON."""
        if not self.headers.get("content-type", "").startswith("application/json"):
            return None
        try:
            return json.loads(self.body)
        except ValueError:
            return None


def calls_of(text: str) -> list[Call]:
    """Return the calls of a block of commands, or nothing if it does anything beside calling a gateway."""
    if _SHELL.search(text):
        return []
    calls = []
    for words in _commands(text):
        call = _call(words)
        if call is None:
            return []
        calls.append(call)
    return calls


def _commands(text: str) -> Iterator[list[str]]:
    text = re.sub(r"(?m)(^|\s)#\s[^'\"\n]*$", "", text).replace("\\\n", " ")
    lexer = shlex.shlex(text, posix=True, punctuation_chars=";|&<>\n")
    lexer.whitespace = " \t\r"
    lexer.whitespace_split = True
    lexer.commenters = ""
    words: list[str] = []
    try:
        for word in lexer:
            if word.strip("\n"):
                words.append(word)
            elif words:
                yield words
                words = []
    except ValueError:  # an open quote
        yield ["?"]
        return
    if words:
        yield words


def _call(words: list[str]) -> Call | None:
    if words[0] != "curl":
        return None
    method, url, body = "", "", ""
    headers: dict[str, str] = {}
    rest = iter(words[1:])
    for word in rest:
        if word == "-X":
            method = next(rest, "")
        elif word == "-H":
            name, _, value = next(rest, "").partition(":")
            headers[name.strip().lower()] = value.strip()
        elif word == "-d":
            body = next(rest, "")
        elif not word.startswith("-") and not url:
            url = word
        elif word not in _WITHOUT_MEANING:
            return None
    base = next((base for base in _BASES if url.startswith(f"{base}/")), None)
    if base is None:
        return None
    key = headers.pop("apikey", "")
    return Call(method or ("POST" if body else "GET"), url, url.removeprefix(base), headers, key, body)


def in_python(calls: list[Call]) -> str:
    """Return a program with httpx."""
    lines = []
    for call in calls:
        arguments = [_text(call.url, _python_text)]
        headers = ({"apikey": call.key} if call.key else {}) | call.headers
        body = call.as_json
        if body is not None:
            headers.pop("content-type", None)
        if headers:
            arguments.append(f"headers={_literal(headers, '    ', _PYTHON)}")
        if body is not None:
            arguments.append(f"json={_literal(body, '    ', _PYTHON)}")
        elif call.body:
            arguments.append(f"content={_text(call.body, _python_text)}")
        lines.append(_wrapped("answer = httpx." + call.method.lower(), arguments, "    "))
        lines.append("print(answer.status_code, answer.text)")
    program = "\n".join(lines)
    imports = ["import os\n"] if "os.environ" in program else []
    return "\n".join([*imports, "import httpx\n", program, ""])


def in_javascript(calls: list[Call]) -> str:
    """Return a program for Node and browsers' modules."""
    lines = []
    for number, call in enumerate(calls):
        headers = ({"apikey": call.key} if call.key else {}) | call.headers
        body = call.as_json
        options = [] if call.method == "GET" else [f'method: "{call.method}"']
        if headers:
            options.append(f"headers: {_literal(headers, '  ', _JAVASCRIPT)}")
        if body is not None:
            options.append(f"body: JSON.stringify({_literal(body, '  ', _JAVASCRIPT)})")
        elif call.body:
            options.append(f"body: {_text(call.body, _javascript_text)}")
        begin = "let answer = await fetch" if number == 0 else "answer = await fetch"
        if len(calls) == 1:
            begin = "const answer = await fetch"
        inner = "".join(f"  {option},\n" for option in options)
        last = f", {{\n{inner}}}" if inner else ""
        lines.append(f"{begin}({_text(call.url, _javascript_text)}{last});")
        lines.append("console.log(answer.status, await answer.text());")
    return "\n".join([*lines, ""])


def _wrapped(begin: str, arguments: list[str], indent: str) -> str:
    line = f"{begin}({', '.join(arguments)})"
    if len(line) <= _LINE and "\n" not in line:
        return line
    inner = "".join(f"{indent}{argument},\n" for argument in arguments)
    return f"{begin}(\n{inner})"


class _Language(NamedTuple):
    words: dict[str, str]
    text: Callable[[list[str]], str]
    plain_names: bool
    step: str


def _literal(value: Any, indent: str, language: _Language) -> str:
    """Return a JSON value as the language writes it; what fits in a line is one."""
    short = _flat(value, language)
    if len(indent) + len(short) <= _LINE - 12:
        return short
    deeper = indent + language.step
    if isinstance(value, dict):
        rows = [
            f"{deeper}{_name(key, language)}: {_literal(one, deeper, language)},\n"
            for key, one in value.items()
        ]
        return "{\n" + "".join(rows) + indent + "}"
    if isinstance(value, list):
        return (
            "[\n" + "".join(f"{deeper}{_literal(one, deeper, language)},\n" for one in value) + indent + "]"
        )
    return short


def _flat(value: Any, language: _Language) -> str:
    if isinstance(value, dict):
        inner = ", ".join(f"{_name(key, language)}: {_flat(one, language)}" for key, one in value.items())
        if not inner:
            return "{}"
        return f"{{ {inner} }}" if language.plain_names else f"{{{inner}}}"
    if isinstance(value, list):
        return f"[{', '.join(_flat(one, language) for one in value)}]"
    if isinstance(value, str):
        return _text(value, language.text)
    return language.words.get(repr(value), json.dumps(value))


def _name(name: str, language: _Language) -> str:
    return name if language.plain_names and name.isidentifier() else json.dumps(name, ensure_ascii=False)


def _text(text: str, write: Callable[[list[str]], str]) -> str:
    """Return a string in which every second part of ``parts`` is the name of a variable."""
    return write(_VARIABLE.split(text))


def _python_text(parts: list[str]) -> str:
    if len(parts) == 1:
        return json.dumps(parts[0], ensure_ascii=False)
    if len(parts) == 3 and parts[0] == parts[2] == "":
        return f'os.environ["{parts[1]}"]'
    inner = "".join(
        f"{{os.environ['{part}']}}" if index % 2 else _inside(part).replace("{", "{{").replace("}", "}}")
        for index, part in enumerate(parts)
    )
    return f'f"{inner}"'


def _javascript_text(parts: list[str]) -> str:
    if len(parts) == 1:
        return json.dumps(parts[0], ensure_ascii=False)
    if len(parts) == 3 and parts[0] == parts[2] == "":
        return f"process.env.{parts[1]}"
    inner = "".join(
        f"${{process.env.{part}}}" if index % 2 else _inside(part).replace('\\"', '"').replace("`", "\\`")
        for index, part in enumerate(parts)
    )
    return f"`{inner}`"


def _inside(text: str) -> str:
    return json.dumps(text, ensure_ascii=False)[1:-1]


_PYTHON = _Language({word: word for word in ("None", "True", "False")}, _python_text, False, "    ")
_JAVASCRIPT = _Language({}, _javascript_text, True, "  ")
