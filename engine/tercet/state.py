"""What an engine answers from, as one immutable value, so that going over to another version is one assignment."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import wraps
from typing import Any, TypeVar, cast

from tercet.candidates import Bound
from tercet.carried import Since
from tercet.collection import Collection
from tercet.errors import EngineClosed
from tercet.graph import Graph
from tercet.planner import Planner
from tercet_kernels._types import Topology

F = TypeVar("F", bound=Callable[..., Any])
S = TypeVar("S", bound="Versioned")


@dataclass(frozen=True, eq=False)
class State:
    """One version of an engine. Whoever holds it keeps it; nothing in it points back at the engine."""

    graph: Graph
    collections: list[Collection]
    planner: Planner
    lexical: Any  # what text searches read; an index made of the graph is kept with the graph
    version: int  # from 1
    origin: "Origin | None" = None  # the store that holds this version, or an earlier one
    since: Since | None = None  # what has changed since that one; None without an origin


@dataclass(frozen=True)
class Origin:
    """A commit of a store, as an engine knows it."""

    place: str  # the folder or URL
    store: str  # which store it is, wherever it lies
    commit: str  # which of its commits


class Versioned:
    """An engine's hold on its state, and views that keep the one they began with."""

    _state: State | None

    @property
    def state(self) -> State:
        """The current version.

        Raises:
            EngineClosed: there is none any more.
        """
        state = self._state
        if state is None:
            raise EngineClosed("the engine was closed")
        return state

    @property
    def graph(self) -> Graph:
        return self.state.graph

    @property
    def collections(self) -> list[Collection]:
        return self.state.collections

    @property
    def planner(self) -> Planner:
        return self.state.planner

    @property
    def version(self) -> int:
        """Which version this is, from 1; every update makes the next one."""
        return self.state.version

    @property
    def bound(self) -> list[Bound]:
        """The collections with their owners as rows of the graph."""
        return self.state.planner.bound

    @property
    def topology(self) -> Topology:
        """The graph's arrays, as the kernels read them."""
        return self.state.planner.topology

    @property
    def lexical(self) -> Any:
        """What text searches read."""
        return self.state.lexical

    @lexical.setter
    def lexical(self, value: Any) -> None:
        self._state = replace(self.state, lexical=value)

    def view(self: S) -> S:
        """This engine as it is now, whatever happens to it later."""
        state = self.state
        out = object.__new__(type(self))
        out.__dict__.update(self.__dict__)
        out._state = state
        return out


def pinned(verb: F) -> F:
    """A verb that runs on one version from beginning to end, and says on its results which one."""

    @wraps(verb)
    def on_one_version(self: Versioned, /, *args: Any, **kwargs: Any) -> Any:
        view = self.view()
        out = verb(view, *args, **kwargs)
        told = "version" in getattr(out, "__dataclass_fields__", ()) and out.version != view.version
        return replace(out, version=view.version) if told else out

    return cast(F, on_one_version)
