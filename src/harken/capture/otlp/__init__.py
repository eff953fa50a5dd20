"""Spans that other programs emit become sessions: a receiver of OpenTelemetry's protocol."""
