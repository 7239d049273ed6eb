"""``paceline bench``: how fast this machine answers, with and without drafts, and beside peers.

All contestants (*arms*) are loaded once and then answer the same prompts in turn, prompt by prompt,
so that a machine that slows down slows all of them. What is compared is wall time, paired by prompt
and round; process time stands beside it to betray a run that was disturbed. Every arm's tokens are
compared with those of plain decoding.

    workloads   what is asked          records    one answer, measured
    arms        who answers (ours)     summary    figures from records; pure
    peers       who answers (others)   report     words and tables from figures; pure
    measure     in which order         machine    where it all happened

Nothing here is used by the engine itself.
"""

from __future__ import annotations


def main(arguments: list[str]) -> int:
    """Run the command with its own ``arguments`` and return the exit code.

    Raises:
        PacelineError: whatever is wrong with the input.
    """
    from engine.bench.command import run  # heavy: imports OpenVINO

    return run(arguments)
