"""Home folders are replaced in all spellings that tools write, and what only looks alike is not."""

from __future__ import annotations

import pytest

from harken.core.secrets.home_folders import HomeFolders

REPLACED = [
    ("/home/ann/code/tea.py", "~/code/tea.py"),
    ("see /Users/ann.", "see ~."),
    ("/home/ann-lee/x and /Users/b.c/y", "~/x and ~/y"),
    ("file:///home/ann/x", "file://~/x"),
    (r"C:\Users\ann\x", r"~\x"),
    (r"C:\Users\Ann Lee\x", r"~\x"),
    (r'{"path": "C:\\Users\\ann\\x"}', r'{"path": "~\\x"}'),
    (r"\/home\/ann\/x", r"~\/x"),
    ("c:/Users/ann/x", "~/x"),
    ("/c/Users/ann/x", "~/x"),
    ("/mnt/c/Users/ann/x", "~/x"),
    ("file%3A%2F%2F%2FUsers%2Fann%2Fx", "file%3A%2F%2F~%2Fx"),
    ("/home/ann/.claude/projects/-home-ann-tea", "~/.claude/projects/~-tea"),
    ("projects/-Users-ann-tea/x.jsonl", "projects/~-tea/x.jsonl"),
    ("/home/ann-lee/p/-home-ann-lee-tea", "~/p/~-tea"),
    ("HOME=/home/ann:/home/ann/bin", "HOME=~:~/bin"),
    ("/home/ëlla/x", "~/x"),
]
KEPT = [
    "/home",
    "/home/",
    "https://example.org/home/ann",
    "src/home/page.tsx",
    "/Users/Shared/x",
    "--home-folder and nursing-home-care",
    "~/code",
    "homes and others",
]


@pytest.mark.parametrize(("text", "expected"), REPLACED)
def test_a_home_folder_is_replaced(text: str, expected: str) -> None:
    homes = HomeFolders()
    assert homes.replace(text) == expected
    assert homes.replace(expected) == expected
    assert homes.count


@pytest.mark.parametrize("text", KEPT)
def test_other_folders_are_kept(text: str) -> None:
    homes = HomeFolders()
    assert (homes.replace(text), homes.count) == (text, 0)


def test_the_own_home_may_be_anywhere() -> None:
    homes = HomeFolders(["/root"])
    assert homes.replace("/root/x, /rooting, /data/root/x") == "~/x, /rooting, /data/root/x"
    assert homes.replace("/root") == "~"


def test_each_folder_is_counted_once() -> None:
    homes = HomeFolders(["/root"])
    homes.replace("/home/ann/x /home/ann/y /Users/bob /root /root/z")
    assert homes.count == 3


@pytest.mark.parametrize(
    "text", ["/home/" * 20_000, "C:\\Users\\" + "a " * 50_000, "-home-" * 20_000]
)
def test_a_long_text_costs_no_more_than_its_length(text: str) -> None:
    homes = HomeFolders(["/root"])
    homes.replace(text)
