"""Healer's own HTTP server: health, metrics, incoming hooks, the JSON API and the console. Decides nothing."""
