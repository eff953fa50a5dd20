"""Statistics and exported tables of the session index: activity, duration, tools and cost."""
