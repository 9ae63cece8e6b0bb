"""``python -m cybtui``."""

import sys

from cybtui.cli import main

sys.exit(main())
