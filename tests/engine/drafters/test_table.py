"""Drafters by name."""

from __future__ import annotations

import pytest

from engine.drafters import create_drafter, drafter_names
from engine.errors import UnknownDrafterError


def test_every_name_in_the_table_can_be_created() -> None:
    for name in drafter_names():
        drafter = create_drafter(name)
        assert drafter is None if name == "none" else drafter and drafter.name == name


def test_an_unknown_name_is_refused_with_the_known_ones_and_the_closest() -> None:
    with pytest.raises(UnknownDrafterError) as caught:
        create_drafter("promt_lookup")

    assert caught.value.param == "drafter"
    assert "choose one of: none, prompt_lookup" in caught.value.message
    assert "Did you mean 'prompt_lookup'?" in caught.value.message


def test_a_name_like_no_other_gets_no_guess() -> None:
    with pytest.raises(UnknownDrafterError) as caught:
        create_drafter("xyzzy")

    assert "Did you mean" not in caught.value.message
