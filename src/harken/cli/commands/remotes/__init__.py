"""`harken clone`, `harken pull` and `harken remote`: other homes, through their services."""
