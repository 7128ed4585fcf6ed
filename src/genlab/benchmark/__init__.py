"""The person-swap benchmark: image tools, their scores, and what people say of them."""
