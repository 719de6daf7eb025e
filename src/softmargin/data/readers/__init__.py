"""One module per format; each turns files into ``Parts``."""
