"""Fixtures shared by all tests, and which tests may run beside others."""

from fnmatch import fnmatchcase

import pytest

from tests.site_fixtures import built_site, project, second_port, site_port, two_machine_site

__all__ = ["built_site", "project", "second_port", "site_port", "two_machine_site"]

#: Files whose tests compare counts, texts and pages, and no times: a busy machine makes them slower, never wrong.
CLOCKLESS = (
    "test_problems", "test_errors_*", "test_fact_check_stale", "test_claims", "test_versions", "test_snippets_versions",
    "test_parity", "test_page_*", "test_coverage_of_snippets", "test_hooks_*", "test_javascript", "test_sitecheck",
    "test_bundle", "test_results", "test_schema", "test_snippet", "test_tools", "test_verdicts_*", "test_workflows",
    "test_tool_calculator", "test_tool_chooser", "test_tool_explorer", "test_tool_pipeline", "test_tool_timeline",
    "test_pipeline_picture",
)  # fmt: skip


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark the tests of CLOCKLESS files."""
    for item in items:
        if any(fnmatchcase(item.path.stem, pattern) for pattern in CLOCKLESS):
            item.add_marker("clockless")
