"""What Tercet is timed beside: one small adapter a library.

In this process, where they are installed: plain torch, FAISS, SciPy, igraph and networkx. By subprocess, each in an
environment of its own: Cognee 1.6.5 and Grafito 0.8.6; their scripts import nothing of Tercet.

Looked at and left out: `rgl` 0.0.4 (RAG-on-Graphs Library, GPL-3.0). Its C++ functions connect seed nodes by shortest
paths, a Steiner heuristic or a dense subgraph and return nodes; none lists or scores the edges among given nodes, so
no stage compares. They take Python lists of all edges at every call, and its Python part imports DGL, which it doesn't
declare.
"""
