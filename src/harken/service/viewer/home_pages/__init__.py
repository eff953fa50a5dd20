"""The protocols behind the pages of the home: its statistics, and its imports."""
