"""A pipeline that answers by script, as OpenVINO GenAI would: runs of tokens from a thread."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from dataclasses import dataclass, field

import openvino_genai as genai

from engine.reference.pipeline import Listen, Report

Runs = Sequence[tuple[int, ...]]


@dataclass
class ScriptedPipeline:
    """Hands over ``runs``: on its own clock the first after half a second, then one every 20 ms.

    ``gate`` holds back every run until it is set. It makes one run more after it was told to stop.
    """

    runs: Runs
    error: RuntimeError | None = None
    report: Report | None = None
    gate: threading.Event = field(default_factory=threading.Event)
    configs: list[genai.GenerationConfig] = field(default_factory=list[genai.GenerationConfig])
    begun: threading.Event = field(default_factory=threading.Event)

    def run(
        self, prompt_ids: Sequence[int], config: genai.GenerationConfig, listen: Listen
    ) -> Report:
        self.configs.append(config)
        num_steps = [0]

        def write() -> None:
            for run in self.runs:
                self.begun.set()
                num_steps[0] += 1
                assert self.gate.wait(10)
                if not listen(run):
                    num_steps[0] += num_steps[0] < len(self.runs)
                    return

        thread = threading.Thread(target=write)
        thread.start()
        thread.join()
        if self.error is not None:
            raise self.error
        times = tuple(1000.0 + 20.0 * step for step in range(num_steps[0]))
        return self.report or Report(500.0, times, inference_ms=300.0)
