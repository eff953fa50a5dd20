"""`python -m harken`: the same as `harken`."""

from harken.cli.main import main

main()
