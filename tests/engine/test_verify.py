"""`tercet verify`: what is wrong with a store, all of it in one table."""

import json

import numpy as np
import pyarrow as pa
import pytest
from typer.testing import CliRunner

from tercet import cli
from tercet.errors import StoreError
from tercet.verify import verify
from tests.engine.test_store import data_of, saved
from tests.engine.test_store_damage import damaged, rewrite

__all__ = ["saved"]  # a fixture


def wrong(path) -> dict[str, str]:
    return {c.what: c.found for c in verify(path) if not c.good}


def test_a_good_store_passes_every_check(saved) -> None:
    checks = verify(saved)
    assert all(c.good for c in checks), checks
    assert {"files", "node ids", "node order", "edge ids", "adjacency 'out'", "importance"} <= {c.what for c in checks}
    assert any("vectors" in c.what for c in checks)
    shown = CliRunner().invoke(cli.app, ["verify", str(saved)])
    assert shown.exit_code == 0
    assert "0 wrong" in shown.output


def test_all_damaged_files_are_named_at_once(saved) -> None:
    files = sorted(p for p in data_of(saved).rglob("*.npy") if p.stat().st_size)
    for file in files[:3]:
        damaged(file, "flipped")
    found = wrong(saved)
    for file in files[:3]:
        assert any(file.name in what for what in found)
    out = CliRunner().invoke(cli.app, ["verify", str(saved), "--json"])
    assert out.exit_code == 1
    told = json.loads(out.output)
    assert told["good"] is False
    assert sum(not c["good"] for c in told["checks"]) >= 3


def change_array(path, name: str, change) -> None:
    """Change an array so that its hash fits."""
    file = next(data_of(path).rglob(name))
    array = np.load(file)
    change(array)
    np.save(file, array)
    rewrite(path, lambda manifest: None)


@pytest.mark.parametrize(
    ("name", "change", "what", "told"),
    [
        ("out.edge.npy", lambda a: a.__setitem__(slice(0, 2), a[:1]), "adjacency 'out'", "missing or repeated"),
        ("into.other.npy", lambda a: a.__setitem__(0, (a[0] + 1) % 3), "adjacency 'into'", "far ends"),
        ("oriented.other.npy", lambda a: a.__setitem__(0, (a[0] + 1) % 3), "adjacency 'oriented'", "wrong"),
        ("importance.npy", lambda a: a.__setitem__(0, 7.0), "importance", "1 outside [0, 1], first row 0"),
        ("importance.npy", lambda a: a.__setitem__(1, np.nan), "importance", "first row 1"),
        ("edge_feedback.npy", lambda a: a.__setitem__(0, np.nan), "edge_feedback", "first row 0"),
        ("codes.npy", lambda a: a.__setitem__(0, 3), "codes", "rows differ from what is said of them, first 0"),
        ("codes.error.npy", lambda a: a.__setitem__(1, 0.0), "codes", "rows differ from what is said of them, first 1"),
        ("vectors.npy", lambda a: a.__setitem__(0, np.nan), "vectors", "1 rows with NaN or infinity, first 0"),
        ("vectors.npy", lambda a: a.__setitem__(0, a[0] * 2), "vectors", "whose norm isn't 1, first 0"),
    ],
)
def test_what_fits_its_hash_and_is_wrong_is_found(saved, name, change, what, told) -> None:
    change_array(saved, name, change)
    found = wrong(saved)
    assert any(what in w and told in f for w, f in found.items()), found


def test_ids_and_owners_are_compared(saved) -> None:
    nodes = data_of(saved) / "graph" / "nodes.arrow"
    with pa.OSFile(str(nodes)) as source:
        table = pa.ipc.open_file(source).read_all()
    ids = table.column("id").to_pylist()
    twice = table.set_column(0, "id", pa.array([ids[0], ids[0], *ids[2:]], pa.large_string()))
    with pa.OSFile(str(nodes), "wb") as sink, pa.ipc.new_file(sink, twice.schema) as writer:
        writer.write_table(twice)
    rewrite(saved, lambda manifest: None)
    found = wrong(saved)
    assert "1 repeated" in found["node ids"]
    assert "node order" in found
    assert any("owners" in w and repr(ids[1]) in f for w, f in found.items())


def test_no_store_at_all(tmp_path) -> None:
    with pytest.raises(StoreError, match="not a store"):
        verify(tmp_path)
