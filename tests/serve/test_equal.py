"""What is asked through a server is answered as the engine answers it, to the last bit, whatever it is joined with."""

import asyncio
from concurrent.futures import Future
from typing import Any

import numpy as np
import pyarrow.compute as pc
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

import tercet
from tercet import AsyncEngine, Engine, LabelFilter, PropertyFilter
from tercet.errors import TercetError
from tercet.serve.forms import VERBS
from tests.serve.world import WIDTH, WORDS, Gate, encode, facts_of, plain, vector_of, world

MASK = np.arange(60) % 5 != 0
FILTERS = [None, MASK, pc.field("dataset") == "A", ["n1", "n2", "n3", "n30"], {"n4", "n7"}, torch.from_numpy(~MASK), []]
LABELS = [None, ["Entity"], LabelFilter.any(["Entity", "DocumentChunk"]), ("DocumentChunk",)]
PROPERTIES = [None, {"dataset": "A"}, {"dataset": PropertyFilter.ne("A")}]
TEXTS = st.sampled_from([*WORDS, "harbour bridge", "old tower near the canal", " ", ""])
IDS = st.sampled_from([f"n{i}" for i in range(60)])
COUNT = st.integers(1, 6)


@pytest.fixture(scope="module")
def engine() -> Engine:
    return world()


def optional(**strategies: Any) -> st.SearchStrategy[dict[str, Any]]:
    return st.fixed_dictionaries({}, optional=strategies)


RECALL = optional(
    top_k=COUNT, wide_search_top_k=st.sampled_from([None, 1, 5, 100]),
    projection=st.sampled_from([None, "induced", "incident", "full"]),
    node_name=st.sampled_from([None, "s", ["s", "t"], []]), filter=st.sampled_from(FILTERS),
    collections=st.sampled_from([None, ["Entity_name"]]), max_distance=st.sampled_from([None, 0.5]),
    feedback_influence=st.sampled_from([0.0, 0.5]), max_context_tokens=st.sampled_from([None, 20]),
)  # fmt: skip
SEARCH = optional(
    k=COUNT, filter=st.sampled_from(FILTERS), filter_labels=st.sampled_from(LABELS),
    filter_props=st.sampled_from(PROPERTIES),
)  # fmt: skip
GROW = optional(
    expand=st.integers(0, 2), max_nodes=st.sampled_from([None, 8]), rel_types=st.sampled_from([None, ["near"]])
)


def subject(verb: str) -> st.SearchStrategy[dict[str, Any]]:
    """What is asked: one or several, as text or vector where the verb takes both."""
    if verb in ("subgraph", "rank_subgraph"):
        seeds = st.lists(IDS | st.just("nobody"), min_size=1, max_size=4)
        return st.fixed_dictionaries({"seeds": seeds | st.lists(seeds, min_size=1, max_size=3)})
    if verb == "path_context":
        points = st.lists(TEXTS, min_size=1, max_size=3)
        return st.fixed_dictionaries({"waypoints": points | st.lists(points, min_size=1, max_size=3)})
    texts = st.fixed_dictionaries({"queries": TEXTS | st.lists(TEXTS, min_size=1, max_size=4)})
    if verb.startswith(("text", "hybrid")):
        return texts
    one = TEXTS.map(lambda t: vector_of(t).astype(np.float64))
    several = st.lists(TEXTS, min_size=1, max_size=4).map(encode)
    wrong = st.sampled_from([np.zeros(WIDTH), np.full(WIDTH, np.nan), np.ones(WIDTH + 1), np.ones((2, WIDTH + 1))])
    rows = one.map(lambda v: v.tolist()) | one.map(torch.from_numpy)
    return texts | st.fixed_dictionaries({"vectors": one | several | wrong | rows})


@st.composite
def calls(draw: st.DrawFn, verbs: tuple[str, ...] = VERBS) -> tuple[str, dict[str, Any]]:
    verb = draw(st.sampled_from(verbs))
    asked = draw(subject(verb))
    if verb == "recall":
        asked |= draw(RECALL)
    elif verb == "rank_subgraph":
        asked |= draw(optional(top_k=COUNT, damping=st.sampled_from([0.5, 0.85])))
    elif verb == "subgraph":
        asked |= draw(GROW)
    elif verb == "path_context":
        asked |= draw(optional(k=COUNT, max_hops=COUNT, filter=st.sampled_from(FILTERS), joined=st.booleans()))
    else:
        asked |= draw(SEARCH)
        if verb.endswith("subgraph"):
            asked |= draw(GROW)
    if verb != "path_context" and not isinstance(asked.get("filter"), (np.ndarray, torch.Tensor)):
        asked |= draw(optional(scope=st.sampled_from([None, "A", ("A", "B")])))
    return verb, asked


def outcome(results: Any) -> Any:
    """Facts of results, or the error that they are."""
    try:
        got = results() if callable(results) else results
    except TercetError as error:
        return type(error), str(error)
    return [facts_of(r) for r in got]


def answered(future: "Future[Any]") -> list[Any]:
    got = future.result(timeout=60)
    return got if isinstance(got, list) else [got]


@settings(max_examples=40, deadline=None)
@given(st.lists(calls(), min_size=1, max_size=12))
def test_a_mixed_stream_is_answered_as_by_the_engine(engine: Engine, asked: list[tuple[str, dict[str, Any]]]) -> None:
    with Gate(engine._serve()):  # so that they are joined
        futures = [engine.submit(verb, **given) for verb, given in asked]
    for (verb, given_), future in zip(asked, futures, strict=True):
        assert outcome(lambda f=future: answered(f)) == outcome(lambda v=verb, g=given_: plain(engine, v, **g))


@settings(max_examples=25, deadline=None)
@given(st.lists(calls(("recall",)), min_size=4, max_size=12))
def test_recalls_of_one_group_are_answered_as_by_the_engine(
    engine: Engine, asked: list[tuple[str, dict[str, Any]]]
) -> None:
    with Gate(engine._serve()):  # so that they are joined
        futures = [engine.submit(verb, **given) for verb, given in asked]
    for (verb, given_), future in zip(asked, futures, strict=True):
        assert outcome(lambda f=future: answered(f)) == outcome(lambda v=verb, g=given_: plain(engine, v, **g))


@pytest.mark.parametrize("mode", ["cognee", "grafito"])
def test_other_modes(mode: str) -> None:
    other = world(mode=mode)
    asked: list[tuple[str, dict[str, Any]]] = [
        ("recall", {"queries": "harbour"}), ("recall", {"queries": ["harbour"]}), ("recall", {"queries": "bridge"}),
        ("recall", {"queries": ""}), ("recall", {"queries": "river", "node_name": ["s"]}),
        ("text_search", {"queries": "harbour", "filter_labels": ["Entity"]}), ("text_search", {"queries": "bridge"}),
        ("subgraph", {"seeds": ["n1", "nobody"], "expand": 1}), ("hybrid_search", {"queries": "old tower", "k": 3}),
    ]  # fmt: skip
    futures = [other.submit(verb, **given) for verb, given in asked]
    for (verb, given_), future in zip(asked, futures, strict=True):
        assert outcome(lambda f=future: answered(f)) == outcome(lambda v=verb, g=given_: plain(other, v, **g)), verb
    other.close()


def test_a_list_longer_than_a_batch_is_answered_in_parts_and_in_order(engine: Engine) -> None:
    texts = [f"{WORDS[i % 10]} {i}" for i in range(101)]
    per_query = {"top_k": [1 + i % 4 for i in range(101)], "filter": [FILTERS[i % 4] for i in range(101)]}

    async def main() -> list[Any]:
        async with AsyncEngine(engine, max_batch=16) as a:
            return await a.recall(texts, **per_query)

    assert [facts_of(r) for r in asyncio.run(main())] == [facts_of(r) for r in engine.recall(texts, **per_query)]


def test_one_query_gives_one_result_and_a_list_gives_a_list(engine: Engine) -> None:
    async def main() -> None:
        async with AsyncEngine(engine) as a:
            assert isinstance(await a.recall("harbour"), tercet.Result)
            assert isinstance(await a.recall(vectors=vector_of("x")), tercet.Result)
            assert [type(r) for r in await a.recall(["harbour"])] == [tercet.Result]
            assert [type(r) for r in await a.recall(vectors=encode(["x", "y"]))] == [tercet.Result] * 2
            assert await a.recall([]) == []
            found = await a.semantic_search("harbour", 3)
            assert isinstance(found, tercet.Hits)
            around = await a.subgraph(found, expand=1)
            assert facts_of(around) == facts_of(engine.subgraph(found, expand=1)[0])
            assert isinstance(await a.rank_subgraph(around), tercet.Hits)
            assert facts_of(await a.rank_subgraph(around)) == facts_of(engine.rank_subgraph(around)[0])

    asyncio.run(main())


def test_vectors_and_filters_are_copied_when_submitted(engine: Engine) -> None:
    vector, ids = vector_of("harbour"), ["n1", "n2", "n3", "n4"]
    expected = facts_of(engine.recall(vectors=vector.copy(), filter=list(ids), projection="incident")[0])
    future = engine.submit(vectors=vector, filter=ids, projection="incident")
    vector[:] = 0
    ids.clear()
    assert facts_of(future.result(timeout=60)) == expected
