"""GraphML files, read as a stream."""

import gzip
import json
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO, Any
from xml.parsers import expat

from tercet.errors import InvalidArgument, InvalidData
from tercet.formats.imported import Imported, SourceReport
from tercet.formats.property_columns import (
    EDGE_ALIASES,
    NODE_ALIASES,
    RELATION,
    pop_relation,
    refuse_repeats,
    rename,
    table_of,
)
from tercet.formats.records import WEIGHTS

WRITER = "tercet"  # id of the graph element of files made here: their names are taken as they are
READ_BYTES = 1 << 20
_INSIDE = {"node", "edge"}


@dataclass(frozen=True)
class Key:
    name: str
    type: str
    default: Any = None


def read(path: str | Path) -> Imported:
    """The nodes and edges of a GraphML file, plain or gzipped.

    Data become properties under their key's `attr.name` (else its id), with its `attr.type`; defaults are filled in.
    Node data named `name`, `type`, `text`, `description` (or what `tables` knows as other names for them), `labels`,
    `uri`, `importance_weight`, `feedback_weight`, `belongs_to_set` are what they say; labels may also be an attribute
    of the element (":Person:Actor"), several of them in a text as JSON list or as ":A:B". The relation of an edge is
    its data `relation` where the file declares such a key, else the attribute `label` of the element, else the first
    of RELATION among its data. Undirected edges are taken once, as written; the report counts them. Text that is
    nested in foreign elements is left out but for the labels of yEd (NodeLabel, EdgeLabel), which become `label`.

    Raises:
        InvalidArgument: no such file.
        InvalidData: not well-formed, a document type declaration, a nested graph, a hyperedge, an unknown key, a value
            that isn't of its key's type, a node id given twice, an end that is no node; names the line.
    """
    path = Path(path)
    if not path.is_file():
        raise InvalidArgument(f"{path}: no such file")
    reader = _Reader(path.name)
    try:
        with _open(path) as stream:
            while data := stream.read(READ_BYTES):
                reader.parser.Parse(data, False)
            reader.parser.Parse(b"", True)
    except expat.ExpatError as error:
        raise InvalidData(f"{path}:{error.lineno}: not well-formed XML: {expat.errors.messages[error.code]}") from error
    except (gzip.BadGzipFile, EOFError) as error:
        raise InvalidData(f"{path}: damaged gzip file: {error}") from error
    return reader.imported()


def _open(path: Path) -> IO[bytes]:
    return gzip.open(path, "rb") if path.name.lower().endswith(".gz") else path.open("rb")  # type: ignore[return-value]


@dataclass
class _Elements:
    """What was read of nodes or edges, one entry an element."""

    lines: list[int] = field(default_factory=list)
    attributes: list[dict[str, str]] = field(default_factory=list)
    data: list[dict[str, Any]] = field(default_factory=list)


class _Reader:
    """Handlers of the XML events, and what they gathered."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.report = SourceReport("GraphML")
        self.parser = expat.ParserCreate(namespace_separator=" ")
        self.parser.buffer_text = True
        self.parser.StartElementHandler = self.start
        self.parser.EndElementHandler = self.end
        self.parser.CharacterDataHandler = self.text
        self.parser.StartDoctypeDeclHandler = self.doctype
        self.parser.EntityDeclHandler = self.doctype
        self.path: list[str] = []
        self.keys: dict[str, tuple[str, Key]] = {}  # id to (what it is for, key)
        self.found = {"node": _Elements(), "edge": _Elements()}
        self.directed: bool | None = None  # what edges are by default; None before the graph
        self.own = False
        self.undirected = 0
        self.key: str | None = None  # of the data element that is open
        self.declared: dict[str, str] = {}  # attributes of the key element that is open
        self.default: list[str] | None = None
        self.parts: list[str] | None = None  # text of the data element that is open
        self.foreign: list[str] | None = None  # the same, in a label of yEd within it

    def place(self, line: int | None = None) -> str:
        return f"{self.name}:{self.parser.CurrentLineNumber if line is None else line}"

    def refuse(self, problem: str) -> None:
        raise InvalidData(f"{self.place()}: {problem}")

    def doctype(self, *_: Any) -> None:
        self.refuse("a document type declaration or an entity, which are not read")

    def start(self, full: str, attributes: dict[str, str]) -> None:
        name = full.rsplit(" ", 1)[-1]
        parent = self.path[-1] if self.path else None
        self.path.append(name)
        if self.parts is not None:
            self.start_foreign(name)
        elif name == "graph":
            self.start_graph(parent, attributes)
        elif name in _INSIDE:
            self.start_element(name, parent, attributes)
        elif name == "data":
            self.key = attributes.get("key")
            self.parts = [] if parent in _INSIDE else None
        elif name == "key":
            self.declared = attributes
        elif name == "default":
            self.default = []
        elif name == "hyperedge":
            self.refuse("a hyperedge, which is not read: only edges between two nodes are")
        elif name == "port":
            self.report.note("port (left out)", [self.place()])
        elif parent is None and name != "graphml":
            self.refuse(f"expected the element graphml, got {name}")

    def start_graph(self, parent: str | None, attributes: dict[str, str]) -> None:
        if parent != "graphml" or self.directed is not None:
            self.refuse("a nested or second graph, which is not read: a file holds one graph")
        given = attributes.get("edgedefault")
        if given not in ("directed", "undirected"):
            self.refuse(f"graph: expected edgedefault to be directed or undirected, got {given!r}")
        self.directed, self.own = given == "directed", attributes.get("id") == WRITER

    def start_element(self, name: str, parent: str | None, attributes: dict[str, str]) -> None:
        if parent != "graph":
            self.refuse(f"{name}: expected it in the graph element, got it in {parent}")
        for needed in ("id",) if name == "node" else ("source", "target"):
            if needed not in attributes:
                self.refuse(f"{name}: the attribute {needed} is missing")
        if name == "edge":
            given = attributes.get("directed")
            self.undirected += not (self.directed if given is None else given.strip() in ("true", "1"))
        found = self.found[name]
        found.lines.append(self.parser.CurrentLineNumber)
        found.attributes.append(attributes)
        found.data.append({})

    def start_foreign(self, name: str) -> None:
        if self.parts is not None and len(self.path) > 1 and self.path[-2] == "data":
            self.parts, self.foreign = [], []
        if name in ("NodeLabel", "EdgeLabel") and not self.parts:
            self.foreign = []

    def text(self, text: str) -> None:
        if self.parts is not None:
            if self.path[-1] == "data":
                self.parts.append(text)
            elif self.path[-1] in ("NodeLabel", "EdgeLabel") and self.foreign is not None:
                self.foreign.append(text)
        elif self.default is not None:
            self.default.append(text)

    def end(self, full: str) -> None:
        name = self.path.pop()
        if self.parts is not None:
            if name == "data":
                self.end_data(self.path[-1])
        elif name == "default":
            self.declared = self.declared | {"default": "".join(self.default or [])}
            self.default = None
        elif name == "key":
            self.end_key()

    def end_key(self) -> None:
        given, identity = self.declared, self.declared.get("id")
        if identity is None or identity in self.keys:
            self.refuse("key: expected an id of its own" + ("" if identity is None else f", got {identity!r} again"))
            return
        kind = given.get("attr.type", "string")
        if kind not in _PARSE:
            self.refuse(f"key {identity!r}: expected attr.type to be one of {', '.join(_PARSE)}, got {kind!r}")
        key = Key(given.get("attr.name", identity), kind)
        if "default" in given:
            key = Key(key.name, kind, self.value(given["default"], key))
        self.keys[identity] = (given.get("for", "all"), key)

    def end_data(self, element: str) -> None:
        data, text, foreign = self.found[element].data[-1], "".join(self.parts or []), self.foreign
        self.parts = self.foreign = None
        if self.key not in self.keys:
            self.refuse(f"data: no key is declared with the id {self.key!r}")
            return
        key = self.keys[self.key][1]
        if foreign is not None:
            label = "".join(foreign).strip()
            if label:
                data.setdefault("label", label)
            else:
                self.report.note("data with foreign elements, left out", [self.place()])
            return
        if key.name in data:
            self.report.note("data given twice (the last is kept)", [self.place()])
        data[key.name] = self.value(text, key)

    def value(self, text: str, key: Key) -> Any:
        try:
            return _PARSE[key.type](text)
        except (ValueError, KeyError):
            self.refuse(f"data {key.name!r}: expected a value of type {key.type}, got {text[:60]!r}")

    def imported(self) -> Imported:
        for kind in ("node", "edge"):
            defaults = {k.name: k.default for what, k in self.keys.values()
                        if what in (kind, "all") and k.default is not None}  # fmt: skip
            if defaults:
                found = self.found[kind]
                found.data = [defaults | data for data in found.data]
        nodes, edges = self.found["node"], self.found["edge"]
        ids = [attributes["id"] for attributes in nodes.attributes]
        refuse_repeats(ids, lambda i: self.place(nodes.lines[i]), "node")
        known = set(ids)
        for line, attributes in zip(edges.lines, edges.attributes, strict=True):
            for end in ("source", "target"):
                if attributes[end] not in known:
                    raise InvalidData(f"{self.place(line)}: the {end} {attributes[end]!r} is no node of the file")
        report = self.report
        report.tables = {"nodes": (len(ids), len(ids)), "edges": (len(edges.lines), len(edges.lines))}
        if self.undirected:
            report.notes.append(f"{self.undirected} undirected edges are taken once, in the direction they are written")
        node_table = table_of({"id": ids} | self.node_columns(), nodes.data, "nodes", self.row("node"), report)
        edge_table = table_of(self.edge_columns(), edges.data, "edges", self.row("edge"), report)
        return Imported(node_table, edge_table, (), report)

    def row(self, kind: str) -> Any:
        return lambda i: self.place(self.found[kind].lines[i])

    def node_columns(self) -> dict[str, Any]:
        found, row = self.found["node"], self.row("node")
        labels = []
        for i, (attributes, data) in enumerate(zip(found.attributes, found.data, strict=True)):
            given = data.pop("labels", attributes.get("labels"))
            labels.append(None if given is None else _names(given, row(i), "labels"))
            if not self.own:
                rename(data, NODE_ALIASES)
        columns = {"labels": labels, **_taken(found.data, ("uri", *WEIGHTS))}
        sets = _taken(found.data, ("belongs_to_set",)).get("belongs_to_set", [])
        columns["belongs_to_set"] = [
            x if x is None else _names(x, row(i), "belongs_to_set") for i, x in enumerate(sets)
        ]
        if any("properties" in data for data in found.data):
            found.data = [_unpacked(data, row(i)) for i, data in enumerate(found.data)]
        return {name: values for name, values in columns.items() if any(value is not None for value in values)}

    def edge_columns(self) -> dict[str, Any]:
        found, row = self.found["edge"], self.row("edge")
        declared = any(key.name == "relation" and what in ("edge", "all") for what, key in self.keys.values())
        names = RELATION[:1] if declared else RELATION
        out: dict[str, list[Any]] = {
            name: [attributes[name] for attributes in found.attributes] for name in ("source", "target")
        }
        out["relation"] = []
        for attributes, data in zip(found.attributes, found.data, strict=True):
            label = None if declared else attributes.get("label")
            out["relation"].append(pop_relation(data, names) if label is None else label)
            if not self.own:
                rename(data, EDGE_ALIASES)
        bare = [i for i, relation in enumerate(out["relation"]) if relation is None]
        self.report.note("edge without a relation (kept)", [row(i) for i in bare])
        columns = {"id": [attributes.get("id") for attributes in found.attributes]}
        columns |= _taken(found.data, ("uri", *WEIGHTS))
        if any("properties" in data for data in found.data):
            found.data = [_unpacked(data, row(i)) for i, data in enumerate(found.data)]
        return out | {name: values for name, values in columns.items() if any(value is not None for value in values)}


def _boolean(text: str) -> bool:
    return {"true": True, "1": True, "false": False, "0": False}[text.strip().lower()]


def _integer(text: str) -> int:
    if "_" in text:
        raise ValueError(text)
    return int(text)


def _real(text: str) -> float:
    if "_" in text:
        raise ValueError(text)
    return float(text)


_PARSE: dict[str, Any] = {"boolean": _boolean, "int": _integer, "long": _integer, "float": _real, "double": _real,
                          "string": str}  # fmt: skip


def _taken(data: list[dict[str, Any]], names: tuple[str, ...]) -> dict[str, list[Any]]:
    return {name: [row.pop(name, None) for row in data] for name in names}


def _names(text: Any, place: str, what: str) -> list[str]:
    """Names in one text: a JSON list, ":A:B", or one name."""
    if not isinstance(text, str):
        raise InvalidData(f"{place}: {what}: expected text, got {text!r}")
    if text.startswith(":"):
        return text[1:].split(":")
    if not text.startswith("["):
        return [text]
    try:
        names = json.loads(text)
    except ValueError:
        return [text]
    if not isinstance(names, list) or not all(isinstance(name, str) for name in names):
        raise InvalidData(f"{place}: {what}: expected a JSON list of text, got {text[:60]!r}")
    return names


def _unpacked(data: dict[str, Any], place: str) -> dict[str, Any]:
    """The data with the entries of the JSON object `properties` among them; a value of its own wins."""
    text = data.get("properties")
    if not isinstance(text, str):
        return data
    try:
        inner = json.loads(text)
    except (ValueError, RecursionError):
        inner = None
    if not isinstance(inner, dict):
        return data
    own = {key: value for key, value in data.items() if key != "properties"}
    return inner | own
