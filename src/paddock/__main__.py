"""`python -m paddock`."""

import sys

from paddock.cli.main import main

sys.exit(main())
