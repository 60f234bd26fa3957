"""Plain NumPy form of `fact_paths`: a list of paths a query."""

import numpy as np


def fact_paths(
    facts: tuple[np.ndarray, ...], queries: np.ndarray, indptr: np.ndarray, seed: np.ndarray, weight: np.ndarray, *,
    hops: int = 2, width: int = 10, branches: int = 20, most_facts: int = 1000, most_seeds: int = 32,
) -> list[list[list[tuple[int, int, float]]]]:  # fmt: skip
    """(fact, entity, score) of each step of each hop of each query; see `tercet_kernels.fact_paths`."""
    f_indptr, f_fact, f_other, source, target, relation, names, relations, scale = facts
    zero = np.zeros((1, names.shape[1]))
    names, relations = np.concatenate([names, zero]), np.concatenate([relations, zero])  # -1 is the last
    vectors = (names[source] + relations[relation] + names[target]) * scale[:, None]
    out = []
    for b, query in enumerate(queries):
        part = slice(indptr[b], min(indptr[b + 1], indptr[b] + most_seeds))
        beam: list = [
            (int(e), float(w), np.zeros(names.shape[1]), ()) for e, w in zip(seed[part], weight[part], strict=True)
        ]
        steps: list = []
        for _ in range(hops):
            found = []
            for entity, w, total, path in beam:
                low = f_indptr[entity]
                mine = []
                for at in range(low, min(f_indptr[entity + 1], low + most_facts)):
                    f = int(f_fact[at])
                    if f in path or scale[f] == 0:
                        continue
                    vector = total + vectors[f]
                    value = float(vector @ query / np.sqrt(max(vector @ vector, 1e-12))) * w
                    mine.append((value, f, int(f_other[at]), w, vector, (*path, f)))
                found += sorted(mine, key=lambda step: -step[0])[:branches]
            found.sort(key=lambda step: -step[0])
            steps.append([(f, other, value) for value, f, other, *_ in found])
            seen: dict[int, tuple] = {}
            for _, _, other, w, vector, path in found:
                if len(seen) < width:
                    seen.setdefault(other, (other, w, vector, path))
            beam = list(seen.values())
        out.append(steps)
    return out
