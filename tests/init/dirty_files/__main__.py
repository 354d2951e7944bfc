"""``python -m tests.init.dirty_files``: other processes can import its parts by name."""

import sys

from tests.init.dirty_files.runner import main

sys.exit(main())
