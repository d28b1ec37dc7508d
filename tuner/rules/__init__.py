"""The design space: one family of schedules a file. Each is a function on a Schedule and a Chooser."""
