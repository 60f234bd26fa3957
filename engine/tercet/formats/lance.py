"""Lance: tables of a LanceDB folder, and vectors of a collection as a Lance dataset.

The one file that imports lancedb and lance.
"""

from pathlib import Path
from typing import Any

import pyarrow as pa

from tercet.collection import Collection
from tercet.errors import InvalidArgument, InvalidData, MissingDependency
from tercet.index.exact import ExactIndex
from tercet.index.segmented import SegmentedIndex


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


def to_lance(collection: Collection, path: str | Path, columns: dict[str, Any] | None = None) -> None:
    """Write a collection as a Lance dataset: `id`, `vector` (V lists of D float32) and other columns.

    A dataset that is there already gets a new version, with these rows only.

    Args:
        path: a folder or URL that Lance knows.
        columns: (V,) values each, by name, such as the names of the nodes that own the rows.

    Raises:
        MissingDependency: lance isn't installed.
        InvalidArgument: a column called `id` or `vector`, or of another length.
    """
    lance = _lance(path)
    index: Any = collection.index
    if isinstance(index, SegmentedIndex):
        index = index.compact()
    rows = index if hasattr(index, "vectors") else index.inner
    vectors = rows.vectors.double()
    if isinstance(rows, ExactIndex) and rows.scale is not None:
        vectors = vectors * rows.scale[:, None]
    flat = pa.array(vectors.float().cpu().numpy().ravel())
    table: dict[str, Any] = {
        "id": collection.owner, "vector": pa.FixedSizeListArray.from_arrays(flat, collection.dimension),
    }  # fmt: skip
    for name, values in (columns or {}).items():
        if name in table or len(values) != collection.size:
            raise InvalidArgument(
                f"columns: expected {collection.size} values under another name than 'id' and 'vector', "
                f"got {len(values)} as {name!r}"
            )
        table[name] = values
    lance.write_dataset(pa.table(table), str(path), mode="overwrite")


def from_lance(
    path: str | Path,
    name: str,
    *,
    vector: str = "vector",
    owner: str = "id",
    version: int | None = None,
    **options: Any,
) -> tuple[Collection, pa.Table]:
    """Read a Lance dataset of vectors.

    Args:
        path: a folder or URL that Lance knows.
        name: of the collection.
        vector, owner: the columns with the vectors and with the ids that they belong to.
        version: of the dataset; None: the newest.
        options: of `Collection.build`, such as kind, dtype or index.

    Returns:
        the collection, and the other columns with the ids, in the dataset's order.

    Raises:
        MissingDependency: lance isn't installed.
        InvalidData: no dataset, a column that it doesn't have, or rows that `Collection.build` refuses.
    """
    lance = _lance(path)
    try:
        table = lance.dataset(str(path), version=version).to_table()
    except (ValueError, RuntimeError, OSError) as error:
        raise InvalidData(f"{path}: not a readable Lance dataset: {error}") from error
    for column in (vector, owner):
        if column not in table.schema.names:
            raise InvalidData(f"{path}: expected a column {column!r}, there are {table.schema.names}")
    collection = Collection.build(name, table.column(vector), table.column(owner), **options)
    return collection, table.drop_columns([vector])


def _lance(path: str | Path) -> Any:
    try:
        import lance
    except ImportError as error:
        raise MissingDependency(f"{path}: Lance datasets need lance: pip install 'tercet[lance]'") from error
    return lance
