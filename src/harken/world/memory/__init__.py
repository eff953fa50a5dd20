"""What agents remember: notes beyond the session, and the session itself."""
