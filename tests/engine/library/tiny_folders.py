"""Model folders that hold little more than a vocabulary."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path

import numpy as np

_GRAPH = """<?xml version="1.0"?>
<net name="detokenizer" version="11">
<layers>
<layer id="0" name="ids" type="Parameter" version="opset1" />
<layer id="2" name="begins" type="{source}" version="opset1">
  <data element_type="i32" shape="{num}" offset="0" size="{size}" /></layer>
<layer id="3" name="ends" type="Const" version="opset1">
  <data element_type="i32" shape="{num}" offset="{size}" size="{size}" /></layer>
<layer id="4" name="chars" type="Const" version="opset1">
  <data element_type="u8" shape="{num_chars}" offset="{begin}" size="{num_chars}" /></layer>
<layer id="6" name="decoder" type="VocabDecoder" version="extension" />
</layers>
<edges>
<edge from-layer="0" from-port="0" to-layer="6" to-port="0" />
<edge from-layer="4" from-port="0" to-layer="6" to-port="3" />
<edge from-layer="3" from-port="0" to-layer="6" to-port="2" />
<edge from-layer="2" from-port="0" to-layer="6" to-port="1" />
</edges>
</net>
"""


def write_graph(folder: Path, pieces: Sequence[bytes], *, source: str = "Const") -> None:
    """A detokenizer that decodes ``pieces``; ``source`` is what its begins come from."""
    ends = np.cumsum([len(piece) for piece in pieces], dtype=np.int32)
    begins = np.concatenate(([0], ends[:-1])).astype(np.int32)
    chars = b"".join(pieces)
    graph = _GRAPH.format(
        source=source,
        num=len(pieces),
        size=4 * len(pieces),
        begin=8 * len(pieces),
        num_chars=len(chars),
    )
    (folder / "openvino_detokenizer.xml").write_text(graph, encoding="utf-8")
    (folder / "openvino_detokenizer.bin").write_bytes(begins.tobytes() + ends.tobytes() + chars)


def model_folder(
    folder: Path, pieces: Sequence[bytes], *, weight_bytes: int = 100, note: str = ""
) -> Path:
    """A complete model folder, of which only the vocabulary is real; ``note`` goes to the graph."""
    folder.mkdir(parents=True)
    write_graph(folder, pieces)
    graph = f"<net><layers>{' ' * 200_000}</layers><rt_info>{note}</rt_info></net>"
    (folder / "openvino_model.xml").write_text(graph, encoding="utf-8")
    (folder / "openvino_model.bin").write_bytes(bytes(weight_bytes))
    (folder / "openvino_tokenizer.xml").write_text("<net />", encoding="utf-8")
    (folder / "openvino_tokenizer.bin").write_bytes(b"")
    return folder


def head_folder(folder: Path, **config: int) -> Path:
    """An EAGLE3 head as optimum-intel leaves it: a graph with a note, and no tokenizer."""
    model_folder(folder, [b"unused"], note='<eagle3_mode value="True" />')
    for name in ("tokenizer", "detokenizer"):
        (folder / f"openvino_{name}.xml").unlink()
    (folder / "config.json").write_text(json.dumps(config), encoding="utf-8")
    return folder
