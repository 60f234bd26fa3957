"""Processes to kill: a server with the library loaded that forks one for each line it reads.

A line is JSON: {"do": "embed" or "compact", "cache": folder, "log": file, "first": n, "last": n}. The server answers
with the worker's process id at once, and, when the line is "wait", with its exit status.
"""

import hashlib
import json
import os
import sys
from pathlib import Path
from typing import Any

import numpy as np
import torch

from tercet.embedding import EmbeddingCache, embed, embed_texts
from tercet.encoder import CallableEncoder

DIMENSION = 16


def vectors_of(texts: list[str]) -> np.ndarray:
    """(B, 16) float32, another row for every text."""
    made = [hashlib.shake_128(t.encode("utf-8", "surrogatepass")).digest(DIMENSION) for t in texts]
    return np.frombuffer(b"".join(made), np.uint8).reshape(-1, DIMENSION).astype(np.float32) + 1


def numbered(first: int, last: int) -> list[str]:
    """Texts of many lengths."""
    return [f"text {i} " + "x" * (i * 7 % 31) for i in range(first, last)]


class Log:
    """Lines that are on record as soon as they are written."""

    def __init__(self, file: str | Path) -> None:
        self.place = os.open(file, os.O_WRONLY | os.O_APPEND | os.O_CREAT)

    def __call__(self, **line: Any) -> None:
        os.write(self.place, (json.dumps(line) + "\n").encode())


class LoggedCache(EmbeddingCache):
    """Logs what `append` returned from."""

    log: Log

    def append(self, who: Any, texts: list[str], vectors: torch.Tensor) -> None:
        super().append(who, texts, vectors)
        self.log(committed=texts)


def work(task: dict[str, Any]) -> None:
    """Embed or compact, logging as it goes."""
    log = Log(task["log"])
    cache = LoggedCache(task["cache"])
    cache.log = log
    if task["do"] == "compact":
        cache.compact()
        return
    encoder = CallableEncoder(vectors_of, "toy")
    encoder.fingerprint()

    def logged(texts: list[str]) -> np.ndarray:
        if len(texts) != 3:  # the probes
            log(encoded=texts)
        return vectors_of(texts)

    encoder.function = logged
    embed.COMMIT_S = task.get("commit_s", 0.0)
    got = embed_texts(encoder, numbered(task["first"], task["last"]), cache=cache, batch=8)
    log(result=hashlib.sha256(got.numpy().tobytes()).hexdigest())


def serve() -> None:
    """Fork a worker for each line."""
    torch.set_num_threads(1)
    CallableEncoder(vectors_of).fingerprint()  # loads compiled kernels, once for all workers
    last = 0
    for line in sys.stdin:
        if line.strip() == "wait":
            print(os.waitstatus_to_exitcode(os.waitpid(last, 0)[1]) if last else 0, flush=True)
            continue
        last = os.fork()
        if last == 0:
            code = 1
            try:
                work(json.loads(line))
                code = 0
            finally:
                os._exit(code)
        print(last, flush=True)


if __name__ == "__main__":
    serve()
