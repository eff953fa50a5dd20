"""Receive OpenTelemetry spans of other programs and record them as sessions."""
