"""The environment of programs that agents run contains no secrets unless they are named."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from harken.world.environment import find_hidden_variables, is_secret, visible_variables
from harken.world.shell.shell import Shell


@pytest.mark.parametrize(
    "name",
    [
        "GITHUB_TOKEN",
        "npm_token",
        "DB_PASSWORD",
        "PGPASSWORD",
        "MYSQL_PWD",
        "APIKEY",
        "OPENAI_API_KEY",
        "AWS_ACCESS_KEY_ID",
        "AWS_SECRET_ACCESS_KEY",
        "SESSION_SECRET",
        "CLIENT_SECRETS",
        "GOOGLE_APPLICATION_CREDENTIALS",
        "SSH_AUTH_SOCK",
        "GIT_ASKPASS",
        "BASIC_AUTH",
        "GH_PAT",
        "ENCRYPTION_KEY",
        "SSH_PRIVATE_KEY",
        "PASSPHRASE",
        "MY-PASS",
        "SLACK_WEBHOOK",
        "XAUTHORITY",
        "DBUS_SESSION_BUS_ADDRESS",
        "KRB5CCNAME",
        "AUTHTOKEN",
        "githubToken",
        "VSCODE_GIT_IPC_HANDLE",
        "AZURE_STORAGE_CONNECTION_STRING",
        "SESSION_COOKIE",
        "SSHPASS",
        "BW_SESSION",
        "OP_SESSION_my",
        "MASTERKEY",
    ],
)
def test_variable_with_a_secret_name_is_secret(name: str) -> None:
    assert is_secret(name, "something")


@pytest.mark.parametrize(
    "name",
    [
        "HOME",
        "PATH",
        "PWD",
        "OLDPWD",
        "LANG",
        "GIT_AUTHOR_NAME",
        "GIT_AUTHOR_EMAIL",
        "KEYBOARD",
        "MONKEY",
        "AUTHOR",
        "PATHEXT",
        "EDITOR",
        "TOKENIZERS_PARALLELISM",
        "COMPASS",
        "PYTHONPATH",
        "HARKEN_CONTEXT_SOCKET",
        "XDG_SESSION_TYPE",
        "JAVA_HOME",
        "VIRTUAL_ENV",
        "SHELL",
        "USER",
        "BYPASSED",
    ],
)
def test_variable_with_another_name_is_not_secret(name: str) -> None:
    assert not is_secret(name, "something")


@pytest.mark.parametrize(
    "value",
    [
        "ghp_" + "a1B2" * 9,
        "sk-ant-api03-" + "x1Y2" * 8,
        "postgres://ann:hunter22@db.example.org/app",
        "redis://:hunter22@cache:6379/0",
        "http://ann:pw@proxy.example.org:3128",
        '{"key": "-----BEGIN RSA PRIVATE KEY-----\\n' + "QUJD" * 20 + '"}',
        "AKIAQ7WZX5T2MN3BVC4D",
        "Server=db;User Id=ann;Password=hunter22;",
    ],
)
def test_variable_with_a_credential_as_value_is_secret(value: str) -> None:
    assert is_secret("CONFIGURED", value)


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("MAX_TOKENS", "4096"),
        ("USE_AUTH", "false"),
        ("API_KEY", ""),
        ("URL", "https://a@b.org/c:d"),
    ],
)
def test_plain_setting_is_not_secret(name: str, value: str) -> None:
    assert not is_secret(name, value)


def test_named_variables_are_passed_and_hidden_ones_are_not() -> None:
    environ = {"A_TOKEN": "x", "B_TOKEN": "y", "C": "z", "LAB": "key", "D": "w"}
    visible = visible_variables(environ, named=["A_TOKEN", "MISSING"], hide=["LAB", "D"])
    assert visible == {"A_TOKEN": "x", "C": "z"}


def test_only_variables_that_a_command_mentions_are_reported() -> None:
    environ = {"A_TOKEN": "x", "B_TOKEN": "y", "C_TOKEN": "z", "HOME": "/h"}
    command = "echo $A_TOKEN ${B_TOKEN:-no} $HOME $OTHER C_TOKEN; printenv C_TOKEN"
    assert find_hidden_variables(command, environ, {"HOME": "/h"}) == [
        "A_TOKEN",
        "B_TOKEN",
        "C_TOKEN",
    ]


def test_command_without_a_sandbox_gets_no_secrets(tmp_path: Path) -> None:
    environ = {"PATH": "/usr/bin:/bin", "GITHUB_TOKEN": "x1y2", "NPM_TOKEN": "z3", "LAB_KEY": "k4"}
    shell = Shell(tmp_path, tmp_path / "out", ["LAB_KEY"], ["NPM_TOKEN"], environment=environ)
    result = asyncio.run(shell.run("echo ${GITHUB_TOKEN}:$NPM_TOKEN:$LAB_KEY"))
    assert result.startswith("exit code 0\n:z3:\n")
    assert result.count("\n[") == 1
    assert "GITHUB_TOKEN, LAB_KEY" in result.splitlines()[-1]
