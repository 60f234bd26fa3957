"""Questions about the standard library: some asked by hand, and as many as are wanted from the graph itself."""

import random
import re
from collections.abc import Iterator, Mapping, Sequence

from tercet.errors import InvalidArgument

QUESTIONS = (
    "how do I run a coroutine with a timeout?",
    "how do I parse command line arguments with sub-commands?",
    "what does json.loads raise when the text isn't valid JSON?",
    "how do I walk a directory tree and copy it somewhere else?",
    "which classes can lock something between threads?",
    "how do I send an e-mail with an attachment through an SMTP server?",
    "how do I read a zip archive member without extracting it?",
    "what is the difference between a process pool and a thread pool executor?",
    "how do I compare two texts line by line and show what changed?",
    "how do I cache the results of a function that is called often?",
    "how do I run another program and read what it prints?",
    "which exceptions can opening a URL raise?",
)
# A docstring that begins with one of these says what to do, so it can be asked for.
WORDS = """
abort accept acquire add allow append apply attach block build calculate call cancel change check clear close
compare compile compute configure connect construct convert copy count create decode decorate define delete
determine disable discard dispatch display divide download draw dump emit enable encode escape evaluate execute
expand extract fetch fill filter find flush force format generate get give handle ignore import indicate initialize
insert install invoke issue iterate join kill list load locate lock log look make map mark match merge move
normalize notify obtain open override pack parse pause perform place pop prepare print process push put query quit
quote raise read receive record register release remove rename repeat replace report reset resolve restore resume
retrieve reverse rotate round run save schedule search seek select send serialize set show shut simulate skip sort
split start stop store strip submit swap switch terminate test transform translate truncate try turn undo unlock
unregister update upload use validate verify wait wake walk wrap write yield
"""
VERBS = frozenset(WORDS.split())
BY_RELATION = {
    "raises": "what does {source} raise?",
    "inherits": "which classes inherit from {target}?",
    "overrides": "which classes override {target}?",
    "calls": "what is {target} used for in {source}?",
    "imports": "which modules need {target}?",
    "handles": "who handles {target}?",
    "mentions": "how do {source} and {target} belong together?",
}
LONGEST = 120

Columns = Mapping[str, Sequence[str | None]]


def generate(nodes: Columns, edges: Columns, count: int, seed: int) -> list[str]:
    """Different questions in random order, two from docstrings for each one about an edge, as far as there are enough.

    Args:
        nodes: columns `id`, `name`, `type`, `description`.
        edges: columns `source`, `target`, `relation`.
        count: how many.
        seed: of the choice; the same for the same graph and seed.

    Raises:
        InvalidArgument: `count` is negative or more than the graph yields.
    """
    about_nodes = dict.fromkeys(_from_descriptions(nodes))
    described = list(about_nodes)
    related = [q for q in dict.fromkeys(_from_edges(nodes, edges)) if q not in about_nodes]
    if not 0 <= count <= len(described) + len(related):
        raise InvalidArgument(f"count: this graph yields 0 to {len(described) + len(related)} questions, got {count}")
    rng = random.Random(seed)
    rng.shuffle(described)
    rng.shuffle(related)
    about_edges = max(min(count // 3, len(related)), count - len(described))
    chosen = described[: count - about_edges] + related[:about_edges]
    rng.shuffle(chosen)
    return chosen


def _from_descriptions(nodes: Columns) -> Iterator[str]:
    for name, kind, description in zip(nodes["name"], nodes["type"], nodes["description"], strict=True):
        sentence = re.split(r"[.:;](?:\s|$)", description or "", maxsplit=1)[0].strip()
        first, _, rest = sentence.partition(" ")
        # What was made up from a signature begins with its own type, as in "Method close() of ...".
        if not rest or len(sentence) > LONGEST or first == kind:
            continue
        word = first.lower()
        if word in ("return", "returns"):
            yield f"how do I get {rest}?"
        elif word in VERBS:
            yield f"how do I {word} {rest}?"
        elif word in ("a", "an", "the") and kind in ("Class", "Exception", "Module"):
            yield f"which {(kind or '').lower()} is {word} {rest}?"
        elif kind in ("Class", "Exception"):
            yield f"what is {name} for?"


def _from_edges(nodes: Columns, edges: Columns) -> Iterator[str]:
    names = dict(zip(nodes["id"], nodes["name"], strict=True))
    for source, relation, target in zip(edges["source"], edges["relation"], edges["target"], strict=True):
        if relation in BY_RELATION:
            yield BY_RELATION[relation].format(source=names[source], target=names[target])
