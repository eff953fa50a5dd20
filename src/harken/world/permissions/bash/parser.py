"""Parse a shell command with the Bash grammar of tree-sitter.

The result is a flat list of simple commands: their words, assignments and redirections, and where
their input comes from. The grammar accepts some texts that Bash reads differently, so the text
between two tokens and the characters of each token are checked again. What fails such a check, a
syntax error and a kind of node that this module does not know make the result incomplete.

Nothing here recurses over the input: a hostile command may be nested as deeply as it is long.

Source: https://github.com/tree-sitter/tree-sitter-bash, Bash Reference Manual 5.2.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import TYPE_CHECKING, TypeAlias

import msgspec

from harken.world.permissions.bash.programs import name_set
from harken.world.permissions.bash.syntax import Syntax

if TYPE_CHECKING:
    from tree_sitter import Node

_MAX_DEPTH = 500
"""Nesting of words in words. Deeper ones are treated as not understood."""

ODD_CHARACTERS = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\ud800-\udfff]|[^\\S \t\n]")
"""Control characters, unusual blanks and surrogates: shells may read them in different ways."""
_ESCAPE = re.compile(r"\\(.)", re.DOTALL)
_STRING_ESCAPE = re.compile(r'\\([$`"\\\n])')
_BACKQUOTE_ESCAPE = re.compile(r'\\([\\`$"])')
_LITERAL = re.compile(r"(?:[^\\'\"`$&|;<>()\s]|\\.)+", re.DOTALL)
_QUOTED, _SUBSTITUTION = re.compile(r"['\\]"), re.compile(r"\$\(|`")

_WORDS = name_set(
    """
    ansi_c_string arithmetic_expansion brace_expression command_substitution concatenation
    expansion extglob_pattern number process_substitution raw_string regex simple_expansion
    string test_operator translated_string variable_name word $
    """
)
_REDIRECTIONS = frozenset({"file_redirect", "heredoc_redirect", "herestring_redirect"})
_STRUCTURE = name_set(
    """
    array binary_expression c_style_for_statement case_item case_statement
    command_substitution compound_statement concatenation do_group elif_clause else_clause
    expansion arithmetic_expansion for_statement function_definition heredoc_body
    heredoc_redirect if_statement list negated_command parenthesized_expression pipeline
    postfix_expression process_substitution program redirected_statement string subscript
    subshell ternary_expression test_command translated_string unary_expression
    while_statement brace_expression herestring_redirect file_redirect command_name
    simple_expansion
    """
)
"""Nodes whose children are visited individually."""
_LEAVES = name_set(
    """
    ansi_c_string comment extglob_pattern file_descriptor heredoc_content heredoc_end
    heredoc_start number raw_string regex special_variable_name string_content test_operator
    variable_name word heredoc_body
    """
)
_DECLARATIONS = frozenset({"declaration_command", "unset_command"})
_COMMANDS = frozenset({"command", "variable_assignment", "variable_assignments"}) | _DECLARATIONS
_ARITHMETIC = frozenset({"arithmetic_expansion", "c_style_for_statement", "subscript"})


class Word(msgspec.Struct, frozen=True):
    """One word of a command."""

    raw: str
    """As it is written."""
    value: str
    """Without quotes. Expansions remain as they are written."""
    bare: str
    """The part outside of quotes."""
    is_plain: bool = True
    """Whether nothing in it is expanded, except file names and braces."""


class Redirection(msgspec.Struct, frozen=True):
    """A redirection. For a here-document the target is its text."""

    operator: str
    target: Word

    @property
    def is_input(self) -> bool:
        """Whether the command reads from it."""
        return self.operator.startswith("<")

    @property
    def is_text(self) -> bool:
        """Whether its target is the input itself: a here-document or here-string."""
        return self.operator in ("<<", "<<-", "<<<")

    @property
    def is_stream(self) -> bool:
        """Whether it is an input that is no file: a text, or the output of a command."""
        return self.is_text or (self.is_input and self.target.value.startswith("<("))

    @property
    def is_descriptor(self) -> bool:
        """Whether its target is another descriptor: `2>&1`."""
        return (
            self.operator in (">&", "<&") and re.fullmatch(r"\d+-?|-", self.target.raw) is not None
        )


class Assignment(msgspec.Struct):
    """An assignment to a variable; the value of an array is plain if each element is."""

    name: str
    value: Word


class SimpleCommand(msgspec.Struct):
    """A command without control structures."""

    arguments: list[Word] = msgspec.field(default_factory=list)
    assignments: list[Assignment] = msgspec.field(default_factory=list)
    redirections: list[Redirection] = msgspec.field(default_factory=list)
    is_piped_into: bool = False
    """Whether its input is a pipe, its own or that of a group or loop around it."""


class Script(msgspec.Struct):
    """A parsed text."""

    commands: list[SimpleCommand] = msgspec.field(default_factory=list)
    is_complete: bool = True
    """Whether all of the text is understood."""
    has_arithmetic: bool = False
    """Whether it evaluates an arithmetic expression, which can run commands in subscripts."""
    expands_prompt: bool = False
    """Whether it contains `${x@P}` or a similar operator, which expands a value once more."""
    text: str = ""
    functions: set[str] = msgspec.field(default_factory=set)
    quoted: list[str] = msgspec.field(default_factory=list)
    """Quoted texts with a command substitution, which runs if they are expanded once more."""
    backquoted: list[str] = msgspec.field(default_factory=list)
    """Commands in backquotes without the backslashes that are removed there."""
    loop_values: list[str] = msgspec.field(default_factory=list)
    """The words over which loops run."""


def parse(text: str) -> Script:
    """Parse a text. A text that is too long or too complex is incomplete and has no commands."""
    script = Script(text=text)
    tree = Syntax.parse(text)
    if tree is None:
        script.is_complete = False
        return script
    script.is_complete = tree.is_exact and not ODD_CHARACTERS.search(text)
    _Walk(tree, script).run()
    return script


_Input: TypeAlias = tuple[bool, tuple[Redirection, ...]]
"""Whether a pipe is the input, and the redirections of the groups around a command."""


class _Walk:
    """Collect the simple commands of a tree."""

    def __init__(self, syntax: Syntax, script: Script) -> None:
        self.syntax = syntax
        self.script = script
        self.stack: list[tuple[Node, _Input]] = [(syntax.root, (False, ()))]
        self.later_words: dict[int, list[Node]] = {}
        """By the node of a command: its words after a redirection."""

    def run(self) -> None:
        """Visit every node once, in the order of the text."""
        while self.stack:
            node, source = self.stack.pop()
            if node.type in _COMMANDS:
                self._add_command(node, source)
            elif node.type in _STRUCTURE or not node.is_named or node.type in _LEAVES:
                self._visit(node, source)
            else:  # The node is an error, or belongs to a later grammar.
                self.script.is_complete = False
                self._push(node.children, source)

    def _push(self, nodes: Sequence[Node], source: _Input) -> None:
        self.stack.extend((node, source) for node in reversed(nodes))

    def _visit(self, node: Node, source: _Input) -> None:
        kind = node.type
        if node.child_count == 0 or kind == "string":
            self._note_quoted(self.syntax.text(node))
        self.script.has_arithmetic |= kind in _ARITHMETIC or any(
            child.type in ("((", "[[") for child in node.children[:1]
        )
        if kind == "expansion":
            self.script.expands_prompt |= any(child.type == "@" for child in node.children)
        elif kind == "function_definition":
            name = node.child_by_field_name("name")
            self.script.functions.add("" if name is None else self.syntax.text(name))
        elif kind == "command_substitution" and self.syntax.text(node).startswith("`"):
            text = self.syntax.text(node)[1:-1]
            self.script.backquoted += (
                {_BACKQUOTE_ESCAPE.sub(r"\1", text), text} if "\\" in text else []
            )
            source = False, ()
        elif kind in ("redirected_statement", "command_substitution", "process_substitution"):
            self._move_words(node)
            is_piped, around = source
            outer = () if kind != "redirected_statement" else around
            source = is_piped and kind == "redirected_statement", outer + self._redirections(node)
            if kind == "redirected_statement" and len(node.named_children) == len(
                [child for child in node.named_children if child.type in _REDIRECTIONS]
            ):
                self.script.commands.append(
                    SimpleCommand(redirections=list(self._redirections(node)))
                )
            if kind == "process_substitution" and self.syntax.text(node).startswith(">"):
                source = True, source[1]
        elif kind == "for_statement":
            words = [child for child in node.children if child.type in _WORDS]
            self.script.loop_values += map(self.syntax.text, words)
        elif kind in ("pipeline", "heredoc_redirect"):
            self._push_pipeline(node, source)
            return
        elif kind in ("file_redirect", "herestring_redirect"):
            source = False, ()
        self._push(node.children, source)

    def _move_words(self, statement: Node) -> None:
        """Give words after a redirection to their command: the grammar adds them to the file."""
        pending = [child for child in statement.children if child.type in _REDIRECTIONS]
        words: list[Node] = []
        for redirection in pending:
            pending += [child for child in redirection.children if child.type in _REDIRECTIONS]
            targets = 0 if redirection.type == "heredoc_redirect" else 1
            words += [child for child in redirection.children if child.type in _WORDS][targets:]
        if words:
            commands = [child for child in statement.children if child.type == "command"]
            self.later_words |= {command.id: words for command in commands}
            self.script.is_complete &= bool(commands)

    def _note_quoted(self, text: str) -> None:
        if _QUOTED.search(text) and _SUBSTITUTION.search(_ESCAPE.sub(_unescape, text)):
            self.script.quoted.append(_ESCAPE.sub(_unescape, text))

    def _push_pipeline(self, node: Node, source: _Input) -> None:
        """Push the commands of a pipeline: all after a `|` read from a pipe.

        A command after a here-document is a child of its redirection, and does not read from it.
        """
        is_first = True
        pushed: list[tuple[Node, _Input]] = []
        if node.type == "heredoc_redirect":
            source = source[0], ()
        for child in node.children:
            if child.type in ("|", "|&"):
                is_first = False
            pushed.append((child, source if is_first else (True, ())))
        self.stack.extend(reversed(pushed))

    def _redirections(self, node: Node) -> tuple[Redirection, ...]:
        """Return the redirections of a statement or command."""
        redirections: list[Redirection] = []
        nodes = [child for child in node.children if child.type in _REDIRECTIONS]
        for child in nodes:
            redirections.append(self._redirection(child))
            # A redirection after `<<E` on the same line is a child of the here-document.
            nodes += [inner for inner in child.children if inner.type in _REDIRECTIONS]
        return tuple(redirections)

    def _redirection(self, node: Node) -> Redirection:
        operator = next((child.type for child in node.children if not child.is_named), "<")
        if node.type == "heredoc_redirect":
            bodies = [child for child in node.children if child.type == "heredoc_body"]
            text = "".join(map(self.syntax.text, bodies))
            is_plain = not any(child.named_child_count for child in bodies)
            return Redirection(operator, Word(text, text, "", is_plain))
        target = [child for child in node.children if child.type in _WORDS]
        if not target:
            return Redirection(operator, Word("", "", ""))
        return Redirection(operator, self.word(target[0]))

    def _add_command(self, node: Node, source: _Input) -> None:
        is_piped, around = source
        command = SimpleCommand(is_piped_into=is_piped)
        self.script.commands.append(command)
        if node.type in ("variable_assignment", "variable_assignments"):
            nodes = [node] if node.type == "variable_assignment" else node.children
        else:
            nodes = node.children
        end = -1
        for child in nodes:
            is_joined = child.start_byte == end and child.type not in _REDIRECTIONS
            end = child.end_byte if child.type not in _REDIRECTIONS else -1
            if is_joined:  # Two adjacent tokens form one word, such as `$"text"`.
                self.script.is_complete = False
            self._add_part(command, child)
        command.arguments += map(self.word, self.later_words.pop(node.id, ()))
        command.redirections += [*self._redirections(node), *around]
        for child in reversed(node.children):
            inner = child.children if child.type == "variable_assignment" else [child]
            self._push(inner, (is_piped, ()))

    def _add_part(self, command: SimpleCommand, node: Node) -> None:
        """Add a child of a command to it."""
        kind = node.type
        if kind == "command_name":
            command.arguments.append(self._word_of(node.children))
        elif kind == "variable_assignment":
            command.assignments.append(self._assignment(node))
        elif kind in _WORDS or (not node.is_named and not command.arguments):
            command.arguments.append(self.word(node))
        elif kind not in _REDIRECTIONS and kind != "comment":
            self.script.is_complete = False

    def _assignment(self, node: Node) -> Assignment:
        name, *children = node.children
        if name.type == "subscript":
            self.script.has_arithmetic = True
        values = [child for child in children if child.type not in ("=", "+=")]
        raw = "".join(map(self.syntax.text, values))
        if any(child.type == "array" for child in values):
            value = Word(raw, raw, "", is_plain="$" not in raw and "`" not in raw)
        else:
            value = self._word_of(values) if values else Word("", "", "")
        return Assignment(self.syntax.text(name), value)

    def _word_of(self, nodes: Sequence[Node]) -> Word:
        words = [self.word(node) for node in nodes]
        if len(words) == 1:
            return words[0]
        self.script.is_complete = False
        raw, value, bare = ("".join(parts) for parts in zip(*map(_parts, words), strict=True))
        return Word(raw, value, bare, is_plain=False)

    def word(self, node: Node) -> Word:
        """Return a word without its quotes."""
        value: list[str] = []
        bare: list[str] = []
        is_plain = True
        stack, pieces = [node], 0
        while stack:
            part = stack.pop()
            text = self.syntax.text(part)
            pieces += 1
            if part.type == "concatenation" and pieces < _MAX_DEPTH:
                stack.extend(reversed(part.children))
            elif part.type == "raw_string":
                value.append(text[1:-1])
            elif part.type == "string" and not _expansions(part):
                value.append(_STRING_ESCAPE.sub(_unescape, text[1:-1]))
            elif part.child_count == 0 and part.type != "ansi_c_string":
                is_plain &= self._check_literal(text)
                value.append(_ESCAPE.sub(_unescape, text))
                bare.append(_ESCAPE.sub("", text))
            elif part.type == "brace_expression" or (
                part.type == "number" and _LITERAL.fullmatch(text)
            ):
                value.append(text)
                bare.append(text)
            else:
                is_plain = False
                value.append(text)
        return Word(self.syntax.text(node), "".join(value), "".join(bare), is_plain)

    def _check_literal(self, text: str) -> bool:
        """Whether a token contains no character that Bash would not read as text."""
        if text == "$" or _LITERAL.fullmatch(text):
            return True
        self.script.is_complete = False
        return False


def literal_word(syntax: Syntax, nodes: Sequence[Node]) -> Word:
    """Return the word that adjacent tokens form; it is plain if all of them are."""
    script = Script()
    walk = _Walk(syntax, script)
    words = [walk.word(node) for node in nodes]
    raw, value, bare = ("".join(parts) for parts in zip(*map(_parts, words), strict=True))
    return Word(raw, value, bare, script.is_complete and all(word.is_plain for word in words))


def _expansions(string: Node) -> bool:
    """Whether a double-quoted string contains an expansion."""
    return any(child.type not in ('"', "$", "string_content") for child in string.children)


def _unescape(match: re.Match[str]) -> str:
    return "" if match[1] == "\n" else match[1]


def _parts(word: Word) -> tuple[str, str, str]:
    return word.raw, word.value, word.bare
