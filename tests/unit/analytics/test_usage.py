"""Tokens and cost, compared with sums computed by hand."""

from __future__ import annotations

from datetime import UTC, date
from zoneinfo import ZoneInfo

from harken.analytics.scope import ALL, Scope
from harken.analytics.usage import (
    load_usage,
    total_usage,
    usage_by_day,
    usage_by_model,
    usage_by_project,
)
from tests.unit.analytics.row_builder import RowBuilder, at

MORNING = at("2026-03-02 09:00")


def build_story() -> RowBuilder:
    """Two sessions in two folders, two models; one response has an unknown price."""
    story = RowBuilder()
    cafe = story.session("claude:1", project="/srv/cafe")
    bar = story.session("codex:2", project="/srv/bar")
    for id_ in (cafe, bar):
        story.say(id_, "prompt", MORNING)
        story.say(id_, "prompt", at("2026-03-03 09:00"))
    story.request(cafe, "opus", MORNING, (10, 1000, 100, 50), 0.5)
    story.request(cafe, "opus", MORNING + 60, (20, 2000, None, 70), 0.25)
    story.request(cafe, "opus", at("2026-03-02 23:30"), (1, 0, 0, 2), None)
    story.request(bar, "gpt", at("2026-03-03 08:00"), (300, None, None, 30), 0.125)
    return story


def test_each_model_has_the_sums_of_its_responses() -> None:
    opus, gpt = usage_by_model(load_usage(build_story().database, ALL))
    assert (opus.model, opus.responses, opus.cost_usd, opus.unpriced) == ("opus", 3, 0.75, 1)
    assert (opus.input_tokens, opus.output_tokens) == (31, 122)
    assert (opus.cache_read_tokens, opus.cache_write_tokens) == (3000, 100)
    assert (gpt.model, gpt.responses, gpt.cost_usd, gpt.unpriced) == ("gpt", 1, 0.125, 0)


def test_missing_count_is_not_zero() -> None:
    gpt = usage_by_model(load_usage(build_story().database, ALL))[1]
    assert (gpt.cache_read_tokens, gpt.cache_write_tokens, gpt.reasoning_tokens) == (None,) * 3


def test_unknown_price_is_reported_and_never_zero() -> None:
    story = RowBuilder()
    session_id = story.session()
    story.request(session_id, "mystery", MORNING, (5, None, None, 5), None)
    story.request(session_id, "mystery", MORNING, (None, None, None, None), None)
    total = total_usage(load_usage(story.database, ALL))
    assert (total.cost_usd, total.unpriced) == (None, 2)


def test_response_without_tokens_has_no_unknown_cost() -> None:
    story = RowBuilder()
    session_id = story.session()
    story.request(session_id, "<synthetic>", MORNING, (0, 0, 0, 0), None)
    assert total_usage(load_usage(story.database, ALL)).unpriced == 0


def test_day_is_in_the_requested_time_zone() -> None:
    usages = load_usage(build_story().database, ALL)
    days = [(day_row.day, day_row.responses) for day_row in usage_by_day(usages, UTC)]
    assert days == [(date(2026, 3, 2), 3), (date(2026, 3, 3), 1)]
    days = [
        (day_row.day, day_row.responses)
        for day_row in usage_by_day(usages, ZoneInfo("Europe/Berlin"))
    ]
    assert days == [(date(2026, 3, 2), 2), (date(2026, 3, 3), 2)]


def test_response_without_time_is_in_no_day_and_every_sum() -> None:
    story = RowBuilder()
    story.request(story.session(), "opus", None, (1, None, None, 1), 1.0)
    usages = load_usage(story.database, ALL)
    assert [(day_row.day, day_row.cost_usd) for day_row in usage_by_day(usages, UTC)] == [
        (None, 1.0)
    ]
    assert total_usage(usages).cost_usd == 1.0


def test_each_folder_has_the_sums_of_its_sessions() -> None:
    story = build_story()
    project_rows = usage_by_project(story.database, ALL, load_usage(story.database, ALL))
    rows = [
        (project_row.project, project_row.sessions, project_row.responses, project_row.cost_usd)
        for project_row in project_rows
    ]
    assert rows == [("/srv/cafe", 1, 3, 0.75), ("/srv/bar", 1, 1, 0.125)]


def test_only_sessions_in_scope_count() -> None:
    database = build_story().database
    since = Scope(since_us=int(at("2026-03-03 00:00")) * 1_000_000)
    assert total_usage(load_usage(database, since)).responses == 1
    until = Scope(until_us=int(at("2026-03-03 00:00")) * 1_000_000)
    assert total_usage(load_usage(database, until)).responses == 3
    assert total_usage(load_usage(database, Scope(projects=("/srv/bar",)))).input_tokens == 300
    assert total_usage(load_usage(database, Scope(runtime="claude"))).input_tokens == 31
    assert total_usage(load_usage(database, Scope(runtime="pi"))).responses == 0
