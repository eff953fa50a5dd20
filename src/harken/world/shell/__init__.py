"""Shell: a command, all that it started, and what of its output a model reads."""
