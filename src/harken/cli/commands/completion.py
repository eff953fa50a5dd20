"""Shell completion for bash, zsh and fish.

`harken completion SHELL` prints a script. It calls `harken` again for each completion, with the
line up to the cursor in the environment: `complete_line` answers with one candidate per line.
Matching and parsing are click's, run on a tree of commands that needs no import of the real ones.

Names come from logs and transcripts, so they are hostile: each is quoted for the shell, and one
that cannot be quoted or shown is left out. An error prints nothing: it would appear in the prompt.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

import click
from click.shell_completion import CompletionItem, ShellComplete

SHELL_VARIABLE = "_HARKEN_COMPLETE"
LINE_VARIABLE = "_HARKEN_LINE"
_CURSOR = "\x1f"
"""Appended to the line, so that the word at the cursor exists even if it is empty."""
_BASH_BREAKS = ":="
"""Bash replaces only the part of a word after the last of these."""

SCRIPTS: Mapping[str, str] = {
    "bash": """\
_harken_complete() {
    local line
    COMPREPLY=()
    while IFS= read -r line; do
        case "$line" in
            "file ") compopt -o default 2>/dev/null ;;
            "folder ") compopt -o dirnames 2>/dev/null ;;
            "plain "*) COMPREPLY+=("${line#plain }") ;;
        esac
    done < <(_HARKEN_COMPLETE=bash _HARKEN_LINE="${COMP_LINE:0:COMP_POINT}" \\
        "${1/#\\~/$HOME}" 2>/dev/null)
    if [[ ${#COMPREPLY[@]} -eq 1 && ${COMPREPLY[0]} == --*= ]]; then
        compopt -o nospace 2>/dev/null
    fi
}
complete -o nosort -F _harken_complete harken 2>/dev/null || complete -F _harken_complete harken
""",
    "zsh": """\
_harken_complete() {
    local line
    local -a candidates
    while IFS= read -r line; do
        case "$line" in
            "file ") _files ;;
            "folder ") _files -/ ;;
            "plain "*) candidates+=("${line#plain }") ;;
        esac
    done < <(_HARKEN_COMPLETE=zsh _HARKEN_LINE="${(j: :)words[1,CURRENT-1]} ${QIPREFIX}${PREFIX}" \\
        ${~words[1]} 2>/dev/null)
    (( ${#candidates} )) && compadd -V harken -a candidates
}
(( $+functions[compdef] )) || { autoload -Uz compinit && compinit -i -D; }
compdef _harken_complete harken
""",
    "fish": """\
function __harken_complete
    set -l line (commandline -cp | string join ' ')
    for answer in (env _HARKEN_COMPLETE=fish _HARKEN_LINE="$line" harken 2>/dev/null)
        switch $answer
            case 'file '
                __fish_complete_path (commandline -ct)
            case 'folder '
                __fish_complete_directories (commandline -ct)
            case 'plain *'
                string sub -s 7 -- $answer
        end
    end
end
complete -c harken -f -k -a '(__harken_complete)'
""",
}


@click.command()
@click.argument("shell", type=click.Choice([*SCRIPTS]))
def command(shell: str) -> None:
    """Print a script for shell completion of commands, options and names.

    Add `eval "$(harken completion bash)"` to ~/.bashrc, the same with zsh to ~/.zshrc, or `harken
    completion fish | source` to ~/.config/fish/config.fish.
    """
    click.echo(SCRIPTS[shell], nl=False)


@dataclass(frozen=True, slots=True)
class Line:
    """A command line up to the cursor."""

    words: list[str]
    """The complete words after the program, as the shell would pass them."""
    incomplete: str
    """The word at the cursor, without its quotes."""
    quote: str
    """The quote that is open at the cursor; empty if none is."""


def complete_line(environ: Mapping[str, str]) -> list[str]:
    """Return the answer to a completion script: `plain CANDIDATE`, `file ` or `folder ` each."""
    shell = environ.get(SHELL_VARIABLE, "")
    try:
        line = parse_line(environ.get(LINE_VARIABLE, ""))
        return [answer for item in _items(line) for answer in _answers(item, line, shell)]
    except Exception:  # noqa: BLE001 - errors must not be printed at a shell's prompt
        return []


def parse_line(text: str) -> Line:
    """Split a line as a shell does, up to the cursor.

    >>> parse_line("harken view 'my se")
    Line(words=['view'], incomplete='my se', quote="'")
    >>> parse_line("A=1 harken view demo ").incomplete
    ''
    """
    lexer = shlex.shlex(text + _CURSOR, posix=True)
    lexer.whitespace_split = True
    lexer.commenters = ""
    words: list[str] = []
    quote = ""
    try:
        words.extend(lexer)
    except ValueError:  # A quote is open at the cursor.
        words.append(lexer.token)
        quote = str(getattr(lexer, "state", ""))  # The attribute is missing in typeshed.
    while words and re.match(r"\w+=", words[0]):
        words.pop(0)
    incomplete = words.pop().rstrip(_CURSOR) if len(words) > 1 else ""
    return Line(words[1:], incomplete, quote if quote in ("'", '"') else "")


def quoted(candidate: str, line: Line) -> str | None:
    r"""Return a candidate as bash inserts it. Return None if it cannot be quoted at the cursor.

    >>> quoted("a $(b)", Line([], "", "")), quoted("codex:01", Line([], "codex:0", ""))
    ('a\\ \\$\\(b\\)', '01')
    """
    if line.quote == "'":
        return None if "'" in candidate else candidate
    if line.quote == '"':
        return None if "!" in candidate else re.sub(r'(["$`\\])', r"\\\1", candidate)
    start = max((line.incomplete.rfind(sign) for sign in _BASH_BREAKS), default=-1) + 1
    return re.sub(r"([^\w@%+=:,./-])", r"\\\1", candidate[start:])


def _items(line: Line) -> Iterator[CompletionItem]:
    """Yield the candidates at the cursor, as complete words."""
    from harken.cli.completion_table import load_table, stub_tree

    completion = ShellComplete(stub_tree(load_table()), {}, "harken", SHELL_VARIABLE)
    # Click returns the value alone for `--option=value`.
    option, equals, _ = line.incomplete.partition("=")
    prefix = option + equals if equals and option.startswith("--") else ""
    for item in completion.get_completions(line.words, line.incomplete):
        yield CompletionItem(prefix + item.value, item.type)


def _answers(item: CompletionItem, line: Line, shell: str) -> Iterator[str]:
    if item.type in ("file", "dir"):
        yield "file " if item.type == "file" else "folder "
        return
    value = quoted(item.value, line) if shell == "bash" else item.value
    if value is not None and value.isprintable():
        yield f"plain {value}"
