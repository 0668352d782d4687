"""The page that is served at /: HTML, CSS and ES modules, as they are. A package only so that they travel with it."""
