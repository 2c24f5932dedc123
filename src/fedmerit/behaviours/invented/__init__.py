"""Riders that make their report from nothing: zeros, or noise of some kind."""
