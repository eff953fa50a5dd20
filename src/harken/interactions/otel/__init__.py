"""Sessions go out as OpenTelemetry spans: agents, model calls, tools."""
