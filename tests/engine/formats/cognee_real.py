"""Make a Cognee store with Cognee itself, and record what its search answers there.

Run by the Python of an environment that holds cognee (and needs nothing else):

    python cognee_real.py FOLDER

FOLDER gets Cognee's system folder, and `answers.json`: query texts, their vectors, and the ranked triplets of
`brute_force_triplet_search` for several settings. Vectors are made of hashes, so no model is needed, and nothing is
reached over a network.
"""

import asyncio
import hashlib
import json
import os
import random
import sys
from pathlib import Path

DIMENSION = 24
QUERIES = ["who leads the harbour", "lanterns of the old town", "where do the rivers meet", "Ilse and the bridge"]
SETTINGS = [
    {"top_k": 5, "wide_search_top_k": 6}, {"top_k": 8, "wide_search_top_k": 12},
    {"top_k": 40, "wide_search_top_k": None}, {"top_k": 5, "wide_search_top_k": 3, "triplet_distance_penalty": 1.5},
]  # fmt: skip
COLLECTIONS = ["Entity_name", "EntityType_name", "DocumentChunk_text", "EdgeType_relationship_name"]


class Hashed:
    """An embedding engine whose vectors are words' hashes, added up."""

    async def embed_text(self, text):
        from cognee.infrastructure.databases.vector.embeddings.EmbeddingEngine import EmbeddingResult

        return EmbeddingResult([vector(t) for t in text], tokens=len(text))

    def get_vector_size(self):
        return DIMENSION

    def get_batch_size(self):
        return 64

    async def input_limit(self):
        return None


def vector(text):
    out = [0.0] * DIMENSION
    for word in text.lower().split():
        rng = random.Random(hashlib.sha256(word.encode()).hexdigest())
        out = [x + rng.gauss(0, 1) for x in out]
    return out


def isolate(folder):
    (folder / "empty.env").touch()
    os.environ.update(
        TELEMETRY_DISABLED="1", COGNEE_TRACING_ENABLED="false", LITELLM_LOCAL_MODEL_COST_MAP="True", LOG_LEVEL="ERROR",
        COGNEE_LOG_FILE="false", COGNEE_ENV_FILE=str(folder / "empty.env"), HOME=str(folder),
        ENABLE_BACKEND_ACCESS_CONTROL="false", EMBEDDING_DIMENSIONS=str(DIMENSION),
        **{f"{name}_ROOT_DIRECTORY": str(folder / name.lower()) for name in ("DATA", "SYSTEM", "CACHE")},
        **{f"COGNEE_{name}_DIR": str(folder / name.lower()) for name in ("LOGS", "REPOS")},
    )  # fmt: skip
    os.chdir(folder)


def points():
    from cognee.infrastructure.engine import Edge
    from cognee.modules.engine.models import Entity, EntityType

    rng = random.Random(7)
    kinds = [EntityType(name=n, description=f"a {n}") for n in ("person", "place", "thing")]
    words = [
        "harbour",
        "lantern",
        "river",
        "bridge",
        "tower",
        "market",
        "Ilse",
        "Jonas",
        "Mara",
        "old",
        "new",
        "stone",
        "quiet",
        "town",
        "gate",
        "ferry",
    ]
    made = []
    for i in range(24):
        name = " ".join(rng.sample(words, 2)) + f" {i}"
        links = []
        for other in rng.sample(made, min(len(made), rng.randint(0, 3))):
            relation = rng.choice(["leads", "lies near", "was built by", "meets"])
            text = f"{name} {relation} {other.name}" if rng.random() < 0.5 else None
            links.append((Edge(relationship_type=relation, edge_text=text), other))
        made.append(Entity(name=name, is_a=rng.choice(kinds), description=f"about {name}", relations=links,
                           importance_weight=rng.choice([0.2, 0.5, 0.9])))  # fmt: skip
    return made


async def record(folder):
    import cognee
    import cognee.infrastructure.databases.vector.create_vector_engine  # noqa: F401

    hashed = Hashed()
    for name, module in list(sys.modules.items()):
        if name.startswith("cognee.") and callable(vars(module).get("get_embedding_engine")):
            module.get_embedding_engine = lambda: hashed
    from cognee.infrastructure.databases.relational import create_db_and_tables
    from cognee.modules.retrieval.utils.brute_force_triplet_search import brute_force_triplet_search
    from cognee.tasks.storage import add_data_points

    await create_db_and_tables()
    await add_data_points(points())
    answers = []
    for settings in SETTINGS:
        for query in QUERIES:
            found = await brute_force_triplet_search(query=query, collections=COLLECTIONS, **settings)
            rows = [[str(e.node1.id), e.attributes.get("relationship_name") or e.attributes.get("relationship_type"),
                     str(e.node2.id)] for e in found]  # fmt: skip
            answers.append({"query": query, "settings": settings, "triplets": rows})
    vectors = {q: vector(q) for q in QUERIES}
    told = {"collections": COLLECTIONS, "vectors": vectors, "answers": answers}
    (folder / "answers.json").write_text(json.dumps(told))


if __name__ == "__main__":
    target = Path(sys.argv[1]).resolve()
    target.mkdir(parents=True, exist_ok=True)
    isolate(target)
    asyncio.run(record(target))
