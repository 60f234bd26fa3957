"""Which nodes of a graph or of a result matter: centrality, communities, personalized PageRank."""

from tercet.analyse.centrality import centrality
from tercet.analyse.communities import Community, communities
from tercet.analyse.pagerank import PageRanks, rank

__all__ = ["Community", "PageRanks", "centrality", "communities", "rank"]
