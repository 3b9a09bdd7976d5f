"""Speed and memory of every operator beside what else is installed; see docs/benchmarking.md."""
