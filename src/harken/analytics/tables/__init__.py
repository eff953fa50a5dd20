"""Export of the session index as Parquet files."""
