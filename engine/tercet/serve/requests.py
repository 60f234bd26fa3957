"""Requests: one caller's call of a verb, in a form that can be joined with others into one call for all of them."""

import asyncio
from collections.abc import Collection, Hashable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import torch

from tercet.errors import InvalidArgument
from tercet.retrieve.subgraph import Subgraph
from tercet.serve.forms import COUNTS, SUBJECT, WORDS_ONLY, Form, Odd, each_of, form_of, items_of
from tercet.serve.freeze import PLAIN, Same, frozen

if TYPE_CHECKING:
    from tercet.rules import Rules

COPIED = 1 << 20  # bytes; larger matrices aren't copied, because that would take the caller's time
Scope = tuple[str, ...] | None


@dataclass(eq=False, slots=True)
class Answer:
    """Where the answer to a call goes, and what is there of it already."""

    future: Any  # a `concurrent.futures.Future`, or an asyncio one
    loop: asyncio.AbstractEventLoop | None  # of the asyncio future
    deadline: float | None  # by `time.monotonic`
    single: bool  # one result, rather than a list
    left: int = 1  # parts without results
    parts: list[Any] = field(default_factory=list)
    begun: bool = False  # a part is in a batch, so a future of threads can't be cancelled any more

    def begin(self) -> bool:
        """A part of it goes into a batch; False if nobody waits for the answer any more."""
        if self.begun or self.loop is not None:
            return not self.future.done()
        self.begun = True
        return bool(self.future.set_running_or_notify_cancel())


@dataclass(eq=False, slots=True)
class Request:
    """Queries of one call that go into a batch together."""

    verb: str
    arguments: dict[str, Any]  # of a call for this request alone
    count: int  # queries
    single: bool
    group: Hashable  # requests with equal ones can share a call
    settings: dict[str, Any]  # the arguments that are equal throughout the group
    stacked: dict[str, list[Any]] | None  # the others, one value for each query; None: it has a call of its own
    texts: list[str]  # to be encoded
    scope: Scope
    tenant: Hashable
    key: Hashable | None  # of the result, None where it can't be kept
    answer: Answer
    part: int = 0  # its place among the parts of the answer
    arrived: float = 0.0  # by `time.monotonic`
    lane: Any = None  # where it waits
    encoded: tuple[Any, dict[str, Any]] | None = None  # the encoder, and where the vector is that it made of each text
    keeps: Any = None  # the engine that is to answer, so that it lives until then
    context: Any = None  # of the caller's trace


@dataclass(frozen=True, slots=True)
class Call:
    """A call that was read: what is common to all of its requests."""

    form: Form
    single: bool
    count: int
    settings: dict[str, Any]
    stacked: dict[str, list[Any]] | None
    given: Mapping[str, Any]
    group: Hashable
    scope: Scope
    tenant: Hashable
    key: Hashable | None
    common: Collection[str] = ()  # of the stacked arguments, those that are equal for all queries


def scope_of(scope: str | Sequence[str] | None) -> Scope:
    """The names of a scope.

    Raises:
        InvalidArgument: neither a name, nor names, nor None.
    """
    if scope is None or isinstance(scope, str):
        return None if scope is None else (scope,)
    if not isinstance(scope, (list, tuple)) or not scope or not all(isinstance(name, str) for name in scope):
        raise InvalidArgument(f"scope: expected a name, some names or None, got {scope!r}")
    return tuple(scope)


def read_call(
    rules: "Rules", verb: str, given: Mapping[str, Any], scope: Scope, tenant: Hashable, *, keyed: bool = False
) -> Call:
    """Check a call's arguments, and find what it can share with others.

    Args:
        keyed: make the key of the result, too.

    Raises:
        InvalidArgument: an unknown verb or argument, or no queries.
    """
    form = form_of(verb)
    form.check(given)
    loose: list[Any] = []
    try:
        if verb == "recall" and not rules.batch_limit:  # one query and a list of one are different things there
            raise Odd(verb)
        stacked, single, count = _subject(form, given)
        about = [(n, type(v), v) for n, v in given.items() if n not in ("vectors", form.subject)]
        if count == 1 and all(kind in PLAIN for _, kind, _ in about):  # the same few settings come again and again
            read = _read_plain(verb, rules.matcher, tuple(about))
        else:
            read = _read(form, rules.matcher, about, count, loose)
        stacked |= read.each
        group = (verb, scope, *_shape(stacked, form.subject), *read.group)
    except Odd:
        return _alone(form, given, scope, tenant)
    one = _content(group, stacked) if keyed and single and not loose else None
    return Call(form, single, count, read.settings, stacked, given, group, scope, tenant, one, read.common)


class _Read(NamedTuple):
    """The arguments of a call beside its queries, which nobody changes."""

    settings: dict[str, Any]  # those that are for the whole call
    each: dict[str, list[Any]]  # those that a query has its own of
    common: frozenset[str]  # of these, what is equal for all queries
    group: tuple[Hashable, ...]  # what calls must agree in to share a batch


def _read(
    form: Form, matcher: str, about: Sequence[tuple[str, type, Any]], count: int, loose: list[Any]
) -> _Read:  # fmt: skip
    settings: dict[str, Any] = {}
    stacked: dict[str, list[Any]] = {}
    common: set[str] = set()
    key: list[tuple[str, Hashable]] = []
    each = form.each if matcher == "native" else form.each[:1]
    for name, kind, value in about:
        if name in each:
            values, own = each_of(name, value, count)
            if kind is not int:
                values = [frozen(v, loose)[1] for v in values]
            if not own:
                values *= count
                common.add(name)
            stacked[name] = values
        elif form.defaults.get(name, key) is not value:
            made, settings[name] = frozen(value, loose)
            key.append((name, made))
    return _Read(settings, stacked, frozenset(common), (_cost(stacked, settings), *sorted(key, key=_first)))


@lru_cache(256)
def _read_plain(verb: str, matcher: str, about: tuple[tuple[str, type, Any], ...]) -> _Read:
    """The same for one query and values that are their own copies."""
    return _read(form_of(verb), matcher, about, 1, [])


def requests_of(call: Call, answer: Answer, most: int) -> list[Request]:
    """The requests of a call: one, or several where it has more than `most` queries."""
    count = call.count
    if call.stacked is None or count <= most:
        arguments = dict(call.given) if call.stacked is None else _own(call, 0, count)
        return [_request(call, answer, arguments, count, call.stacked, 0)]
    starts = range(0, count, most)
    answer.left, answer.parts = len(starts), [None] * len(starts)
    out = []
    for part, low in enumerate(starts):
        high = min(low + most, count)
        stacked = {name: values[low:high] for name, values in call.stacked.items()}
        out.append(_request(call, answer, _own(call, low, high), high - low, stacked, part))
    return out


def join(requests: Sequence[Request]) -> dict[str, Any]:
    """The arguments of one call for several requests of a group."""
    form = form_of(requests[0].verb)
    out = dict(requests[0].settings)
    interned: dict[Hashable, Any] = {}
    names = [n for n in (form.subject, "vectors", *form.each) if any(n in r.stacked for r in requests)]  # type: ignore[operator]
    for name in names:
        values: list[Any] = []
        for r in requests:
            assert r.stacked is not None
            held = r.stacked.get(name)
            values += [form.defaults[name]] * r.count if held is None else held
        if name == "vectors":
            out[name] = np.stack(values)
        elif name == "filter":  # the engine makes a mask for each object
            out[name] = [None if v is None else interned.setdefault(frozen(v, [])[0], v) for v in values]
        else:
            out[name] = values
    return out


def _own(call: Call, low: int, high: int) -> dict[str, Any]:
    """The arguments of a call for some of the queries, as they were given."""
    assert call.stacked is not None
    whole = (low, high) == (0, call.count)
    out = dict(call.settings)
    for name, values in call.stacked.items():
        part = values if whole else values[low:high]
        if name == "vectors":
            out[name] = part[0] if call.single else np.stack(part)
        else:
            out[name] = part[0] if call.single or name in call.common else part
    return out


def _request(
    call: Call, answer: Answer, arguments: dict[str, Any], count: int, stacked: dict[str, list[Any]] | None, part: int
) -> Request:
    return Request(
        call.form.verb, arguments, count, call.single, call.group, call.settings, stacked,
        _texts(call.form, arguments, stacked), call.scope, call.tenant, call.key, answer, part,
    )  # fmt: skip


def _texts(form: Form, arguments: Mapping[str, Any], stacked: Mapping[str, list[Any]] | None) -> list[str]:
    """What the encoder will be asked for."""
    if form.verb in WORDS_ONLY or form.subject == "seeds" or arguments.get("vectors") is not None:
        return []
    if stacked is not None:
        items = stacked.get(form.subject, [])
        if form.subject == "waypoints":
            items = [w for item in items for w in item]
    else:
        given = arguments.get(form.subject)
        items = [given] if isinstance(given, str) else list(given) if isinstance(given, (list, tuple)) else []
    return [t for t in items if isinstance(t, str) and t.strip()]


def _alone(form: Form, given: Mapping[str, Any], scope: Scope, tenant: Hashable) -> Call:
    """A call that shares its own with nobody."""
    subject = given.get(form.subject)
    single = _is_single(form, given)
    try:
        count = 1 if single else max(1, len(given["vectors"] if subject is None else subject))
    except TypeError:  # without a length it is something that the verb will refuse
        count = 1
    return Call(form, single, count, {}, None, dict(given), (form.verb, scope, Same(given)), scope, tenant, None)


def _is_single(form: Form, given: Mapping[str, Any]) -> bool:
    subject, vectors = given.get(form.subject), given.get("vectors")
    if form.subject == "queries":
        if subject is not None:
            return isinstance(subject, str)
        return vectors is None or not hasattr(vectors, "__len__") or np.ndim(vectors[0] if len(vectors) else []) == 0
    if isinstance(subject, Subgraph):
        return True
    try:
        return items_of(form.subject, subject)[1]
    except Odd:
        return isinstance(subject, (str, bytes)) or getattr(subject, "ndim", 2) == 1


def _subject(form: Form, given: Mapping[str, Any]) -> tuple[dict[str, list[Any]], bool, int]:
    """What there is one of for each query, whether there is one query, and how many there are."""
    subject, vectors = given.get(form.subject), given.get("vectors")
    if form.verb in SUBJECT:
        items, single = items_of(form.subject, subject)
        return {form.subject: items}, single, len(items)
    out: dict[str, list[Any]] = {}
    single, count = isinstance(subject, str), 1
    if subject is not None:
        if not isinstance(subject, (str, list, tuple)):
            raise Odd("queries")
        out["queries"] = [subject] if isinstance(subject, str) else list(subject)
        count = len(out["queries"])
    if vectors is not None:
        rows, one = _rows(vectors)
        if subject is not None and (one != single or len(rows) != count):
            raise Odd("vectors")
        out["vectors"], single, count = rows, one, len(rows)
    if count == 0:
        raise Odd("queries")
    return out, single, count


def _rows(vectors: Any) -> tuple[list[np.ndarray], bool]:
    """(D,) float32 vectors of their own, and whether there was one, not a list."""
    if isinstance(vectors, torch.Tensor):
        if vectors.device.type != "cpu" or not vectors.is_floating_point():
            raise Odd("vectors")  # a copy from the device would make the caller wait for what runs there
        vectors = vectors.detach().float().numpy()
    try:
        given = np.asarray(vectors)
    except (ValueError, TypeError) as error:  # rows of several lengths
        raise Odd("vectors") from error
    if given.dtype.kind not in "fiu" or given.ndim not in (1, 2) or 0 in given.shape:
        raise Odd("vectors")
    rows = given.astype(np.float32, copy=given.nbytes <= COPIED)
    return ([rows], True) if rows.ndim == 1 else (list(rows), False)


def _shape(stacked: Mapping[str, list[Any]], subject: str) -> tuple[Hashable, ...]:
    """What the parts of a call for several must agree on: which parts there are, and how wide vectors are."""
    vectors = stacked.get("vectors")
    return subject in stacked, None if vectors is None else vectors[0].shape


def _cost(stacked: Mapping[str, list[Any]], settings: Mapping[str, Any]) -> Hashable:
    """What a call's cost to its batch follows from; calls that differ in it don't share a batch.

    A batch is searched with the largest count of its queries, so counts are together within a factor of four. A filter
    beside the projection "incident" makes the batch look at the whole graph. Queries without a limit don't matter:
    they are searched apart from the others in any case.
    """
    if not settings and stacked.keys() <= {"queries", "vectors"}:
        return ()
    out = []
    for name, alike in COUNTS.items():
        most = max((v for v in stacked.get(name, ()) if v is not None), default=0)
        if most > alike:
            out.append((name, (int(most - 1) // alike).bit_length() + 1 >> 1))
    if settings.get("projection") == "incident":
        out += [name for name in ("filter", "node_name") if any(v is not None for v in stacked.get(name, ()))]  # type: ignore[misc]
    return tuple(out)


def _content(group: Hashable, stacked: Mapping[str, list[Any]]) -> Hashable | None:
    """What one query asks, by content; None where that can't be told."""
    loose: list[Any] = []
    out = [group]
    for name in sorted(stacked):
        value = stacked[name][0]
        out.append((name, value.tobytes() if name == "vectors" else frozen(value, loose)[0]))
    return None if loose else tuple(out)


def _first(pair: tuple[str, Any]) -> str:
    return pair[0]
