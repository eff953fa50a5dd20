"""`Workers`: which engine runs batch work, as `--on` and `--jobs` say."""

from __future__ import annotations

import os

import msgspec

from harken.errors import ConfigError
from harken.executors.base import WorkerBackend
from harken.executors.executor import Executor
from harken.executors.in_process import InProcessBackend
from harken.executors.process_pool import ProcessPoolBackend

LOCAL, RAY = "local", "ray"


class Workers(msgspec.Struct, frozen=True, kw_only=True):
    """The workers to use. They are started by `open`."""

    engine: str = LOCAL
    """`local`: processes of this machine. `ray`: tasks of a Ray cluster."""
    address: str = ""
    """The address of a Ray cluster; empty: one is started on this machine."""
    jobs: int | None = 1
    """The number of processes. 1 means this process only; None means one for each processor."""

    @property
    def is_local(self) -> bool:
        """Whether processes of this machine are started, which takes little time."""
        return self.engine == LOCAL

    @property
    def has_processes(self) -> bool:
        """Whether other processes than this one are used."""
        return not self.is_local or self.jobs != 1

    def open(self) -> Executor:
        """Return an executor, a context manager. Raises ConfigError if Ray cannot be used."""
        backend: WorkerBackend
        if self.engine == RAY:
            from harken.executors.ray_tasks import RayBackend  # noqa: PLC0415 - an extra

            backend = RayBackend(self.address, self.jobs)
        elif not self.has_processes:
            backend = InProcessBackend()
        else:
            backend = ProcessPoolBackend(self.jobs or os.cpu_count() or 1)
        return Executor(backend)


def parse_workers(text: str, jobs: int | None) -> Workers:
    """Parse `local` or `ray[:ADDRESS]`. Raises ConfigError, also if Ray is not installed."""
    engine, colon, address = text.partition(":")
    if engine not in (LOCAL, RAY) or (colon and (engine == LOCAL or not address)):
        raise ConfigError(f"--on {text[:80]!r}: write local, ray, or ray:ADDRESS")
    if engine == RAY:
        from harken.executors.ray_tasks import import_ray  # noqa: PLC0415 - an extra

        import_ray()
        if address and jobs is not None:
            raise ConfigError("--jobs is for this machine: a Ray cluster has its own size")
    return Workers(engine=engine, address=address, jobs=jobs)
