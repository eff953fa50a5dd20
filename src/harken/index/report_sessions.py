"""`split_report`: the reports of the sessions of a file that has several.

Source: docs/design/021-research-data.md.
"""

from __future__ import annotations

from collections import defaultdict
from typing import Any, TypeVar

import msgspec

from harken.core import structs

ReportT = TypeVar("ReportT", bound=msgspec.Struct)


def split_report(report: ReportT) -> list[ReportT]:
    """Return an import report for each session: the report itself, if the file has only one.

    Its members `sessions` describe the sessions by members that the report has, too. Each of its
    `tips` names its session.
    """
    fields: Any = report
    if not fields.sessions:
        return [report]
    tips = defaultdict(list)
    for tip in fields.tips:
        tips[tip.session].append(tip)
    parts: list[Any] = [
        structs.replace(
            fields,
            **{**msgspec.structs.asdict(part), "tips": tuple(tips[part.session]), "sessions": ()},
        )
        for part in fields.sessions
    ]
    return parts
