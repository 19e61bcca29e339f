"""Benchmarks: each is `python -m benchmarks.NAME [--quick]`, a table for people and one JSON object as its last line."""
