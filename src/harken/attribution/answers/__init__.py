"""The answers of attribution as rows, the same in the terminal, in JSON and in the page."""
