"""Values without behaviour that several layers share."""
