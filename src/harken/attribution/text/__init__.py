"""Lines of text: normal forms, alignments and moves. Pure."""
