"""One module a command: ``add_parser(subparsers)`` states its options, ``run(args)`` does it and returns the exit status.

Importing a command must stay cheap: what it needs is imported inside ``run``.
"""
