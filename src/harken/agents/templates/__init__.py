"""Files that describe agents: templates, skills and prompt files."""
