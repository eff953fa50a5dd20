"""Use cases that run: `python -m examples` lists them."""
