"""Vector instructions of `term_floors` and of what reads its bytes."""

from typing import Any

from llvmlite import ir
from numba import types
from numba.extending import intrinsic

from tercet_kernels._simd import (
    F32,
    FLOATS,
    FOURS,
    I8,
    I32,
    I64,
    LANES,
    WIDE,
    _byte_sums,
    _dot4,
    _load,
    _loop,
    _splat,
    _store,
)  # fmt: skip

WIDTH = 16  # rows and columns of one transposed square
RUN = 64  # bytes compared at a time
SPARE = 2e-3  # of a step: what float32 can be off at 255 and more


def floor_tile(num_rows: int, num_vectors: int) -> Any:
    """A kernel for the terms of `num_rows` int8 rows and LANES * `num_vectors` packed queries, a byte each.

    The kernel's arguments are addresses and counts (intp): rows, bytes from row to row, packed queries, fours of
    elements; of the rows first sums (int32), scales, errors, weights; of the queries units, slopes, leasts (float32);
    out, bytes from row to row of it. Queries are packed as for `byte_tile`.
    out[r, q] = floor(weight[r] * (1 - product * scale[r] * unit[q] - error[r] * slope[q] - least[q]) - SPARE), from 0
    to 255.
    """

    @intrinsic
    def tile(
        _: Any, rows: Any, stride: Any, queries: Any, fours: Any, begin: Any, scale: Any, errors: Any, weights: Any,
        unit: Any, slope: Any, least: Any, out: Any, apart: Any,
    ) -> Any:  # fmt: skip
        def generate(_context: Any, b: ir.IRBuilder, _signature: Any, args: list[Any]) -> Any:
            rows, stride, queries, fours, begin, scale, errors, weights, unit, slope, least, out, apart = args
            added = _byte_sums(b, rows, stride, queries, fours, begin, (num_rows, num_vectors))
            units, slopes, leasts = (
                [_load(b, x, 4 * LANES * j, FLOATS) for j in range(num_vectors)] for x in (unit, slope, least)
            )
            for r in range(num_rows):
                factor, error, weight = (_splat(b, _load(b, x, 4 * r, F32), FLOATS) for x in (scale, errors, weights))
                line = b.add(out, b.mul(apart, ir.Constant(I64, r)))
                for j in range(num_vectors):
                    scaled = b.fmul(b.sitofp(added[r * num_vectors + j], FLOATS), b.fmul(factor, units[j]))
                    near = b.fadd(scaled, b.fadd(b.fmul(error, slopes[j]), leasts[j]))
                    _store(b, _floor(b, weight, near), line, LANES * j)
            return ir.Constant(I32, 0)

        return types.int32(*[types.intp] * 13), generate

    return tile


@intrinsic
def floor_rows(
    _: Any, rows: Any, stride: Any, query: Any, blocks: Any, begin: Any, scale: Any, errors: Any, weights: Any,
    unit: Any, slope: Any, least: Any, out: Any,
) -> Any:  # fmt: skip
    """The same terms of LANES rows and one query, (blocks * 4 * LANES,) uint8 as it is; out: LANES bytes."""

    def generate(_context: Any, b: ir.IRBuilder, _signature: Any, args: list[Any]) -> Any:
        rows, stride, query, blocks, begin, scale, errors, weights, unit, slope, least, out = args
        base = [b.add(rows, b.mul(stride, ir.Constant(I64, r))) for r in range(LANES)]
        at, sums, close = _loop(b, blocks, [ir.Constant(WIDE, [0] * LANES)] * LANES)
        offset = b.mul(at, ir.Constant(I64, 4 * LANES))
        mine = _load(b, b.add(query, offset), 0, FOURS)
        added = [_dot4(b, x, mine, _load(b, b.add(y, offset), 0, FOURS)) for x, y in zip(sums, base, strict=True)]
        close(added)
        name = f"llvm.vector.reduce.add.v{LANES}i32"
        reduce = b.module.globals.get(name) or ir.Function(b.module, ir.FunctionType(I32, [WIDE]), name)
        total = _load(b, begin, 0, WIDE)
        whole = ir.Constant(WIDE, ir.Undefined)
        for r, x in enumerate(added):
            whole = b.insert_element(whole, b.call(reduce, [x]), ir.Constant(I32, r))
        factor, error, weight = (_load(b, x, 0, FLOATS) for x in (scale, errors, weights))
        units, slopes, leasts = (_splat(b, _load(b, x, 0, F32), FLOATS) for x in (unit, slope, least))
        scaled = b.fmul(b.sitofp(b.add(total, whole), FLOATS), b.fmul(factor, units))
        near = b.fadd(scaled, b.fadd(b.fmul(error, slopes), leasts))
        _store(b, _floor(b, weight, near), out, 0)
        return ir.Constant(I32, 0)

    return types.int32(*[types.intp] * 12), generate


def _floor(b: ir.IRBuilder, weight: Any, near: Any) -> Any:
    """Bytes of weights and of upper bounds of products."""
    none, most, spare, one = (ir.Constant(FLOATS, [x] * LANES) for x in (0.0, 255.0, SPARE, 1.0))
    value = b.fsub(b.fmul(weight, b.fsub(one, near)), spare)
    value = b.select(b.fcmp_ordered(">", value, none), value, none)
    value = b.select(b.fcmp_ordered("<", value, most), value, most)
    return b.trunc(b.fptosi(value, WIDE), ir.VectorType(I8, LANES))


@intrinsic
def transpose(_: Any, source: Any, stride: Any, out: Any, apart: Any) -> Any:
    """Transpose 16 * 16 bytes: addresses and bytes from row to row (intp)."""

    def generate(_context: Any, b: ir.IRBuilder, _signature: Any, args: list[Any]) -> Any:
        source, stride, out, apart = args
        kind = ir.VectorType(I8, WIDTH)
        rows = [_load(b, b.add(source, b.mul(stride, ir.Constant(I64, r))), 0, kind) for r in range(WIDTH)]
        half = WIDTH // 2
        low, high = (
            ir.Constant(
                ir.VectorType(I32, WIDTH), [x for i in range(half) for x in (i + at, i + at + WIDTH)]
            ) for at in (0, half)
        )  # fmt: skip
        for _round in range(WIDTH.bit_length() - 1):
            pairs = zip(rows[:half], rows[half:], strict=True)
            rows = [b.shuffle_vector(x, y, order) for x, y in pairs for order in (low, high)]
        for r in range(WIDTH):
            _store(b, rows[r], b.add(out, b.mul(apart, ir.Constant(I64, r))), 0)
        return ir.Constant(I32, 0)

    return types.int32(*[types.intp] * 4), generate


@intrinsic
def copy_run(_: Any, source: Any, out: Any) -> Any:
    """Copy 64 bytes from an address to another (intp)."""

    def generate(_context: Any, b: ir.IRBuilder, _signature: Any, args: list[Any]) -> Any:
        _store(b, _load(b, args[0], 0, ir.VectorType(I8, RUN)), args[1], 0)
        return ir.Constant(I32, 0)

    return types.int32(types.intp, types.intp), generate


@intrinsic
def within(_: Any, address: Any, limit: Any) -> Any:
    """Which of 64 bytes at an address (intp) are at most a limit (intp, 0 to 255): bit i of an int64 is byte i's."""

    def generate(_context: Any, b: ir.IRBuilder, _signature: Any, args: list[Any]) -> Any:
        kind = ir.VectorType(I8, RUN)
        most = _splat(b, b.trunc(args[1], I8), kind)
        return b.bitcast(b.icmp_unsigned("<=", _load(b, args[0], 0, kind), most), I64)

    return types.int64(types.intp, types.intp), generate


@intrinsic
def set_bits(_: Any, word: Any) -> Any:
    """How many bits of an int64 are set."""

    def generate(_context: Any, b: ir.IRBuilder, _signature: Any, args: list[Any]) -> Any:
        return b.ctpop(args[0])

    return types.int64(types.int64), generate


@intrinsic
def float_at(_: Any, address: Any) -> Any:
    """The float32 at an address (intp)."""

    def generate(_context: Any, b: ir.IRBuilder, _signature: Any, args: list[Any]) -> Any:
        return _load(b, args[0], 0, F32)

    return types.float32(types.intp), generate
