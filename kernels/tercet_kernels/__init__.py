"""Kernels of Tercet: an op a folder, each with its plain torch reference beside the fast forms."""
