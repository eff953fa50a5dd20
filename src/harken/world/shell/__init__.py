"""Shell: run a command, end all of its processes, and shorten its output for a model."""
