"""Plots as SVG that stands in a page: colours come from the page's style, every mark has a title to hover over."""

import html
import math
from collections.abc import Callable, Sequence
from typing import NamedTuple

WIDTH = 720
Scale = Callable[[float], float]


class Point(NamedTuple):
    """A way of retrieving in two numbers."""

    name: str
    x: float
    y: float
    group: int = 0  # which colour, from 0; -1: a baseline


class Bar(NamedTuple):
    """A number with an interval."""

    name: str
    value: float
    low: float | None = None
    high: float | None = None
    group: int = 0


def scatter(points: Sequence[Point], x: str, y: str) -> str:
    """Points over a logarithmic y, joined where no other point is better in both."""
    left, right, top, bottom = 64, 24, 16, 44
    height = 380
    xs, ys = [p.x for p in points], [p.y for p in points]
    low, high = _padded(min(xs), max(xs))
    at_x = _linear(low, high, left, WIDTH - right)
    decades = (math.log10(min(ys)), math.log10(max(ys)))
    span = max(decades[1] - decades[0], 0.3)
    floor, ceiling = decades[0] - span * 0.08, decades[1] + span * 0.08
    scale_y = _linear(floor, ceiling, height - bottom, top)
    at_y = lambda v: scale_y(math.log10(v))  # noqa: E731
    parts = [_grid_x(at_x, ticks(low, high), top, height - bottom, _number)]
    parts.append(_grid_y(at_y, log_ticks(10**floor, 10**ceiling), left, WIDTH - right))
    best = pareto([(p.x, p.y) for p in points])
    if len(best) > 1:
        way = " ".join(f"{at_x(a):.1f},{at_y(b):.1f}" for a, b in best)
        parts.append(f'<polyline class="pareto" points="{way}"/>')
    for p in points:
        inside = f"<title>{html.escape(p.name)}: {x} {p.x:.4f}, {_number(p.y)} {y}</title>"
        parts.append(_mark(at_x(p.x), at_y(p.y), p.group, (p.x, p.y) in best, inside))
    parts.append(_labels([p for p in points if (p.x, p.y) in best], at_x, at_y))
    parts.append(
        f'<text class="axis" x="{(left + WIDTH - right) / 2}" y="{height - 6}" text-anchor="middle">{x}</text>'
    )
    parts.append(f'<text class="axis" transform="rotate(-90)" x="{-(top + height - bottom) / 2}" y="14" '
                 f'text-anchor="middle">{y}</text>')  # fmt: skip
    return _svg(height, f"{y} over {x}", parts)


def bars(rows: Sequence[Bar], x: str, marker: float | None = None) -> str:
    """Bars from 0 with intervals as whiskers; `marker` is a line that all of them are compared with."""
    step, top, bottom, right = 30, 10, 40, 64
    left = min(260, 24 + 7 * max(len(_short(r.name)) for r in rows))
    height = top + bottom + step * len(rows)
    most = max([r.high if r.high is not None else r.value for r in rows] + [0.0])
    at = _linear(0.0, most * 1.02 or 1.0, left, WIDTH - right)
    parts = [_grid_x(at, ticks(0.0, most or 1.0), top, height - bottom, _number)]
    if marker is not None:
        parts.append(
            f'<line class="marker" x1="{at(marker):.1f}" x2="{at(marker):.1f}" y1="{top}" y2="{height - bottom}"/>'
        )
    for i, r in enumerate(rows):
        y = top + step * i + step / 2
        bounds = "" if r.low is None else f" ({r.low:.4f} to {r.high:.4f})"
        parts.append(f'<g><title>{html.escape(r.name)}: {r.value:.4f}{bounds}</title>'
                     f'<rect class="fill {_colour(r.group)}" x="{left}" y="{y - 8:.1f}" '
                     f'width="{max(at(r.value) - left, 0):.1f}" height="16" rx="2"/>')  # fmt: skip
        if r.low is not None and r.high is not None:
            a, b = at(r.low), at(r.high)
            parts.append(f'<path class="whisker" d="M{a:.1f} {y:.1f}H{b:.1f}M{a:.1f} {y - 4:.1f}v8'
                         f'M{b:.1f} {y - 4:.1f}v8"/>')  # fmt: skip
        parts.append(f'</g><text class="name" x="{left - 8}" y="{y + 4:.1f}" text-anchor="end">'
                     f'{html.escape(_short(r.name))}</text>'
                     f'<text class="value" x="{WIDTH - right + 8}" y="{y + 4:.1f}">{r.value:.4f}</text>')  # fmt: skip
    parts.append(
        f'<text class="axis" x="{(left + WIDTH - right) / 2}" y="{height - 6}" text-anchor="middle">{x}</text>'
    )
    return _svg(height, x, parts)


def histogram(values: Sequence[float], x: str, steps: int = 21) -> str:
    """How often values in [-1, 1] occur, by steps that have 0 in the middle of one; 0 itself stands apart."""
    left, right, top, bottom, height = 52, 16, 22, 44, 220
    edges = [-1 + 2 * i / steps for i in range(steps + 1)]
    counts, none = [0] * steps, 0
    for v in values:
        if v == 0:
            none += 1
        else:
            counts[min(int((v + 1) / 2 * steps), steps - 1)] += 1
    most = max([*counts, 1])
    at_x, at_y = _linear(-1, 1, left, WIDTH - right), _linear(0, most, height - bottom, top)
    parts = [_grid_y(at_y, [t for t in ticks(0, most) if t == int(t)], left, WIDTH - right)]
    for low, high, count in zip(edges[:-1], edges[1:], counts, strict=True):
        side = "worse" if high <= 0 else "better" if low >= 0 else "same"
        if count:
            parts.append(f'<rect class="fill {side}" x="{at_x(low) + 1:.1f}" width="{at_x(high) - at_x(low) - 2:.1f}" '
                         f'y="{at_y(count):.1f}" height="{height - bottom - at_y(count):.1f}" rx="1">'
                         f'<title>{low:+.2f} to {high:+.2f}: {count} queries</title></rect>')  # fmt: skip
    for t in (-1.0, -0.5, 0.0, 0.5, 1.0):
        parts.append(
            f'<text class="tick" x="{at_x(t):.1f}" y="{height - bottom + 16}" text-anchor="middle">{t:+.1f}</text>'
        )
    parts.append(f'<text class="axis" x="{at_x(0):.1f}" y="{height - 6}" text-anchor="middle">{x}</text>')
    total = len(values)
    worse, better = sum(v < 0 for v in values), sum(v > 0 for v in values)
    middle = at_x(0)
    parts.append(f'<text class="axis" x="{left}" y="12">worse: {worse}</text>'
                 f'<text class="axis" x="{middle:.1f}" y="12" text-anchor="middle">same: {none} of {total}</text>'
                 f'<text class="axis" x="{WIDTH - right}" y="12" text-anchor="end">better: {better}'
                 f'</text>')  # fmt: skip
    return _svg(height, x, parts)


def pareto(points: Sequence[tuple[float, float]]) -> list[tuple[float, float]]:
    """The points that no other one beats in both numbers, ascending by the first."""
    kept: list[tuple[float, float]] = []
    for x, y in sorted(points, key=lambda p: (-p[0], -p[1])):
        if not kept or y > kept[-1][1]:
            kept.append((x, y))
    return kept[::-1]


def ticks(low: float, high: float, about: int = 6) -> list[float]:
    """Round numbers within [low, high]."""
    span = high - low
    if span <= 0:
        return [low]
    step = 10 ** math.floor(math.log10(span / about))
    step = next(step * m for m in (1, 2, 5, 10) if span / (step * m) <= about)
    return [i * step for i in range(math.ceil(low / step - 1e-9), math.floor(high / step + 1e-9) + 1)]


def log_ticks(low: float, high: float) -> list[float]:
    """1, 2 and 5 times powers of ten within [low, high]; the powers alone where there are many."""
    powers = range(math.floor(math.log10(low)), math.ceil(math.log10(high)) + 1)
    for steps in ((1, 2, 5), (1,)):
        found = [s * 10.0**p for p in powers for s in steps if low <= s * 10.0**p <= high]
        if len(found) <= 8:
            return found
    return found


def _linear(low: float, high: float, start: float, end: float) -> Scale:
    span = high - low or 1.0
    return lambda v: start + (v - low) / span * (end - start)


def _padded(low: float, high: float) -> tuple[float, float]:
    pad = max((high - low) * 0.07, 0.005)
    return low - pad, high + pad


def _grid_x(at: Scale, marks: Sequence[float], top: float, bottom: float, text: Callable[[float], str]) -> str:
    return "".join(f'<line class="grid" x1="{at(t):.1f}" x2="{at(t):.1f}" y1="{top}" y2="{bottom}"/>'
                   f'<text class="tick" x="{at(t):.1f}" y="{bottom + 16}" text-anchor="middle">{text(t)}</text>'
                   for t in marks)  # fmt: skip


def _grid_y(at: Scale, marks: Sequence[float], left: float, right: float) -> str:
    return "".join(f'<line class="grid" x1="{left}" x2="{right}" y1="{at(t):.1f}" y2="{at(t):.1f}"/>'
                   f'<text class="tick" x="{left - 6}" y="{at(t) + 4:.1f}" text-anchor="end">{_number(t)}</text>'
                   for t in marks)  # fmt: skip


def _mark(x: float, y: float, group: int, best: bool, inside: str) -> str:
    size = 6 if best else 4.5
    style = f'class="dot {_colour(group)}{"" if best else " dim"}"'
    if group < 0:
        side = 2 * size
        return f'<rect {style} x="{x - size:.1f}" y="{y - size:.1f}" width="{side}" height="{side}">{inside}</rect>'
    return f'<circle {style} cx="{x:.1f}" cy="{y:.1f}" r="{size}">{inside}</circle>'


def _labels(points: Sequence[Point], at_x: Scale, at_y: Scale) -> str:
    """Names of points, those that would run into another one left out."""
    taken: list[tuple[float, float, float, float]] = []
    parts = []
    for p in sorted(points, key=lambda p: -p.x):
        text = _short(p.name, 34)
        x, y, wide = at_x(p.x), at_y(p.y), 6.2 * len(text)
        end = x + 10 + wide > WIDTH
        box = (x - 10 - wide if end else x + 10, y - 8, x - 10 if end else x + 10 + wide, y + 8)
        if box[0] < 60 or any(box[0] < t[2] and t[0] < box[2] and box[1] < t[3] and t[1] < box[3] for t in taken):
            continue
        taken.append(box)
        parts.append(f'<text class="label" x="{x - 10 if end else x + 10:.1f}" y="{y + 4:.1f}" '
                     f'text-anchor="{"end" if end else "start"}">{html.escape(text)}</text>')  # fmt: skip
    return "".join(parts)


def _colour(group: int) -> str:
    return "base" if group < 0 else f"c{group % 6}"


def _short(name: str, most: int = 34) -> str:
    return name if len(name) <= most else f"{name[: most - 1]}…"


def _number(value: float) -> str:
    return f"{value:,.0f}" if abs(value) >= 1000 else f"{value:.4g}"


def _svg(height: float, title: str, parts: Sequence[str]) -> str:
    return (f'<svg viewBox="0 0 {WIDTH} {height}" role="img" aria-label="{html.escape(title)}">'
            f'{"".join(parts)}</svg>')  # fmt: skip
