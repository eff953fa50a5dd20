"""Rows of the session index, made from commits, logs and imports."""
