"""`python -m harken`: the same as `harken`."""

import os
import sys

# Python looks for modules in the working folder first then, where agents write.
if sys.path and sys.path[0] in ("", os.getcwd()):  # noqa: PTH109 - as Python wrote it
    own = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))  # noqa: PTH100, PTH120
    if sys.path[0] != own:
        del sys.path[0]

from harken.cli.main import main

main()
