"""What api and worker share: settings, tables, object store, jobs."""
