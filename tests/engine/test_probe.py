"""The passes that warm a backend up and measure it, on the table-driven target."""

from __future__ import annotations

import pytest

from engine.probe import StepProbe
from engine.values import SliceKind
from tests.fakes import TableBackend, TableTarget


def test_runs_passes_of_any_size_behind_a_short_context_and_gives_everything_back() -> None:
    backend = TableBackend(TableTarget(20, seed=1, spread=1.0))
    probe = StepProbe(backend)

    for num_rows in (1, 4, 2, 32):
        assert probe.run(num_rows) > 0.0
    probe.close()

    prefill, *verifications = [batch.slices[0] for batch in backend.batches]
    assert (prefill.kind, prefill.num_rows) == (SliceKind.PREFILL, 64)
    assert [part.num_rows for part in verifications] == [1, 4, 2, 32]
    assert {part.past_len for part in verifications} == {64}
    assert not backend.open_sequences


@pytest.mark.parametrize("total", [2, 20, 64, 1000])
def test_asks_no_more_of_a_small_cache_than_it_holds(total: int) -> None:
    backend = TableBackend(TableTarget(20, seed=1, spread=1.0), cache_tokens=total)
    probe = StepProbe(backend)

    probe.run(probe.max_rows)

    assert backend.cache.reserved[-1] <= total
    assert probe.max_rows >= total // 2
