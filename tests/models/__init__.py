"""Tiny models that are really trained, and the scripts that train, export and measure them.

Speculation cannot be judged on random weights, which accept nothing, and no hub is in reach of
the tests. So a target, its drafters and a model with another vocabulary are trained here, on two
cores, on text that any Python installation carries, and exported as a user would with
``optimum-cli``. Their folders below ``artefacts/`` are committed: tests read those and need
neither torch nor transformers. Retraining needs the packages of ``requirements.txt``, and for each
name of :data:`tests.models.train.NAMES`, the target first::

    python -m tests.models.train NAME --out DIR      # goes on where it was ended
    python -m tests.models.publish NAME --out DIR    # exports, measures, copies to artefacts/
"""
