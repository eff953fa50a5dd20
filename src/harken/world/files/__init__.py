"""Files: what agents may read and write, and what they know of them."""
