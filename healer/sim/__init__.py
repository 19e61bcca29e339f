"""A simulated cluster: a world that steps with `now`, and a Kubernetes API over it. Used by the demo and the tests."""
