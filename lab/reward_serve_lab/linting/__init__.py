"""Checks judging templates for mistakes that a policy could exploit."""
