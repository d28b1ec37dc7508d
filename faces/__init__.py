"""What only the names of older programs need: templates with knobs, searches with a log file."""
