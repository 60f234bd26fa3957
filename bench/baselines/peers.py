"""Other libraries in environments of their own: where their Python is, and a script run there."""

import json
import os
import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from bench.machine import ROOT
from bench.workloads import Workload


def find_python(library: str, package: str, root: Path = ROOT) -> tuple[Path | None, str]:
    """The Python that holds a library and its version, or None and the reason.

    It is TERCET_BENCH_<LIBRARY>_PYTHON, else `.venv-<library>/bin/python` under `root`.
    """
    variable = f"TERCET_BENCH_{library.upper()}_PYTHON"
    named = os.environ.get(variable)
    python = Path(named) if named else root / f".venv-{library}" / "bin" / "python"
    if not python.is_file():
        return None, f"{variable} {'names no file' if named else f'is unset and .venv-{library} is missing'}"
    asked = f"from importlib.metadata import version; print(version({package!r}))"
    done = subprocess.run([python, "-c", asked], capture_output=True, text=True, check=False)
    return (python, done.stdout.strip()) if done.returncode == 0 else (None, f"that Python has no {package}")


def ask(
    python: Path, script: str, workload: Workload, arguments: list[str], timeout_s: float
) -> Iterator[dict[str, Any]]:
    """The JSON lines that a script of this folder prints about a workload; the last may be `{"skipped": why}`."""
    with tempfile.TemporaryDirectory() as folder:
        file, errors = Path(folder) / "workload.npz", Path(folder) / "stderr"
        workload.save(file)
        command = [str(python), str(ROOT / "bench" / "baselines" / script), str(file), *arguments]
        alone = {"OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"}  # both compute on one thread
        with errors.open("w") as sink:
            ran = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=sink, text=True, env={**os.environ, **alone})
            try:
                out, _ = ran.communicate(timeout=timeout_s)
                ended = f"ended with {ran.returncode}" if ran.returncode else ""
            except subprocess.TimeoutExpired:
                ran.kill()
                out, ended = ran.communicate()[0], f"stopped after {timeout_s:.0f} s"
        yield from (json.loads(line) for line in out.splitlines())
        if ended:
            last = errors.read_text(errors="replace").strip().splitlines()[-1:]
            yield {"skipped": f"{script} {ended}: {' '.join(last)[:300]}"}
