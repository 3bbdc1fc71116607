"""What people and other programs are given: text, JSON, CSV, Parquet; uploads to a server."""
