"""RDF files: N-Triples, N-Quads, Turtle and TriG, read with pyoxigraph."""

import gzip
import math
import re
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

from tercet.errors import InvalidArgument, InvalidData, MissingDependency
from tercet.formats.imported import Imported, SourceReport
from tercet.formats.property_columns import table_of

XSD = "http://www.w3.org/2001/XMLSchema#"
RDF_TYPE = "http://www.w3.org/1999/02/22-rdf-syntax-ns#type"
RDFS, SKOS = "http://www.w3.org/2000/01/rdf-schema#", "http://www.w3.org/2004/02/skos/core#"
SCHEMA = ("https://schema.org/", "http://schema.org/")
DC = ("http://purl.org/dc/terms/", "http://purl.org/dc/elements/1.1/")
NAMES = (  # the first that a node has
    f"{RDFS}label", f"{SKOS}prefLabel", *(f"{s}name" for s in SCHEMA), "http://xmlns.com/foaf/0.1/name",
    *(f"{d}title" for d in DC),
)  # fmt: skip
DESCRIPTIONS = (
    f"{RDFS}comment", f"{SKOS}definition", *(f"{s}description" for s in SCHEMA), *(f"{d}description" for d in DC),
)  # fmt: skip
INTEGERS = frozenset(XSD + name for name in (
    "integer", "int", "long", "short", "byte", "nonNegativeInteger", "positiveInteger", "nonPositiveInteger",
    "negativeInteger", "unsignedLong", "unsignedInt", "unsignedShort", "unsignedByte",
))  # fmt: skip
REALS = frozenset(XSD + name for name in ("decimal", "double", "float"))
BOOLEANS = {"true": True, "1": True, "false": False, "0": False}
FORMATS = {".nt": "N_TRIPLES", ".nq": "N_QUADS", ".ttl": "TURTLE", ".trig": "TRIG"}
UNTAGGED = "und"  # BCP 47, section 4.1: undetermined


def read(path: str | Path | Iterable[str | Path], *, language: str = "en") -> Imported:
    """The graph of one or several RDF files, plain or gzipped.

    IRIs and blank nodes become nodes: an IRI is its own id and `uri`, a blank node "_:<file>:b<n>", numbered as met.
    `rdf:type` gives labels (local names, with the IRIs in the property `types`) and, for the first of them by name,
    `type`. Literals become properties under the predicate's local name, or its whole IRI where two predicates share a
    local name: numbers and booleans of XML Schema by their type, all else text; several values are a list. Values with
    a language are an object by language tag, with "und" for those without one. `name` and `description` are the value
    of the first predicate of NAMES and DESCRIPTIONS that a node has, in the wanted language, else without one, else in
    the first by tag; that predicate is a property too where that isn't its only value or has a language. All other
    triples become edges: the local name is the relation, the IRI is in `predicate`, a named graph in `graph`.

    Args:
        path: .nt, .nq, .ttl, .trig, each also with .gz, or several of them.
        language: a tag such as "en"; "en-GB" is taken for "en" where there is no plain "en".

    Raises:
        InvalidArgument: no such file, or an ending that isn't known.
        InvalidData: a file can't be parsed; names the line.
        MissingDependency: pyoxigraph isn't installed.
    """
    files = [Path(path)] if isinstance(path, (str, Path)) else [Path(p) for p in path]
    gathered = _Gathered(SourceReport("RDF"))
    for file in files:
        gathered.add(file)
    return gathered.imported(language.lower())


class _Gathered:
    """What the files said about each node, and the edges."""

    def __init__(self, report: SourceReport) -> None:
        self.report = report
        self.at: dict[str, int] = {}  # place of a node, by id
        self.iris: list[str | None] = []
        self.types: list[list[str]] = []
        self.literals: list[dict[str, dict[str, list[Any]]]] = []  # by predicate, by language
        self.first: list[str] = []  # file and number of the triple that named it first
        self.edges: dict[str, list[Any]] = {name: [] for name in ("source", "target", "predicate", "graph")}
        self.edge_rows: list[str] = []
        self.predicates: set[str] = set()  # with literals

    def add(self, file: Path) -> None:
        import pyoxigraph as ox

        blank: dict[str, str] = {}
        number = used = 0

        def node(term: Any) -> int | None:
            if isinstance(term, ox.NamedNode):
                return self.node(term.value, term.value, f"{file.name}:{number}")
            if isinstance(term, ox.BlankNode):
                name = blank.setdefault(term.value, f"_:{file.name}:b{len(blank) + 1}")
                return self.node(name, None, f"{file.name}:{number}")
            return None

        for number, quad in enumerate(_quads(file), 1):
            row, predicate, thing = f"{file.name}:{number}", quad.predicate.value, quad.object
            subject = node(quad.subject)
            if subject is None or not isinstance(thing, (ox.NamedNode, ox.BlankNode, ox.Literal)):
                self.report.note("triple with a triple as an end, left out", [row])
                continue
            used += 1
            if isinstance(thing, ox.Literal):
                self.predicates.add(predicate)
                values = self.literals[subject].setdefault(predicate, {})
                values.setdefault((thing.language or "").lower(), []).append(self.value(thing, row))
            elif predicate == RDF_TYPE and isinstance(thing, ox.NamedNode):
                self.types[subject].append(thing.value)
            else:
                target = node(thing)
                named = quad.graph_name.value if isinstance(quad.graph_name, (ox.NamedNode, ox.BlankNode)) else None
                for name, value in (
                    ("source", subject),
                    ("target", target),
                    ("predicate", predicate),
                    ("graph", named),
                ):
                    self.edges[name].append(value)
                self.edge_rows.append(row)
        self.report.tables[file.name] = (number, used)

    def node(self, identity: str, iri: str | None, row: str) -> int:
        at = self.at.setdefault(identity, len(self.at))
        if at == len(self.iris):
            self.iris.append(iri)
            self.types.append([])
            self.literals.append({})
            self.first.append(row)
        return at

    def value(self, literal: Any, row: str) -> Any:
        text, kind = literal.value, literal.datatype.value
        try:
            if kind in INTEGERS:
                return int(text)
            if kind in REALS:
                number = float(text)
                return text if math.isnan(number) else number
            return BOOLEANS[text] if kind == f"{XSD}boolean" else text
        except (ValueError, KeyError):
            self.report.note(f"literal that is no {kind.removeprefix(XSD)} (kept as text)", [row])
            return text

    def imported(self, language: str) -> Imported:
        keys = _keys(self.predicates)
        names, descriptions, properties, labels, types = [], [], [], [], []
        for literals, of_types in zip(self.literals, self.types, strict=True):
            name, description = _chosen(literals, NAMES, language), _chosen(literals, DESCRIPTIONS, language)
            taken = [chosen[0] for chosen in (name, description) if chosen and _is_plain(literals[chosen[0]])]
            row = {keys[p]: _as_value(values) for p, values in literals.items() if p not in taken}
            mine = sorted({_local(iri) for iri in of_types})
            if of_types:
                row["types"] = sorted(set(of_types))
            names.append(name and name[1])
            descriptions.append(description and description[1])
            properties.append(row)
            labels.append(mine or None)
            types.append(mine[0] if mine else None)
        ids = list(self.at)
        fixed = {"id": ids, "name": names, "type": types, "description": descriptions, "labels": labels}
        nodes = table_of(fixed | {"uri": self.iris}, properties, "nodes", self.first.__getitem__, self.report)
        ends = {name: [ids[i] for i in self.edges[name]] for name in ("source", "target")}
        extra = {"predicate": self.edges["predicate"]}
        if any(self.edges["graph"]):
            extra["graph"] = self.edges["graph"]
        relation = {"relation": [_local(p) for p in self.edges["predicate"]]}
        nothing: list[dict[str, Any]] = [{} for _ in self.edge_rows]
        edges = table_of(ends | relation | extra, nothing, "edges", self.edge_rows.__getitem__, self.report)
        return Imported(nodes, edges, (), self.report)


def _quads(file: Path) -> Iterator[Any]:
    """The statements of a file, one after the other."""
    try:
        import pyoxigraph as ox
    except ImportError as error:
        raise MissingDependency("reading RDF needs pyoxigraph: pip install pyoxigraph") from error
    if not file.is_file():
        raise InvalidArgument(f"{file}: no such file")
    ending = Path(file.name.lower().removesuffix(".gz")).suffix
    if ending not in FORMATS:
        raise InvalidArgument(f"{file}: expected a file ending in {', '.join(FORMATS)}, each also with .gz")
    base = None if ending in (".nt", ".nq") else "file:///"  # relative IRIs stay recognisable, and name no folder
    try:
        with gzip.open(file) if file.name.lower().endswith(".gz") else file.open("rb") as stream:
            yield from ox.parse(stream, format=getattr(ox.RdfFormat, FORMATS[ending]), base_iri=base)  # type: ignore[arg-type]
    except (SyntaxError, ValueError) as error:
        line = getattr(error, "lineno", None)
        raise InvalidData(f"{file}{'' if line is None else f':{line}'}: {error}") from error
    except (gzip.BadGzipFile, EOFError) as error:
        raise InvalidData(f"{file}: damaged gzip file: {error}") from error


def _local(iri: str) -> str:
    """What follows the last #, / or : of an IRI; all of it where nothing does."""
    return re.split(r"[#/:]", iri.rstrip("#/:"))[-1] or iri


def _keys(predicates: set[str]) -> dict[str, str]:
    """The property key of each predicate."""
    by_name: dict[str, list[str]] = {}
    for predicate in predicates:
        by_name.setdefault(_local(predicate), []).append(predicate)
    own = {"name", "type", "text", "description", "types"}  # columns that mean something here
    return {
        p: name if len(mine) == 1 and (name not in own or p in (*NAMES, *DESCRIPTIONS)) else p
        for name, mine in by_name.items() for p in mine
    }  # fmt: skip


def _chosen(
    literals: dict[str, dict[str, list[Any]]], wanted: tuple[str, ...], language: str
) -> tuple[str, str] | None:
    """(predicate, value) of the first predicate that there is."""
    for predicate in wanted:
        tagged = literals.get(predicate)
        if tagged:
            regional = sorted(tag for tag in tagged if tag.startswith(f"{language}-"))
            tag = next(t for t in (language, *regional, "", *sorted(tagged)) if t in tagged)
            return predicate, str(tagged[tag][0])
    return None


def _is_plain(tagged: dict[str, list[Any]]) -> bool:
    """Whether the values are one text without a language."""
    return list(tagged) == [""] and len(tagged[""]) == 1 and isinstance(tagged[""][0], str)


def _as_value(tagged: dict[str, list[Any]]) -> Any:
    one_or_all = {tag or UNTAGGED: values[0] if len(values) == 1 else values for tag, values in tagged.items()}
    return one_or_all[UNTAGGED] if list(tagged) == [""] else one_or_all
