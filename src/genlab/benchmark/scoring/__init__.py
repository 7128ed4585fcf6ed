"""The score of a person swap: faces, masks, terms, and the two scores made of them."""
