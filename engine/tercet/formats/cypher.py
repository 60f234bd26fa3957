"""Cypher scripts that create a graph, run by the embedded engine of grafitodb on an empty database in memory."""

import dataclasses
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from tercet.errors import InvalidArgument, InvalidData, MissingDependency
from tercet.formats.imported import Imported, SourceReport
from tercet.formats.property_columns import EDGE_ALIASES, NODE_ALIASES, refuse_repeats, rename, table_of

PIECE = re.compile(
    r"""(?P<text>'(?:\\.|[^'\\])*'|"(?:\\.|[^"\\])*"|`[^`]*`)|(?P<comment>//[^\n]*|/\*.*?\*/)|(?P<end>;)"""
    r"""|(?P<shell>^[ \t]*:[A-Za-z]+[^\n]*$)""",
    re.DOTALL | re.MULTILINE,
)
OUTWARD = ("ProcedureCallClause", "LoadCsvClause")  # what reads files or the network


def read(path: str | Path, *, id_property: str | None = None) -> Imported:
    """The graph that a Cypher script of CREATE (MERGE, MATCH, SET, UNWIND, ...) statements makes.

    Statements end with `;`. Commands of a shell (":begin") are passed over, constraints hold, indexes do nothing. A
    node without a `name` is named by what `tables` knows as another name for one, such as `title`, which stays a
    property; other known names are taken likewise.

    Args:
        id_property: a property that nodes are known by; by default they are numbered as they are created, from "1".

    Raises:
        InvalidArgument: no such file.
        InvalidData: a statement is wrong or not known to the engine, or one calls a procedure or loads a file, which
            isn't done (with the line it begins in); a node lacks `id_property` or shares it with another.
        MissingDependency: grafitodb isn't installed.

    Cost: the engine takes some 3 ms a created pattern, more in statements of thousands; meant for scripts of up to some
        ten thousand elements.
    """
    path = Path(path)
    if not path.is_file():
        raise InvalidArgument(f"{path}: no such file")
    try:
        script = path.read_text(encoding="utf-8-sig")
    except UnicodeDecodeError as error:
        raise InvalidData(f"{path}: not valid UTF-8: {error.reason} at byte {error.start}") from error
    report = SourceReport("Cypher")
    nodes, edges, statements = _run(path, script)
    report.notes.append(f"{statements} statements")
    return _tables(path, nodes, edges, id_property, report)


def _run(path: Path, script: str) -> tuple[list[Any], list[Any], int]:
    """The nodes and relationships that the statements leave, in order of creation."""
    try:
        from grafito import GrafitoDatabase
        from grafito.cypher.exceptions import CypherError
        from grafito.cypher.lexer import Lexer
        from grafito.cypher.parser import Parser
        from grafito.exceptions import GrafitoError
    except ImportError as error:
        raise MissingDependency("reading Cypher needs grafitodb: pip install grafitodb") from error
    database = GrafitoDatabase(":memory:")
    count = 0
    try:
        for line, statement in statements(script):
            place = f"{path}:{line}"
            try:
                outward = _clauses(Parser(Lexer(statement).tokenize()).parse()) & set(OUTWARD)
                if outward:
                    raise InvalidData(f"{place}: CALL of procedures and LOAD CSV aren't run: {statement[:60]!r}")
                database.execute(statement)
            except (CypherError, GrafitoError, RecursionError) as error:
                raise InvalidData(f"{place}: {error} (line 1 is where the statement begins)") from error
            count += 1
        nodes = sorted(database.match_nodes(), key=lambda node: node.id)
        edges = sorted(database.match_relationships(), key=lambda edge: edge.id)
    finally:
        database.close()
    return nodes, edges, count


def statements(script: str) -> Iterator[tuple[int, str]]:
    """(line it begins in, text) of each statement; comments are blanked, lines stay where they are."""
    begin, parts, last = 0, [], 0
    for match in PIECE.finditer(script):
        if match["text"]:
            continue
        parts.append(script[last : match.start()])
        last = match.end()
        if not match["end"]:
            parts.append(" " + "\n" * match[0].count("\n"))
            continue
        yield from _statement(script, begin, "".join(parts))
        begin, parts = last, []
    yield from _statement(script, begin, "".join([*parts, script[last:]]))


def _statement(script: str, begin: int, text: str) -> Iterator[tuple[int, str]]:
    body = text.lstrip()
    if body:
        line = 1 + script.count("\n", 0, begin) + text[: len(text) - len(body)].count("\n")
        yield line, body.rstrip()


def _clauses(tree: Any) -> set[str]:
    """The kinds of all parts of a syntax tree."""
    found: set[str] = set()
    waiting = [tree]
    while waiting:
        part = waiting.pop()
        if isinstance(part, (list, tuple)):
            waiting += part
        elif isinstance(part, dict):
            waiting += part.values()
        elif dataclasses.is_dataclass(part) or type(part).__module__.startswith("grafito.cypher"):
            found.add(type(part).__name__)
            waiting += [x for x in getattr(part, "__dict__", {}).values() if not isinstance(x, (str, int, float))]
    return found


def _tables(path: Path, nodes: list[Any], edges: list[Any], id_property: str | None, report: SourceReport) -> Imported:
    ids, rows, renamed = {}, [], 0
    for node in nodes:
        properties = dict(node.properties)
        if id_property is None:
            ids[node.id] = str(node.id)
        else:
            given = properties.pop(id_property, None)
            if isinstance(given, bool) or not isinstance(given, (str, int)):
                raise InvalidData(
                    f"{path}: node {node.id}: expected text or an integer in {id_property!r}, got {given!r}"
                )
            ids[node.id] = str(given)
        named = dict(properties)
        rename(named, NODE_ALIASES)
        renamed += len(named.keys() - properties.keys()) > 0
        rows.append(named | properties)
    row = lambda i: f"node {nodes[i].id}"  # noqa: E731
    refuse_repeats(list(ids.values()), lambda i: f"{path}: {row(i)}", "node")
    labels = [list(node.labels) for node in nodes]
    if renamed:
        report.notes.append(f"{renamed} nodes have a name, type, text or description from a property of another name")
    report.tables = {"nodes": (len(nodes), len(nodes)), "relationships": (len(edges), len(edges))}
    node_table = table_of({"id": list(ids.values()), "labels": labels}, rows, "nodes", row, report)
    more = []
    for edge in edges:
        properties = dict(edge.properties)
        rename(properties, EDGE_ALIASES)
        more.append(properties | edge.properties)
    ends = {"source": [ids[e.source_id] for e in edges], "target": [ids[e.target_id] for e in edges]}
    relation = {"relation": [e.type for e in edges], "id": [str(e.id) for e in edges]}
    edge_table = table_of(ends | relation, more, "edges", lambda i: f"relationship {edges[i].id}", report)
    return Imported(node_table, edge_table, (), report)
