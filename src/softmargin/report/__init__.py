"""Figures and the self-contained HTML page they appear on."""
