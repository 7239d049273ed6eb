"""Backends: what runs a model and owns its cache. See ``base`` for the interface."""
