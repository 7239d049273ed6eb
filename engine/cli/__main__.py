"""``python -m engine.cli``, the same as ``paceline``."""

import sys

from engine.cli import main

sys.exit(main())
