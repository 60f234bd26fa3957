"""The memory plan: what an engine will hold, and what a batch takes at its height, before either is tried."""

from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch

from tercet.arguments import whole
from tercet.errors import InvalidArgument, NotEnoughMemory
from tercet.info import size_text
from tercet.memory import LITTLE, free_bytes
from tercet.memory_parts import CODES, Part, Sizes, of_engine, of_store
from tercet.memory_steps import Asked, Step, at_once, codes_wanted, steps_of
from tercet.rules import PROJECTIONS, rules_of

if TYPE_CHECKING:
    from collections.abc import Sequence

    from tercet.collection import Collection
    from tercet.engine import Engine
    from tercet.graph import Graph

ENTRY = 16  # bytes of a place in Arrow's hash table, which has at least two for a row and grows fourfold
BINDING = 32  # bytes of a row of a collection while its owners are sorted


@dataclass(frozen=True)
class MemoryPlan:
    """Bytes that are predicted; `print` shows them as a table.

    What other processes and libraries take isn't in it, nor what a language model as encoder does.
    """

    device: str
    batch: int
    at_once: int  # queries of it that are retrieved together
    wide_search_top_k: int | None
    top_k: int
    projection: str
    parts: tuple[Part, ...]  # what stays
    steps: tuple[Step, ...]  # what the batch takes
    opening: int  # what loading takes beside the parts; the allocator keeps it
    encoder: str | None  # its memory isn't known
    free: int | None  # None: the device isn't here

    @property
    def resident(self) -> int:
        """What the device holds when everything has been used."""
        return sum(p.bytes for p in self._here())

    @property
    def mapped(self) -> int:
        """Of these, pages of files that the system can drop and read again."""
        return sum(p.mapped for p in self._here())

    @property
    def host(self) -> int:
        """What the host holds for an engine on another device."""
        return sum(p.bytes for p in self.parts if p.device == "cpu") if self.device != "cpu" else 0

    @property
    def working(self) -> int:
        """What a batch takes at its height."""
        kept = sum(s.bytes for s in self.steps if not s.passes)
        return kept + max((s.bytes for s in self.steps if s.passes), default=0)

    @property
    def peak(self) -> int:
        """The most that the device holds, of loading and of one batch after it."""
        return self.resident + self.opening + self.working

    def to_json(self) -> dict[str, Any]:
        """All of it as plain values."""
        about = {**asdict(self), "parts": [asdict(p) for p in self.parts], "steps": [s._asdict() for s in self.steps]}
        sums = ("resident", "mapped", "host", "working", "peak")
        return {**about, **{name: getattr(self, name) for name in sums}}

    def __str__(self) -> str:
        rows = [(p.name, size_text(p.bytes), _where(p, self.device)) for p in self.parts]
        if self.encoder is not None:
            rows.append(("encoder", "unknown", self.encoder))
        rows.append(("resident", size_text(self.resident), f"{size_text(self.mapped)} of it mapped"))
        rows.append(("loading", size_text(self.opening), "kept by the allocator"))
        rows += [(s.name, size_text(s.bytes), "in turn" if s.passes else "") for s in self.steps]
        rows.append(("working", size_text(self.working), f"{self.batch} queries, {self.at_once} at once"))
        rows.append(("peak", size_text(self.peak), ""))
        rows.append(("free", "unknown" if self.free is None else size_text(self.free), self.device))
        wide, high = max(len(r[0]) for r in rows), max(len(r[1]) for r in rows)
        return "\n".join(f"{a:<{wide}}  {b:>{high}}  {c}".rstrip() for a, b, c in rows)

    __repr__ = __str__

    def _here(self) -> list[Part]:
        return [p for p in self.parts if p.device == self.device]


def estimate_memory(
    source: "str | Path | Engine",
    *,
    device: str | None = None,
    batch: int = 256,
    wide_search_top_k: int | None = 100,
    top_k: int = 5,
    projection: str | None = None,
) -> MemoryPlan:
    """What an engine holds on a device, and what a batch of `recall` takes there.

    Args:
        source: the folder or URL of a store, of which only the manifest and file headers are read (in the copy of a
            URL); or an engine.
        device: "cpu", "cuda", …; None: the engine's, or "cpu" for a store.
        batch, wide_search_top_k, top_k, projection: as in `Engine.recall`.

    Raises:
        InvalidArgument: a wrong argument.
        StoreError: the store is none, or a file of it is missing or cut.
    """
    from tercet.engine import Engine, device_of

    if isinstance(source, Engine):
        encoder = None if source.encoder is None else source.encoder.fingerprint().describe()
        sizes = of_engine(
            source.graph, source.collections, source.rules.name, encoder=encoder, lexical=source.lexical,
            bound=source.bound,
        )  # fmt: skip
        on = source.device if device is None else device_of(device)
    else:
        sizes, on = of_store(source), device_of("cpu" if device is None else device)
    for name, value in (("batch", batch), ("top_k", top_k)):
        whole(name, value, least=1)
    if wide_search_top_k is not None:
        whole("wide_search_top_k", wide_search_top_k, least=1)
    if projection is not None and projection not in PROJECTIONS:
        raise InvalidArgument(f"projection: expected one of {', '.join(PROJECTIONS)}, got {projection!r}")
    on = _indexed(on)
    return _plan(sizes, on, _asked(sizes, on, batch, wide_search_top_k, top_k, projection))


def check_room(graph: "Graph", collections: "Sequence[Collection]", mode: str, device: torch.device) -> None:
    """Refuse to load more than is free.

    What is on the device already isn't wanted any more. On the CPU, mapped vectors and text can be read and dropped as
    they are needed, so they don't count.

    Raises:
        NotEnoughMemory: says what is wanted, what is free, and what to change.
    """
    device = _indexed(device)
    sizes = of_engine(graph, collections, mode, tell_mapped=False)
    most = sum(p.bytes for p in _placed(sizes, device) if p.device == str(device))
    if most <= LITTLE or most <= (free := free_bytes(device)):  # telling what is mapped takes 10 ms
        return
    sizes = of_engine(graph, collections, mode)
    before = {p.name: p for p in sizes.parts}
    wanted: list[Part] = []
    waiting: list[Part] = []
    for p in _placed(sizes, device):
        old = before.get(p.name)
        if p.device != str(device):
            continue
        if old is None or old.device != p.device:
            wanted.append(p)
        elif p.mapped:
            (waiting if p.waits else wanted).append(replace(p, bytes=p.mapped))
    total = sum(p.bytes for p in wanted)
    if total > free:
        raise NotEnoughMemory(_refusal(device, total, free, wanted, waiting))


def _plan(sizes: Sizes, device: torch.device, asked: "Asked") -> MemoryPlan:
    free = free_bytes(device) if device.type != "cuda" or torch.cuda.is_available() else None
    queries = at_once(sizes, asked, free)
    parts = [*_placed(sizes, device), *_kept(sizes, asked, queries)]
    return MemoryPlan(
        str(device), asked.batch, queries, asked.wide, asked.top_k, asked.projection, tuple(parts),
        tuple(steps_of(sizes, asked, queries)), _opening(sizes, device), sizes.encoder, free,
    )  # fmt: skip


def _asked(
    sizes: Sizes, device: torch.device, batch: int, wide: int | None, top_k: int, projection: str | None
) -> Asked:
    rules = rules_of(sizes.mode)
    if not rules.batch_limit and batch > 1:
        wide = None
    implied = "full" if wide is None else "induced" if rules.admit == "both" else "incident"
    return Asked(device, batch, wide, top_k, projection or implied, torch.get_num_threads())


def _placed(sizes: Sizes, device: torch.device) -> list[Part]:
    """The parts where they are once the engine is on a device, and the rows of the owners, which it makes."""
    out = []
    for p in sizes.parts:
        if p.name.startswith(CODES) and device.type != "cpu":
            continue
        here = p.host or p.device == str(device)
        out.append(p if here else replace(p, bytes=p.bytes + p.apart, device=str(device), mapped=0, apart=0))
    if not sizes.bound:
        out.append(Part("rows of owners", sum(
            8 * (c.rows + 1 + (sizes.keys if c.kind == "relation" else sizes.nodes)) for c in sizes.collections
        ), device=str(device)))  # fmt: skip
    return out


def _kept(sizes: Sizes, asked: Asked, queries: int) -> list[Part]:
    """What the first batch makes and leaves with the engine."""
    device = str(asked.device)
    codes = sum(codes_wanted(c, sizes, asked, queries) for c in sizes.collections)
    cpu = asked.device.type == "cpu"
    terms = 0 if asked.projection == "full" else 8 if cpu and sizes.equal else 8 * sizes.nodes
    labels = (0 if cpu else 4 * sizes.edges) + sizes.edges // 8 + (8 * sizes.nodes if sizes.order == "input" else 0)
    return [p for p in (
        Part("codes of vectors", codes, device=device), Part("terms of unmatched nodes", terms, device=device),
        Part("labels of edges", labels, host=True),
    ) if p.bytes]  # fmt: skip


def _opening(sizes: Sizes, device: torch.device) -> int:
    """The table that owners are looked up in, or the rows of a collection while they are sorted by owner."""
    if sizes.bound or device.type != "cpu":
        return 0
    places = 32
    while places <= 2 * sizes.nodes:
        places *= 4
    table = ENTRY * places + sizes.id_bytes + 12 * sizes.nodes
    return max([table if any(c.kind == "node" for c in sizes.collections) else 0,
                *(BINDING * c.rows for c in sizes.collections)])  # fmt: skip


def _refusal(device: torch.device, total: int, free: int, wanted: list[Part], waiting: list[Part]) -> str:
    def named(parts: list[Part]) -> str:
        return ", ".join(f"{p.name} {size_text(p.bytes)}" for p in sorted(parts, key=lambda p: -p.bytes))

    unread = f" (mapped, not counted: {named(waiting)})" if waiting else ""
    change = "load a smaller graph, raise the limit of the container, or free memory"
    if device.type != "cpu":
        change = (
            "build the collections with dtype='float16', use device='cpu', where the vectors of a store stay mapped, "
            "or free memory on the device"
        )
    return (
        f"device {str(device)!r}: wanted {size_text(total)}, free {size_text(free)}: {named(wanted)}{unread}. "
        f"Change: {change}; check_memory=False loads all the same"
    )


def _indexed(device: torch.device) -> torch.device:
    """A device as its tensors name it."""
    if device.type != "cuda" or device.index is not None:
        return device
    return torch.device("cuda", torch.cuda.current_device() if torch.cuda.is_available() else 0)


def _where(part: Part, device: str) -> str:
    notes = []
    if part.device != device:
        notes.append(f"on {part.device}")
    if part.mapped:
        notes.append("mapped" if part.mapped == part.bytes else f"{size_text(part.mapped)} of it mapped")
    return ", ".join(notes)
