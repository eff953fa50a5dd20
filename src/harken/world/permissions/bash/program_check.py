"""Check whether a program may run more than its arguments say.

Each check accepts the forms that it knows and doubts all others.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence

import msgspec

from harken.world.permissions.bash.findings import Doubt, Findings
from harken.world.permissions.bash.git import git_names_command, git_subcommand, is_git_builtin
from harken.world.permissions.bash.options import names_program, shell_operands, split_options
from harken.world.permissions.bash.parser import Script, SimpleCommand, Word
from harken.world.permissions.bash.programs import (
    CODE_MODULES,
    DATABASES,
    EXACT_WRAPPERS,
    GH_SUBCOMMANDS,
    GIT_SHORT_OPTIONS,
    INERT,
    INTERPRETERS,
    OPAQUE,
    PROGRAM_OPTIONS,
    PROJECT_TOOLS,
    SAFE_MODULES,
    SHELLS,
    TEXT_ONLY,
    WRAPPERS,
    name_set,
)
from harken.world.permissions.bash.snippets import CHECKS
from harken.world.permissions.bash.wrappers import is_known, program_name

KNOWN = (
    INERT | PROJECT_TOOLS | WRAPPERS | INTERPRETERS | OPAQUE | SHELLS | DATABASES | {"git", "gh"}
)
"""Programs that are in one of the tables."""
_INPUT_FILE = re.compile(r"-$|/dev/|/proc/|<\(|.*/(?:dev/(?:stdin|fd)|proc/)")
_SIMPLE_ARGUMENT = re.compile(r"[\w./:=,@%+~^ -]*")
_CODE_OPTIONS = {"python": "c", "pypy": "c", "php": "r", "perl": "eE"}
"""The letters of the options of interpreters that take code."""
_HELP = name_set("--version -V --help -h -version version help")
_LISTING = name_set("-l ls list list-sessions list-windows lsw info batch has-session")
_FILE_LISTERS = name_set("ack ag cat fd fdfind find git grep head ls rg sort tail uniq")
_SSH_OPTION = re.compile(
    r"(?i)(?:StrictHostKeyChecking|ConnectTimeout|BatchMode|UserKnownHostsFile|IdentitiesOnly|LogLevel"
    r"|ServerAlive\w+|PasswordAuthentication|Port|User|Compression|ForwardAgent|IdentityFile)[= ].*"
)
_DATABASE_ESCAPE = re.compile(
    r"(?im)\\|\b(?:program|system|shell|readfile|writefile|edit)\b|^\s*\."
)
_DATABASE_LISTING = re.compile(
    r"\\(?:[dlx][\w+]*|timing|conninfo|pset \w+|c \w+)(?=\s|$)"
    r"|^\.(?:tables|schema|headers|mode|dump)\b"
)
_MAKE_VARIABLE = re.compile(r"(?!SHELL|MAKE|\.|GNUMAKEFLAGS)[\w.]+[:+?]?=[\w./+=:,@ -]*")
_VARIABLE = re.compile(
    r"\$(?:\w+|\{\w+\})|\$\((?:git|date|cat|pwd|basename|nproc|whoami|hostname)\b[^()$`]*\)"
)


class ProgramCheck:
    """Checks the programs of one script."""

    def __init__(self, script: Script, findings: Findings) -> None:
        self.script = script
        self.findings = findings
        assigned = [
            assignment.value for command in script.commands for assignment in command.assignments
        ]
        self.values = [*assigned, *(Word(v, v, v) for v in script.loop_values)]

    def check(
        self,
        words: Sequence[Word],
        command: SimpleCommand,
        *,
        name: str = "",
        is_first: bool = True,
        appends: bool = False,
    ) -> None:
        """Note the doubts about a program and its arguments.

        `name`: its name, if it is not that of the first word. `is_first`: it certainly is a
        program, not an argument. `appends`: it gets more arguments from input.
        """
        name = name or program_name(words[0].value)
        if words[0].value in self.script.functions or not is_known(words[0]):
            return
        args = words[1:]
        is_fed = command.is_piped_into or any(
            redirection.is_stream for redirection in command.redirections
        )
        call = Call(name, words[0].value, args, command, is_fed=is_fed, is_first=is_first)
        if (
            appends
            and (name in PROGRAM_OPTIONS or name in INTERPRETERS)
            and not self._lists_files()
        ):
            self._doubt(Doubt.PROGRAM_OPTION)
        handler = self._handler(name)
        if handler is not None:
            handler(call)
        elif name in INERT:
            self._check_inert(call)
        elif name in PROJECT_TOOLS:
            self._check_tool(call)
        elif name in WRAPPERS:
            self._check_wrapper(call)
        elif "/" in words[0].value:
            self._check_project_program(call)
        elif not words[0].value.startswith("-") and "=" not in words[0].value:
            self._check_unknown(call, appends=appends)

    def _handler(self, name: str) -> Callable[[Call], None] | None:
        if name in OPAQUE:
            return self._check_opaque
        if name in SHELLS - {"eval", "trap"}:
            return self._check_shell
        if name in DATABASES:
            return self._check_database
        handlers: dict[str, Callable[[Call], None]] = {
            ".": self._check_source,
            "source": self._check_source,
            "eval": self._check_evaluated,
            "trap": self._check_evaluated,
            "alias": self._check_alias,
            "awk": self._check_awk,
            "gawk": self._check_awk,
            "mawk": self._check_awk,
            "nawk": self._check_awk,
            "sed": self._check_sed,
            "git": self._check_git,
            "make": self._check_make,
            "gmake": self._check_make,
            "gh": self._check_gh,
            "ssh": self._check_ssh,
        }
        return (
            self._check_interpreter if name in INTERPRETERS - set(handlers) else handlers.get(name)
        )

    def _doubt(self, doubt: Doubt) -> None:
        self.findings.doubts.add(doubt)

    def _mention(self, call: Call) -> None:
        self.findings.mentions.append(call.text)

    def _lists_files(self) -> bool:
        """Whether the commands of the script that may feed `xargs` print names of files."""
        names = [
            program_name(command.arguments[0].value)
            for command in self.script.commands
            if command.arguments
        ]
        return all(name in _FILE_LISTERS or name in ("xargs", "cd") for name in names[:-1]) or (
            bool(names) and names[0] in _FILE_LISTERS - {"cat"}
        )

    def _may_hide_option(self, call: Call) -> bool:
        """Whether an unknown argument may be an option, by the values that the script assigns."""
        unknown = [word for word in call.args if not word.is_plain]
        if any(word.value.strip('"') in ("$@", "$*", "${@}", "${*}") for word in unknown):
            return True
        return bool(unknown) and any(re.search(r"(?:^|[\s('\"])-", v.raw) for v in self.values)

    def _check_inert(self, call: Call) -> None:
        if names_program(call.name, [word.value for word in call.args]):
            self._doubt(Doubt.PROGRAM_OPTION)
        if call.name in PROGRAM_OPTIONS and self._may_hide_option(call):
            self._doubt(Doubt.PROGRAM_OPTION)
        if call.name not in TEXT_ONLY:
            self._mention(call)

    def _check_tool(self, call: Call) -> None:
        self._check_inert(call)
        self._mention(call)
        self.findings.runs_project = True
        self.findings.mentions += [
            redirection.target.value
            for redirection in call.command.redirections
            if redirection.is_text
        ]

    def _check_wrapper(self, call: Call) -> None:
        if names_program(call.name, [word.value for word in call.args]):
            self._doubt(Doubt.PROGRAM_OPTION)
        login = {"-s", "-i", "--shell", "--login"} & {word.value for word in call.args}
        starts_shell = call.name not in EXACT_WRAPPERS or (call.name in ("sudo", "doas") and login)
        is_fed = call.is_fed or any(
            redirection.is_input for redirection in call.command.redirections
        )
        if is_fed and call.is_first and starts_shell:
            self._doubt(Doubt.CODE_FROM_INPUT)

    def _check_project_program(self, call: Call) -> None:
        self.findings.runs_project = True
        self.findings.scripts.append(call.program)
        self._mention(call)
        self.findings.mentions += [
            redirection.target.value
            for redirection in call.command.redirections
            if redirection.is_text
        ]
        if call.command.is_piped_into:
            self.findings.mentions.append(self.script.text)
        if _INPUT_FILE.match(call.program):
            self._doubt(Doubt.CODE_FROM_INPUT)

    def _check_unknown(self, call: Call, *, appends: bool) -> None:
        if not call.is_first:
            self._mention(call)
            return
        self.findings.loose_mentions.append(call.text)
        self.findings.scripts.append(call.program)
        if call.is_fed or appends:
            self._doubt(Doubt.CODE_FROM_INPUT)
        for word in call.args:
            if not word.is_plain or not _SIMPLE_ARGUMENT.fullmatch(word.value):
                self._doubt(Doubt.INLINE_CODE)

    def _check_opaque(self, call: Call) -> None:
        values = {word.value for word in call.args}
        is_question = len(call.args) == 1 and values <= _HELP | _LISTING
        if not (is_question and call.name not in ("at", "fc")) and call.is_program:
            self._doubt(Doubt.INLINE_CODE)

    def _check_shell(self, call: Call) -> None:
        if call.name in ("fish", "pwsh") or not all(word.is_plain for word in call.args):
            self._doubt(Doubt.INLINE_CODE)
        kind, script = shell_operands([word.value for word in call.args])
        if kind == "input" and call.is_program:
            self._doubt(Doubt.CODE_FROM_INPUT)
        elif kind == "unknown":
            self._doubt(Doubt.PROGRAM_OPTION)
        elif kind == "script":
            self._check_script(script, call)

    def _check_script(self, script: str, call: Call) -> None:
        self.findings.runs_project = True
        self.findings.scripts.append(script)
        self._mention(call)
        if _INPUT_FILE.match(script):
            self._doubt(Doubt.CODE_FROM_INPUT)

    def _check_source(self, call: Call) -> None:
        if not call.is_program:
            return
        if not call.args or not call.args[0].is_plain:
            self._doubt(Doubt.INLINE_CODE)
        else:
            self._check_script(call.args[0].value, call)

    def _check_evaluated(self, call: Call) -> None:
        if not all(word.is_plain for word in call.args):
            self._doubt(Doubt.INLINE_CODE)

    def _check_alias(self, call: Call) -> None:
        if any("=" in word.value for word in call.args):
            self._doubt(Doubt.PROGRAM_VARIABLE)

    def _check_ssh(self, call: Call) -> None:
        values = [word.value for word in call.args]
        self._check_wrapper(call)
        for index, value in enumerate(values):
            if value.startswith("-o"):
                setting = value[2:] or "".join(values[index + 1 : index + 2])
                if not _SSH_OPTION.fullmatch(setting):
                    self._doubt(Doubt.PROGRAM_OPTION)

    def _check_gh(self, call: Call) -> None:
        self._check_inert(call)
        subcommand = next(
            (argument.value for argument in call.args if not argument.value.startswith("-")), "api"
        )
        if subcommand not in GH_SUBCOMMANDS:
            self._doubt(Doubt.SUBCOMMAND)

    def _check_database(self, call: Call) -> None:
        texts = [word.value for word in call.args]
        texts += [
            redirection.target.value
            for redirection in call.command.redirections
            if redirection.is_text
        ]
        is_text = any(redirection.is_text for redirection in call.command.redirections)
        if call.is_fed and call.is_program and (call.command.is_piped_into or not is_text):
            self._doubt(Doubt.CODE_FROM_INPUT)
        if any(_DATABASE_ESCAPE.search(_DATABASE_LISTING.sub("", text)) for text in texts):
            self._doubt(Doubt.INLINE_CODE)
        self._mention(call)

    def _check_make(self, call: Call) -> None:
        self._check_tool(call)
        values = [word.value for word in call.args]
        for index, (word, value) in enumerate(zip(call.args, values, strict=True)):
            file = value.partition("=")[2] if value.startswith("--") else value[2:]
            if value in ("-f", "--file", "--makefile"):
                file = "".join(values[index + 1 : index + 2])
            if value.startswith(("-f", "--file", "--makefile")):
                self.findings.scripts.append(file)
                if _INPUT_FILE.match(file):
                    self._doubt(Doubt.CODE_FROM_INPUT)
            elif value.startswith(("-E", "--ev")):
                self._doubt(Doubt.INLINE_CODE)
            elif "=" in value and not value.startswith("-"):
                is_simple = _MAKE_VARIABLE.fullmatch(value) or value.startswith(
                    ("CFLAGS=", "ARGS=")
                )
                if not is_simple or (not word.is_plain and "$(" in value):
                    self._doubt(Doubt.PROGRAM_VARIABLE)
        self.findings.scripts.append("Makefile")

    def _check_awk(self, call: Call) -> None:
        codes, files, others = split_options(
            call.args, code="e", files="f", values="vF", longs="source"
        )
        self._check_files(files, call)
        if any(re.match(r"-[ilE]|--(?:inc|loa|exe)", word.value) for word in others):
            self._doubt(Doubt.PROGRAM_OPTION)
        operands = [word for word in others if not word.value.startswith("-")]
        if not codes and not files:
            codes = operands[:1]
        for code in codes:
            if not code.is_plain or not CHECKS["awk"](code.value):
                self._doubt(Doubt.INLINE_CODE)
        if self._may_hide_option(call):
            self._doubt(Doubt.INLINE_CODE)

    def _check_sed(self, call: Call) -> None:
        codes, files, others = split_options(
            call.args, code="e", files="f", values="l", longs="expression", optional="i"
        )
        self._check_files(files, call)
        operands = [word for word in others if not word.value.startswith("-")]
        if not codes and not files:
            codes = operands[:1]
        for code in codes:
            text = self._fill(code)
            if text is None or not CHECKS["sed"](text):
                self._doubt(Doubt.INLINE_CODE)
        if self._may_hide_option(call):
            self._doubt(Doubt.INLINE_CODE)

    def _fill(self, word: Word) -> str | None:
        """Return a sed script with a name in place of its variables.

        Return None if a variable may be code.
        """
        if word.is_plain:
            return word.value
        if any(
            re.search(r"[/|#,;:@!\n\\]|\$\((?!git|date|cat|pwd|basename)", v.raw)
            for v in self.values
        ):
            return None
        text = word.value[1:-1] if word.raw.startswith('"') else word.value
        filled = _VARIABLE.sub("X", text)
        return None if "`" in filled or "$(" in filled or "${" in filled else filled

    def _check_files(self, files: Sequence[Word], call: Call) -> None:
        for file in files:
            self._check_script(file.value if file.is_plain else "-", call)

    def _check_interpreter(self, call: Call) -> None:
        """Check an interpreter: inline code must be known as harmless, scripts are not read."""
        is_python = call.name in ("python", "pypy")
        codes, modules, others = split_options(
            call.args,
            code=_CODE_OPTIONS.get(call.name, "eEp"),
            files="m" if is_python else "",
            values="WX" if is_python else "",
            longs="eval print",
            stop=True,
        )
        if self._may_hide_option(call):
            self._doubt(Doubt.INLINE_CODE)
        for code in codes:
            check = CHECKS.get(call.name)
            if check is None or not code.is_plain or not check(code.value):
                self._doubt(Doubt.INLINE_CODE)
        flags = [word.value for word in others if word.value.startswith("-") and word.value != "-"]
        if not all(map(_FLAGS[call.name].fullmatch, flags)):
            self._doubt(Doubt.PROGRAM_OPTION)
        operands = [word for word in others if word.value not in flags]
        if modules:
            self._check_module(modules[0].value, call)
        elif not codes and not set(flags) & (_HELP | {"-v", "-VV"}):
            self._check_program_file(operands, call)

    def _check_program_file(self, operands: Sequence[Word], call: Call) -> None:
        """Check the script of an interpreter, or its input if it has none."""
        script = operands[0].value if operands else "-"
        if not call.is_program:
            return
        if operands and not operands[0].is_plain:
            if call.is_fed or script.startswith("<("):
                self._doubt(Doubt.CODE_FROM_INPUT)
        elif not _INPUT_FILE.match(script):
            self._check_script(script, call)
        else:
            texts = [
                redirection.target
                for redirection in call.command.redirections
                if redirection.is_text
            ]
            check = CHECKS.get(call.name)
            is_known_text = bool(texts) and texts[-1].is_plain and not call.command.is_piped_into
            if check is None or not is_known_text or not check(texts[-1].value):
                self._doubt(Doubt.CODE_FROM_INPUT)

    def _check_module(self, module: str, call: Call) -> None:
        self.findings.runs_project = True
        if module in CODE_MODULES or module.partition(".")[0] in ("code", "pdb"):
            self._doubt(Doubt.INLINE_CODE)
        elif call.is_fed and module not in SAFE_MODULES:
            self._doubt(Doubt.CODE_FROM_INPUT)
        self._mention(call)

    def _check_git(self, call: Call) -> None:
        values = [word.value for word in call.args]
        subcommand, _ = git_subcommand(values)
        if git_names_command(values) or (
            subcommand in GIT_SHORT_OPTIONS and self._may_hide_option(call)
        ):
            self._doubt(Doubt.PROGRAM_OPTION)
        if not is_git_builtin(subcommand):
            self._doubt(Doubt.SUBCOMMAND)


class Call(msgspec.Struct, frozen=True):
    """A program and its arguments."""

    name: str
    program: str
    args: Sequence[Word]
    command: SimpleCommand
    is_fed: bool
    is_first: bool

    @property
    def is_program(self) -> bool:
        """Whether this is certainly a program, or its input may be code if it is one."""
        return self.is_first or self.is_fed or bool(self.args)

    @property
    def text(self) -> str:
        """Its arguments, separated by newlines."""
        return "\n".join(word.value for word in self.args)


_FLAGS: dict[str, re.Pattern[str]] = {
    name: re.compile(pattern)
    for name, pattern in {
        "python": r"-[BEIOPRSbdhqsuvVx]+|--version|--help(?:-\w+)?",
        "pypy": r"-[BEIOPRSbdhqsuvVx]+|--version|--help",
        "perl": r"-[alnpwW0tTcv]+|-[lnpa0]*i[.\w~]*|--version|--help|-F.",
        "ruby": r"-[wWvc]+|--version|--help",
        "node": (
            r"--(?!require|import|loader|experimental-loader|eval|print|env-file)[\w=.-]+|-[vhc]"
        ),
        "nodejs": r"--version|-v",
        "php": r"-[vlinm]|--version|--help|-S|-t",
        "lua": r"-v",
        "luajit": r"-v",
        "bun": r"--version|-v",
    }.items()
}
