"""Benchmarks: burnish and its peers, interleaved on the same inputs."""
