"""The six sentences of Cognee's guide to graph completion as a graph, extracted by hand."""

QUERY = "Who works on Cognee, and how do Alice and Bob collaborate?"

# A sentence, its summary, and the keys of the entities it names.
DOCUMENTS = (
    ("Alice is a Cognee engineer.", "Alice works at Cognee as an engineer.", ("alice", "cognee", "engineer")),
    (
        "Bob is Cognee's product manager.",
        "Bob manages the product at Cognee.",
        ("bob", "cognee", "product manager"),
    ),
    (
        "Cognee turns documents into AI memory.",
        "Cognee makes memory for AI out of documents.",
        ("cognee", "documents", "ai memory"),
    ),
    (
        "Alice builds Cognee hybrid retrieval.",
        "Hybrid retrieval at Cognee is built by Alice.",
        ("alice", "cognee", "hybrid retrieval"),
    ),
    (
        "Alice and Bob meet weekly on Cognee demos.",
        "Once a week Alice and Bob meet about demos of Cognee.",
        ("alice", "bob", "cognee", "cognee demos", "weekly meeting"),
    ),
    ("Bob sends Cognee feedback to Alice.", "Alice gets feedback on Cognee from Bob.", ("bob", "alice", "feedback")),
)
# Entity key: (type, description).
ENTITIES = {
    "alice": ("person", "Engineer at Cognee who builds hybrid retrieval and meets Bob on demos."),
    "bob": ("person", "Product manager of Cognee who gives feedback to Alice."),
    "cognee": ("organization", "Makes software that turns documents into memory for AI, and is also its name."),
    "engineer": ("role", "The job that Alice has at Cognee."),
    "product manager": ("role", "The job that Bob has at Cognee."),
    "documents": ("artifact", "What is put into Cognee: texts of any kind."),
    "ai memory": ("concept", "What documents become in Cognee: knowledge that an AI can recall."),
    "hybrid retrieval": ("feature", "Search in Cognee by meaning and by connections at once; the work of Alice."),
    "cognee demos": ("event", "Presentations of Cognee that Alice and Bob talk about every week."),
    "weekly meeting": ("event", "The hour each week in which Alice and Bob meet on the demos."),
    "feedback": ("artifact", "Remarks about Cognee that Bob sends to Alice."),
}
TYPES = {
    "person": "A human being.",
    "organization": "A company or a group of people with a common purpose.",
    "role": "A position that a person holds.",
    "artifact": "Something that people make or write.",
    "concept": "An abstract idea.",
    "feature": "An ability of a piece of software.",
    "event": "Something that takes place at a time.",
}
# Source, relation, target, and the fact in a sentence where the label alone doesn't say it.
FACTS = (
    ("alice", "works_at", "cognee", "Alice works at Cognee."),
    ("alice", "has_role", "engineer", "Alice is an engineer."),
    ("bob", "works_at", "cognee", "Bob works at Cognee."),
    ("bob", "has_role", "product manager", "Bob is the product manager."),
    ("cognee", "processes", "documents", "Cognee takes in documents."),
    ("cognee", "produces", "ai memory", "Cognee turns documents into AI memory."),
    ("documents", "become", "ai memory", None),
    ("alice", "builds", "hybrid retrieval", "Alice builds the hybrid retrieval of Cognee."),
    ("hybrid retrieval", "part_of", "cognee", None),
    ("alice", "meets_weekly_with", "bob", "Alice and Bob meet every week to work on Cognee demos."),
    ("alice", "attends", "weekly meeting", None),
    ("bob", "attends", "weekly meeting", None),
    ("weekly meeting", "is_about", "cognee demos", "The weekly meeting is about demos of Cognee."),
    ("cognee demos", "show", "cognee", None),
    ("bob", "sends", "feedback", "Bob sends feedback on Cognee."),
    ("feedback", "addressed_to", "alice", "The feedback of Bob goes to Alice."),
    ("feedback", "concerns", "cognee", None),
)

Columns = dict[str, list[str | None]]


def tables() -> tuple[Columns, Columns]:
    """The graph that a language model would make of the six sentences, in a fixed order.

    Returns:
        (nodes, edges) as columns of equal length. Nodes: `id`, `name`, `type` (DocumentChunk, TextSummary, Entity,
        EntityType), `text` (of chunks and summaries, else None), `description` (of entities and types, else None).
        Edges: `source`, `target`, `relation`, `edge_text` (a sentence or None).
    """
    nodes: list[tuple[str | None, ...]] = []
    edges: list[tuple[str | None, ...]] = []
    for number, (sentence, summary, entities) in enumerate(DOCUMENTS, 1):
        chunk = f"chunk:{number}"
        nodes.append((chunk, f"document {number}", "DocumentChunk", sentence, None))
        nodes.append((f"summary:{number}", f"summary {number}", "TextSummary", summary, None))
        edges.append((f"summary:{number}", chunk, "made_from", None))
        edges += [(chunk, f"entity:{key}", "contains", None) for key in entities]
    for key, (kind, description) in ENTITIES.items():
        nodes.append((f"entity:{key}", key, "Entity", None, description))
        edges.append((f"entity:{key}", f"type:{kind}", "is_a", None))
    nodes += [(f"type:{kind}", kind, "EntityType", None, description) for kind, description in TYPES.items()]
    edges += [(f"entity:{s}", f"entity:{t}", relation, text) for s, relation, t, text in FACTS]
    return (
        _columns(("id", "name", "type", "text", "description"), nodes),
        _columns(("source", "target", "relation", "edge_text"), edges),
    )


def _columns(names: tuple[str, ...], rows: list[tuple[str | None, ...]]) -> Columns:
    return {name: list(column) for name, column in zip(names, zip(*rows, strict=True), strict=True)}
