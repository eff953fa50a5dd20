"""The file of a session log: locking, appending, checksums, compression."""
