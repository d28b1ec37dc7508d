"""The design space: a family of schedules a file, each a rule (see ``rule``)."""
