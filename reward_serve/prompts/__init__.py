"""Renders judging templates into prompts and parses written verdicts."""
