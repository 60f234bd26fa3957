"""GraphML as LightRAG and nano-graphrag write it: one flat graph, read with a parser that takes no DTD."""

import xml.parsers.expat
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tercet.errors import InvalidArgument, InvalidData


@dataclass
class XmlGraph:
    """Nodes and edges in file order, each with its line in the file."""

    directed: bool = False
    nodes: list[tuple[str, dict[str, Any], int]] = field(default_factory=list)  # id, attributes, line
    edges: list[tuple[str, str, dict[str, Any], int]] = field(default_factory=list)  # source, target, attributes, line


def read(path: Path) -> XmlGraph:
    """A GraphML file.

    Attributes are numbers where their key says int, long, float or double, truth values where it says boolean, else
    text; an empty element is an empty text, or nothing where a number was meant.

    Raises:
        InvalidArgument: no such file.
        InvalidData: not well-formed XML, a document type or an entity (both are refused), a graph inside a node, an
            undeclared key, a value that isn't of its kind; names the line.
    """
    if not path.is_file():
        raise InvalidArgument(f"{path}: no such file")
    reading = _Reading(path)
    parser = xml.parsers.expat.ParserCreate()
    parser.buffer_text = True
    parser.StartElementHandler = reading.start
    parser.EndElementHandler = reading.end
    parser.CharacterDataHandler = reading.text
    parser.StartDoctypeDeclHandler = reading.refuse_doctype
    parser.EntityDeclHandler = reading.refuse_entity
    reading.parser = parser
    try:
        with path.open("rb") as stream:
            parser.ParseFile(stream)
    except xml.parsers.expat.ExpatError as error:
        raise InvalidData(f"{path} line {error.lineno}: not well-formed XML: {error}") from error
    if not reading.began:
        raise InvalidData(f"{path}: expected a graph element, got none")
    return reading.graph


class _Reading:
    """What the parser's handlers keep."""

    parser: Any

    def __init__(self, path: Path) -> None:
        self.path = path
        self.graph = XmlGraph()
        self.began = False
        self.keys: dict[str, tuple[str, str]] = {}  # id: name and kind
        self.holder: dict[str, Any] | None = None  # attributes of the open node or edge
        self.key: str | None = None
        self.parts: list[str] = []

    def start(self, tag: str, given: dict[str, str]) -> None:
        name = tag.rpartition(":")[2]
        if name == "key":
            key = self._of(given, "id", "key")
            self.keys[key] = given.get("attr.name", key), given.get("attr.type", "string")
        elif name == "graph":
            if self.began:
                self._fail("a graph inside a graph, or a second one, isn't read")
            self.began = True
            self.graph.directed = given.get("edgedefault") == "directed"
        elif name == "node":
            self.holder = {}
            self.graph.nodes.append((self._of(given, "id", "node"), self.holder, self.parser.CurrentLineNumber))
        elif name == "edge":
            self.holder = {}
            ends = self._of(given, "source", "edge"), self._of(given, "target", "edge")
            self.graph.edges.append((*ends, self.holder, self.parser.CurrentLineNumber))
        elif name == "hyperedge":
            self._fail("hyperedges aren't read")
        elif name == "data":
            self.key, self.parts = self._of(given, "key", "data"), []

    def end(self, tag: str) -> None:
        name = tag.rpartition(":")[2]
        if name == "data" and self.key is not None:
            if self.key not in self.keys:
                self._fail(f"the key {self.key!r} isn't declared")
            if self.holder is not None:
                attribute, kind = self.keys[self.key]
                self.holder[attribute] = self._value("".join(self.parts), kind, attribute)
            self.key = None
        elif name in ("node", "edge"):
            self.holder = None

    def text(self, data: str) -> None:
        if self.key is not None:
            self.parts.append(data)

    def refuse_doctype(self, *given: Any) -> None:
        self._fail("document types aren't read")

    def refuse_entity(self, *given: Any) -> None:
        self._fail("entity declarations aren't read")

    def _of(self, given: dict[str, str], name: str, element: str) -> str:
        if name not in given:
            self._fail(f"a {element} element without {name}")
        return given[name]

    def _value(self, text: str, kind: str, attribute: str) -> Any:
        if kind == "string":
            return text
        if not text.strip():
            return None
        try:
            if kind in ("int", "long"):
                return int(text)
            if kind in ("float", "double"):
                return float(text)
            if kind == "boolean":
                return {"true": True, "1": True, "false": False, "0": False}[text.strip().lower()]
        except (ValueError, KeyError):
            self._fail(f"{attribute}: expected {kind}, got {text!r}")
        return text

    def _fail(self, problem: str) -> None:
        raise InvalidData(f"{self.path} line {self.parser.CurrentLineNumber}: {problem}")
