"""Fixtures shared by all tests."""

from tests.site_fixtures import built_site, project, site_port

__all__ = ["built_site", "project", "site_port"]
