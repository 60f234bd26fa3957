"""Which importer reads a folder or a file, by what it holds."""

from collections.abc import Callable
from pathlib import Path

from tercet.errors import InvalidArgument
from tercet.formats import grafito, tables
from tercet.formats.lightrag_files import GRAPH

SHOWN = 12  # names listed when nothing fits


def detect(path: str | Path) -> str:
    """The name of the format of a folder or a file.

    Returns:
        One of the keys of FORMATS: the first whose marks are there.

    Raises:
        InvalidArgument: no such path, or nothing fits; lists what was found.
    """
    place = Path(path)
    if not place.exists():
        raise InvalidArgument(f"{place}: no such file or folder")
    for name, fits in FORMATS.items():
        if fits(place):
            return name
    if place.is_dir():
        names = sorted(p.name + "/" * p.is_dir() for p in place.iterdir())
        found = ", ".join(names[:SHOWN]) + (f" and {len(names) - SHOWN} more" if len(names) > SHOWN else "")
    else:
        found = f"a file of {place.stat().st_size} bytes"
    raise InvalidArgument(f"{place}: expected one of {', '.join(FORMATS)}; found {found or 'nothing'}")


def _tables(place: Path) -> bool:
    kinds = ("nodes", "edges")
    return place.is_dir() and all(any(_readable(p) for p in place.glob(f"{kind}.*")) for kind in kinds)


def _readable(file: Path) -> bool:
    return file.is_file() and file.name.lower().removesuffix(".gz").endswith(tuple(tables.READERS))


def _openie(place: Path) -> bool:
    return all(
        any((place / f"{stem}{end}").is_file() for end in (".jsonl", ".jsonl.gz")) for stem in ("passages", "openie")
    )


def _graphrag(place: Path) -> bool:
    names = ("entities", "relationships", "text_units")
    return any((place / f"{front}{name}.parquet").is_file() for name in names for front in ("", "create_final_"))


def _lightrag(place: Path) -> bool:
    return (place / GRAPH).is_file()


def _nano_graphrag(place: Path) -> bool:
    """nano-graphrag's reports, or the quotes around the names where there are none; LightRAG writes neither."""
    if not (place / GRAPH).is_file():
        return False
    if (place / "kv_store_community_reports.json").is_file():
        return True
    with (place / GRAPH).open("rb") as stream:
        return b'<node id="&quot;' in stream.read(1 << 16)


def _autoschemakg(place: Path) -> bool:
    return any(any(folder.glob("triple_nodes_*.csv")) for folder in (place, place / "triples_csv"))


def _hipporag(place: Path) -> bool:
    if not place.is_dir():
        return False
    inner = any((place / f"{kind}_embeddings").is_dir() for kind in ("chunk", "entity", "fact"))
    return any(place.glob("openie_results_*.json")) or (inner and any(place.parent.glob("openie_results_*.json")))


def _grafito(place: Path) -> bool:
    return place.is_file() and grafito.is_grafito(place)


def _cognee(place: Path) -> bool:
    """LanceDB folders and graph files by the names that Cognee gives them."""
    if not place.is_dir():
        return False
    marks = ("cognee.lancedb", "cognee_graph_*", "*.lance.db", "*.lbug")
    return any(any(folder.glob(mark)) for folder in (place, place / "databases") for mark in marks) or any(
        any(place.glob(f"databases/*/{mark}")) for mark in marks
    )


def _ends(*endings: str) -> Callable[[Path], bool]:
    """A file by its ending, gzipped or not."""
    return lambda place: place.is_file() and place.name.lower().removesuffix(".gz").endswith(endings)


def _neo4j_csv(place: Path) -> bool:
    """What an export leaves for the bulk import, or CSVs whose first line has its marks."""
    if not place.is_dir():
        return False
    if (place / "import.args").is_file():
        return True
    for file in sorted(place.glob("*.csv")):
        with file.open("rb") as stream:
            head = stream.readline(1 << 16)
        if b":ID" in head or b":START_ID" in head:
            return True
    return False


def _parquet_folder(place: Path) -> bool:
    return (
        (place / "nodes.parquet").is_file() and (place / "edges.parquet").is_file() and (place / "collections").is_dir()
    )


# In this order; a format comes before one whose marks it also bears.
FORMATS: dict[str, Callable[[Path], bool]] = {
    "graphrag": _graphrag,
    "nano-graphrag": _nano_graphrag,
    "lightrag": _lightrag,
    "autoschemakg": _autoschemakg,
    "hipporag": _hipporag,
    "openie": _openie,
    "cognee": _cognee,
    "neo4j-csv": _neo4j_csv,
    "parquet-folder": _parquet_folder,
    "graphml": _ends(".graphml"),
    "rdf": _ends(".nt", ".nq", ".ttl", ".trig"),
    "cypher": _ends(".cypher", ".cql"),
    "tables": _tables,
    "grafito": _grafito,
}
