"""The packs of a store in PostgreSQL: encoding, storage, reading and rewriting."""
