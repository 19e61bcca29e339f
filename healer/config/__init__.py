"""The user's one YAML file: what may stand in it, and every mistake in it at its line and column.

Reads that file and the secrets it names, nothing else: rule files are found here and read by `healer.app`. Plugins
derive their `Settings` from `healer.config.fields.Section` and get durations, secrets and good messages with it.
"""
