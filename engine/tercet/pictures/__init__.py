"""Pictures of subgraphs: an HTML page to explore, sources for diagram tools, files for print."""

import os
import uuid
from pathlib import Path
from typing import Any, TypeVar

from tercet.errors import InvalidArgument
from tercet.pictures import grafito
from tercet.pictures.drawing import draw
from tercet.pictures.page import render_page
from tercet.pictures.texts import TEXTS, check_colour_by

__all__ = ["BACKENDS", "export_graph", "render_graph"]

BACKENDS = ("html", "graphml", "mermaid", "dot", "d2", "matplotlib")
ALSO = {"cytoscape": "html", "graphviz": "dot"}
CAPTIONS = ("node_label", "label_attr", "label_fn")
OPTIONS = {
    "html": ("colour_by",),
    "graphml": (),
    "mermaid": ("colour_by", "compatible"),
    "dot": ("colour_by", "compatible"),
    "d2": ("colour_by", "compatible"),
    "matplotlib": ("colour_by", "dpi"),
}

SomePath = TypeVar("SomePath", str, os.PathLike[str])


def export_graph(graph: Any, path: SomePath, backend: str = "html", **options: Any) -> SomePath:
    """Writes a picture of a graph to a file, whole or not at all.

    Args:
        graph: a networkx graph with the attributes named in `drawing.draw`, or an object with `to_networkx()`.
        path: the file, replaced if it is there. Its suffix matters to "matplotlib" only: .svg and .pdf, else PNG.
        backend: "html" ("cytoscape"): one file that needs no network; "graphml"; "mermaid"; "dot" ("graphviz"); "d2";
            "matplotlib".
        options: `title`; `node_label`, `label_attr`, `label_fn` for the captions, see `drawing.draw`; `colour_by`
            "label" or "hops" (not for GraphML); `compatible=True` (mermaid, dot, d2) for the lines that Grafito writes,
            unescaped; `dpi` (matplotlib).

    Returns:
        `path` as given.

    Raises:
        InvalidArgument: an unknown backend or option, or a graph that isn't one.
        MissingDependency: the backend needs something that isn't installed.
        OSError: the file can't be written.
    """
    kind = Path(path).suffix.lower().lstrip(".")
    content = _render(graph, backend, kind if kind in ("svg", "pdf") else "png", options)
    file = Path(path)
    beside = file.with_name(f".{file.name[:100]}.{uuid.uuid4().hex}")
    try:
        beside.write_bytes(content)
        os.replace(beside, file)
    finally:
        beside.unlink(missing_ok=True)
    return path


def render_graph(graph: Any, backend: str = "html", **options: Any) -> str:
    """The text of the picture, for "matplotlib" an SVG; arguments and errors as for `export_graph`."""
    return _render(graph, backend, "svg", options).decode("utf-8")


def _render(graph: Any, backend: str, kind: str, options: dict[str, Any]) -> bytes:
    name = ALSO.get(backend, backend)
    if name not in BACKENDS:
        raise InvalidArgument(f"backend: expected one of {', '.join([*BACKENDS, *ALSO])}, got {backend!r}")
    allowed = ("title", *CAPTIONS, *OPTIONS[name])
    for option in options:
        if option not in allowed:
            raise InvalidArgument(f"backend {backend!r} has the options {', '.join(allowed)}, got {option!r}")
    captions = {key: options[key] for key in CAPTIONS if key in options}
    if options.get("compatible"):
        return grafito.text(graph, name, **captions).encode()
    drawing = draw(graph, title=options.get("title"), **captions)
    rest = {key: value for key, value in options.items() if key in ("colour_by", "dpi")}
    if name == "html":
        return render_page(drawing, **rest).encode()
    if "colour_by" in rest:
        check_colour_by(rest["colour_by"])
    if name == "matplotlib":
        from tercet.pictures.paper import paint

        return paint(drawing, kind, **rest)
    return TEXTS[name](drawing, **rest).encode()
