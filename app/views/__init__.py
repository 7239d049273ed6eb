"""Widgets: layout and bindings. What to show is decided by the models in `app`."""
