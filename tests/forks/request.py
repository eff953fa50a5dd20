"""Ask a fork server for a process. Only modules that import nothing else: `harken` starts with it.

A request is one marshaled tuple beside three descriptors: standard input, output and error. The
answers are two messages: the id of the process, and, when it has ended, its status.
"""

import array
import marshal
import os
import sys
from _socket import AF_UNIX, SCM_RIGHTS, SO_SNDBUF, SOCK_SEQPACKET, SOL_SOCKET, socket

BUFFER_BYTES = 1 << 20


def request_process(
    path: str, arguments: list[str], folder: str, environ: dict[str, str], streams: list[int]
) -> tuple[socket, int]:
    """Return the connection on which the status will be sent, and the id of the process."""
    umask = os.umask(0)
    os.umask(umask)
    connection = socket(AF_UNIX, SOCK_SEQPACKET)
    connection.setsockopt(SOL_SOCKET, SO_SNDBUF, BUFFER_BYTES)
    connection.connect(path)
    request = marshal.dumps((arguments, folder, environ, umask))
    connection.sendmsg([request], [(SOL_SOCKET, SCM_RIGHTS, array.array("i", streams))])
    return connection, int(connection.recv(64))


def receive_status(connection: socket) -> int:
    """Wait until the process has ended. Return its exit code, or its signal as a negative number."""
    status = int(connection.recv(64) or b"-9")  # The server was killed, and all of its processes.
    connection.close()
    return status


def main() -> None:
    """Run a process with the streams of this one, and end as it does."""
    import signal

    path, *arguments = sys.argv[1:]
    folder = os.getcwd()  # noqa: PTH109 - pathlib takes longer to import than all else
    connection, process = request_process(path, arguments, folder, dict(os.environ), [0, 1, 2])
    for number in (signal.SIGHUP, signal.SIGINT, signal.SIGTERM):
        signal.signal(number, lambda number, _: os.kill(process, number))
    status = receive_status(connection)
    if status < 0:
        os.kill(os.getpid(), -status)
    os._exit(status)


if __name__ == "__main__":
    main()
