"""Controllers, detectors of shared bottlenecks and packet schedulers: registries, and classes that drive one by
hand."""
