"""Drafters by name."""

from __future__ import annotations

import pytest

from engine.drafters import create_drafter, drafter_names, split_drafters
from engine.errors import UnknownDrafterError


def test_every_name_in_the_table_can_be_created() -> None:
    none, *names = drafter_names()

    assert none == "none"
    assert [create_drafter(name).name for name in names] == names


def test_names_are_joined_by_a_plus_sign() -> None:
    assert split_drafters("none") == ()
    assert split_drafters("prompt_lookup") == ("prompt_lookup",)
    assert split_drafters("suffix+prompt_lookup+suffix") == ("suffix", "prompt_lookup")


@pytest.mark.parametrize("joined", ["", "+", "prompt_lookup+", "none+prompt_lookup"])
def test_what_is_no_name_between_the_signs_is_refused(joined: str) -> None:
    *_, last = sorted(split_drafters(joined), key=drafter_names()[1:].__contains__, reverse=True)

    with pytest.raises(UnknownDrafterError):
        create_drafter(last)


def test_an_unknown_name_is_refused_with_the_known_ones_and_the_closest() -> None:
    with pytest.raises(UnknownDrafterError) as caught:
        create_drafter("promt_lookup")

    assert caught.value.param == "drafter"
    assert "choose one of: auto, none, prompt_lookup" in caught.value.message
    assert "Did you mean 'prompt_lookup'?" in caught.value.message


def test_a_name_like_no_other_gets_no_guess() -> None:
    with pytest.raises(UnknownDrafterError) as caught:
        create_drafter("xyzzy")

    assert "Did you mean" not in caught.value.message
