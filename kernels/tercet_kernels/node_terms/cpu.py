"""Numba form of `node_terms`."""

import numpy as np
from numba import njit, prange

from tercet_kernels.effective.cpu import effective


@njit(nogil=True, cache=True, parallel=True)
def node_terms(
    node, distance, importance, feedback, personal, nodes, has_personal, influence, penalty, cliff, personal_influence,
    out, threads,
):  # fmt: skip
    step = (node.size + threads - 1) // threads
    for t in prange(threads):
        for i in range(t * step, min(node.size, (t + 1) * step)):
            u = node[i]
            known = u < nodes
            w = importance[u if importance.size > 1 else 0] if known else 0.5
            g = feedback[u if feedback.size > 1 else 0] if known else 0.5
            d = np.float64(distance[i])
            matched = np.isfinite(d)
            term = effective(d, matched, w, g, influence, penalty, cliff)
            if has_personal and personal_influence > 0.0 and known and not np.isnan(personal[u]):
                x = (2.0 - w) * (d if matched else penalty)
                pulled = not (x >= penalty or x < 0.0 or x > 2.0) if cliff else matched
                if pulled:
                    term *= 1.0 - personal_influence * (2.0 * personal[u] - 1.0)
            out[i] = term
