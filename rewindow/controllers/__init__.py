"""Controllers, detectors of shared bottlenecks and packet schedulers: their registries, and one driven by hand."""
