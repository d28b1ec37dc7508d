"""The front door: compile, build, tune, command line. It introduces the other rooms to each other.

Only this room may import all others; none of them imports it.
"""
