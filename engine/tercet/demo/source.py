"""A Python source file as a record of what it defines, imports, raises and calls, read without importing it."""

import ast
import warnings
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

from tercet.errors import InvalidData

FunctionNode = ast.FunctionDef | ast.AsyncFunctionDef

# Tests, programs that ship with Python rather than modules, and data; each is a folder name at any depth.
SKIPPED = frozenset(
    {"test", "tests", "idle_test", "idlelib", "lib2to3", "turtledemo", "pydoc_data", "site-packages", "_vendor"}
)
# One generated table for each code page; the package itself is kept.
TABLES = "encodings"

LEAVES = (ast.Name, ast.Constant, ast.expr_context, ast.operator, ast.cmpop, ast.arguments)


@dataclass(frozen=True)
class Definition:
    """A class, function or method. References are dotted names as written in the source."""

    path: str  # qualified name inside the module, such as "TestCase.setUp"
    kind: str  # "Class", "Function" or "Method"
    doc: str
    signature: str
    bases: tuple[str, ...] = ()
    raises: tuple[str, ...] = ()
    handles: tuple[str, ...] = ()  # in `except` clauses
    calls: tuple[str, ...] = ()


@dataclass
class Module:
    """One module. Names are bound to absolute dotted names; `aliases` to names as written in this module."""

    name: str
    is_package: bool
    doc: str
    definitions: dict[str, Definition] = field(default_factory=dict)
    bindings: dict[str, str] = field(default_factory=dict)
    aliases: dict[str, str] = field(default_factory=dict)
    stars: list[str] = field(default_factory=list)  # modules whose names are all taken over
    imports: dict[str, None] = field(default_factory=dict)  # candidates, in order of appearance
    exported: frozenset[str] | None = None  # `__all__`, if it is written out
    known_as: str = ""  # what the module sets its own `__name__` to


def module_files(root: Path, names: Iterable[str]) -> dict[str, Path]:
    """The source files of the named top-level modules and all that is inside packages, by dotted name, sorted."""
    files: dict[str, Path] = {}
    for top in sorted(names):
        if top in SKIPPED:
            continue
        single = root / f"{top}.py"
        if single.is_file():
            files[top] = single
        elif (root / top / "__init__.py").is_file():
            for path in sorted((root / top).rglob("*.py")):
                parts = path.relative_to(root).with_suffix("").parts
                if parts[-1] == "__main__" or SKIPPED.intersection(parts):
                    continue
                if parts[0] == TABLES and parts[-1] != "__init__":
                    continue
                files[".".join(parts[:-1] if parts[-1] == "__init__" else parts)] = path
    return dict(sorted(files.items()))


def read_module(name: str, path: Path) -> Module:
    """Parse one source file.

    Raises:
        InvalidData: the file isn't Python of the running version.
    """
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", SyntaxWarning)
            tree = ast.parse(path.read_bytes())
    except (SyntaxError, ValueError) as error:
        raise InvalidData(f"{path}: not valid Python source: {error}") from error
    module = Module(name, path.stem == "__init__", ast.get_docstring(tree) or "")
    _read_body(module, tree.body, "")
    return module


def _read_body(module: Module, body: list[ast.stmt], owner: str) -> None:
    for statement in _statements(body):
        if isinstance(statement, (ast.FunctionDef, ast.AsyncFunctionDef)):
            _add(module, _function(module, statement, owner))
        elif isinstance(statement, ast.ClassDef):
            _add(module, _class(statement, owner))
            _read_body(module, statement.body, f"{owner}{statement.name}.")
        elif isinstance(statement, (ast.Import, ast.ImportFrom)):
            _bind(module, statement)
        elif not owner:
            _read_assignment(module, statement)


def _statements(body: list[ast.stmt]) -> Iterator[ast.stmt]:
    """Statements of a body, with those of `if`, `try` and `with` blocks in their place."""
    for statement in body:
        yield statement
        if isinstance(statement, (ast.If, ast.Try, ast.With)):
            yield from _statements(statement.body)
            for handler in getattr(statement, "handlers", []):
                yield from _statements(handler.body)
            yield from _statements(getattr(statement, "orelse", []))


def _add(module: Module, new: Definition) -> None:
    """Keep the first of several definitions of a name (platforms, setters), or the first with a docstring."""
    old = module.definitions.get(new.path)
    if old is None or (new.doc and not old.doc):
        module.definitions[new.path] = new


def _function(module: Module, node: FunctionNode, owner: str) -> Definition:
    raises: dict[str, None] = {}
    handles: dict[str, None] = {}
    calls: dict[str, None] = {}
    for inner in _inside(node):
        if isinstance(inner, ast.Raise):
            raises[_dotted(inner.exc.func if isinstance(inner.exc, ast.Call) else inner.exc)] = None
        elif isinstance(inner, ast.ExceptHandler):
            caught = inner.type.elts if isinstance(inner.type, ast.Tuple) else [inner.type]
            handles.update((_dotted(x), None) for x in caught)
        elif isinstance(inner, ast.Call):
            calls[_dotted(inner.func)] = None
        elif isinstance(inner, (ast.Import, ast.ImportFrom)):
            _bind(module, inner)
    arguments = _arguments(node.args)
    parameters = {"", *(a.lstrip("*") for a in arguments)}  # a parameter hides what the module calls so
    return Definition(
        path=owner + node.name,
        kind="Method" if owner else "Function",
        doc=ast.get_docstring(node) or "",
        signature=f"{node.name}({', '.join(arguments)})",
        raises=tuple(x for x in raises if x.split(".")[0] not in parameters),
        handles=tuple(x for x in handles if x.split(".")[0] not in parameters),
        calls=tuple(x for x in calls if x.split(".")[0] not in parameters),
    )


def _arguments(args: ast.arguments) -> list[str]:
    names = [a.arg for a in [*args.posonlyargs, *args.args] if a.arg not in ("self", "cls")]
    names += [f"*{args.vararg.arg}"] if args.vararg else []
    names += [a.arg for a in args.kwonlyargs]
    return names + ([f"**{args.kwarg.arg}"] if args.kwarg else [])


def _inside(node: ast.AST) -> Iterator[ast.AST]:
    """All nodes below one that can hold a statement or a call, in source order."""
    stack = [node]
    while stack:
        node = stack.pop()
        yield node
        stack += [x for x in ast.iter_child_nodes(node) if not isinstance(x, LEAVES)][::-1]


def _class(node: ast.ClassDef, owner: str) -> Definition:
    bases = tuple(b for b in map(_dotted, node.bases) if b)
    return Definition(
        path=owner + node.name,
        kind="Class",
        doc=ast.get_docstring(node) or "",
        signature=f"{node.name}({', '.join(bases)})" if bases else node.name,
        bases=bases,
    )


def _bind(module: Module, node: ast.Import | ast.ImportFrom) -> None:
    """Record an import; one inside a function counts for the whole module unless the name is bound already."""
    if isinstance(node, ast.Import):
        for item in node.names:
            module.imports[item.name] = None
            bound, target = (item.asname, item.name) if item.asname else (item.name.split(".")[0],) * 2
            module.bindings.setdefault(bound, target)
        return
    base = _absolute(module, node)
    for item in node.names:
        if item.name == "*":
            module.imports[base] = None
            module.stars.append(base)
        else:
            module.imports[f"{base}.{item.name}"] = None
            module.bindings.setdefault(item.asname or item.name, f"{base}.{item.name}")


def _absolute(module: Module, node: ast.ImportFrom) -> str:
    if not node.level:
        return node.module or ""
    package = module.name.split(".")
    up = node.level - 1 if module.is_package else node.level
    return ".".join([*package[: len(package) - up], *([node.module] if node.module else [])])


def _read_assignment(module: Module, statement: ast.stmt) -> None:
    if isinstance(statement, ast.AugAssign):
        targets: list[ast.expr] = [statement.target]
    elif isinstance(statement, ast.Assign):
        targets = statement.targets
    else:
        return
    for target in targets:
        if not isinstance(target, ast.Name):
            continue
        if target.id == "__all__":
            names = _texts(statement.value)
            module.exported = (module.exported or frozenset()) | names if names else module.exported
        elif target.id == "__name__" and isinstance(statement.value, ast.Constant):
            module.known_as = str(statement.value.value)
        elif isinstance(statement, ast.Assign) and _dotted(statement.value):
            module.aliases.setdefault(target.id, _dotted(statement.value))


def _texts(node: ast.expr) -> frozenset[str]:
    items = node.elts if isinstance(node, (ast.List, ast.Tuple)) else []
    return frozenset(x.value for x in items if isinstance(x, ast.Constant) and isinstance(x.value, str))


def _dotted(node: ast.expr | None) -> str:
    """`a.b.c` as text, or "" for any other expression; `super().x` reads as "super.x"."""
    parts: list[str] = []
    while isinstance(node, ast.Attribute):
        parts.append(node.attr)
        node = node.value
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "super" and parts:
        node = node.func
    if not isinstance(node, ast.Name):
        return ""
    return ".".join([node.id, *reversed(parts)])
