"""The turns of a chat, and how its session begins and ends, for the terminal and the page."""
