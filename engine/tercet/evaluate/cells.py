"""What a report page is made of: tables, figures, short names."""

import html
from collections.abc import Sequence

Cell = str | tuple[str, str]  # a text, or a text and its class
NUMBER = ' class="n"'


def short_names(names: Sequence[str]) -> dict[str, str]:
    """Short names: of a point of a sweep the values alone, unless two would be called the same."""
    short = {}
    for name in names:
        head, inside, rest = name.partition("[")
        values = [part.partition("=")[2] for part in rest.removesuffix("]").split(",")] if inside else []
        short[name] = " · ".join([head, *values])
    counts = [list(short.values()).count(v) for v in short.values()]
    return short if max(counts, default=1) == 1 else {n: n for n in names}


def axes_of(names: Sequence[str]) -> str:
    """What the values in short names are of."""
    found = {}
    for name in names:
        head, inside, rest = name.partition("[")
        if inside:
            found[head] = ", ".join(part.partition("=")[0] for part in rest.removesuffix("]").split(","))
    return "".join(f" {head}: {axes}." for head, axes in found.items())


def row_head(name: str) -> Cell:
    """The name of a mode as the head of a row: that of a sweep, and below it the values of its point."""
    short = short_names([name])[name]
    head, _, values = short.partition(" · ")
    return (f"{head}\n{values}\n{name}" if values else name, "")


def section(title: str, body: str) -> str:
    return f"<section><h2>{escaped(title)}</h2>{body}</section>" if body else ""


def figure(svg: str, note: str) -> str:
    return f"<figure>{svg}<figcaption>{escaped(note)}</figcaption></figure>"


def table(head: Sequence[str], rows: Sequence[Sequence[Cell]], numbers: int) -> str:
    """A table whose first column names the row, and of whose others the first `numbers` are right-aligned."""

    def cell(i: int, value: Cell) -> str:
        text, style = value if isinstance(value, tuple) else (value, "")
        span = f' colspan="{len(head) - i}"' if "wide" in style else ""
        if i == 0:
            name, _, point = text.partition("\n")
            point, _, whole = point.partition("\n")
            inside = escaped(name) + (f"<small>{escaped(point)}</small>" if point else "")
            return f'<th scope="row" class="{style}" title="{escaped(whole or name)}">{inside}</th>'
        right = " n" if i <= numbers and "left" not in style and not span else ""
        return f'<td class="{style}{right}"{span}>{escaped(text)}</td>'

    top = "".join(f'<th scope="col"{NUMBER if 0 < i <= numbers else ""}>{escaped(h)}</th>' for i, h in enumerate(head))
    body = "".join(f"<tr>{''.join(cell(i, c) for i, c in enumerate(r))}</tr>" for r in rows)
    return f'<div class="scroll"><table><thead><tr>{top}</tr></thead><tbody>{body}</tbody></table></div>'


def formatted(measure: str, value: float | None) -> str:
    return "" if value is None else f"{value:,.0f}" if measure.endswith("tokens") else f"{value:.4f}"


def escaped(value: str) -> str:
    return html.escape(str(value))
