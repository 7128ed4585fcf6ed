"""The grid language: its palette, shapes, generating program, parser and entropy."""
