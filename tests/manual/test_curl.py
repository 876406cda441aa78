"""Commands of curl become the same calls in Python and JavaScript."""

import pytest

from hookgw.manual.curl import Call, calls_of, in_javascript, in_python

SET = """curl -X POST http://127.0.0.1:8080/webhook/set/shop -H "apikey: $KEY" \\
  -H 'content-type: application/json' -d '{"url": "https://crm.example/x", "enabled": true, "secret": null,
        "headers": {"x-token": "a $TOKEN b"}}'
"""


def test_a_call_is_read_with_its_parts() -> None:
    (call,) = calls_of(SET)
    assert call[:3] == ("POST", "http://127.0.0.1:8080/webhook/set/shop", "/webhook/set/shop")
    assert call.headers == {"content-type": "application/json"}
    assert call.key == "$KEY"
    assert call.as_json["enabled"] is True


def test_python_is_the_same_call() -> None:
    program = in_python(calls_of(SET))
    assert program.startswith("import os\n\nimport httpx\n\nanswer = httpx.post(\n")
    assert 'headers={"apikey": os.environ["KEY"]},' in program
    assert '"x-token": f"a {os.environ[\'TOKEN\']} b"' in program
    assert '"enabled": True' in program
    assert '"secret": None' in program
    compile(program, "example", "exec")


def test_javascript_is_the_same_call() -> None:
    program = in_javascript(calls_of(SET))
    assert program.startswith('const answer = await fetch("http://127.0.0.1:8080/webhook/set/shop", {\n')
    assert 'headers: { apikey: process.env.KEY, "content-type": "application/json" },' in program
    assert '"x-token": `a ${process.env.TOKEN} b`' in program
    assert "secret: null" in program


def test_several_calls_are_one_program() -> None:
    text = 'curl $HOOKGW/readyz   # is it ready?\ncurl -H "apikey: $KEY" "$HOOKGW/lane/list"\n'
    calls = calls_of(text)
    assert [call.path for call in calls] == ["/readyz", "/lane/list"]
    assert in_javascript(calls).count("let answer") == 1
    assert in_python(calls).count("httpx.get(") == 2


def test_a_body_that_is_no_json_stays_a_text() -> None:
    (call,) = calls_of("curl http://127.0.0.1:8080/event/emit/shop -d 'a \"b\"'")
    assert call == Call("POST", "http://127.0.0.1:8080/event/emit/shop", "/event/emit/shop", {}, "", 'a "b"')
    assert 'content="a \\"b\\""' in in_python([call])
    assert 'body: "a \\"b\\""' in in_javascript([call])


@pytest.mark.parametrize(
    "text",
    [
        "curl https://elsewhere.example/x",
        "curl http://127.0.0.1:8080/readyz | jq",
        "curl http://127.0.0.1:8080/readyz > file",
        "curl -O http://127.0.0.1:8080/openapi.json",
        'curl "http://127.0.0.1:8080/$(date)"',
        "curl http://127.0.0.1:8080/readyz\nhookgw health",
        "id=1\ncurl http://127.0.0.1:8080/$id",
        "curl 'http://127.0.0.1:8080/readyz",
        "",
    ],
)
def test_whatever_else_a_shell_can_do_stays_for_the_shell(text: str) -> None:
    assert calls_of(text) == []
