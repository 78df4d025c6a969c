"""``python -m kael``."""

import sys

from kael._cli import main

if __name__ == "__main__":
    sys.exit(main())
