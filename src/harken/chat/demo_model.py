"""The scripted model of the demo, which answers offline."""

from __future__ import annotations

from importlib.resources import files
from pathlib import Path

from harken.llm.scripted import ScriptedModel

MODEL_NAME = "scripted:demo"


def demo_model() -> ScriptedModel:
    """Return the scripted model of the demo."""
    script = files("harken.chat").joinpath("demo.yaml")
    return ScriptedModel.load(Path(str(script)), name=MODEL_NAME)
