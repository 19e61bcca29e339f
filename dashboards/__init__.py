"""Grafana dashboards as typed code, and the JSON that it makes. Not part of the package: people and the chart take the JSON."""
