"""`harken review`, `harken discuss` and `harken agents watch`: agents that tickets start."""
