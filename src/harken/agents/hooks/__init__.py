"""Hooks: what they are asked, and what they answered."""
