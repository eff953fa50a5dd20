"""Permissions: which actions need the approval of the user, and which are denied."""
