"""What an interaction logger does and where; all has defaults."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from harken.core.arguments import check_arguments
from harken.errors import ConfigError


@check_arguments
@dataclass(frozen=True, slots=True, kw_only=True)
class InteractionLoggingConfig:
    """The configuration of the specification. Raises ConfigError for a retention that is none.

    Source: spec [S3] "Configuration".
    """

    enabled: bool = True
    """False: nothing is written, and every answer is as it would be."""
    log_directory: Path = Path("logs/interactions")
    """Where the exported form goes; where a logger is given no other folder, its sessions and its
    store are there, too."""
    retention_days: int | None = None
    """Sessions that nobody has written for so many days are dropped, as wholes; None: never."""
    log_context_on_every_request: bool = True
    """False: a request leaves no rows of its context. It cannot be rebuilt then."""
    include_token_estimates: bool = True
    shard_messages: bool = False
    """Whether exported messages stand in folders by the beginning of their id."""

    def __post_init__(self) -> None:
        """Check what can be wrong."""
        if self.retention_days is not None and self.retention_days < 1:
            raise ConfigError(f"sessions are kept for a day or more, not {self.retention_days}")
        object.__setattr__(self, "log_directory", Path(self.log_directory))
