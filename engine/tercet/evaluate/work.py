"""The folder of a job that is under way: partitions that are done, what they were made with, a log.

    <out>/log.txt              what happened, a line each
    <out>/query_vectors.npy    the queries' vectors, so that they are encoded once whatever happens
    <out>/parts/job.json       the configuration, which partitions of another one don't fit
    <out>/parts/00000.arrow    the first partition, and so on; each is there whole or not at all
    <out>/parts/lock           held by the process that writes

`summary.json` is written last and ends it; the partitions go then.
"""

import json
import shutil
import time
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any

import numpy as np
import pyarrow as pa
import torch

from tercet.errors import InvalidArgument, InvalidData
from tercet.evaluate.job import digest
from tercet.evaluate.modes import Asked, Mode
from tercet.evaluate.parts import of_table, read_part, write_bytes
from tercet.evaluate.queries import Queries
from tercet.query import QueryBatch

SUMMARY, PARTS, JOB, LOCK, VECTORS, LOG = "summary.json", "parts", "job.json", "lock", "query_vectors.npy", "log.txt"


def check_out(out: str | Path, resume: bool) -> Path:
    """The folder that results may go to.

    Raises:
        InvalidArgument: there are results already; or a half-written run, and `resume` is off; or something else.
    """
    out = Path(out)
    if not out.exists() or (out.is_dir() and not any(out.iterdir())):
        return out
    if (out / SUMMARY).exists():
        raise InvalidArgument(f"{out}: exists already; results are never written over")
    if not (out / PARTS).is_dir():
        raise InvalidArgument(f"{out}: exists already, and isn't a run that could be gone on with; results are never "
                              f"written over")  # fmt: skip
    if not resume:
        raise InvalidArgument(f"{out}: exists already: {half_written(out)}; resume=True (--resume) goes on with it, "
                              f"results are never written over")  # fmt: skip
    return out


def half_written(out: Path) -> str:
    """What a folder without a summary has and lacks."""
    try:
        about = json.loads((out / PARTS / JOB).read_text(encoding="utf-8"))
        total = int(about["partitions"])
    except (OSError, ValueError, KeyError, TypeError):
        return f"a half-written run folder: {SUMMARY} is missing, which is written last, and {PARTS}/{JOB} as well"
    done = len(list((out / PARTS).glob("*.arrow")))
    return (
        f"a half-written run folder: {SUMMARY} is missing, which is written last; {done} of {total} partitions are "
        f"there"
    )


@dataclass(eq=False)
class Work:
    """A run folder before it is finished."""

    out: Path
    digest: str = ""
    held: IO[bytes] | None = None  # the lock, which goes with the process or with this

    def log(self, text: str) -> None:
        """Add a line to the log."""
        with (self.out / LOG).open("a", encoding="utf-8") as sink:
            sink.write(f"{time.strftime('%Y-%m-%d %H:%M:%S')} {text}\n")

    def vectors(self, queries: Queries, encoder: str) -> Asked | None:
        """The queries with the vectors that were made before, if they are there and of the same texts and encoder."""
        try:
            about = json.loads((self.out / PARTS / JOB).read_text(encoding="utf-8"))["encoded"]
            if about["encoder"] != encoder or about["queries"] != digest(queries.ids, queries.texts):
                return None
            made = np.load(self.out / VECTORS, allow_pickle=False)
        except (OSError, ValueError, KeyError, TypeError):
            return None
        if digest(made.tobytes()) != about["vectors"]:
            return None
        errors = {int(q): e for q, e in about["errors"].items()}
        texts: list[str | None] = list(queries.texts.to_pylist())
        return Asked(queries, QueryBatch(texts, torch.from_numpy(made), errors, False), dict(errors), about["seconds"])

    def begin(self, key: Mapping[str, Any], partitions: int, asked: Asked, encoder: str) -> None:
        """Write down the configuration, or compare it with the one that is there.

        Raises:
            InvalidArgument: the partitions that are there are of another configuration; names what differs; or another
                process is at work on the folder.
        """
        (self.out / PARTS).mkdir(parents=True, exist_ok=True)
        self._lock()
        self.digest = digest(json.dumps(key, sort_keys=True, default=repr))
        file = self.out / PARTS / JOB
        if file.exists():
            try:
                held = json.loads(file.read_text(encoding="utf-8"))
                before = dict(held["key"])
            except (ValueError, KeyError, TypeError) as error:
                raise InvalidData(f"{file}: damaged: {error}") from error
            if held["digest"] != self.digest:
                other = [
                    n for n in {**before, **key} if before.get(n) != json.loads(json.dumps(key.get(n), default=repr))
                ]
                raise InvalidArgument(f"{self.out}: its partitions were made with another configuration; "
                                      f"{', '.join(sorted(other)) or 'something'} differs")  # fmt: skip
            return
        encoded = None
        if asked.batch is not None:
            made = asked.batch.embedding.numpy()
            write_array(self.out / VECTORS, made)
            encoded = {
                "encoder": encoder, "queries": digest(asked.queries.ids, asked.queries.texts),
                "vectors": digest(made.tobytes()), "seconds": asked.seconds,
                "errors": {str(q): e for q, e in asked.errors.items()},
            }  # fmt: skip
        about = {"digest": self.digest, "partitions": partitions, "key": key, "encoded": encoded}
        write_bytes(file, json.dumps(about, default=repr).encode())

    def _lock(self) -> None:
        try:
            import fcntl
        except ImportError:  # not a POSIX system: it is up to the user there
            return
        self.held = (self.out / PARTS / LOCK).open("wb")
        try:
            fcntl.flock(self.held, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            self.held.close()
            raise InvalidArgument(f"{self.out}: another process is at work on it") from error

    def file(self, place: int) -> Path:
        """Where a partition is."""
        return self.out / PARTS / f"{place:05}.arrow"

    def read(self, place: int, models: Mapping[str, Mode], documents: pa.Array) -> dict[str, Mode] | None:
        """A partition that is done, or None; a damaged one is as good as none, and the log says so.

        Raises:
            InvalidData: it is of another configuration.
        """
        if not self.file(place).exists():
            return None
        try:
            table = read_part(self.file(place), self.digest)
        except InvalidData as error:
            if "another configuration" in str(error):
                raise
            self.log(f"partition {place} is damaged and is run again")
            return None
        return of_table(table, models, documents)

    def put(self, place: int, content: bytes) -> None:
        """Keep a partition."""
        write_bytes(self.file(place), content)

    def finish(self) -> None:
        """Drop the partitions; the results are written."""
        shutil.rmtree(self.out / PARTS, ignore_errors=True)
        if self.held is not None:
            self.held.close()


def write_array(path: Path, values: np.ndarray) -> None:
    """Write an .npy file whole or not at all."""
    import io

    sink = io.BytesIO()
    np.save(sink, values, allow_pickle=False)
    write_bytes(path, sink.getvalue())
