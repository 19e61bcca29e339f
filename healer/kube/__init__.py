"""Talks to a Kubernetes API server: transport, client, list-watch caches. Nothing here decides anything."""
