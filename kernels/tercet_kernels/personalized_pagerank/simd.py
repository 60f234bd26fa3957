"""The inner loops of a tile of 8 queries, whose numbers of a node lie side by side: one line of the cache.

Each lane does what the plain loop does for one query, in the same order and without fused multiply-adds, so a query's
bits don't depend on the tile's width. See `_simd` for why this is written in LLVM's intermediate language.
"""

from typing import Any

from llvmlite import ir
from numba import types
from numba.extending import intrinsic

from tercet_kernels._simd import F64, I32, I64, _load, _loop, _splat, _store

WIDTH = 8  # queries of a tile
LINE = ir.VectorType(F64, WIDTH)
ZERO = ir.Constant(LINE, [0.0] * WIDTH)
BYTES = 8 * WIDTH


def _at(b: ir.IRBuilder, base: Any, index: Any, size: int) -> Any:
    return b.add(base, b.mul(index, ir.Constant(I64, size)))


@intrinsic  # type: ignore[untyped-decorator]
def pull(_: Any, near: Any, count: Any, value: Any, damping: Any, out: Any) -> Any:
    """out = damping * (sum of the lines of `value` at near[0:count]); addresses and a count of at least 1 (intp)."""

    def generate(_context: Any, b: ir.IRBuilder, _signature: Any, args: list[Any]) -> Any:
        near, count, value, damping, out = args
        at, (total,), close = _loop(b, count, [ZERO])
        node = b.zext(_load(b, _at(b, near, at, 4), 0, I32), I64)
        added = b.fadd(total, _load(b, _at(b, value, node, BYTES), 0, LINE))
        close([added])
        _store(b, b.fmul(_load(b, damping, 0, LINE), added), out, 0)
        return ir.Constant(I32, 0)

    return types.int32(*[types.intp] * 5), generate


@intrinsic  # type: ignore[untyped-decorator]
def pull_shares(_: Any, near: Any, share: Any, count: Any, value: Any, damping: Any, out: Any) -> Any:
    """As `pull`, each line times its share."""

    def generate(_context: Any, b: ir.IRBuilder, _signature: Any, args: list[Any]) -> Any:
        near, share, count, value, damping, out = args
        at, (total,), close = _loop(b, count, [ZERO])
        node = b.zext(_load(b, _at(b, near, at, 4), 0, I32), I64)
        part = _splat(b, _load(b, _at(b, share, at, 8), 0, F64), LINE)
        added = b.fadd(total, b.fmul(part, _load(b, _at(b, value, node, BYTES), 0, LINE)))
        close([added])
        _store(b, b.fmul(_load(b, damping, 0, LINE), added), out, 0)
        return ir.Constant(I32, 0)

    return types.int32(*[types.intp] * 6), generate


@intrinsic  # type: ignore[untyped-decorator]
def finish(_: Any, new: Any, old: Any, scale: Any, inverse: Any, dangling: Any, count: Any, sums: Any) -> Any:
    """Close a step for `count` >= 1 nodes, given by addresses.

    With x the line in `new`: sums[0] += |x - old * scale|, sums[1] += x * dangling, and x * inverse goes to `new`;
    both sums start at 0.
    """

    def generate(_context: Any, b: ir.IRBuilder, _signature: Any, args: list[Any]) -> Any:
        new, old, scale, inverse, dangling, count, sums = args
        at, (change, lost), close = _loop(b, count, [ZERO, ZERO])
        here = _at(b, new, at, BYTES)
        factor, back, open_ = (_splat(b, _load(b, _at(b, x, at, 8), 0, F64), LINE) for x in (scale, inverse, dangling))
        x = _load(b, here, 0, LINE)
        difference = b.fsub(x, b.fmul(_load(b, _at(b, old, at, BYTES), 0, LINE), factor))
        size = b.select(b.fcmp_ordered("<", difference, ZERO), b.fsub(ZERO, difference), difference)
        _store(b, b.fmul(x, back), here, 0)
        added = [b.fadd(change, size), b.fadd(lost, b.fmul(x, open_))]
        close(added)
        for i, value in enumerate(added):
            _store(b, value, sums, BYTES * i)
        return ir.Constant(I32, 0)

    return types.int32(*[types.intp] * 7), generate
