"""The demo's log, line by line: with a fixed clock it is always the same.

A difference is a change of what users find in their logs: say so in CHANGELOG.md, and in
docs/formats/session-log.md where it is one of the format. Then write the file again, on purpose:

    python -m tests.golden.test_demo_log
"""

import tempfile
from pathlib import Path

import pytest

from harken import SessionOptions
from harken.cli.commands.demo import play
from harken.session.verify import verify
from harken.testing import ticking

GOLDEN = Path(__file__).with_name("demo.jsonl")


def demo_log(folder: Path) -> list[str]:
    """Play the demo with a clock that ticks a second each time it is asked."""
    log = folder / "demo.jsonl"
    play(log, SessionOptions(durability="none", clock=ticking()))
    return log.read_text(encoding="utf-8").splitlines()


@pytest.mark.req("S0-51", "S0-52", "S0-04")
def test_the_log_of_the_demo_is_the_golden_one(tmp_path: Path) -> None:
    golden = GOLDEN.read_text(encoding="utf-8").splitlines()
    played = demo_log(tmp_path)
    for number, (want, line) in enumerate(zip(golden, played, strict=False), 1):
        assert line == want, f"line {number} differs"
    assert len(played) == len(golden)


def test_the_golden_log_verifies() -> None:
    assert verify(GOLDEN) == []


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as folder:
        GOLDEN.write_text("\n".join(demo_log(Path(folder))) + "\n", encoding="utf-8")
