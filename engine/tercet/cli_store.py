"""The commands about stores: `tercet verify`, `tercet export`."""

import json
from dataclasses import asdict
from pathlib import Path
from typing import Annotated

import typer


def register(app: typer.Typer) -> None:
    """Add the commands to the command line."""
    app.command()(verify)
    app.command()(export)


def verify(
    store: Annotated[str, typer.Argument(help="Folder of the store, or its URL.")],
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON for programs.")] = False,
) -> None:
    """Check a store: files, references, ids, weights, vectors. Exit status 1 when something is wrong."""
    from tercet.verify import verify as checks_of

    checks = checks_of(store)
    wrong = sum(not c.good for c in checks)
    if as_json:
        print(json.dumps({"store": store, "good": not wrong, "checks": [asdict(c) for c in checks]}))
    else:
        from rich.console import Console
        from rich.markup import escape
        from rich.table import Table

        table = Table("", "check", "found")
        for c in checks:
            table.add_row("[green]ok[/]" if c.good else "[red]wrong[/]", escape(c.what), escape(c.found))
        console = Console()
        console.print(table)
        console.print(f"{escape(store)}: {len(checks)} checks, {wrong} wrong")
    if wrong:
        raise typer.Exit(1)


def export(
    store: Annotated[str, typer.Argument(help="Folder of the store, or its URL.")],
    out: Annotated[Path, typer.Argument(help="Folder, or file for graphml.")],
    format: Annotated[str, typer.Option(help="parquet, graphml or neo4j-csv.")] = "parquet",
) -> None:
    """Write a store's graph for other programs; parquet holds its vectors, too."""
    import tercet
    from tercet.errors import InvalidArgument
    from tercet.formats import export as written

    engine = tercet.open(store, "cpu")
    if format == "parquet":
        written.to_parquet(engine, out)
    elif format == "graphml":
        written.to_graphml(engine.graph, out)
    elif format == "neo4j-csv":
        written.to_neo4j_csv(engine.graph, out)
    else:
        raise InvalidArgument(f"--format: expected parquet, graphml or neo4j-csv, got {format!r}")
    typer.echo(f"{engine.graph.num_nodes:,} nodes and {engine.graph.num_edges:,} edges in {out}")
