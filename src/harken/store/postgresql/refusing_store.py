"""`RefusingPostgresStore`: a store in PostgreSQL that refuses content with credentials."""

from __future__ import annotations

from harken.store.batch import BatchContents
from harken.store.postgresql.store import PostgresStore
from harken.store.refusing_store import CredentialCheck


class RefusingPostgresStore(CredentialCheck, PostgresStore):
    """The store of a home with `redact = "store"`. All writes raise CredentialRefused, too."""

    @property
    def _place(self) -> str:
        return self.address

    def write_named(self, contents: BatchContents) -> None:
        self.check_named(contents)
        super().write_named(contents)
