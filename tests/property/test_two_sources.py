"""The index of a session that is recorded and imported does not depend on the order of arrival."""

from __future__ import annotations

import tempfile
from contextlib import closing
from pathlib import Path

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from harken.index.session_index import SessionIndex
from tests.two_sources_kit import SUBAGENT, Exchange, IndexContent, TwoSources
from tests.unit.index.index_kit import Imports

TEXTS = st.sampled_from(["Go on", "Is the cafe open?", "Yes."])


@st.composite
def scripts(draw: st.DrawFn) -> list[Exchange]:
    """Return a conversation with a subagent, in which texts repeat."""
    exchanges: list[Exchange] = []
    open_calls = dict.fromkeys(("", SUBAGENT), False)
    for _ in range(draw(st.integers(1, 7))):
        agent = draw(st.sampled_from(["", "", SUBAGENT])) if exchanges else ""
        is_result, open_calls[agent] = open_calls[agent], draw(st.booleans())
        exchanges.append(
            Exchange(
                draw(st.sampled_from(["Done.", "The cafe is open.", "No answer."])),
                None if is_result else draw(TEXTS),
                has_call=open_calls[agent],
                is_recorded=draw(st.sampled_from([True, True, True, False])),
                is_failed=is_result and draw(st.booleans()),
                has_command=not agent and draw(st.booleans()),
                agent=agent,
            )
        )
    return exchanges


def read_rebuilt(imports: Imports) -> IndexContent:
    with closing(SessionIndex(None)) as facts:
        facts.update(imports.store, imports.catalogue, imports.logs)
        return IndexContent.read(facts.database)


def play(exchanges: list[Exchange], steps: list[str], folder: Path) -> IndexContent:
    """Let the sources arrive in an order, then completely. Return the rows of the index."""
    imports = Imports(folder)
    sources = TwoSources(exchanges, folder / "logs", imports.store)
    written = 0
    for step in [*steps, *["record", "write"] * len(exchanges), "close", "import", "index"]:
        match step:
            case "record":
                sources.record()
            case "write":
                written = min(written + 1, len(exchanges))
            case "close":
                sources.close()
            case "import":
                for name, data in sources.files(written).items():
                    imports.add(name, data)
            case "index":
                imports.logs[:] = sorted((folder / "logs").glob("*.jsonl"))
                imports.update()
    content = IndexContent.read(imports.facts.database)
    assert content == read_rebuilt(imports)
    imports.facts.close()
    imports.catalogue.close()
    imports.store.close()
    return content


@given(
    scripts(),
    st.lists(st.sampled_from(["record", "write", "import", "index"]), max_size=12),
)
@settings(max_examples=15, deadline=None, suppress_health_check=list(HealthCheck))
def test_the_order_of_arrival_does_not_matter(exchanges: list[Exchange], steps: list[str]) -> None:
    with tempfile.TemporaryDirectory() as folder:
        orders = {"first": steps, "second": []}
        contents = []
        for name, order in orders.items():
            (Path(folder) / name).mkdir()
            contents.append(play(exchanges, order, Path(folder) / name))
    assert contents[0].tables == contents[1].tables
    assert len(contents[0].tables["requests"]) == len(exchanges)
    assert len(contents[0].tables["sessions"]) == 1
    assert len(contents[0].tables["tool_calls"]) == sum(e.has_call for e in exchanges)
