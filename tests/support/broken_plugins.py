"""Plugins whose kinds, connectors or options break a rule, and a part of the reason that hookgw gives."""

from pathlib import Path

HEAD = """
import enum, functools, json
import hookgw
from hookgw import DashboardPage, EventKind, hookimpl

deep = []
for _ in range(300):
    deep = [deep]

class Good:
    name = "good"
    async def run(self, session): ...
    async def send(self, session, message, *, key): return {}

class Odd(BaseException):
    def __getattribute__(self, name): raise self
    def __str__(self): raise self

class OddList(list):
    def __iter__(self): 1 / 0

class OddInt(int):
    def __bool__(self): raise Odd
    def __eq__(self, other): raise Odd

async def render(gateway, query): return ""

@hookimpl
def hookgw_lane_state(lane): ...
"""

KINDS = {
    "a name that is not a string": ("EventKind(name=5, meaning='X.')", "a value of type int is not a name"),
    "no name": ("EventKind(name=None, meaning='X.')", "None is not a name for an event kind"),
    "an empty name": ("EventKind(name='', meaning='X.')", "'' is not a name"),
    "a name with a space": ("EventKind(name='ORDER PAID', meaning='X.')", "'ORDER PAID' is not a name"),
    "a name in lower case": ("EventKind(name='order_paid', meaning='X.')", "'order_paid' is not a name"),
    "a name of underscores": ("EventKind(name='__', meaning='X.')", "'__' is not a name"),
    "a name with a line break": (r"EventKind(name='PAID\n', meaning='X.')", r"'PAID\n' is not a name"),
    "a name that is not ASCII": ("EventKind(name='ÄRGER', meaning='X.')", "'ÄRGER' is not a name"),
    "a name that is too long": ("EventKind(name='A' * 65, meaning='X.')", "use 1 to 64 capital letters"),
    "a name of hookgw": (
        "EventKind(name='MESSAGES_UPSERT', meaning='X.')",
        "MESSAGES_UPSERT is already defined, as MESSAGES_UPSERT of hookgw",
    ),
    "a name of an operational event": (
        "EventKind(name='LANE_FAILING', meaning='X.')",
        "LANE_FAILING is already defined, as LANE_FAILING of hookgw",
    ),
    "a name of another plugin": (
        "EventKind(name='CHATS_SET', meaning='X.')",
        "CHATS_SET is already defined, as CHATS_SET of gateway_kinds",
    ),
    "one name twice": (
        "EventKind(name='PAID', meaning='X.'), EventKind(name='PAID', meaning='Y.')",
        "PAID is already defined, as PAID of mine",
    ),
    "one alias twice": (
        "EventKind(name='PAID', meaning='X.', aliases=('a.b',)), EventKind(name='A_B', meaning='Y.')",
        "A_B is already defined, as PAID of mine",
    ),
    "an alias of hookgw": (
        "EventKind(name='PAID', meaning='X.', aliases=('messages.upsert',))",
        "PAID is already defined, as MESSAGES_UPSERT of hookgw",
    ),
    "a text of aliases": ("EventKind(name='PAID', meaning='X.', aliases='ab')", "must be a tuple of names"),
    "an alias that is not a string": (
        "EventKind(name='PAID', meaning='X.', aliases=(5,))",
        "the alias a value of",
    ),
    "an empty alias": ("EventKind(name='PAID', meaning='X.', aliases=('',))", "the alias ''"),
    "a dotted name with a slash": (
        "EventKind(name='PAID', meaning='X.', dotted='a/b')",
        "the dotted name 'a/b'",
    ),
    "a dotted name that is not a string": (
        "EventKind(name='PAID', meaning='X.', dotted=None)",
        "dotted name None",
    ),
    "no meaning": (
        "EventKind(name='PAID', meaning=None)",
        "the meaning of PAID must be a sentence, not None",
    ),
    "an empty meaning": ("EventKind(name='PAID', meaning=' ')", "the meaning of PAID must be a sentence"),
    "a meaning that is no text": (
        r"EventKind(name='PAID', meaning='\ud800')",
        "the meaning of PAID contains half of",
    ),
    "an operational kind": (
        "EventKind(name='PAID', meaning='X.', operational=True)",
        "PAID is marked as operational",
    ),
    "a schema that is not a dict": (
        "EventKind(name='PAID', meaning='X.', schema=True)",
        "schema of PAID must be a dict",
    ),
    "no schema": (
        "EventKind(name='PAID', meaning='X.', schema=None)",
        "the schema of PAID must be a dict, not None",
    ),
    "a schema with a set": (
        "EventKind(name='PAID', meaning='X.', schema={'enum': {1}})",
        "of type set is not JSON",
    ),
    "a schema with a key that is not a string": (
        "EventKind(name='PAID', meaning='X.', schema={1: {}})",
        "the schema of PAID has a key that is not a string",
    ),
    "a schema with a wrong type": (
        "EventKind(name='PAID', meaning='X.', schema={'type': 'nonsense'})",
        "the schema of PAID is not a valid JSON Schema",
    ),
    "a schema that refers to nothing": (
        "EventKind(name='PAID', meaning='X.', schema={'$ref': '#/$defs/order'})",
        "the schema of PAID is not a valid JSON Schema: Pointer '/$defs/order' does not exist",
    ),
    "a schema on a server": (
        "EventKind(name='PAID', meaning='X.', schema={'$ref': 'http://127.0.0.1:9/order.json'})",
        "hookgw fetches no schemas: copy http://127.0.0.1:9/order.json into $defs",
    ),
    "a schema in a file": (
        "EventKind(name='PAID', meaning='X.', schema={'$ref': 'file:///etc/hostname'})",
        "hookgw fetches no schemas: copy file:///etc/hostname into $defs",
    ),
    "an example that is NaN": (
        "EventKind(name='PAID', meaning='X.', schema={}, example=float('nan'))",
        "is not JSON",
    ),
    "an example of bytes": (
        "EventKind(name='PAID', meaning='X.', schema={}, example=b'x')",
        "bytes is not JSON",
    ),
    "an example of an object": (
        "EventKind(name='PAID', meaning='X.', schema={}, example=object())",
        "object is not JSON",
    ),
    "an example that is too deep": (
        "EventKind(name='PAID', meaning='X.', schema={}, example=deep)",
        "nested too deeply",
    ),
    "an example that contains itself": (
        "EventKind(name='PAID', meaning='X.', schema={}, example=deep.append(deep) or deep)",
        "the example of PAID is",
    ),
    "an example that violates the schema": (
        "EventKind(name='PAID', meaning='X.', schema={'required': ['order']}, example={'total': 1})",
        'the example of PAID violates its schema: data: "order" is a required property',
    ),
    "a kind that is not a kind": (
        "'PAID'",
        "its list contains a value of type str; return a list of EventKind",
    ),
    "the class itself": ("EventKind", "its list contains a value of type"),
}
CONNECTORS = {
    "no name": ("name = None", "None is not a name for a connector"),
    "an empty name": ("name = ''", "'' is not a name for a connector"),
    "a name that is not a string": ("name = 5", "a value of type int is not a name for a connector"),
    "a name with a space": ("name = 'a b'", "'a b' is not a name for a connector"),
    "a name that means no connector": ("name = 'EVOLUTION'", "a connector cannot be called EVOLUTION"),
    "a name that raises": ("name = property(lambda self: 1 / 0)", "ZeroDivisionError"),
    "a name of another plugin": (
        "name = 'simulator'",
        "connector simulator is already provided by simulator",
    ),
    "no method run": (
        "run = None",
        "the connector good has no method run: write async def run(self, session)",
    ),
    "a method run that is not async": (
        "def run(self, session): ...",
        "run of the connector good is not async",
    ),
    "a method run that is a generator": (
        "async def run(self, session): yield",
        "run of the connector good is not async",
    ),
    "a method run without a session": (
        "async def run(self): ...",
        "run of the connector good has other arguments",
    ),
    "no method send": ("send = 5", "the connector good has no method send:"),
    "a method send that is not async": (
        "def send(self, session, message, *, key): ...",
        "good is not async: write async def send(self, session, message, *, key)",
    ),
    "an option that is a field of create": (
        "options_schema = {'properties': {'token': {}}}",
        "options_schema of the connector good has the option token, but this is a field of create itself",
    ),
    "an option that is a setting": (
        "options_schema = {'properties': {'msg_call': {}}}",
        "option msg_call, but",
    ),
    "an option that is a field beside the webhook": (
        "options_schema = {'properties': {'webhookBase64': {}}}",
        "option webhookBase64, but",
    ),
}
PAGES = {
    "a page that is no page": ("5", "its list contains a value of type int; return a list of DashboardPage"),
    "a path with a slash": (
        "DashboardPage(title='X', path='a/b', render=render)",
        "'a/b' is not a path for a page",
    ),
    "an empty path": ("DashboardPage(title='X', path='', render=render)", "'' is not a path for a page"),
    "a path with a line break": (r"DashboardPage(title='X', path='a\n', render=render)", "is not a path"),
    "no path": ("DashboardPage(title='X', path=None, render=render)", "None is not a path for a page"),
    "no title": ("DashboardPage(title=' ', path='a', render=render)", "the title of the page a must be"),
    "a long title": ("DashboardPage(title='X' * 65, path='a', render=render)", "of 1 to 64 characters"),
    "a title that is no text": (
        r"DashboardPage(title='\ud800', path='a', render=render)",
        "the title of the page a contains half of",
    ),
    "no render": (
        "DashboardPage(title='X', path='a', render=None)",
        "render of the page a must be a function",
    ),
    "a render without arguments": (
        "DashboardPage(title='X', path='a', render=lambda: '')",
        "render of the page a has other arguments: write async def render(gateway, query)",
    ),
    "a page with a submit that is no function": (
        "DashboardPage(title='X', path='a', render=render, submit='s')",
        "submit of the page a must be a function: async def submit(gateway, form)",
    ),
    "a page with a submit with other arguments": (
        "DashboardPage(title='X', path='a', render=render, submit=lambda: '')",
        "submit of the page a has other arguments: write async def submit(gateway, form)",
    ),
    "a page of perhaps an instance": (
        "DashboardPage(title='X', path='a', render=render, of_instance='yes')",
        "of_instance of the page a must be True or False",
    ),
    "a page that needs what is no right": (
        "DashboardPage(title='X', path='a', render=render, needs='read')",
        "needs of the page a must be a hookgw.Right, or None",
    ),
    "two pages with one path": (
        "*[DashboardPage(title='X', path='a', render=render)] * 2",
        "two of its pages have the path a",
    ),
}
LISTS = {
    "a generator of kinds": (
        "def hookgw_event_kinds(): return (kind for kind in ())",
        "it returned a value of type generator",
    ),
    "a dict of kinds": ("def hookgw_event_kinds(): return {}", "it returned a value of type dict"),
    "a text for kinds": ("def hookgw_event_kinds(): return 'PAID'", "it returned a value of type str"),
    "a connector that is not in a list": (
        "def hookgw_connectors(): return Good()",
        "it returned a value of type Good",
    ),
    "a class as a connector": (
        "def hookgw_connectors(): return [Good]",
        "the class Good; return an object of it",
    ),
    "something else as a connector": (
        "def hookgw_connectors(): return [5]",
        "of type int; return a list of Connector",
    ),
    "one connector twice": ("def hookgw_connectors(): return [Good(), Good()]", "already provided by mine"),
    "a list of schemes": (
        "def hookgw_destinations(): return ['amqp']",
        "return a dict of functions by scheme",
    ),
    "a scheme that hookgw has": (
        "def hookgw_destinations(): return {'https': render}",
        "the scheme https is reserved for hookgw: choose another name",
    ),
    "a scheme that another plugin has": (
        "def hookgw_destinations():\n    async def send(outgoing): ...\n    return {'amqp': send}",
        "the plugin rabbitmq sends to amqp:// URLs already",
    ),
    "a hook that raises": ("def hookgw_event_kinds(): raise KeyError('a\\nb')", "KeyError"),
    "an interrupt": ("def hookgw_connectors(): raise KeyboardInterrupt", "KeyboardInterrupt"),
    "an exit": ("def hookgw_event_kinds(): raise SystemExit(0)", "SystemExit: 0"),
    "a group": (
        "def hookgw_configure(options): raise BaseExceptionGroup('', [GeneratorExit()])",
        "GeneratorExit",
    ),
    "an exception whose attributes raise": ("def hookgw_event_kinds(): raise Odd", "Odd"),
    "a route of the dashboard": (
        "def hookgw_routes(app): app.add_url_rule('/dashboard/mine', 'mine', lambda: 'open')",
        "the route /dashboard/mine is below /dashboard, which is the dashboard's: choose another path",
    ),
    "routes that raise": ("def hookgw_routes(app, gateway): gateway.instances.all()[0]", "IndexError"),
    "routes with a wrong rule": ("def hookgw_routes(app): app.add_url_rule('backlog')", "AssertionError"),
    "names of secret options that are none": (
        "def hookgw_secret_options(): return [5]",
        "names of options",
    ),
    "a list whose items raise": ("def hookgw_event_kinds(): return OddList()", "ZeroDivisionError"),
    "an int instead of a list": ("def hookgw_event_kinds(): return OddInt()", "type OddInt"),
    "options that raise": ("def hookgw_configure(options): options['a']", "KeyError: 'a'"),
}
PLUGINS = {
    **{name: (f"def hookgw_event_kinds(): return [{kind}]", why) for name, (kind, why) in KINDS.items()},
    **{
        f"connector: {name}": (
            f"def hookgw_connectors():\n    class Broken(Good):\n        {line}\n    return [Broken()]",
            why,
        )
        for name, (line, why) in CONNECTORS.items()
    },
    **{
        f"page: {name}": (f"def hookgw_dashboard_pages(): return [{page}]", why)
        for name, (page, why) in PAGES.items()
    },
    **LISTS,
}


def write_plugin(base: Path, hook: str) -> None:
    """Write a plugin ``mine`` with this hook, and with everything else that a plugin can provide."""
    others = {
        "hookgw_event_kinds": "[EventKind(name='MINE', meaning='X.')]",
        "hookgw_connectors": "[Good()]",
        "hookgw_dashboard_pages": "[DashboardPage(title='Mine', path='mine', render=render)]",
    }
    text = f"{HEAD}\n@hookimpl\n{hook}\n"
    for name, value in others.items():
        if name not in hook:
            text += f"@hookimpl\ndef {name}(): return {value}\n"
    (base / "plugins").mkdir()
    (base / "plugins" / "mine.py").write_text(text, encoding="utf-8")
