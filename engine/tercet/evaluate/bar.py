"""A progress bar for evaluations: queries done, time left, what is running."""

from collections.abc import Iterator
from contextlib import contextmanager
from datetime import timedelta

from rich.console import Console
from rich.markup import escape
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

from tercet.evaluate.running import Progress as Told


@contextmanager
def evaluation_bar(quiet: bool = False) -> Iterator[Told | None]:
    """A bar on the terminal; None where nobody looks."""
    console = Console(stderr=True)
    if quiet or not console.is_terminal:
        yield None
        return
    columns = (
        TextColumn("queries"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn(),
        TextColumn("{task.fields[left]}"), TextColumn("{task.fields[what]}"),
    )  # fmt: skip
    with Progress(*columns, console=console, transient=True) as shown:
        task = shown.add_task("queries", left="", what="")

        def tell(done: int, total: int, seconds_left: float | None, what: str) -> None:
            left = "" if seconds_left is None else f"{timedelta(seconds=round(seconds_left))} left"
            shown.update(task, completed=done, total=total, left=left, what=escape(what))

        yield tell
