"""Screens of the console: the panes, the help page, and questions to the operator."""
