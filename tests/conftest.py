"""Fixtures shared by all tests, which of them run alone, and which share a worker."""

import pytest

from tests.site_fixtures import built_site, project, second_port, site_port, two_machine_site

__all__ = ["built_site", "project", "second_port", "site_port", "two_machine_site"]

#: Files whose slow tests hold times against each other: they run alone. Others of the kind carry the mark themselves.
TIMED = ("test_snippets", "test_snippets_eager", "test_snippets_inductor", "test_tool_trials")


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark the tests that look at a clock, and keep the tests of a file, which share what they made, in one worker."""
    for item in items:
        if item.path.stem in TIMED and item.get_closest_marker("slow"):
            item.add_marker("clock")
        if not item.get_closest_marker("own_worker"):
            item.add_marker(pytest.mark.xdist_group(item.path.stem))
