"""A graph in the formats of other programs."""

from tercet.formats.graphml_export import to_graphml
from tercet.formats.neo4j_export import to_neo4j_csv
from tercet.formats.networkx_graph import to_networkx
from tercet.formats.parquet_folder import to_parquet
from tercet.formats.pyg import to_pyg

__all__ = ["to_graphml", "to_neo4j_csv", "to_networkx", "to_parquet", "to_pyg"]
