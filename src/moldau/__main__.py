"""`python -m moldau` is the `moldau` command."""

import sys

from moldau.tools.main import main

sys.exit(main())
