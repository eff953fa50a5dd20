"""The page in one file: the answers for one session, packed, redacted, and in one HTML file."""
