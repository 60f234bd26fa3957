"""A progress bar for texts that are encoded, with the rate and the time left."""

from collections.abc import Iterator
from contextlib import contextmanager
from datetime import timedelta

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TaskID, TextColumn, TimeElapsedColumn

from tercet.embedding.embed import Pace


class EncodingBar:
    """Shows a line for each thing that is encoded; `build`'s functions take it as their `progress`."""

    def __init__(self, bar: Progress) -> None:
        self._bar = bar
        self._tasks: dict[str, TaskID] = {}

    def __call__(self, what: str, done: int, total: int) -> None:
        """Where the pace isn't known."""
        self._update(what, done, total, "")

    def pace(self, what: str, pace: Pace) -> None:
        """How far `what` is."""
        shown = f"{pace.texts_per_s:,.0f} texts/s" if pace.texts_per_s else ""
        if pace.seconds_left is not None and pace.done < pace.total:
            shown += f", {timedelta(seconds=round(pace.seconds_left))} left"
        if pace.cached:
            shown += f"{', ' if shown else ''}{pace.cached:,} had a vector"
        self._update(what, pace.done, pace.total, shown)

    def _update(self, what: str, done: int, total: int, pace: str) -> None:
        if what not in self._tasks:
            self._tasks[what] = self._bar.add_task(what, total=total, pace="")
        self._bar.update(self._tasks[what], completed=done, pace=pace)


@contextmanager
def encoding_bar(quiet: bool = False) -> Iterator[EncodingBar | None]:
    """A bar on the terminal; None where nobody looks."""
    console = Console(stderr=True)
    if quiet or not console.is_terminal:
        yield None
        return
    columns = (
        TextColumn("encoding {task.description}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn(),
        TextColumn("{task.fields[pace]}"),
    )  # fmt: skip
    with Progress(*columns, console=console) as bar:
        yield EncodingBar(bar)
