"""Another road from a recorded request: rerun, compare, sweep."""

from harken.experiments.change import Change
from harken.experiments.compare import compare, compare_groups
from harken.experiments.fork_point import ForkPoint
from harken.experiments.outcome import ComparedRun, RunMetrics
from harken.experiments.provider_rules import ContextRefused, check_edit, find_violations
from harken.experiments.rerun import RerunResult, rerun
from harken.experiments.sweep import Grid, SweepResults, sweep

__all__ = [
    "Change",
    "ComparedRun",
    "ContextRefused",
    "ForkPoint",
    "Grid",
    "RerunResult",
    "RunMetrics",
    "SweepResults",
    "check_edit",
    "compare",
    "compare_groups",
    "find_violations",
    "rerun",
    "sweep",
]
