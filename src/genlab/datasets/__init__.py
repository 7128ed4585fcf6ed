"""Training data: what data sets there are, how they are made, stored, checked and shared out."""
