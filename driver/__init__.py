"""The front door: compile, build, tune, verify, command line. Introduces the other rooms to each other."""
