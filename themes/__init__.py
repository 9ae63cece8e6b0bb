"""Themes, one file each; installed as ``cybtui.themes``."""
