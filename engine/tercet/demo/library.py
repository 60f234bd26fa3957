"""What the names in a set of modules refer to, worked out from their sources."""

import builtins
import os
from collections.abc import Iterator
from types import BuiltinFunctionType

from tercet.demo.source import Definition, Module

MAX_STEPS = 12  # import chains are shorter; guards against circular ones


class Library:
    """Modules with their definitions, found by dotted name. The id of a definition is its module, a dot, its path."""

    def __init__(self, modules: dict[str, Module]) -> None:
        self.builtins = builtin_module()
        self.modules = {**modules, "builtins": self.builtins}
        self.definitions: dict[str, tuple[Module, Definition]] = {}
        for module in self.modules.values():
            for path, definition in module.definitions.items():
                if f"{module.name}.{path}" not in self.modules:  # `def pool` beside a submodule `pool`
                    self.definitions.setdefault(f"{module.name}.{path}", (module, definition))
        self._bases: dict[str, list[str]] = {}

    def resolve(self, module: Module, ref: str, steps: int = 0) -> str | None:
        """The id that a name written in a module means: its own names, what it imports, then the built-ins."""
        found = self._within(module, ref.split("."), steps)
        return found or self._within(self.builtins, ref.split("."), steps)

    def locate(self, ref: str, steps: int = 0) -> str | None:
        """The id of an absolute dotted name, through re-exports; a module's id is its name."""
        parts = ref.split(".")
        for cut in range(len(parts), 0, -1):
            module = self.modules.get(".".join(parts[:cut]))
            if module is not None:
                return self._within(module, parts[cut:], steps) if parts[cut:] else module.name
        return None

    def member(self, owner: str, name: str) -> str | None:
        """The id of an attribute of a class, its own or an inherited one."""
        for cls in self.lineage(owner):
            if f"{cls}.{name}" in self.definitions:
                return f"{cls}.{name}"
        return None

    def inherited(self, owner: str, name: str) -> str | None:
        """The id of an attribute that a class has from its bases."""
        for cls in self.lineage(owner)[1:]:
            if f"{cls}.{name}" in self.definitions:
                return f"{cls}.{name}"
        return None

    def doc(self, ref: str) -> str:
        """The docstring of a definition; a method without one takes that of the method it overrides."""
        owner, _, name = ref.rpartition(".")
        classes = self.lineage(owner) if self.is_class(owner) else [owner]
        docs = (self.definitions[f"{cls}.{name}"][1].doc for cls in classes if f"{cls}.{name}" in self.definitions)
        return next(filter(None, docs), "")

    def members(self, ref: str) -> list[str]:
        """The public names that a module or a class defines directly, in source order."""
        module = self.modules.get(ref) or self.definitions[ref][0]
        inside = "" if ref in self.modules else f"{self.definitions[ref][1].path}."
        own = (path.removeprefix(inside) for path in module.definitions if path.startswith(inside))
        return [name for name in own if is_public(name) and "." not in name]

    def bases(self, owner: str) -> list[str]:
        """The known direct base classes of a class."""
        if owner not in self._bases:
            self._bases[owner] = []  # a class that seems to inherit from itself through aliases ends here
            module, definition = self.definitions[owner]
            found = (self.resolve(module, base) for base in definition.bases)
            self._bases[owner] = [b for b in found if b and b != owner and self.is_class(b)]
        return self._bases[owner]

    def lineage(self, owner: str) -> list[str]:
        """A class and its known ancestors, nearest first, each once."""
        found = [owner]
        for cls in found:  # grows while it is walked
            found += [base for base in self.bases(cls) if base not in found]
        return found

    def is_class(self, ref: str) -> bool:
        """Whether an id is that of a class."""
        return ref in self.definitions and self.definitions[ref][1].kind == "Class"

    def is_exception(self, ref: str) -> bool:
        """Whether an id is that of a class derived from BaseException."""
        return self.is_class(ref) and "builtins.BaseException" in self.lineage(ref)

    def reexports(self) -> Iterator[tuple[Module, str, str]]:
        """(module, name there, id) of definitions that a public module offers as its own.

        They come from inside its package, from a private module by a star import or with a line in `__all__`, or from
        any module by both.
        """
        for module in self.modules.values():
            if not is_public(module.name):
                continue
            for name, star in self._offered(module):
                target = self._within(module, [name], 0)
                if target is None or target not in self.definitions:
                    continue
                home = self.definitions[target][0].name
                inside = home.startswith(f"{module.name}.")
                listed = name in (module.exported or ())
                if inside or (star and listed) or ((star or listed) and not is_public(home)):
                    yield module, name, target

    def public_names(self) -> dict[str, str]:
        """The name each module and definition goes by in programs, by id."""
        homes = {name: self._public_home(name) for name in self.modules}
        names = {name: home if home == "os.path" else name for name, home in homes.items()}
        short: dict[str, tuple[int, bool, str]] = {}
        for module, name, target in self.reexports():
            home = homes[module.name]
            offer = (module.name.count("."), home == module.name, f"{home}.{name}")
            short[target] = min(short.get(target, offer), offer)
        for ref, (module, definition) in self.definitions.items():
            owner, _, own = ref.rpartition(".")
            if owner in self.definitions:  # a method: its class has come before it
                names[ref] = f"{names[owner]}.{own}"
                continue
            home = homes[module.name]
            names[ref] = f"{home}.{definition.path}" if home else definition.path
            if ref in short and (not is_public(home) or short[ref][0] <= module.name.count(".")):
                names[ref] = short[ref][2]
        return names

    def _offered(self, module: Module) -> Iterator[tuple[str, bool]]:
        for name in module.bindings:
            if not name.startswith("_") and (module.exported is None or name in module.exported):
                yield name, False
        for star in module.stars:
            source = self.modules.get(star)
            if source is not None:
                names = source.definitions if source.exported is None else sorted(source.exported)
                yield from ((name, True) for name in names if is_public(name) and "." not in name)

    def _public_home(self, name: str) -> str:
        """`os.path` for its implementation, what a module calls itself, and `io` for its pure Python twin `_pyio`."""
        if name == "builtins":
            return ""
        if name == os.path.__name__:
            return "os.path"
        twin = name.removeprefix("_py")
        return self.modules[name].known_as or (twin if twin in self.modules else name)

    def _within(self, module: Module, parts: list[str], steps: int) -> str | None:
        if steps > MAX_STEPS:
            return None
        head, rest = parts[0], parts[1:]
        ref = f"{module.name}.{head}"
        if head in module.definitions:
            if not rest:
                return ref
            return self.member(ref, ".".join(rest)) if module.definitions[head].kind == "Class" else None
        if head in module.bindings:
            return self.locate(".".join([module.bindings[head], *rest]), steps + 1)
        if head in module.aliases:
            return self.resolve(module, ".".join([module.aliases[head], *rest]), steps + 1)
        for star in module.stars:
            source = self.modules.get(star)
            if source is not None and is_public(head) and (source.exported is None or head in source.exported):
                found = self._within(source, parts, steps + 1)
                if found:
                    return found
        return None


def is_public(dotted: str) -> bool:
    """Whether no part of a dotted name begins with an underscore."""
    return not any(part.startswith("_") for part in dotted.split("."))


def builtin_module() -> Module:
    """The built-in functions, classes and exceptions of the running interpreter, which have no source file."""
    module = Module("builtins", False, builtins.__doc__ or "")
    for name, value in sorted(vars(builtins).items()):
        if not is_public(name):
            continue
        if isinstance(value, BuiltinFunctionType):
            signature = name + (getattr(value, "__text_signature__", None) or "(...)")
            module.definitions[name] = Definition(name, "Function", value.__doc__ or "", signature)
        elif isinstance(value, type) and value.__module__ == "builtins":
            if value.__name__ != name:  # IOError is OSError
                module.aliases[name] = value.__name__
                continue
            bases = tuple(base.__name__ for base in value.__bases__)
            module.definitions[name] = Definition(name, "Class", value.__doc__ or "", name, bases)
            if not issubclass(value, BaseException):
                module.definitions |= _builtin_methods(name, value)
    return module


def _builtin_methods(owner: str, value: type) -> dict[str, Definition]:
    found = {}
    for name, method in sorted(vars(value).items()):
        doc = getattr(method, "__doc__", None)
        if is_public(name) and isinstance(doc, str) and doc:
            signature = name + (getattr(method, "__text_signature__", None) or "(...)").replace("$self, ", "")
            found[f"{owner}.{name}"] = Definition(f"{owner}.{name}", "Method", doc, signature)
    return found
