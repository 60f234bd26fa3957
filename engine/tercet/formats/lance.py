"""Tables of a LanceDB folder, read through the lancedb package: the one file that imports it."""

from pathlib import Path

import pyarrow as pa

from tercet.errors import InvalidData, MissingDependency


def tables(folder: Path) -> dict[str, pa.Table]:
    """All tables of a LanceDB folder by name, sorted.

    Raises:
        MissingDependency: lancedb isn't installed.
        InvalidData: a table can't be read.
    """
    try:
        import lancedb
    except ImportError as error:
        raise MissingDependency(f"{folder}: reading LanceDB tables needs lancedb: pip install lancedb") from error
    names = sorted(entry.name.removesuffix(".lance") for entry in folder.iterdir() if entry.name.endswith(".lance"))
    try:
        connection = lancedb.connect(str(folder))
        return {name: connection.open_table(name).to_arrow() for name in names}
    except (ValueError, RuntimeError, OSError) as error:
        raise InvalidData(f"{folder}: not readable LanceDB tables: {error}") from error
