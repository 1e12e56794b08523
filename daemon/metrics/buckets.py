"""Bounds of histograms, in seconds. Prometheus's own end at 10 s, where compiles begin to be slow."""

COMPILE_BUCKETS = (0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 20, 40, 80, 150, 300, 600, 1200)
FAST_BUCKETS = (0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1)
WAIT_BUCKETS = (*FAST_BUCKETS, *(bucket for bucket in COMPILE_BUCKETS if bucket > 1))
RPC_BUCKETS = (0.001, 0.005, 0.025, 0.1, 0.5, 2.5, 10, 40, 150, 600)
"""Coarse: there is one histogram for each method."""
