"""``python -m burnish``: the command line, and the worker processes it and the tuner start."""

import sys

from .driver.cli import main

if __name__ == "__main__":
    sys.exit(main())
