"""Keys are in the environment of Ray's workers, and in no log of Ray."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from tempfile import TemporaryDirectory

from tests.unit.executors.executor_kit import NEEDS_RAY

KEY = "sk-ant-" + "api03-" + "q" * 40
PROGRAM = """\
from functools import partial
from harken.executors.workers import Workers
from tests.unit.executors.executor_kit import read_variable
with Workers(engine="ray", jobs=1).open() as executor:
    print([result for _, result in executor.map(read_variable, ["ANTHROPIC_API_KEY"])])
"""


@NEEDS_RAY
def test_a_key_reaches_the_workers_and_no_log() -> None:
    with TemporaryDirectory(prefix="r", dir="/tmp") as folder:  # Its sockets need a short path.
        environ = {**os.environ, "ANTHROPIC_API_KEY": KEY, "RAY_TMPDIR": folder}
        command = [sys.executable, "-c", PROGRAM]
        out = subprocess.check_output(command, env=environ, text=True, stderr=subprocess.STDOUT)
        assert out.splitlines()[-1] == f"[{KEY!r}]"
        logs = [path for path in Path(folder).rglob("*") if path.is_file()]
        assert any(path.suffix == ".log" and path.stat().st_size for path in logs)
        assert not [path for path in logs if KEY.encode() in path.read_bytes()]
