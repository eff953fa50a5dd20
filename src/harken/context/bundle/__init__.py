"""Bundles: single files that transfer commits with their histories, and session logs."""
