"""Analysis of shell commands for permission rules."""
