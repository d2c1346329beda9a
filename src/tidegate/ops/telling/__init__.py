"""Telling people: what there is to tell, what is told when, in which words, and how it went."""
