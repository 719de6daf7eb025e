"""Experiments: from one command to numbers over seeds and a report."""
