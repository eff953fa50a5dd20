"""What can be found out again: which sources were read, and what they became."""
