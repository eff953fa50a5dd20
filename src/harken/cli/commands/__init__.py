"""The commands of `harken`, one module or package for each."""
