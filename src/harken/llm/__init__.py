"""Models (LLMs) behind one protocol: scripted, replayed, and those of vendors."""
