"""Another road from a recorded request: rerun, compare, sweep."""

from harken.experiments.batch_reruns import BatchReruns, RerunItem, RerunSetup
from harken.experiments.change import Change
from harken.experiments.compare import compare, compare_groups
from harken.experiments.fork_point import ForkPoint
from harken.experiments.outcome import ComparedRun, RunMetrics
from harken.experiments.provider_rules import ContextRefused, check_edit, find_violations
from harken.experiments.rerun import RerunResult, rerun
from harken.experiments.sweep import Grid, SweepResults, sweep, sweep_on

__all__ = [
    "BatchReruns",
    "Change",
    "ComparedRun",
    "ContextRefused",
    "ForkPoint",
    "Grid",
    "RerunItem",
    "RerunResult",
    "RerunSetup",
    "RunMetrics",
    "SweepResults",
    "check_edit",
    "compare",
    "compare_groups",
    "find_violations",
    "rerun",
    "sweep",
    "sweep_on",
]
