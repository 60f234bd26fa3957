"""Pictures for print: PNG, SVG or PDF by matplotlib, the same bytes each time."""

import io
from collections import Counter
from typing import Any

import numpy as np

from tercet.errors import MissingDependency
from tercet.pictures.drawing import Drawing, shorten
from tercet.pictures.layout import layout

KINDS = ("png", "svg", "pdf")
INK, SOFT = "#16181d", "#6b6f77"
INCH = 110.0  # pixels of the layout in an inch of the picture, while it isn't too large for a page
NAMED = 60  # nodes; in larger graphs only seeds and the best connected get a caption
METADATA: dict[str, dict[str, Any]] = {"png": {}, "svg": {"Date": None}, "pdf": {"CreationDate": None}}


def paint(drawing: Drawing, kind: str = "svg", colour_by: str = "label", dpi: int = 200) -> bytes:
    """The picture as a file of `kind` (png, svg or pdf), laid out as in the HTML page.

    Raises:
        MissingDependency: matplotlib isn't installed.
    """
    try:
        import matplotlib as mpl
        from matplotlib.figure import Figure
    except ImportError as error:
        raise MissingDependency("the matplotlib backend needs matplotlib: pip install matplotlib") from error
    place = layout(len(drawing.id), drawing.source, drawing.target, drawing.hops)
    size = np.clip((np.ptp(place, axis=0) if len(place) else np.zeros(2)) / INCH + 1.5, (5, 3.5), (18, 13))
    with mpl.rc_context({"svg.hashsalt": "tercet", "svg.fonttype": "path", "axes.unicode_minus": False}):
        figure = Figure(figsize=tuple(size.tolist()), layout="constrained")
        axes = figure.add_subplot()
        axes.set_axis_off()
        axes.set_aspect("equal")
        axes.invert_yaxis()
        axes.margins(0.08)
        radius = 4 + 8 * np.array(drawing.size())  # points
        _edges(axes, drawing, place, radius)
        _nodes(axes, drawing, place, radius, colour_by)
        if drawing.title:
            axes.set_title(drawing.title, fontsize=14, color=INK, wrap=True, parse_math=False)
        written = io.BytesIO()
        figure.savefig(written, format=kind, dpi=dpi, metadata=METADATA[kind])
    return written.getvalue()


def _edges(axes: Any, drawing: Drawing, place: np.ndarray, radius: np.ndarray) -> None:
    """A line or arrow an edge, those of one pair bent apart; relations are named where the graph is small enough."""
    from matplotlib.patches import Circle

    style = "-|>,head_length=0.5,head_width=0.22" if drawing.directed else "-"
    pairs = [(min(ends), max(ends)) for ends in zip(drawing.source, drawing.target, strict=True)]
    together, drawn = Counter(pairs), Counter[tuple[int, int]]()
    for pair, source, target, relation in zip(pairs, drawing.source, drawing.target, drawing.relation, strict=True):
        start, end = place[source], place[target]
        turn, drawn[pair] = drawn[pair], drawn[pair] + 1
        if source == target:
            round_by = 13.0 + 7 * turn
            spot = start - (0, round_by)
            axes.add_patch(Circle(tuple(spot), round_by, fill=False, ec=SOFT, alpha=0.6, lw=0.9, zorder=1))
            spot, angle = spot - (0, round_by), 0.0
        else:
            bend = 0.2 * (turn - (together[pair] - 1) / 2) * (1 if source < target else -1)
            arrow = {
                "arrowstyle": style,
                "connectionstyle": f"arc3,rad={bend}",
                "color": SOFT,
                "alpha": 0.6,
                "lw": 0.9,
                "shrinkA": radius[source] + 1,
                "shrinkB": radius[target] + 2,
            }
            axes.annotate("", end, start, arrowprops=arrow, zorder=1)
            step = end - start
            spot = (start + end) / 2 + 0.5 * bend * np.array([-step[1], step[0]])
            angle = -np.degrees(np.arctan2(step[1], step[0]))  # y grows downwards
            angle = (angle + 90) % 180 - 90  # never upside down
        if relation and len(drawing.id) <= NAMED:
            _say(axes, spot, shorten(relation, 24), 6.5, SOFT, (0, 0), va="center", rotation=angle)


def _nodes(axes: Any, drawing: Drawing, place: np.ndarray, radius: np.ndarray, colour_by: str) -> None:
    """Discs with a ring about seeds, captions below, and a legend."""
    groups = drawing.hop_groups if colour_by == "hops" else drawing.label_groups
    by = np.array(drawing.by_hops if colour_by == "hops" else drawing.by_label, dtype=np.int64)
    seed = np.array([hop == 0 for hop in drawing.hops], dtype=bool)
    for i, group in enumerate(groups):
        mine = by == i
        axes.scatter(*place[mine].T, s=(2 * radius[mine]) ** 2, c=group.light, linewidths=0, zorder=2, label=group.name)
    axes.scatter(
        *place[seed].T, s=(2 * radius[seed] + 5) ** 2, facecolors="none", edgecolors=INK, linewidths=1.2, zorder=3
    )
    degree = np.bincount(np.array([*drawing.source, *drawing.target], dtype=np.int64), minlength=len(place))
    order = np.lexsort((-degree, ~seed))[:NAMED]
    for i in order.tolist():
        _say(
            axes,
            place[i],
            shorten(drawing.caption[i], 32),
            8,
            INK,
            (0, -radius[i] - 3),
            weight="bold" if seed[i] else "normal",
        )
    if len(groups) > 1:
        legend = axes.legend(loc="lower left", fontsize=8, frameon=False, markerscale=1, handletextpad=0.3)
        for text, handle in zip(legend.get_texts(), legend.legend_handles, strict=True):
            text.set_parse_math(False)
            handle.set_sizes([40])


def _say(
    axes: Any, spot: np.ndarray, text: str, size: float, colour: str, move: tuple[float, float], **more: Any
) -> None:
    """`text` at `spot`, moved by points, with a white edge so that it is read over lines."""
    from matplotlib.patheffects import withStroke

    look = {"fontsize": size, "color": colour, "ha": "center", "va": "top", "zorder": 4, "parse_math": False, **more}
    said = axes.annotate(text, spot, move, textcoords="offset points", **look)
    said.set_path_effects([withStroke(linewidth=2, foreground="white")])
