"""The commands that answer with subgraphs: `tercet subgraph`, `tercet path`."""

import json
from pathlib import Path
from typing import Annotated, Any

import typer

Store = Annotated[str, typer.Option("--store", help="Folder of the store, or its URL.")]
Types = Annotated[list[str] | None, typer.Option(help="Walk only this relation type; may be given again.")]
NotTypes = Annotated[list[str] | None, typer.Option(help="Never walk this relation type; may be given again.")]
Way = Annotated[str, typer.Option(help="both, out (source to target) or in.")]
Picture = Annotated[Path | None, typer.Option("--html", help="Write a picture here: one page that needs no network.")]
Scope = Annotated[
    list[str] | None, typer.Option("--scope", help="Only what belongs to this dataset; may be given again.")
]
AsJson = Annotated[bool, typer.Option("--json", help="Print JSON for programs.")]
MOST = 40  # rows of a table


def register(app: typer.Typer) -> None:
    """Add the commands to the command line."""
    app.command()(subgraph)
    app.command()(path)


def subgraph(
    questions: Annotated[list[str], typer.Argument(help="Questions.")],
    store: Store,
    by: Annotated[str, typer.Option(help="Find the seeds by: hybrid, vector or text.")] = "hybrid",
    k: Annotated[int, typer.Option(min=1, help="Seeds.")] = 10,
    expand: Annotated[int, typer.Option(min=0, help="Steps from the seeds.")] = 1,
    direction: Way = "both",
    rel_type: Types = None,
    exclude_rel_type: NotTypes = None,
    label: Annotated[list[str] | None, typer.Option(help="Enter only nodes with this label; again for more.")] = None,
    max_nodes: Annotated[int | None, typer.Option(min=1, help="Keep so many nodes, seeds included.")] = None,
    filter_label: Annotated[list[str] | None, typer.Option(help="Seeds must have this label.")] = None,
    html: Picture = None,
    context: Annotated[bool, typer.Option(help="Print the text for a language model instead of the table.")] = False,
    max_context_tokens: Annotated[int | None, typer.Option(min=0)] = None,
    encoder: Annotated[str | None, typer.Option(help="Instead of the store's.")] = None,
    scope: Scope = None,
    as_json: AsJson = False,
) -> None:
    """What matches each question, and how it connects."""
    import tercet
    from tercet.errors import InvalidArgument

    engine = scoped(tercet.open(store, encoder=encoder), scope)
    verbs = {"hybrid": engine.hybrid_subgraph, "vector": engine.semantic_subgraph, "text": engine.text_subgraph}
    if by not in verbs:
        raise InvalidArgument(f"--by: expected hybrid, vector or text, got {by!r}")
    if html is not None and len(questions) > 1:
        raise InvalidArgument("--html: expected one question, a page shows one subgraph")
    got = verbs[by](  # type: ignore[operator]
        questions, k, expand=expand, direction=direction, rel_types=rel_type, exclude_rel_types=exclude_rel_type,
        labels=label, max_nodes=max_nodes, filter_labels=filter_label,
    )  # fmt: skip
    _show(got, html, context, max_context_tokens, as_json)


def path(
    waypoints: Annotated[list[str], typer.Argument(help="At least two texts.")],
    store: Store,
    k: Annotated[int, typer.Option(min=1, help="Candidates a waypoint.")] = 3,
    max_hops: Annotated[int, typer.Option(min=1, help="Longest route between two waypoints.")] = 3,
    direction: Way = "both",
    rel_type: Types = None,
    exclude_rel_type: NotTypes = None,
    max_paths: Annotated[int, typer.Option(min=1, help="Routes a pair of candidates; with --joined: chains.")] = 5,
    expand: Annotated[int, typer.Option(min=0, help="Steps around the routes.")] = 0,
    joined: Annotated[bool, typer.Option("--joined", help="Only routes through all waypoints in turn.")] = False,
    html: Picture = None,
    context: Annotated[bool, typer.Option(help="Print the text for a language model as well.")] = False,
    encoder: Annotated[str | None, typer.Option(help="Instead of the store's.")] = None,
    scope: Scope = None,
    as_json: AsJson = False,
) -> None:
    """How two or more things connect: the shortest routes between them."""
    import tercet

    engine = scoped(tercet.open(store, encoder=encoder), scope)
    got = engine.path_context(
        waypoints, k, max_hops, direction=direction, rel_types=rel_type,  # type: ignore[arg-type]
        exclude_rel_types=exclude_rel_type, max_paths=max_paths, expand=expand, joined=joined,
    )  # fmt: skip
    if not as_json:
        _show_routes(got[0])
    _show(got, html, context, None, as_json, table=False)


def scoped(engine: Any, names: list[str] | None) -> Any:
    """The engine, or the part of it that --scope names."""
    return engine.scope(*names) if names else engine


def _show(
    got: Any, html: Path | None, context: bool, max_tokens: int | None, as_json: bool, *, table: bool = True
) -> None:
    for sub in got:
        if as_json:
            print(json.dumps(as_record(sub, max_tokens), ensure_ascii=False))
        elif context:
            typer.echo(sub.context(max_tokens))
        elif table:
            _print_table(sub)
    if html is not None:
        from tercet.pictures import export_graph

        export_graph(got[0], html, title=got[0].query)
        typer.echo(f"picture in {html}", err=as_json)


def as_record(sub: Any, max_tokens: int | None = None) -> dict[str, Any]:
    """A subgraph as JSON."""
    hops, scores = sub.hops, sub.scores
    return {
        "query": sub.query, "status": sub.status, "error": sub.error, "missing": sub.missing,
        "truncated": sub.truncated, "taken": sub.taken, "available": sub.available,
        "seeds": [{"id": h["node"].id, "score": h["score"]} for h in sub.seeds],
        "nodes": [{"id": n.id, "title": n.title, "labels": n.labels, "hops": hops[n.id], "score": scores.get(n.id)}
                  for n in sub.nodes],
        "relationships": [{"id": r.id, "source": r.source_id, "type": r.type, "target": r.target_id}
                          for r in sub.relationships],
        "paths": sub.paths, "pairs": sub.pairs, "text": sub.context(max_tokens),
    }  # fmt: skip


def _print_table(sub: Any) -> None:
    from rich.console import Console
    from rich.markup import escape
    from rich.table import Table

    console = Console()
    cut = f", {sub.available - sub.taken} more were left out" if sub.truncated else ""
    console.print(f"[bold]{escape(sub.query or '')}[/]: {sub.status}, {len(sub)} nodes, "
                  f"{len(sub.edge_rows)} relationships{cut}")  # fmt: skip
    for half, why in sub.missing.items():
        console.print(f"  no {half} half: {escape(why)}")
    if sub.error:
        console.print(f"  {escape(sub.error)}")
    table = Table("node", "labels", "hops", "score")
    hops, scores = sub.hops, sub.scores
    for n in sub.nodes[:MOST]:
        score = f"{scores[n.id]:.4f}" if n.id in scores else ""
        table.add_row(escape(n.title), escape(", ".join(n.labels)), str(hops[n.id]), score)
    if len(sub) > MOST:
        table.add_row(f"… {len(sub) - MOST} more", "", "", "")
    console.print(table)


def _show_routes(sub: Any) -> None:
    from rich.console import Console
    from rich.markup import escape

    console = Console()
    titles = {n.id: n.title for n in sub.nodes}
    for route in sub.paths:
        console.print(escape(" → ".join(titles[i] for i in route)))
    if not sub.paths:
        why = sorted({f"{p['status']} (waypoints {p['segment']} and {p['segment'] + 1})" for p in sub.pairs})
        console.print(f"{sub.status}: {escape(', '.join(why))}")
