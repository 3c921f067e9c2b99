"""The thin module behind the book: monotone networks and the protocol that measures them."""
