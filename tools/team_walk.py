"""`make team`: three users on two services over one store, as a walk that a person can read.

It starts PostgreSQL, an S3 server and two services, prints each command with its output, and stops
all that it started, also on Ctrl-C. A command that ends with another exit code than expected fails
the walk.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import FrameType
from typing import NoReturn

from tests.postgres_kit import INSTALL, find_programs, run_postgres, run_s3

BIN = Path(sys.executable).parent
CHAT = "harken chat --model scripted:demo"
GET = 'curl -sS -H "Authorization: Bearer $HARKEN_STORE_TOKEN"'
_TOKEN = re.compile(r"hkt_[A-Za-z0-9_-]+")
_NAME = re.compile(r"((?:ctx-|art-)[0-9a-f]{12})[0-9a-f]{52}")
_STOP_TIMEOUT_S = 20
_IDLE_TIMEOUT = "10m"
"""A service whose walk was killed ends after this time."""


class WalkFailed(Exception):
    """A command of the walk ended with another exit code than expected."""


class Walk:
    """The folder, the environment and the output of a walk."""

    def __init__(
        self, folder: Path, environment: dict[str, str], *, commands: Path, is_colored: bool = False
    ) -> None:
        """Print commands that run in a folder.

        environment: that of the S3 server. commands: the folder of the command `harken`.
        """
        self.folder, self._is_colored = folder, is_colored
        own = {name: text for name, text in os.environ.items() if not name.startswith("HARKEN_")}
        path = os.pathsep.join([str(commands), own.get("PATH", os.defpath)])
        self.environment = {**own, **environment, "PATH": path}

    def title(self, text: str) -> None:
        """Print a heading."""
        self.say(f"\n== {text}", is_bold=True)

    def say(self, text: str, *, is_bold: bool = False) -> None:
        """Print text with short names, without tokens."""
        text = _NAME.sub(r"\1", _TOKEN.sub("hkt_...", text))
        print(f"\x1b[1m{text}\x1b[0m" if is_bold and self._is_colored else text, flush=True)


class Member:
    """A person at a terminal, with a home and the environment of a shell."""

    def __init__(self, walk: Walk, name: str, **environment: str) -> None:
        self._walk, self.name = walk, name
        self.home = walk.folder / name
        self.environment = {**walk.environment, "HARKEN_HOME": str(self.home), **environment}

    def run(self, command: str, *, code: int = 0) -> str:
        """Print a command of the shell, run it, and print its output. Return the output.

        Raises WalkFailed for an exit code other than `code`.
        """
        self._walk.say(f"\n{self.name}$ {command}", is_bold=True)
        output, exit_code = self._run(command)
        if output.strip():
            self._walk.say(output.rstrip("\n"))
        if exit_code:
            self._walk.say(f"(exit code {exit_code})")
        if exit_code != code:
            raise WalkFailed(f"exit code {exit_code} in place of {code}: {command}")
        return output

    def find_tip(self) -> str:
        """Return the newest commit of the home."""
        output, _ = self._run("harken ctx log -n 1 --json")
        return str(json.loads(output)[0]["id"])

    def _run(self, command: str) -> tuple[str, int]:
        process = subprocess.run(
            ["sh", "-c", command],
            env=self.environment,
            cwd=self._walk.folder,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            check=False,
        )
        return process.stdout, process.returncode


class Service:
    """A running `harken serve`."""

    def __init__(self, owner: Member) -> None:
        """Start a service of the store of a home."""
        self._process = subprocess.Popen(
            [BIN / "harken", "serve", "--port", "0", "--idle-timeout", _IDLE_TIMEOUT, "--json"],
            env=owner.environment,
            stdout=subprocess.PIPE,
            text=True,
            start_new_session=True,
        )
        assert self._process.stdout is not None
        self._output = self._process.stdout
        line = self._output.readline()
        if not line:
            raise WalkFailed(f"the service ended with exit code {self._process.wait()}")
        self.url = str(json.loads(line)["address"])

    @property
    def process_id(self) -> int:
        """The id of the process."""
        return self._process.pid

    def wait(self) -> int:
        """Wait until the process has ended, and return its exit code."""
        return self._process.wait(_STOP_TIMEOUT_S)

    def stop(self) -> None:
        """Let the service finish its requests and end."""
        if self._process.poll() is None:
            self._process.send_signal(signal.SIGTERM)
            try:
                self._process.wait(_STOP_TIMEOUT_S)
            except subprocess.TimeoutExpired:
                self._process.kill()
                self._process.wait()
        self._output.close()


@contextmanager
def serve(walk: Walk, owner: Member) -> Iterator[Service]:
    """Run a service until the end of the block."""
    walk.say(f"\n{owner.name}$ harken serve --port 0 &", is_bold=True)
    service = Service(owner)
    try:
        walk.say(f"Serving at {service.url}")
        yield service
    finally:
        service.stop()


def walk_team(walk: Walk, store: str) -> None:
    """Run the walk over a store. Raises WalkFailed."""
    walk.title("Two services, each with a home of its own, over one store")
    owners = Member(walk, "north"), Member(walk, "south")
    for owner in owners:
        owner.home.mkdir(mode=0o700)
        (owner.home / "config.toml").write_text(f"[store]\nurl = {json.dumps(store)}\n")
    walk.say(f"\nnorth/config.toml, south/config.toml: [store] url = {json.dumps(store)}")
    with serve(walk, owners[0]) as north, serve(walk, owners[1]) as south:
        ann, bob, carl = add_members(walk, owners[0], north, south)
        work_together(walk, ann, bob)
        check_rights(walk, ann, bob, carl)
        follow_changes(walk, bob)
        kill_service(walk, owners[0], north, ann, bob)
        retain(walk, owners[0], ann, bob)
        read_audit_logs(walk, *owners)
        walk.title("The end: all that was started is stopped")


def add_members(walk: Walk, owner: Member, north: Service, south: Service) -> list[Member]:
    """Add three users to the running services, and give each of them a token."""
    walk.title("The owner adds three users, and makes a token for each of them")
    owner.run(
        "harken user add ann --project cafe --write project:cafe --write project:diary "
        "--purge project:cafe"
    )
    owner.run("harken user add bob --write project:cafe")
    owner.run("harken user add carl --read project:cafe")
    members = []
    for name, service in (("ann", north), ("bob", south), ("carl", south)):
        token = owner.run(f"harken token create {name} --name laptop").split()[0]
        environment = {"HARKEN_PRINCIPAL": name, "HARKEN_STORE_TOKEN": token}
        members.append(
            Member(walk, name, NORTH=north.url, SOUTH=south.url, SERVICE=service.url, **environment)
        )
    owner.run("harken token list")
    walk.say("\nEach of them sets HARKEN_STORE_TOKEN and HARKEN_PRINCIPAL, and has a home.")
    return members


def work_together(walk: Walk, ann: Member, bob: Member) -> None:
    """Ann pushes, Bob clones and continues, Ann pulls."""
    walk.title("Ann works in her home, and pushes to the first service")
    ann.run(f"{CHAT} -p 'Let Jack and Jill meet in a cafe.'")
    ann.run(f"harken ctx branch cafe {ann.find_tip()[:16]}")
    ann.run("harken remote add origin $NORTH")
    ann.run("harken push --all")
    walk.title("Bob clones from the second service, and continues what Ann began")
    bob.run("harken clone $SOUTH")
    bob.run("harken ctx show cafe")
    bob.run(f"{CHAT} --from-commit cafe -p 'What did they say?'")
    bob.run(f"harken ctx branch cafe {bob.find_tip()[:16]} --from cafe")
    bob.run("harken push --all")
    walk.title("Ann pulls, and has what Bob did")
    ann.run("harken pull")
    ann.run("harken ctx log cafe -n 3")


def check_rights(walk: Walk, ann: Member, bob: Member, carl: Member) -> None:
    """Carl may read, and not write; Bob has no right to Ann's other project."""
    walk.title("Carl may read project cafe, and write nothing")
    carl.run("harken clone $SOUTH")
    carl.run("harken ctx log cafe -n 2")
    carl.run(f"{CHAT} --from-commit cafe -p 'And then?'")
    carl.run("harken push --all", code=2)
    walk.title("Ann writes project diary, to which Bob has no right")
    ann.run(f"HARKEN_STORE_PROJECT=diary {CHAT} --store $NORTH -p 'Dear diary'")
    rows = json.loads(ann.run(f"{GET} $NORTH/v1/commits?limit=1"))
    name = rows["commits"][0]["id"]
    bob.run(f"{GET} $SOUTH/v1/commits?limit=1")
    if json.loads(bob.run(f"{GET} $SOUTH/v1/commits/{name}"))["error"]["code"] != "unknown_name":
        raise WalkFailed("Bob reads the project diary")


def follow_changes(walk: Walk, bob: Member) -> None:
    """Bob reads the change feed, and waits for the next change."""
    walk.title("Bob follows the changes that he may read")
    page = json.loads(bob.run(f"{GET} $SOUTH/v1/changes?limit=3"))
    bob.run(f"{GET} '$SOUTH/v1/changes?after={page['next']}&limit=3'".replace("'", '"'))


def kill_service(walk: Walk, owner: Member, north: Service, ann: Member, bob: Member) -> None:
    """The first service is killed; the second one goes on."""
    walk.title("The first service is killed, and the second one goes on")
    ann.run(f"{CHAT} -p 'Let Jack and Jill meet in the park.'")
    owner.run(f"kill -9 {north.process_id}")
    north.wait()
    ann.run("harken push --all", code=2)
    ann.run("harken remote add south $SOUTH")
    ann.run("harken push --all south")
    bob.run("harken pull")


def retain(walk: Walk, owner: Member, ann: Member, bob: Member) -> None:
    """A rule removes what is old, but nothing that is under a legal hold."""
    walk.title("A rule of retention, and a legal hold")
    bob.run("harken ctx label cafe project:cafe case-7")
    bob.run("harken push --all")
    owner.run("harken retention add old --project cafe --older-than 1s")
    owner.run(
        "harken retention add case-7 --hold --label case-7 --reason 'until the case is closed'"
    )
    owner.run("harken retention apply --dry-run")
    owner.run("harken retention apply --grace 0s")
    purge = "printf '*extends hand*' | harken store purge --yes --reason privacy"
    owner.run(purge, code=2)
    owner.run("harken retention remove case-7")
    owner.run(purge)


def read_audit_logs(walk: Walk, north: Member, south: Member) -> None:
    """The owner reads the audit log of each service."""
    walk.title("The owner reads the audit logs: each service has its own")
    north.run("harken user audit --limit 12")
    south.run("harken user audit --user carl")


def find_missing_program() -> str | None:
    """Return a line about a program that is not installed, or None."""
    if find_programs() is None:
        return INSTALL
    return None if shutil.which("curl") else "curl is not installed: apt-get install curl"


def run_walk(folder: Path, *, commands: Path = BIN, is_colored: bool = False) -> None:
    """Start the servers and run the walk. Raises WalkFailed."""
    with run_postgres() as postgres, run_s3() as s3:
        walk = Walk(folder, s3.environment, commands=commands, is_colored=is_colored)
        walk.title("PostgreSQL and an S3 server")
        walk.say(f"\nPostgreSQL: {postgres.socket}\nS3: {s3.endpoint}\nhomes: {folder}")
        packs = f"s3://{s3.create_bucket()}/packs"
        walk_team(walk, postgres.address("harken", packs=packs))


def _interrupt(_number: int, _frame: FrameType | None) -> NoReturn:
    raise KeyboardInterrupt


def main() -> int:
    """Run the walk in a new folder. Return the exit code."""
    if (missing := find_missing_program()) is not None:
        print(missing, file=sys.stderr)
        return 2
    signal.signal(signal.SIGTERM, _interrupt)
    try:
        with tempfile.TemporaryDirectory(prefix="harken-team-") as folder:
            run_walk(Path(folder), is_colored=sys.stdout.isatty())
    except WalkFailed as error:
        print(f"the walk failed: {error}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        print("interrupted: all that was started is stopped", file=sys.stderr)
        return 130
    return 0


if __name__ == "__main__":
    sys.exit(main())
