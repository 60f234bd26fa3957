"""Modes as named settings: what differs between Tercet's own rules and those of another library."""

from dataclasses import dataclass, replace
from typing import Literal

from tercet.errors import InvalidArgument

Projection = Literal["induced", "incident", "full", "nodeset", "neighborhood"]
PROJECTIONS = ("induced", "incident", "full", "nodeset", "neighborhood")


@dataclass(frozen=True)
class Rules:
    """One mode. Stages read single fields of it; none of them knows the mode's name."""

    name: str
    admit: Literal["both", "either"]  # ends of an edge that must be matched
    combine: Literal["best", "last"]  # which of several hits on one element counts
    cliff: bool  # feedback and personal weights: Cognee's rule with its jumps, or the smooth one
    fallback: Literal["none", "full"]  # what an empty fragment becomes
    batch_limit: bool  # wide_search_top_k holds for lists of queries too
    scoped_limit: bool  # ... and together with node_name
    rank_unmatched: bool  # rank edges for a query that found nothing, when another query of the call found something
    seed_order: Literal["element", "first"]  # ties among seeds: by node, or by first appearance
    unknown_owners: Literal["refuse", "keep"]  # collection rows whose owner isn't in the graph
    blank: Literal["fail", "raise"]  # a bad query fails alone, or the call is refused
    # of subgraphs
    walk_order: Literal["rank", "edge"] = "rank"  # of a level: by what a node is worth, or by the edges' own order
    filter_edges: bool = False  # type filters hold for the relationships returned, too
    unknown_seeds: Literal["refuse", "skip"] = "refuse"
    matcher: Literal["native", "grafito"] = "native"  # how filters by label and property are read
    fusion: Literal["book", "raw_alone"] = "book"  # a half that is alone: on the scale of the fusion, or as it is
    routes: Literal["pair", "shared"] = "pair"  # max_paths: for each pair, or one budget for the segments in turn


NATIVE = Rules("native", "both", "best", False, "none", True, True, False, "element", "refuse", "fail")
COGNEE = Rules("cognee", "either", "last", True, "full", False, False, True, "first", "keep", "raise")
GRAFITO = replace(
    NATIVE, name="grafito", walk_order="edge", filter_edges=True, unknown_seeds="skip", matcher="grafito",
    fusion="raw_alone", routes="shared",
)  # fmt: skip
MODES = {rules.name: rules for rules in (NATIVE, COGNEE, GRAFITO)}


def rules_of(mode: str) -> Rules:
    """The rules of a mode.

    Raises:
        InvalidArgument: unknown mode.
    """
    if mode not in MODES:
        raise InvalidArgument(f"mode: expected one of {', '.join(map(repr, MODES))}, got {mode!r}")
    return MODES[mode]
