"""Hostile jobs nest folders deeper than pytest can remove them."""

from tests.harness.folders import tmp_path  # noqa: F401 - a fixture of the tests here
