"""The composition of privacy losses by a contour integral."""
