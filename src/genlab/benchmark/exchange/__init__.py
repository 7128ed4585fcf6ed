"""Files that people exchange: ratings, votes and results, as CSV and as Label Studio's JSON."""
