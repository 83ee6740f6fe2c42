"""The figures of docs/performance.md: ``make bench`` measures them side by side in one run."""
