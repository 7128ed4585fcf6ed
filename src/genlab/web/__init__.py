"""What the pages and the API show: read from the files that stages leave, decided here."""
