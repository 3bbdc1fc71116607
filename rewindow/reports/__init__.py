"""Results for people and other programs: text, JSON, CSV, Parquet; uploads to a server."""
