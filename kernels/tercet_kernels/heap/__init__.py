"""A bounded max-heap of scored edges, shared by the Numba kernels that rank."""
