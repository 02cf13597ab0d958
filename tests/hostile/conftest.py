"""Hostile jobs nest folders deeper than pytest can remove them."""

from tests.harness import folders

tmp_path = folders.tmp_path
