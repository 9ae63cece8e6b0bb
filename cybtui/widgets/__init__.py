"""One widget a pane. Panes know a snapshot and the console's view of it, never the runtime."""
