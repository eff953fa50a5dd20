"""A store in PostgreSQL, with packs in object storage."""
