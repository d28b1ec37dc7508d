"""TVM's stage schedules: what is said about each definition, replayed as schedule primitives."""
