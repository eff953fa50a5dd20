"""Lines of code, as unlike and as alike as those of real programs.

Functions of different files share many lines: loops, `return None`, braces, logging.
"""

from __future__ import annotations

from collections.abc import Callable
from random import Random

NOUNS = [
    "order",
    "price",
    "invoice",
    "customer",
    "payment",
    "basket",
    "ticket",
    "session",
    "parcel",
    "refund",
    "stock",
    "supplier",
    "coupon",
    "address",
    "account",
    "ledger",
    "balance",
    "report",
    "shipment",
    "voucher",
    "contract",
    "schedule",
    "template",
    "message",
    "channel",
]
VERBS = [
    "load",
    "save",
    "check",
    "parse",
    "build",
    "merge",
    "count",
    "find",
    "update",
    "remove",
    "send",
    "group",
    "filter",
    "render",
]
COMMON = [
    "return None",
    "return result",
    "result = []",
    "pass",
    "continue",
    "raise",
    "else:",
    "return False",
    "items = list(items)",
    "logger.debug('done')",
]
Maker = Callable[[Random], str]


def name(random: Random) -> str:
    """Return the name of a function."""
    return f"{random.choice(VERBS)}_{random.choice(NOUNS)}_{random.choice(NOUNS)}"


def statement(random: Random) -> str:
    """Return a simple statement, which may be a common one."""
    if random.random() < 0.25:
        return random.choice([line for line in COMMON if not line.endswith(":")])
    a, b, c = (random.choice(NOUNS) for _ in range(3))
    number = random.randrange(2, 400)
    forms = [
        f"{a} = {b}.{c}",
        f"{a}_{b} = get_{c}({a}, {number})",
        f"{a}.{random.choice(VERBS)}({b}, '{c}')",
        f"total_{a} += {b} * {number}",
        f"result.append({a}_{b})",
        f"{a} = {random.choice(VERBS)}_{b}({a}, {b}, {c}, limit={number}, mode='{c}_{a}', retries=3)",
        f"logger.info('{a} %s of {b}', {c})",
        f"assert {a} is not None, 'no {b} {number}'",
        f"{a}['{b}'] = {c}.get('{a}', {number})",
        f"# The {a} of a {b} may be {c}.",
    ]
    return random.choice(forms)


def function(random: Random, indent: str = "    ") -> list[str]:
    """Return the lines of a function of Python."""
    a, b = random.choice(NOUNS), random.choice(NOUNS)
    lines = [f"def {name(random)}({a}, {b}):"]
    if random.random() < 0.5:
        lines.append(f'{indent}"""{random.choice(VERBS).capitalize()} the {a} of a {b}."""')
    for _ in range(random.randrange(2, 9)):
        lines += block(random, indent)
    lines.append(indent + random.choice(["return None", "return result", f"return {a}", "pass"]))
    return lines


def block(random: Random, indent: str) -> list[str]:
    """Return a statement, or a loop or condition with a body."""
    kind = random.random()
    a, b = random.choice(NOUNS), random.choice(NOUNS)
    inner = indent + "    "
    if kind < 0.15:
        return [f"{indent}for {a} in {b}s:", inner + statement(random)]
    if kind < 0.3:
        return [f"{indent}if {a} is None:", inner + random.choice(COMMON[:6])]
    if kind < 0.36:
        return [
            f"{indent}if {a}.{b} > {random.randrange(90)}:",
            inner + statement(random),
            f"{indent}else:",
            inner + statement(random),
        ]
    if kind < 0.4:
        return [""]
    return [indent + statement(random)]


def js_function(random: Random) -> list[str]:
    """Return the lines of a function of JavaScript, with its braces."""
    a, b = random.choice(NOUNS), random.choice(NOUNS)
    title = "".join(part.capitalize() for part in name(random).split("_"))
    lines = [f"export function {title[0].lower()}{title[1:]}({a}, {b}) {{"]
    for _ in range(random.randrange(2, 7)):
        c, number = random.choice(NOUNS), random.randrange(2, 400)
        lines += random.choice(
            [
                [f"  const {c} = {a}.{b}({number});"],
                [f"  if (!{c}) {{", "    return null;", "  }"],
                [f"  for (const {c} of {b}s) {{", f"    {a}.push({c}.{b}, '{a}');", "  }"],
                [f"  console.log('{a}', {c}, {number});"],
            ]
        )
    return [*lines, f"  return {a};", "}"]


def changed_line(random: Random, line: str) -> str:
    """Return a line with another meaning, in which most is the same."""
    indent = line[: len(line) - len(line.lstrip())]
    words = line.split()
    if len(words) < 2 or line.rstrip().endswith((":", "{")):
        return f"{indent}{random.choice(NOUNS)}_{random.choice(NOUNS)} = {random.randrange(1000)}"
    text = line.strip()
    digits = [index for index, char in enumerate(text) if char.isdigit()]
    if digits and random.random() < 0.5:
        index = random.choice(digits)
        return f"{indent}{text[:index]}{(int(text[index]) + 1) % 10}{text[index + 1 :]}"
    return f"{indent}{text.replace(words[0], f'{words[0]}_{random.choice(NOUNS)}', 1)}"
