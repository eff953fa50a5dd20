"""Play sessions in child processes, and kill each child after a time.

python -m tests.crash.session_child

Reads lines of JSON: the number of a script, whether its calls run at once, its log, and after how
many seconds the child is killed, or null. Forks a child for each line, which resumes the session
and plays it to its end. Prints the child's exit status: 0, or the negative number of a signal.
"""

from __future__ import annotations

import json
import os
import signal
import sys
import time
import traceback
from pathlib import Path

from tests.property.resumed_sessions import Script


def play(script: Script, log: Path) -> int:
    """Resume a session and play it to its end. Return the exit status."""
    try:
        stage = script.open(log)
        with stage.session:
            script.go_on(stage)
    except BaseException:  # noqa: BLE001 - the status reports each kind
        traceback.print_exc()
        return 1
    return 0


def main() -> None:
    """Fork, kill and wait in a loop."""
    for line in sys.stdin:
        seed, is_parallel, log, seconds = json.loads(line)
        child = os.fork()
        if child == 0:
            os._exit(play(Script(seed, is_parallel=is_parallel), Path(log)))
        if seconds is not None:
            time.sleep(seconds)
            os.kill(child, signal.SIGKILL)  # A child that has ended is a zombie until the wait.
        _, status = os.waitpid(child, 0)
        print(os.waitstatus_to_exitcode(status), flush=True)


if __name__ == "__main__":
    main()
