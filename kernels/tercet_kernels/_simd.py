"""Vector instructions that Numba's own loops don't reach: integer products of tiles and fixed-order float64 dots.

Written in LLVM's intermediate language through Numba's `intrinsic`, so they need no compiler at installation. Widths
follow the processor: 512 bits with AVX-512BW, 256 with AVX2, else 128; off x86, and for bytes without VNNI, plain
vector arithmetic says the same.
"""

from typing import Any

from llvmlite import ir
from numba import config, types
from numba.core.codegen import get_host_cpu_features
from numba.extending import intrinsic

_asked = get_host_cpu_features() if config.CPU_FEATURES is None else config.CPU_FEATURES  # what Numba compiles for
FEATURES = frozenset(f[1:] for f in _asked.split(",") if f.startswith("+"))
X86 = "sse2" in FEATURES
FUSED = "fma" in FEATURES  # multiplies and adds in one instruction
LANES = 16 if "avx512bw" in FEATURES else 8 if "avx2" in FEATURES else 4  # int32 sums in a vector
MADD = {4: "llvm.x86.sse2.pmadd.wd", 8: "llvm.x86.avx2.pmadd.wd", 16: "llvm.x86.avx512.pmaddw.d.512"}[LANES]

BYTES = {
    16: "llvm.x86.avx512.vpdpbusd.512" if "avx512vnni" in FEATURES else "",
    8: "llvm.x86.avx512.vpdpbusd.256" if {"avxvnni", "avx512vnni"} & FEATURES else "",
}.get(LANES, "")  # products of bytes in one instruction, where the processor has it

I8, I16, I32, I64 = (ir.IntType(n) for n in (8, 16, 32, 64))
F32, F64 = ir.FloatType(), ir.DoubleType()
WIDE, PAIRED, FLOATS = ir.VectorType(I32, LANES), ir.VectorType(I16, 2 * LANES), ir.VectorType(F32, LANES)
FOURS = ir.VectorType(I8, 4 * LANES)


def _load(b: ir.IRBuilder, address: Any, offset: int, kind: ir.Type) -> Any:
    value = b.load(b.inttoptr(b.add(address, ir.Constant(I64, offset)), kind.as_pointer()))
    value.align = 1
    return value


def _store(b: ir.IRBuilder, value: Any, address: Any, offset: int) -> None:
    b.store(value, b.inttoptr(b.add(address, ir.Constant(I64, offset)), value.type.as_pointer())).align = 1


def _splat(b: ir.IRBuilder, value: Any, kind: ir.VectorType) -> Any:
    first = b.insert_element(ir.Constant(kind, ir.Undefined), value, ir.Constant(I32, 0))
    return b.shuffle_vector(
        first, ir.Constant(kind, ir.Undefined), ir.Constant(ir.VectorType(I32, kind.count), [0] * kind.count)
    )


def _madd(b: ir.IRBuilder, x: Any, y: Any) -> Any:
    """int32 sums of neighbouring int16 products."""
    if X86:
        return b.call(b.module.declare_intrinsic(MADD, (), ir.FunctionType(WIDE, [PAIRED, PAIRED])), [x, y])
    none = ir.Constant(PAIRED, ir.Undefined)
    halves = [ir.Constant(WIDE, list(range(i, 2 * LANES, 2))) for i in (0, 1)]
    even, odd = (
        b.mul(b.sext(b.shuffle_vector(x, none, h), WIDE), b.sext(b.shuffle_vector(y, none, h), WIDE)) for h in halves
    )
    return b.add(even, odd)


def _dot4(b: ir.IRBuilder, added: Any, x: Any, y: Any) -> Any:
    """int32 sums, each more by four products of a neighbouring uint8 of x and int8 of y."""
    if BYTES:
        kinds = [WIDE, WIDE, WIDE]
        given = [added, b.bitcast(x, WIDE), b.bitcast(y, WIDE)]
        return b.call(b.module.declare_intrinsic(BYTES, (), ir.FunctionType(WIDE, kinds)), given)
    none = ir.Constant(FOURS, ir.Undefined)
    for i in range(4):
        every = ir.Constant(WIDE, list(range(i, 4 * LANES, 4)))
        left, right = (b.shuffle_vector(v, none, every) for v in (x, y))
        added = b.add(added, b.mul(b.zext(left, WIDE), b.sext(right, WIDE)))
    return added


def _loop(b: ir.IRBuilder, count: Any, starts: list[Any]) -> tuple[Any, list[Any], Any]:
    """Open a loop of `count` >= 1 rounds with carried values; returns (round, values, close)."""
    before = b.block
    body, after = b.append_basic_block("body"), b.append_basic_block("after")
    b.branch(body)
    b.position_at_end(body)
    at = b.phi(I64)
    at.add_incoming(ir.Constant(I64, 0), before)
    carried = []
    for start in starts:
        value = b.phi(start.type)
        value.add_incoming(start, before)
        carried.append(value)

    def close(results: list[Any]) -> None:
        following = b.add(at, ir.Constant(I64, 1))
        at.add_incoming(following, b.block)
        for value, result in zip(carried, results, strict=True):
            value.add_incoming(result, b.block)
        b.cbranch(b.icmp_signed("<", following, count), body, after)
        b.position_at_end(after)

    return at, carried, close


def product_tile(num_rows: int, num_vectors: int) -> Any:
    """A kernel for the products of `num_rows` rows with LANES * `num_vectors` packed queries, and what passes a bound.

    The kernel's arguments are addresses and counts (intp): rows, bytes from row to row, packed queries, pairs of
    elements, row scales, row shifts, bounds, out, hits. Rows are int16; queries are packed as (pair, query, 2) int16.
    out[r, q] = float32(product) * scale[r] + shift[r]; bit q of hits[r] (int64) says that it is at least bounds[q].
    The sum of products has to fit into int32.
    """

    @intrinsic
    def tile(
        _: Any,
        rows: Any,
        stride: Any,
        queries: Any,
        pairs: Any,
        scale: Any,
        shift: Any,
        bounds: Any,
        out: Any,
        hits: Any,
    ) -> Any:
        def generate(_context: Any, b: ir.IRBuilder, _signature: Any, args: list[Any]) -> Any:
            rows, stride, queries, pairs, scale, shift, bounds, out, hits = args
            base = [b.add(rows, b.mul(stride, ir.Constant(I64, r))) for r in range(num_rows)]
            zero = ir.Constant(WIDE, [0] * LANES)
            at, sums, close = _loop(b, pairs, [zero] * (num_rows * num_vectors))
            here = b.add(queries, b.mul(at, ir.Constant(I64, 4 * LANES * num_vectors)))
            packed = [_load(b, here, 4 * LANES * j, PAIRED) for j in range(num_vectors)]
            added = []
            for r in range(num_rows):
                pair = _load(b, b.add(base[r], b.mul(at, ir.Constant(I64, 4))), 0, I32)
                same = b.bitcast(_splat(b, pair, WIDE), PAIRED)
                added += [b.add(sums[r * num_vectors + j], _madd(b, same, packed[j])) for j in range(num_vectors)]
            close(added)
            limits = [_load(b, bounds, 4 * LANES * j, FLOATS) for j in range(num_vectors)]
            for r in range(num_rows):
                factor, more = (_splat(b, _load(b, x, 4 * r, F32), FLOATS) for x in (scale, shift))
                word = ir.Constant(I64, 0)
                for j in range(num_vectors):
                    value = b.fadd(b.fmul(b.sitofp(added[r * num_vectors + j], FLOATS), factor), more)
                    _store(b, value, out, 4 * LANES * (r * num_vectors + j))
                    passed = b.bitcast(b.fcmp_ordered(">=", value, limits[j]), ir.IntType(LANES))
                    word = b.or_(word, b.shl(b.zext(passed, I64), ir.Constant(I64, LANES * j)))
                _store(b, word, hits, 8 * r)
            return ir.Constant(I32, 0)

        return types.int32(*[types.intp] * 9), generate

    return tile


def _byte_sums(
    b: ir.IRBuilder, rows: Any, stride: Any, queries: Any, fours: Any, begin: Any, shape: tuple[int, int]
) -> list[Any]:
    """int32 products of int8 rows and packed uint8 queries, a vector for LANES queries of each row; see `byte_tile`."""
    num_rows, num_vectors = shape
    base = [b.add(rows, b.mul(stride, ir.Constant(I64, r))) for r in range(num_rows)]
    starts = [_splat(b, _load(b, begin, 4 * r, I32), WIDE) for r in range(num_rows) for _ in range(num_vectors)]
    at, sums, close = _loop(b, fours, starts)
    here = b.add(queries, b.mul(at, ir.Constant(I64, 4 * LANES * num_vectors)))
    packed = [_load(b, here, 4 * LANES * j, FOURS) for j in range(num_vectors)]
    added = []
    for r in range(num_rows):
        four = _load(b, b.add(base[r], b.mul(at, ir.Constant(I64, 4))), 0, I32)
        same = b.bitcast(_splat(b, four, WIDE), FOURS)
        added += [_dot4(b, sums[r * num_vectors + j], packed[j], same) for j in range(num_vectors)]
    close(added)
    return added


def byte_tile(num_rows: int, num_vectors: int) -> Any:
    """A kernel for the products of `num_rows` int8 rows with LANES * `num_vectors` packed queries, and what passes.

    The kernel's arguments are addresses and counts (intp): rows, bytes from row to row, packed queries, fours of
    elements; of the rows first sums (int32), reciprocal scales, errors in scales (float32); of the queries reciprocal
    units, slopes in units, least shifts, bounds (float32); out, hits. Queries are packed as (four, query, 4) uint8,
    each element more by 128, so the sums of a row begin at -128 times the sum of its elements; they have to fit into
    int32. out[r, q] (int32) is the product. Bit q of hits[r] (int64) says that product * scale[r] * unit[q] + error[r]
    * slope[q] + least[q] is at least bounds[q], asked as product >= (bounds[q] - least[q]) / unit[q] / scale[r] -
    slope[q] / unit[q] * error[r] / scale[r]. The kernel returns the bits of all rows together (int64).
    """

    @intrinsic
    def tile(
        _: Any, rows: Any, stride: Any, queries: Any, fours: Any, begin: Any, scale: Any, errors: Any, unit: Any,
        slope: Any, least: Any, bounds: Any, out: Any, hits: Any,
    ) -> Any:  # fmt: skip
        def generate(_context: Any, b: ir.IRBuilder, _signature: Any, args: list[Any]) -> Any:
            rows, stride, queries, fours, begin, scale, errors, unit, slope, least, bounds, out, hits = args
            added = _byte_sums(b, rows, stride, queries, fours, begin, (num_rows, num_vectors))
            units, slopes, leasts, limits = (
                [_load(b, x, 4 * LANES * j, FLOATS) for j in range(num_vectors)] for x in (unit, slope, least, bounds)
            )
            levels = [b.fmul(b.fsub(x, y), z) for x, y, z in zip(limits, leasts, units, strict=True)]
            anywhere = ir.Constant(I64, 0)
            for r in range(num_rows):
                factor, error = (_splat(b, _load(b, x, 4 * r, F32), FLOATS) for x in (scale, errors))
                word = ir.Constant(I64, 0)
                for j in range(num_vectors):
                    product = added[r * num_vectors + j]
                    _store(b, product, out, 4 * LANES * (r * num_vectors + j))
                    level = b.fsub(b.fmul(levels[j], factor), b.fmul(slopes[j], error))
                    passed = b.bitcast(b.fcmp_ordered(">=", b.sitofp(product, FLOATS), level), ir.IntType(LANES))
                    word = b.or_(word, b.shl(b.zext(passed, I64), ir.Constant(I64, LANES * j)))
                _store(b, word, hits, 8 * r)
                anywhere = b.or_(anywhere, word)
            return anywhere

        return types.int64(*[types.intp] * 13), generate

    return tile


ROW_BLOCK = 4  # rows of one call of row_products


@intrinsic
def row_products(_: Any, rows: Any, stride: Any, query: Any, blocks: Any, out: Any) -> Any:
    """int32 products of 4 int8 rows with one int16 query.

    Arguments are addresses and counts (intp): rows, bytes from row to row, query, blocks of 2 * LANES elements, out.
    """

    def generate(_context: Any, b: ir.IRBuilder, _signature: Any, args: list[Any]) -> Any:
        rows, stride, query, blocks, out = args
        base = [b.add(rows, b.mul(stride, ir.Constant(I64, r))) for r in range(ROW_BLOCK)]
        at, sums, close = _loop(b, blocks, [ir.Constant(WIDE, [0] * LANES)] * ROW_BLOCK)
        other = _load(b, b.add(query, b.mul(at, ir.Constant(I64, 4 * LANES))), 0, PAIRED)
        added = []
        for r in range(ROW_BLOCK):
            code = _load(b, b.add(base[r], b.mul(at, ir.Constant(I64, 2 * LANES))), 0, ir.VectorType(I8, 2 * LANES))
            added.append(b.add(sums[r], _madd(b, b.sext(code, PAIRED), other)))
        close(added)
        name = f"llvm.vector.reduce.add.v{LANES}i32"
        reduce = b.module.globals.get(name) or ir.Function(b.module, ir.FunctionType(I32, [WIDE]), name)
        for r in range(ROW_BLOCK):
            _store(b, b.call(reduce, [added[r]]), out, 4 * r)
        return ir.Constant(I32, 0)

    return types.int32(*[types.intp] * 5), generate


def _add_product(b: ir.IRBuilder, added: Any, x: Any, y: Any) -> Any:
    """x y + added in vectors of doubles; fused it is the same bits, since these products are exact."""
    if not FUSED:
        return b.fadd(added, b.fmul(x, y))
    name = f"llvm.fma.v{x.type.count}f64"
    kind = ir.FunctionType(x.type, [x.type] * 3)
    return b.call(b.module.globals.get(name) or ir.Function(b.module, kind, name), [x, y, added])


def _dot_lanes(b: ir.IRBuilder, x: Any, y: Any, blocks: Any) -> list[Any]:
    """The 16 float64 lanes of a dot product of float32 rows, as vectors."""
    size = 8 if LANES == 16 else 4  # doubles in a vector
    floats, doubles, parts = ir.VectorType(F32, size), ir.VectorType(F64, size), 16 // size
    at, sums, close = _loop(b, blocks, [ir.Constant(doubles, [0.0] * size)] * parts)
    here = b.mul(at, ir.Constant(I64, 64))
    left, right = b.add(x, here), b.add(y, here)
    added = []
    for j in range(parts):
        p, q = (b.fpext(_load(b, z, 4 * size * j, floats), doubles) for z in (left, right))
        added.append(_add_product(b, sums[j], p, q))
    close(added)
    return added


@intrinsic
def wide_dot(_: Any, x: Any, y: Any, blocks: Any, out: Any) -> Any:
    """16 float64 lanes of a dot product of float32 rows: element i of both goes to lane i mod 16, in order.

    Arguments are addresses and counts (intp): x, y, blocks of 16 elements (at least 1), lanes. The same bits as the
    plain loop: products of float32 values are exact in float64, and additions keep their order within a lane.
    """

    def generate(_context: Any, b: ir.IRBuilder, _signature: Any, args: list[Any]) -> Any:
        lanes = _dot_lanes(b, *args[:3])
        for j, lane in enumerate(lanes):
            _store(b, lane, args[3], 8 * lane.type.count * j)
        return ir.Constant(I32, 0)

    return types.int32(*[types.intp] * 4), generate


@intrinsic
def folded_dot(_: Any, x: Any, y: Any, blocks: Any) -> Any:
    """The lanes of `wide_dot` folded in halves: lane i takes in lane i + 8, then i + 4, i + 2 and i + 1; a float64."""

    def generate(_context: Any, b: ir.IRBuilder, _signature: Any, args: list[Any]) -> Any:
        lanes = _dot_lanes(b, *args)
        while len(lanes) > 1:
            half = len(lanes) // 2
            lanes = [b.fadd(lanes[i], lanes[half + i]) for i in range(half)]
        total, count = lanes[0], lanes[0].type.count
        none = ir.Constant(total.type, ir.Undefined)
        while count > 1:
            count //= 2
            low, high = (ir.Constant(ir.VectorType(I32, count), list(range(k, k + count))) for k in (0, count))
            total = b.fadd(b.shuffle_vector(total, none, low), b.shuffle_vector(total, none, high))
            none = ir.Constant(total.type, ir.Undefined)
        return b.extract_element(total, ir.Constant(I32, 0))

    return types.float64(*[types.intp] * 3), generate


@intrinsic
def lowest_bit(_: Any, word: Any) -> Any:
    """The place of the lowest set bit of an int64 that isn't 0."""

    def generate(_context: Any, b: ir.IRBuilder, _signature: Any, args: list[Any]) -> Any:
        return b.cttz(args[0], ir.Constant(ir.IntType(1), 1))

    return types.int64(types.int64), generate


def _fetcher(nearness: int) -> Any:
    @intrinsic
    def fetch(_: Any, address: Any) -> Any:
        def generate(_context: Any, b: ir.IRBuilder, _signature: Any, args: list[Any]) -> Any:
            place, name = I8.as_pointer(), "llvm.prefetch.p0i8"
            kind = ir.FunctionType(ir.VoidType(), [place, I32, I32, I32])
            function = b.module.globals.get(name) or ir.Function(b.module, kind, name)
            numbers = (ir.Constant(I32, n) for n in (0, nearness, 1))  # for reading, how near, data
            b.call(function, [b.inttoptr(args[0], place), *numbers])
            return ir.Constant(I32, 0)

        return types.int32(types.intp), generate

    return fetch


# Fetch the line at an address (intp) for reading; any address will do. The first takes one of the few places that wait
# for the first-level cache, the second one of the more that wait for the second-level one.
prefetch = _fetcher(3)
prefetch_far = _fetcher(2)
