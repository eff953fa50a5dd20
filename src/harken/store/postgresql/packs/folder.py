"""Packs in object storage: a bucket of S3 or a compatible service, or a folder.

Only keys that PostgreSQL has are read, written and removed; the storage is never listed, since an
object may be there and not yet be listed. Each pack has a random key that is used once.
"""

from __future__ import annotations

import os
import secrets
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from datetime import timedelta
from pathlib import Path
from typing import Any, Protocol, TypeVar
from urllib.parse import unquote, urlsplit

from harken.errors import ConfigError, StoreError, StoreUnavailable, StoreWriteError
from harken.store.postgresql.address import PostgresAddress

T = TypeVar("T")
_PARALLEL = 8
_CLIENT: Any = {
    "allow_http": True,  # The address of the endpoint says whether it is encrypted.
    "connect_timeout": timedelta(seconds=10),
    "timeout": timedelta(seconds=60),
}
_MAX_RETRIES = 8
_KEY_BYTES = 16
_DENIED_ADVICE = "check the credentials and the rights of the storage"


class _Storage(Protocol):
    def put(self, key: str, data: bytes) -> bool:
        """Write durably. Return whether the storage keeps objects that are removed."""
        ...

    def get(self, key: str) -> bytes:
        """Read. Raises FileNotFoundError."""
        ...

    def delete(self, key: str) -> None:
        """Remove. Raises FileNotFoundError, or nothing."""
        ...


class PackFolder:
    """The object storage of a store. Threads may share it."""

    def __init__(self, address: PostgresAddress, patience_s: float) -> None:
        """Open the storage. No request is sent. Raises ConfigError, StoreError."""
        self.place = address.packs
        self.keeps_removed = False
        """Whether a write has shown that the storage keeps old versions."""
        is_file = urlsplit(address.packs).scheme == "file"
        self._storage: _Storage = _Folder(self.place) if is_file else _Bucket(address, patience_s)

    def new_key(self) -> str:
        """Return a key that was never used."""
        digits = secrets.token_hex(_KEY_BYTES)
        return f"{digits[:2]}/{digits[2:]}"

    def write(self, packs: Sequence[tuple[str, bytes]]) -> None:
        """Write packs under new keys.

        Raises StoreUnavailable, StoreWriteError. Some may be written then.
        """
        if any(self._map(lambda pack: self._storage.put(*pack), packs)):
            self.keeps_removed = True

    def read(self, keys: Iterable[str]) -> dict[str, bytes | None]:
        """Return packs by key, None for those that do not exist. Raises StoreUnavailable."""
        distinct = list(dict.fromkeys(keys))
        return dict(zip(distinct, self._map(self._read_pack, distinct), strict=True))

    def remove(self, keys: Iterable[str]) -> None:
        """Remove packs. Those that do not exist are ignored. Raises StoreUnavailable."""
        self._map(self._remove_pack, list(keys))

    def _read_pack(self, key: str) -> bytes | None:
        try:
            return self._storage.get(key)
        except FileNotFoundError:
            return None

    def _remove_pack(self, key: str) -> None:
        with suppress(FileNotFoundError):
            self._storage.delete(key)

    def _map(self, work: Callable[[Any], T], items: Sequence[Any]) -> list[T]:
        if len(items) < 2:
            return [work(item) for item in items]
        with ThreadPoolExecutor(min(_PARALLEL, len(items))) as pool:
            return list(pool.map(work, items))


class _Bucket:
    """A bucket. Failed requests are sent again for some time."""

    def __init__(self, address: PostgresAddress, patience_s: float) -> None:
        import obstore  # noqa: PLC0415 - an extra
        from obstore.store import S3Store  # noqa: PLC0415 - an extra

        self._obstore, self.place = obstore, address.packs
        self._errors = (OSError, obstore.exceptions.BaseError)
        parts = urlsplit(address.packs)
        options = {"endpoint": address.s3_endpoint, "region": address.s3_region}
        config: Any = {name: value for name, value in options.items() if value}
        retry_timeout = timedelta(seconds=max(patience_s, 0.1))
        try:
            self._bucket = S3Store(
                parts.netloc,
                prefix=parts.path.strip("/") or None,
                config=config,
                client_options=_CLIENT,
                retry_config={"max_retries": _MAX_RETRIES, "retry_timeout": retry_timeout},
            )
        except (ValueError, *self._errors) as error:
            raise ConfigError(f"{self.place}: {error}") from None

    def put(self, key: str, data: bytes) -> bool:
        try:
            result = self._obstore.put(self._bucket, key, data, use_multipart=False)
        except self._errors as error:
            raise self._convert(error) from None
        return (result.get("version") or "null") != "null"

    def get(self, key: str) -> bytes:
        try:
            return bytes(self._obstore.get(self._bucket, key).bytes())
        except FileNotFoundError:
            raise
        except self._errors as error:
            raise self._convert(error) from None

    def delete(self, key: str) -> None:
        try:
            self._obstore.delete(self._bucket, key)
        except FileNotFoundError:
            raise
        except self._errors as error:
            raise self._convert(error) from None

    def _convert(self, error: Exception) -> StoreError:
        text = next((line for line in str(error).splitlines() if line.strip()), repr(error))[:300]
        denied = (PermissionError, self._obstore.exceptions.UnauthenticatedError)
        if isinstance(error, FileNotFoundError):
            return StoreWriteError(self.place, reason=text, advice="create the bucket")
        if isinstance(error, denied):
            return StoreWriteError(self.place, reason=text, advice=_DENIED_ADVICE)
        return StoreUnavailable(self.place, f"the storage of packs does not answer: {text}")


class _Folder:
    """A folder. A file is complete and on disk when it has its name."""

    def __init__(self, place: str) -> None:
        self.place = place
        self._folder = Path(unquote(urlsplit(place).path))

    def put(self, key: str, data: bytes) -> bool:
        path = self._folder / key
        temporary = path.with_name(f"{path.name}.part")
        try:
            path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
            number = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
            with open(number, "wb") as file:  # noqa: PTH123 - of a descriptor
                file.write(data)
                file.flush()
                os.fsync(number)
            temporary.replace(path)
            for folder in (path.parent, self._folder):
                _sync_folder(folder)
        except OSError as error:
            temporary.unlink(missing_ok=True)
            raise StoreWriteError(self.place, reason=str(error)) from None
        return False

    def get(self, key: str) -> bytes:
        try:
            return (self._folder / key).read_bytes()
        except FileNotFoundError:
            raise
        except OSError as error:
            raise StoreError(self.place, str(error)) from None

    def delete(self, key: str) -> None:
        try:
            (self._folder / key).unlink()
        except FileNotFoundError:
            raise
        except OSError as error:
            raise StoreWriteError(self.place, reason=str(error)) from None


def _sync_folder(folder: Path) -> None:
    number = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(number)
    finally:
        os.close(number)
