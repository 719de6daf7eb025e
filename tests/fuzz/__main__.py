"""Many random calls by one command; see ``--help``."""

from __future__ import annotations

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))

from fuzz.command import main

sys.exit(main())
