"""The design space: a family of schedules a file, each a function on a Schedule and a Chooser."""
