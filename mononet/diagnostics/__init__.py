"""The stability experiments, one a file: why each choice of the protocol and the models is made."""
