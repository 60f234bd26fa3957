"""A graph of the standard library of the running interpreter, read from its source files."""

import re
import sys
import sysconfig
from collections.abc import Callable, Iterator
from pathlib import Path

from tercet.demo.library import Library, is_public
from tercet.demo.questions import QUESTIONS, generate
from tercet.demo.source import SKIPPED, Module, module_files, read_module
from tercet.errors import MissingDependency

__all__ = ["QUESTIONS", "RELATIONS", "embedding_texts", "questions", "tables"]

# Each relation and how an edge of it reads; `{0}` is the source, `{1}` the target.
RELATIONS = {
    "calls": "{0} calls {1}",
    "defines": "{0} defines {1}",
    "handles": "{0} handles {1}",
    "imports": "{0} imports {1}",
    "inherits": "{0} inherits from {1}",
    "mentions": "the documentation of {0} mentions {1}",
    "overrides": "{0} overrides {1}",
    "raises": "{0} raises {1}",
    "reexports": "{0} re-exports {1}",
}
MAX_DESCRIPTION = 300
MAX_EMBEDDED = 80
MAX_LISTED = 8  # members named where there is no docstring
MAX_HELPERS = 3  # private helpers between a function and what it is said to call or raise
# Quoted, called, dotted, in CamelCase, or in snake_case.
NAMED = re.compile(
    r"`+([A-Za-z_][\w.]*)(?:\(\))?`+|\b([A-Za-z_][\w.]*)\(\)|\b([a-z_]\w*(?:\.\w+)+)\b"
    r"|\b([A-Z][a-z0-9]+[A-Z]\w*)\b|\b([a-z0-9]+_[a-z0-9_]+)\b"
)
SENTENCE_END = re.compile(r"(?<=[.:;])\s")
SIGNATURE_ONLY = re.compile(r"[\w.]+\([^)]*\)( *-> *[\w\[\], .]+)?\.?")

Columns = dict[str, list[str | None]]


def tables(
    max_modules: int | None = None, progress: Callable[[int, int], None] | None = None
) -> tuple[Columns, Columns]:
    """The nodes and edges of the running interpreter's standard library.

    Nothing is imported or run: source files are parsed. Nodes are the modules, public classes, exceptions, functions
    and methods, the built-in ones, and what is documented and public by name in private modules. The order is by id,
    so it is the same in every run of one Python version.

    Args:
        max_modules: read only the first modules by name; None reads all.
        progress: called with (modules read, modules in all) after each.

    Returns:
        (nodes, edges) as columns of equal length. Nodes: `id` (dotted path of the definition), `name` (as programs
        spell it, not always unique), `type` (Module, Class, Exception, Function, Method), `text` (always None),
        `description`. Edges: `source`, `target`, `relation` (a key of RELATIONS), `edge_text`; no edge is repeated and
        both ends are nodes.

    Raises:
        MissingDependency: the interpreter comes without the sources of its library.
        InvalidData: a source file can't be parsed.
    """
    root = Path(sysconfig.get_paths()["stdlib"])
    files = module_files(root, sys.stdlib_module_names)
    if not files:
        raise MissingDependency(
            f"the demo graph is made from the Python sources of the standard library; {root} has none"
        )
    chosen = list(files.items())[:max_modules]
    modules: dict[str, Module] = {}
    for done, (name, path) in enumerate(chosen, 1):
        modules[name] = read_module(name, path)
        if progress is not None:
            progress(done, len(chosen))
    modules |= _without_source(modules, files)
    library = Library(modules)
    names = library.public_names()
    kept = _kept(library, names)
    return _nodes(library, names, kept), _edges(library, names, kept)


def embedding_texts(nodes: Columns) -> tuple[list[str], list[str]]:
    """What is embedded: ids of the nodes with a docstring, and "<name>: <first sentence>", at most 80 characters.

    Encoding time grows with number and length, and a description made up from a signature adds nothing to a name.
    """
    ids, texts = [], []
    rows = zip(nodes["id"], nodes["name"], nodes["type"], nodes["description"], strict=True)
    for node, name, kind, description in rows:
        own = (name or "").rpartition(".")[2]
        if not (description or "").startswith((f"{kind} {name}", f"{kind} {own}")):
            ids.append(node or "")
            texts.append(_cut(f"{name}: {SENTENCE_END.split(description or '', maxsplit=1)[0]}", MAX_EMBEDDED))
    return ids, texts


def questions(count: int, seed: int = 0, graph: tuple[Columns, Columns] | None = None) -> list[str]:
    """Different questions about the standard library, made from its docstrings, names and edges by templates.

    Args:
        count: how many.
        seed: the same seed gives the same questions for the same graph.
        graph: what `tables` gave, if it is at hand; reading it again takes seconds.

    Raises:
        InvalidArgument: the graph doesn't yield so many.
    """
    nodes, edges = tables() if graph is None else graph
    return generate(nodes, edges, count, seed)


def _without_source(modules: dict[str, Module], files: dict[str, Path]) -> dict[str, Module]:
    """Public modules written in C, as far as the given ones import them."""
    imported = {name.split(".")[0] for module in modules.values() for name in module.imports}
    absent = (imported & sys.stdlib_module_names) - SKIPPED - files.keys()
    return {n: Module(n, False, f"Module {n}, without Python source.") for n in sorted(absent) if is_public(n)}


def _kept(library: Library, names: dict[str, str]) -> dict[str, None]:
    """The ids that become nodes, sorted: public names, in private modules only what is documented, and their owners."""
    kept = set()
    for ref, (module, definition) in library.definitions.items():
        if is_public(definition.path) and (definition.doc or is_public(names[ref])):
            kept.add(ref)
            owner = ref.rpartition(".")[0]
            while owner in library.definitions:
                kept.add(owner)
                owner = owner.rpartition(".")[0]
            kept.add(module.name)
    kept.update(name for name in library.modules if is_public(name))
    return dict.fromkeys(sorted(kept))


def _nodes(library: Library, names: dict[str, str], kept: dict[str, None]) -> Columns:
    columns: Columns = {"id": list(kept), "name": [names[ref] for ref in kept]}
    columns["type"] = [_type(library, ref) for ref in kept]
    columns["text"] = [None] * len(kept)
    columns["description"] = [_description(library, names, ref) for ref in kept]
    return columns


def _type(library: Library, ref: str) -> str:
    if ref in library.modules:
        return "Module"
    return "Exception" if library.is_exception(ref) else library.definitions[ref][1].kind


def _description(library: Library, names: dict[str, str], ref: str) -> str:
    """The first paragraph of the docstring, inherited or its own, or what there is to say without one."""
    module = library.modules.get(ref)
    for paragraph in re.split(r"\n\s*\n", (module.doc if module else library.doc(ref)).strip()):
        text = " ".join(paragraph.split())
        if text and not SIGNATURE_ONLY.fullmatch(text):
            return _cut(text, MAX_DESCRIPTION)
    if module:
        text = f"Module {names[ref]}"
    else:
        place = names[ref].rpartition(".")[0] or "builtins"
        text = f"{_type(library, ref)} {library.definitions[ref][1].signature} of {place}"
    listed = ", ".join(library.members(ref)[:MAX_LISTED])
    return _cut(f"{text}, with {listed}." if listed else f"{text}.", MAX_DESCRIPTION)


def _cut(text: str, length: int) -> str:
    return text if len(text) <= length else text[: length - 3].rsplit(" ", 1)[0] + "..."


def _edges(library: Library, names: dict[str, str], kept: dict[str, None]) -> Columns:
    spelled: dict[str, str | None] = {}  # what only one node goes by, its last part included
    for ref in kept:
        for key in {names[ref], names[ref].rpartition(".")[2]}:
            spelled[key] = None if key in spelled else ref
    found: dict[tuple[str, str, str], None] = {}
    for module in library.modules.values():
        found.update(dict.fromkeys(_module_edges(library, module)))
        found.update(dict.fromkeys(_mentions(library, spelled, module, module.name, module.doc)))
    for ref, (module, definition) in library.definitions.items():
        found.update(dict.fromkeys(_definition_edges(library, ref)))
        found.update(dict.fromkeys(_mentions(library, spelled, module, ref, definition.doc)))
    for module, _, target in library.reexports():
        found[module.name, "reexports", target] = None
    rows = sorted(x for x in found if x[0] in kept and x[2] in kept and x[0] != x[2])
    return {
        "source": [s for s, _, _ in rows],
        "target": [t for _, _, t in rows],
        "relation": [r for _, r, _ in rows],
        "edge_text": [RELATIONS[r].format(names[s], names[t]) for s, r, t in rows],
    }


def _module_edges(library: Library, module: Module) -> Iterator[tuple[str, str, str]]:
    for name in module.imports:
        # `from a import b` is an import of the module a.b if there is one, else of a
        target = next((n for n in (name, name.rpartition(".")[0]) if n in library.modules), None)
        if target is not None:
            yield module.name, "imports", target
        taken = library.locate(name)
        if taken in library.definitions:
            yield module.name, "imports", taken


def _definition_edges(library: Library, ref: str) -> Iterator[tuple[str, str, str]]:
    owner, _, own = ref.rpartition(".")
    yield owner, "defines", ref
    if library.is_class(ref):
        yield from ((ref, "inherits", base) for base in library.bases(ref))
        return
    if library.is_class(owner):
        above = library.inherited(owner, own)
        if above:
            yield ref, "overrides", above
    source = owner if own == "__init__" else ref  # what a class does when it is made
    yield from ((source, relation, target) for relation, target in _effects(library, ref, MAX_HELPERS))


def _effects(library: Library, ref: str, helpers: int) -> Iterator[tuple[str, str]]:
    """What a function raises, handles and calls, by itself or through private helpers of its module."""
    module, definition = library.definitions[ref]
    for relation, exceptions in (("raises", definition.raises), ("handles", definition.handles)):
        found = (library.resolve(module, name) for name in exceptions)
        yield from ((relation, target) for target in found if target and library.is_exception(target))
    for call in definition.calls:
        target = _called(library, module, ref.rpartition(".")[0], call)
        if target is None or target.startswith("builtins.") or library.is_exception(target):
            continue
        home, called = library.definitions.get(target, (None, None))
        if called is None or is_public(called.path):
            yield "calls", target
        elif home is module and helpers and target != ref:
            yield from _effects(library, target, helpers - 1)


def _called(library: Library, module: Module, owner: str, call: str) -> str | None:
    head, _, rest = call.partition(".")
    if head in ("self", "cls") and library.is_class(owner):
        return library.member(owner, rest)
    if head == "super" and library.is_class(owner):
        return library.inherited(owner, rest)
    return library.resolve(module, call)


def _mentions(
    library: Library, spelled: dict[str, str | None], module: Module, ref: str, doc: str
) -> Iterator[tuple[str, str, str]]:
    """Names in a docstring: of the same class, of the module, in full, or by a name that one node only goes by."""
    owner = ref if library.is_class(ref) else ref.rpartition(".")[0]
    for match in NAMED.finditer(doc):
        word = next(filter(None, match.groups())).rstrip(".")
        target = library.member(owner, word) if library.is_class(owner) else None
        target = target or library.resolve(module, word) or library.locate(word) or spelled.get(word)
        if target and target != owner:
            yield ref, "mentions", target
