"""Other runtimes: their histories become commits."""
