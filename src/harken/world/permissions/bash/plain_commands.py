"""Split a line into plain commands, for rules that allow.

A line is split only if it consists of nothing but literal commands and separators: every node of
its syntax tree must be of a type that is listed here.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from harken.world.permissions.bash.parser import ODD_CHARACTERS, Word, literal_word
from harken.world.permissions.bash.programs import name_set
from harken.world.permissions.bash.syntax import Syntax
from harken.world.permissions.bash.wrappers import is_known

if TYPE_CHECKING:
    from tree_sitter import Node

_STRUCTURE = frozenset({"program", "list", "pipeline", "redirected_statement"})
_SEPARATORS = frozenset({"&&", "||", "|", "|&", ";", "&", "comment"})
_KEYWORDS = name_set(
    """
    ! { } [[ ]] case coproc do done elif else esac fi for function if in select then time
    until while
    """
)
_ASSIGNMENT = re.compile(r"[A-Za-z_]\w*(?:\[[^]]*\])?\+?=")
_WORD_PARTS = name_set("concatenation number raw_string string string_content word")
_TEST_PARTS = _WORD_PARTS | {"binary_expression", "test_operator", "unary_expression"}
_NULL_OPERATORS = frozenset({">", ">>", "<", "&>", "&>>"})


def plain_parts(command: str) -> list[str] | None:
    """Return the commands of a line as they are written, without redirections and extra blanks.

    Return None if there is anything else in it: a substitution, a variable, a redirection to a
    file, an assignment, a loop, a group, a character that shells read in different ways.

    >>> plain_parts("cd src &&  pytest -x 2>&1 | tail -5")
    ['cd src', 'pytest -x', 'tail -5']
    >>> plain_parts("pytest $(cat args)"), plain_parts("pytest > log"), plain_parts("X=1 pytest")
    (None, None, None)
    """
    has_odd_characters = ODD_CHARACTERS.search(command) or "$\\\n" in command
    syntax = None if has_odd_characters else Syntax.parse(command)
    if syntax is None or not syntax.is_exact:
        return None
    commands: list[list[Word]] = []
    stack = [syntax.root]
    while stack:
        node = stack.pop()
        if node.type in _STRUCTURE:
            stack.extend(reversed(node.children))
        elif node.type in ("command", "test_command"):
            words = _words(syntax, node)
            if words is None:
                return None
            commands.append(words)
        elif not _is_harmless(syntax, node):
            return None
    if not commands or not all(_is_plain_name(words[0]) for words in commands):
        return None
    return [" ".join(word.raw for word in words) for words in commands]


def _is_harmless(syntax: Syntax, node: Node) -> bool:
    """Whether a node between commands is a separator, or a redirection that touches no file."""
    if node.type != "file_redirect":
        return node.type in _SEPARATORS or node.type == "\n"
    parts = [syntax.text(child) for child in node.children if child.type != "file_descriptor"]
    if len(parts) != 2:
        return False
    operator, target = parts
    if operator in (">&", "<&"):
        return re.fullmatch(r"\d+|-", target) is not None
    return operator in _NULL_OPERATORS and target == "/dev/null"


def _words(syntax: Syntax, command: Node) -> list[Word] | None:
    """Return the words of a command. Return None if one of them is not literal."""
    parts = _TEST_PARTS if command.type == "test_command" else _WORD_PARTS | {"command_name"}
    tokens: list[Node] = []
    stack = [*reversed(command.children)]
    while stack:
        node = stack.pop()
        if node.type == "file_redirect" and _is_harmless(syntax, node):
            continue
        if node.child_count and node.type in parts and node.type != "string":
            stack.extend(reversed(node.children))
        elif node.type in parts or (node.child_count == 0 and not node.is_named):
            tokens.append(node)
        else:
            return None
    words: list[list[Node]] = []
    for token in tokens:
        if words and words[-1][-1].end_byte == token.start_byte:
            if words[-1][-1].type == "$":  # `$"text"` is translated
                return None
            words[-1].append(token)
        else:
            words.append([token])
    literal_words = [literal_word(syntax, nodes) for nodes in words]
    if not all(word.is_plain and not _may_be_several(word.bare) for word in literal_words):
        return None
    return literal_words


def _is_plain_name(word: Word) -> bool:
    """Whether a first word is the name of a program, and neither a keyword nor an assignment."""
    if not word.value or word.raw in _KEYWORDS or _ASSIGNMENT.match(word.raw):
        return False
    return is_known(word) and "~" not in word.bare


def _may_be_several(bare: str) -> bool:
    """Whether braces may make several words of one: `{a,b}`, `{1..3}`, or an open brace."""
    open_count, close_count = bare.count("{"), bare.count("}")
    return open_count > 0 and (open_count != close_count or "," in bare or ".." in bare)
