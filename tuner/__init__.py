"""Search over schedules of PrimFuncs: design space, measurement in worker processes, records. Knows
PrimFuncs, not models."""
