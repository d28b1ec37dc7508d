"""The primitives that the tuner's rules and stage schedules call, a file for each family."""
