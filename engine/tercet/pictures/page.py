"""The HTML picture: one file that draws itself with Cytoscape.js and needs no network."""

import base64
import hashlib
import html
import json
import re
from dataclasses import asdict
from pathlib import Path
from typing import Any

from tercet.errors import InvalidArgument, MissingDependency
from tercet.pictures.drawing import Drawing
from tercet.pictures.layout import layout

HERE = Path(__file__).parent
LIBRARY = HERE / "vendor" / "cytoscape.min.js"
SCRIPTS = ("captions.js", "panel.js", "page.js")
COLOUR_BY = (None, "label", "hops")
# A JSON text with these written as \uXXXX can neither end its script element nor start another.
RISKY = {ord(char): f"\\u{ord(char):04x}" for char in "<>&\u2028\u2029"}


def render_page(drawing: Drawing, colour_by: str | None = None) -> str:
    """A whole HTML page.

    Args:
        drawing: what to show.
        colour_by: the colours at first: "label" or "hops"; None for labels where there are several.

    Raises:
        InvalidArgument: another colour_by.
        MissingDependency: the file of Cytoscape.js isn't there.
    """
    if colour_by not in COLOUR_BY:
        raise InvalidArgument(f"colour_by: expected 'label', 'hops' or None, got {colour_by!r}")
    if colour_by is None:
        colour_by = "label" if len(drawing.label_groups) > 1 or len(drawing.hop_groups) < 2 else "hops"
    library = _library()
    script = "\n".join((HERE / name).read_text(encoding="utf-8") for name in SCRIPTS)
    filled = {
        "policy": html.escape(_policy(library, script)),
        "title": html.escape(drawing.title or "Graph"),
        "style": (HERE / "page.css").read_text(encoding="utf-8"),
        "data": embed(_data(drawing, colour_by)),
        "library": library,
        "script": script,
    }
    frame = (HERE / "page.html").read_text(encoding="utf-8")
    return re.sub(r"{{(\w+)}}", lambda found: filled[found[1]], frame)


def embed(value: Any) -> str:
    """`value` as JSON that is safe inside a script element."""
    return json.dumps(value, ensure_ascii=False, allow_nan=False, separators=(",", ":")).translate(RISKY)


def _library() -> str:
    if not LIBRARY.is_file():
        raise MissingDependency(
            "an HTML picture needs Cytoscape.js, which wheels of Tercet hold: in a source tree bring it with "
            "python -m tercet.pictures.fetch (needs npm)"
        )
    return LIBRARY.read_text(encoding="utf-8")


def _policy(*scripts: str) -> str:
    """A content security policy that runs these scripts only and loads nothing."""
    hashes = (base64.b64encode(hashlib.sha256(script.encode()).digest()).decode() for script in scripts)
    allowed = " ".join(f"'sha256-{one}'" for one in hashes)
    return f"default-src 'none'; script-src {allowed}; style-src 'unsafe-inline'; img-src data: blob:"


def _data(drawing: Drawing, colour_by: str) -> dict[str, Any]:
    place = layout(len(drawing.id), drawing.source, drawing.target, drawing.hops).round(1)
    return {
        "directed": drawing.directed,
        "colour_by": colour_by,
        "nodes": {
            "id": drawing.id,
            "caption": drawing.caption,
            "labels": drawing.labels,
            "text": drawing.text,
            "uri": drawing.uri,
            "score": drawing.score,
            "size": [round(size, 3) for size in drawing.size()],
            "parts": drawing.parts,
            "hops": drawing.hops,
            "properties": drawing.properties,
            "by": {"label": drawing.by_label, "hops": drawing.by_hops},
            "x": place[:, 0].tolist(),
            "y": place[:, 1].tolist(),
        },
        "edges": {
            "id": drawing.edge_id,
            "source": drawing.source,
            "target": drawing.target,
            "relation": drawing.relation,
            "text": drawing.edge_text,
            "uri": drawing.edge_uri,
            "score": drawing.edge_score,
            "properties": drawing.edge_properties,
        },
        "groups": {
            "label": [asdict(group) for group in drawing.label_groups],
            "hops": [asdict(group) for group in drawing.hop_groups],
        },
    }
