"""Folder on the path of every Python in a sandbox: it holds what runs when that starts."""
