"""Recognize short programs of other languages that only compute and print.

Each check is a list of what is allowed; a program with anything else in it is not recognized.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Callable

from harken.world.permissions.bash.programs import name_set

_MAX_LENGTH = 20_000
_SED_SUBSTITUTION = re.compile(
    r"s(?P<d>[/|#,:@!_%~])(?:\\.|(?!(?P=d))[^\\\n])*(?P=d)(?:\\.|(?!(?P=d))[^\\\n])*(?P=d)[gpiIm\d]*"
)
_SED_ADDRESS = r"(?:\d+|\$|/(?:\\.|[^/\\\n])*/I?|\d+~\d+)"
_SED_PREFIX = re.compile(rf"(?:{_SED_ADDRESS}(?:,\+?{_SED_ADDRESS})?)?\s*!?\s*")
_SED_SIMPLE = re.compile(
    r"[dpDPnNhHgGxq=lF{}]|[aic](?:\\\n?|\s)[^\n]*|y/[^/\n]*/[^/\n]*/|[bt:]\s*\w*"
)
_SED_BETWEEN = re.compile(r"[\s;}]*")
_PERL_SUBSTITUTION = re.compile(
    r"\s*s([/|#!,])(?:\\[^\n]|(?!\1)[^\\@`\n])*\1(?:\\[^\n]|(?!\1)[^\\@`\n{])*\1[gimsx]*\s*;?\s*"
)
_NODE_VERSION = re.compile(
    r"(?:console\.log\()?require\((['\"])\./[\w./-]+\.json\1\)(?:\.\w+)*\)?;?|process\.version"
    r"|console\.log\(['\"]?[\w .:!-]*['\"]?\);?"
)


def is_harmless_awk(code: str) -> bool:
    """Whether an awk program starts no command: no `system`, pipe, `getline` or extension.

    >>> is_harmless_awk("{print $1}"), is_harmless_awk('BEGIN{system("ls")}')
    (True, False)
    """
    if len(code) > _MAX_LENGTH or re.search(r"system|getline|@|\\\n", code):
        return False
    return "|" not in re.sub(r"\"(?:\\.|[^\"\\\n])*\"|\|\|", "", code)


def is_harmless_sed(code: str) -> bool:
    """Whether a sed script starts no command: no `e`, neither as a command nor as a flag.

    >>> is_harmless_sed("1,5p"), is_harmless_sed("s/a/b/g;s/c/d/"), is_harmless_sed("s/a/b/e")
    (True, True, False)
    """
    position = 0
    if len(code) > _MAX_LENGTH:
        return False
    while position < len(code):
        prefix = _SED_PREFIX.match(code, position)
        position = position if prefix is None else prefix.end()
        command = _SED_SUBSTITUTION.match(code, position) or _SED_SIMPLE.match(code, position)
        if command is None:
            return not code[position:].strip()
        position = command.end()
        gap = _SED_BETWEEN.match(code, position)
        end = position if gap is None else gap.end()
        if end == position and position < len(code) and command[0] != "{":
            return False
        position = end
    return True


def is_harmless_perl(code: str) -> bool:
    """Whether a perl program is only substitutions without the flag `e`."""
    position = 0
    while position < min(len(code), _MAX_LENGTH):
        match = _PERL_SUBSTITUTION.match(code, position)
        if match is None:
            return False
        position = match.end()
    return bool(code) and len(code) <= _MAX_LENGTH


def is_harmless_javascript(code: str) -> bool:
    """Whether a JavaScript program only prints a text or a value of a JSON file."""
    return _NODE_VERSION.fullmatch(code.strip()) is not None


_MODULES = name_set(
    """
    base64 bisect collections csv datetime decimal difflib fractions glob hashlib heapq html
    itertools json math pathlib platform pprint random re statistics string struct sys
    textwrap time tomllib unicodedata uuid zlib urllib.parse calendar locale functools
    operator os os.path yaml
    """
)
_BUILTINS = name_set(
    """
    abs all any ascii bin bool bytearray bytes chr complex dict divmod enumerate filter float
    format frozenset hash hex int isinstance len list map max min oct open ord pow print range
    repr reversed round set slice sorted str sum tuple zip Exception KeyError ValueError
    SystemExit exit
    """
)
_ATTRIBUTES = name_set(
    """
    add append argv ascii_letters b64decode b64encode basename buffer capitalize casefold ceil
    clear close Counter copy count date datetime decode defaultdict dirname digest digits dump
    dumps e encode end endswith environ exists exit extend extension findall finditer first
    floor format fromisoformat fromtimestamp fullmatch get glob group groupdict groups
    hexdigest index indent insert isalnum isalpha isdigit isdir isfile isoformat islower
    isspace isupper items iterdir join keys length listdir ljust load loads log lower lstrip
    maketrans match md5 mean median most_common mtime name now OrderedDict parent partition
    parts path Path pi platform pop pprint python_version quantiles quote read read_bytes
    read_text readline readlines replace resolve reverse rfind rglob rjust rsplit rstrip
    search seed setdefault sha1 sha256 size sort split splitext splitlines sqrt st_mtime
    st_size start startswith stat stderr stdin stdout stem stdev strftime strip strptime sub
    suffix sum time timedelta title today translate unquote update upper urlparse utcnow uuid4
    values version version_info write writerow write_text reader writer DictReader DictWriter
    zfill
    """
) - {"load"}
_VERSIONS = frozenset({"__file__", "__version__", "VERSION"})
_LOADERS = frozenset({"json", "tomllib"})
_NODES: tuple[type[ast.AST], ...] = (
    ast.Module, ast.Expr, ast.Assign, ast.AugAssign, ast.AnnAssign, ast.For, ast.While, ast.If,
    ast.Import, ast.ImportFrom, ast.alias, ast.Pass, ast.Break, ast.Continue, ast.Assert, ast.With,
    ast.withitem, ast.Try, ast.ExceptHandler, ast.expr, ast.expr_context, ast.boolop, ast.operator,
    ast.unaryop, ast.cmpop, ast.comprehension, ast.keyword, ast.Return, ast.Raise,
)  # fmt: skip


def is_harmless_python(code: str) -> bool:
    """Whether a Python program only computes, reads and writes files, and prints.

    Modules, functions and attributes are checked against lists of allowed names.

    >>> is_harmless_python("import json,sys; print(json.load(sys.stdin)['a'])")
    True
    >>> is_harmless_python("import os; os.system('ls')")
    False
    """
    if len(code) > _MAX_LENGTH or max(map(code.count, "([{-~")) > 400:
        return False
    try:
        nodes = list(ast.walk(ast.parse(code)))
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return False
    others = {
        alias.name for n in nodes if isinstance(n, ast.Import) for alias in n.names
    } - _MODULES
    return (
        all(_is_allowed(node, others) for node in nodes)
        and not _rebinds(nodes)
        and _only_shows_versions(nodes, others)
    )


def _only_shows_versions(nodes: list[ast.AST], modules: set[str]) -> bool:
    """Whether nothing but the version or the file of these modules is used."""
    uses = [n for n in nodes if isinstance(n, ast.Name) and n.id in modules]
    shown = [
        n.value
        for n in nodes
        if isinstance(n, ast.Attribute) and n.attr in _VERSIONS and isinstance(n.value, ast.Name)
    ]
    return all(any(use is one for one in shown) for use in uses)


def _is_allowed(node: ast.AST, others: set[str]) -> bool:
    if not isinstance(node, _NODES) or isinstance(node, ast.Lambda | ast.Await):
        return False
    match node:
        case ast.Import():
            return all(
                alias.asname is None and (alias.name in _MODULES or alias.name.isidentifier())
                for alias in node.names
            )
        case ast.ImportFrom():
            return node.module in _MODULES and not node.level and all(map(_is_name, node.names))
        case ast.Attribute():
            if node.attr in ("load", "loads", "safe_load"):
                # Loaders of other formats run code.
                return (
                    isinstance(node.value, ast.Name)
                    and node.value.id in _LOADERS | {"yaml"}
                    and ((node.value.id == "yaml") == (node.attr == "safe_load"))
                )
            if isinstance(node.value, ast.Name) and node.value.id in others:
                return node.attr in _VERSIONS
            return node.attr in _ATTRIBUTES
        case ast.Call(func=ast.Name()):
            return isinstance(node.func, ast.Name) and (
                node.func.id in _BUILTINS or node.func.id in _ATTRIBUTES
            )
        case ast.Call():
            return isinstance(node.func, ast.Attribute)
        case ast.Name():
            return not node.id.startswith("__") and node.id not in _FORBIDDEN
    return True


def _is_name(alias: ast.alias) -> bool:
    return (
        alias.asname is None and alias.name in _ATTRIBUTES and alias.name not in ("load", "loads")
    )


_FORBIDDEN = name_set(
    """
    breakpoint compile delattr eval exec getattr globals input locals memoryview object
    setattr super type vars help
    """
)


def _rebinds(nodes: list[ast.AST]) -> bool:
    """Whether a name that may be called, or that of a module, is bound to something else."""
    bound = {n.id for n in nodes if isinstance(n, ast.Name) and not isinstance(n.ctx, ast.Load)}
    called = {n.func.id for n in nodes if isinstance(n, ast.Call) and isinstance(n.func, ast.Name)}
    return bool(bound & (called | _MODULES))


CHECKS: dict[str, Callable[[str], bool]] = {
    "awk": is_harmless_awk,
    "gawk": is_harmless_awk,
    "mawk": is_harmless_awk,
    "nawk": is_harmless_awk,
    "sed": is_harmless_sed,
    "perl": is_harmless_perl,
    "node": is_harmless_javascript,
    "nodejs": is_harmless_javascript,
    "python": is_harmless_python,
    "pypy": is_harmless_python,
}
"""For each interpreter, whether a program in its language is recognized as harmless."""
