"""The grid language: palette, shapes, generator, parser and entropy bound."""
