"""The exceptions of Tercet.

Every one derives from `TercetError` and from the built-in that fits, so `except ValueError` keeps working. A message
names the place (collection, table, row, query), what was expected and what was got.
"""


class TercetError(Exception):
    """Base of all errors raised on purpose by Tercet."""


class InvalidArgument(TercetError, ValueError):
    """An argument of a call is wrong."""


class InvalidData(TercetError, ValueError):
    """A table, a vector or a record can't be taken as it is."""


class UnknownId(TercetError, KeyError):
    """An id that the graph or the engine doesn't hold."""

    __str__ = Exception.__str__  # KeyError would print the repr of the message


class DimensionMismatch(InvalidData):
    """Vectors of another width than the collection's."""


class FingerprintMismatch(InvalidData):
    """Vectors made by another encoder than the collection's."""


class StoreError(TercetError, OSError):
    """A store on disk is incomplete, damaged or of an unknown version."""


class MissingDependency(TercetError, ImportError):
    """An optional package is needed for what was asked."""


class InvalidFilter(InvalidArgument):
    """A filter on labels or properties that says nothing sensible, or a key that can't name a property."""


class NotConverged(TercetError, ArithmeticError):
    """An iteration didn't reach its tolerance in the steps it was given."""


class EngineClosed(TercetError, ValueError):
    """The engine was closed and holds nothing any more."""


class NotEnoughMemory(TercetError, MemoryError):
    """More memory is wanted than is free; the message says how much, and what to change."""


class QueueFull(TercetError, RuntimeError):
    """More queries wait for an engine already than its queue may hold."""


class DeadlineExceeded(TercetError, TimeoutError):
    """A request wasn't answered within the time that it gave."""


class ForkedProcess(TercetError, RuntimeError):
    """A worker was started before the process forked, and threads don't survive that."""
