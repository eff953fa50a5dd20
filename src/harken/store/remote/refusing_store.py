"""`RefusingRemoteStore`: a store of a service to which no credential is sent."""

from __future__ import annotations

from harken.store.refusing_store import CredentialCheck
from harken.store.remote.store import RemoteStore


class RefusingRemoteStore(CredentialCheck, RemoteStore):
    """The remote store of a home with `redact = "store"`. All writes raise CredentialRefused."""

    @property
    def _place(self) -> str:
        return self.address
