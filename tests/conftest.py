"""Fixtures shared by all tests."""

from tests.site_fixtures import built_site, project, second_port, site_port, two_machine_site

__all__ = ["built_site", "project", "second_port", "site_port", "two_machine_site"]
