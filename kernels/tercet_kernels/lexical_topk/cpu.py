"""Numba form of `lexical_topk`: a dense array of distances a thread, of which a query clears what it touched.

A distance is the sum of the weights with its sign turned: -(w - distance) adds w and keeps the bits of the plain sum.
It is +0.0 where nothing was added and nowhere else, since a sum is -0.0 only if all its parts are; so zeros of the
system's are a cleared array, and a place tells by its bits whether it was touched.
"""

import numpy as np
from numba import njit, prange

from tercet_kernels.heap.cpu import after, push, unheap

DENSE = 4  # a query that reads more than a DENSE-th as many postings as there are documents scans them all


def scratch(threads, documents):
    """Distances, and lists of touched documents; untouched pages cost nothing."""
    return np.zeros((threads, documents), np.float32), np.empty((threads, documents), np.int32)


@njit(nogil=True, cache=True, inline="always")
def entries(list_indptr, document, weight, token):
    """Documents and weights of a token; slices, so that the loop over them compiles to plain pointers."""
    low, high = list_indptr[token], list_indptr[token + 1]
    return document[low:high], weight[low:high]


@njit(nogil=True, cache=True)
def gather(list_indptr, document, weight, token, low, high, distance):
    """Add up the lists of one query."""
    for i in range(low, high):
        documents, weights = entries(list_indptr, document, weight, token[i])
        for j in range(documents.size):
            d = np.uint32(documents[j])  # a signed index is looked at twice, since it may count from the end
            distance[d] = -(weights[j] - distance[d])


@njit(nogil=True, cache=True)
def gather_listed(list_indptr, document, weight, token, low, high, distance, touched):
    """Add up the lists of one query and list the documents; returns how many."""
    bits = distance.view(np.int32)
    count = 0
    for i in range(low, high):
        documents, weights = entries(list_indptr, document, weight, token[i])
        for j in range(documents.size):
            d = np.uint32(documents[j])
            touched[count] = d  # overwritten by the next one if it was there before
            count += bits[d] == 0
            distance[d] = -(weights[j] - distance[d])
    return count


@njit(nogil=True, cache=True)
def select(allowed, row, distance, near, best, payload):
    """Rank all documents that were touched; returns how many the filter admits, and kept."""
    bits = distance.view(np.int32)
    available = 0
    if row < 0:
        for d in range(distance.size):
            available += bits[d] != 0
    else:
        for d in range(distance.size):
            available += (bits[d] != 0) & allowed[row, d]
    size = 0
    bound = np.float32(np.inf)
    for d in range(distance.size):  # ascending, so that a later tie always loses
        if distance[d] < bound:
            if bits[d] == 0 or (row >= 0 and not allowed[row, d]):
                continue
            size = push(near, best, payload, size, distance[d], d, 0, 0, 0)
            if size == best.size:
                bound = near[0]
    return available, size


@njit(nogil=True, cache=True)
def select_listed(allowed, row, distance, touched, count, near, best, payload):
    """Rank the listed documents; returns how many the filter admits, and kept."""
    available = 0
    size = 0
    for i in range(count):
        d = touched[i]
        if row >= 0 and not allowed[row, d]:
            continue
        available += 1
        if size < best.size or after(near[0], best[0], distance[d], d):
            size = push(near, best, payload, size, distance[d], d, 0, 0, 0)
    return available, size


@njit(nogil=True, cache=True)
def search(list_indptr, document, weight, token, low, high, allowed, row, distance, touched, near, best, payload):
    """One query; leaves `distance` cleared. Returns the documents that the filter admits, and how many are kept."""
    read = 0
    for i in range(low, high):
        read += list_indptr[token[i] + 1] - list_indptr[token[i]]
    if read * DENSE > distance.size:
        gather(list_indptr, document, weight, token, low, high, distance)
        available, size = select(allowed, row, distance, near, best, payload)
        distance[:] = 0
    else:
        count = gather_listed(list_indptr, document, weight, token, low, high, distance, touched)
        available, size = select_listed(allowed, row, distance, touched, count, near, best, payload)
        for i in range(count):
            distance[touched[i]] = 0
    unheap(near, best, payload, size)
    return available, size


@njit(nogil=True, cache=True, parallel=True)
def lexical_topk(list_indptr, document, weight, indptr, token, allowed, allowed_row, k, distance, touched):
    queries = indptr.size - 1
    threads = distance.shape[0]
    documents = np.full((queries, k), -1, np.int32)
    scores = np.full((queries, k), -np.inf, np.float32)
    available = np.zeros(queries, np.int64)
    for t in prange(threads):
        capacity = min(np.int64(k), distance.shape[1])
        near = np.empty(capacity, np.float32)
        best = np.empty(capacity, np.int32)
        payload = np.empty((capacity, 3), np.int32)
        for q in range(t, queries, threads):
            available[q], size = search(
                list_indptr, document, weight, token, indptr[q], indptr[q + 1], allowed, allowed_row[q],
                distance[t], touched[t], near, best, payload,
            )  # fmt: skip
            for i in range(size):
                documents[q, i] = best[i]
                scores[q, i] = -near[i]
    return documents, scores, available


@njit(nogil=True, cache=True)
def text_rows(offsets, data, wanted_offsets, wanted_data):
    """Rows of texts in a sorted column of distinct texts, by bisection over the bytes; -1 where it isn't there."""
    rows = np.full(wanted_offsets.size - 1, -1, np.int32)
    for i in range(rows.size):
        begin = wanted_offsets[i]
        length = wanted_offsets[i + 1] - begin
        low, high = 0, offsets.size - 1
        while low < high:
            middle = (low + high) // 2
            start = offsets[middle]
            size = offsets[middle + 1] - start
            j = 0
            while j < min(size, length) and data[start + j] == wanted_data[begin + j]:
                j += 1
            if j == size and j == length:
                rows[i] = middle
                break
            if j == size or (j < length and data[start + j] < wanted_data[begin + j]):
                low = middle + 1
            else:
                high = middle
    return rows
