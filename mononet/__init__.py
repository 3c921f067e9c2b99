"""The thin module behind the book: monotone networks and the protocol that measures them."""

import warnings

# A page needs no widgets, and the warning that they are missing would stand on it.
warnings.filterwarnings("ignore", message="IProgress not found")
