"""One node is a fleet of one: few places ask whether there are other nodes, each for a reason.

Everybody else asks :class:`~hookgw.core.this_node.ThisNode`, which answers for one node as for many.
"""

import ast
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).parents[1]
FLEET = ("hookgw/fleet/", "hookgw/store/postgresql/")
"""What exists only for a fleet."""
OTHER_WORDS = ("hookgw/command/", "hookgw/config/", "hookgw/fair/")
"""Packages that know no nodes, and use the words for something else."""

NAMES = {"fleet", "is_shared", "peers"}
ATTRIBUTES = NAMES | {"_fleet", "_is_shared", "_peers", "shared", "_node"}
CLASSES = {"FleetNode"}

MOST = 20
ASKED = {
    "hookgw/web/auth.py authorize": "for each request: its key would be hashed once more",
    "hookgw/web/no_forwarding.py forwarding_of": "for each request: Quart would call what forwards nothing",
    "hookgw/operations/routes/health.py HealthRoutes.readyz": "/readyz names nodes if there may be several",
    "hookgw/operations/pages/system.py SystemPage._page": "so do the links of the page",
    "hookgw/site/site.py Site.error_page": "a page that meets a moving instance loads again by itself",
    "hookgw/lanes/lane.py Lane._settle": "for each attempt: nobody else reads its outcome on disk",
    "hookgw/lanes/lane.py Lane._settle_late": "the same",
    "hookgw/app/gateway.py Gateway.fleet": "plugins may use the name",
    "hookgw/core/jobs.py Jobs.everywhere": "a list does not read the disk for what is in memory",
    "hookgw/core/metrics.py Metrics.families": "hookgw_node_shards exists only in a fleet",
    "hookgw/app/starting.py start": "starts what nodes do for each other",
    "hookgw/core/registry.py Registry.put": "others must hear that a configured webhook is disabled",
    "hookgw/operations/views.py Views.overview": "nodes are shown only where there may be several",
}


def asks(test: ast.expr) -> bool:
    """Return whether a condition asks for the fleet: as a whole, or as a part of an ``and`` or ``or``."""
    match test:
        case ast.BoolOp(values=values):
            return any(map(asks, values))
        case ast.UnaryOp(op=ast.Not(), operand=operand):
            return asks(operand)
        case ast.Compare(left=left, ops=[ast.Is() | ast.IsNot()], comparators=[ast.Constant(value=None)]):
            return asks(left)
        case ast.NamedExpr(value=value):
            return asks(value)
        case ast.Call(func=ast.Name(id="isinstance"), args=[_, kinds]):
            return any(isinstance(kind, ast.Name) and kind.id in CLASSES for kind in ast.walk(kinds))
        case ast.Name(id=name):
            return name in NAMES
        case ast.Attribute(attr=name):
            return name in ATTRIBUTES
    return False


def branches(node: ast.AST, place: str = "") -> Iterator[str]:
    """Yield the function of each branch that asks."""
    for child in ast.iter_child_nodes(node):
        if isinstance(child, ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
            yield from branches(child, f"{place}.{child.name}".lstrip("."))
            continue
        match child:
            case ast.If(test=test) | ast.IfExp(test=test) | ast.While(test=test):
                conditions = [test]
            case ast.comprehension(ifs=conditions):
                pass
            case ast.Assign(value=ast.BoolOp() as test) | ast.Return(value=ast.BoolOp() as test):
                conditions = [test]
            case _:
                conditions = []
        yield from (place for condition in conditions if asks(condition))
        yield from branches(child, place)


def found() -> Counter[str]:
    places = Counter[str]()
    for path in sorted(ROOT.joinpath("hookgw").rglob("*.py")):
        name = path.relative_to(ROOT).as_posix()
        if not name.startswith(FLEET + OTHER_WORDS):
            places.update(f"{name} {place}" for place in branches(ast.parse(path.read_text())))
    return places


def test_few_branches_ask_whether_there_is_a_fleet_and_each_has_a_reason() -> None:
    places = found()
    assert set(places) == ASKED.keys(), "ask ThisNode instead, or give the reason in ASKED"
    assert places.total() <= MOST


def test_every_way_to_ask_is_found() -> None:
    ways = """
if node.is_shared and status == 503: ...
x = 1 if self._peers is None else 2
while not (fleet := gateway.fleet): ...
[one for one in many if isinstance(one, (FleetNode, str))]
shows = store.shared is not None and x
if node.holds(name) or fleet.name: ...
"""
    assert len(list(branches(ast.parse(ways)))) == 5
