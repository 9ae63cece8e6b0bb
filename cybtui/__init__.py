"""The console and the command line."""

import os

# Textual paints at multiples of 1/60 s, up to two of them after a key; at 120 half of that wait goes (its own variable still decides).
os.environ.setdefault("TEXTUAL_FPS", "120")
