"""The commands about stores: `tercet verify`."""

import json
from dataclasses import asdict
from pathlib import Path
from typing import Annotated

import typer


def register(app: typer.Typer) -> None:
    """Add the commands to the command line."""
    app.command()(verify)


def verify(
    store: Annotated[Path, typer.Argument(help="Folder of the store.")],
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON for programs.")] = False,
) -> None:
    """Check a store: files, references, ids, weights, vectors. Exit status 1 when something is wrong."""
    from tercet.verify import verify as checks_of

    checks = checks_of(store)
    wrong = sum(not c.good for c in checks)
    if as_json:
        print(json.dumps({"store": str(store), "good": not wrong, "checks": [asdict(c) for c in checks]}))
    else:
        from rich.console import Console
        from rich.markup import escape
        from rich.table import Table

        table = Table("", "check", "found")
        for c in checks:
            table.add_row("[green]ok[/]" if c.good else "[red]wrong[/]", escape(c.what), escape(c.found))
        console = Console()
        console.print(table)
        console.print(f"{escape(str(store))}: {len(checks)} checks, {wrong} wrong")
    if wrong:
        raise typer.Exit(1)
