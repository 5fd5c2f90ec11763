"""`python -m fheval`: the same as the command `fheval`."""

from __future__ import annotations

import sys

from fheval.cli import main

if __name__ == "__main__":
    sys.exit(main())
