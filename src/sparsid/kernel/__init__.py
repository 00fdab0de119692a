"""Compiled loops over time: runs, their sensitivities, the way back, whitening.

They read the arrays of the canonical form (:mod:`sparsid.models.canonical`) and know
nothing of structures. Lengths, sizes and numbers of runs are arguments: each function
is compiled once for all of them, and kept on disk.
"""
