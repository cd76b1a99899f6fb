"""`python -m dpaudit`, for use if the command `dpaudit` is not on the path."""

from dpaudit.app.main import main

if __name__ == "__main__":
    main(prog_name="dpaudit")
